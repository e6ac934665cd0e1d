//! What was asked and what came of it: a log line, a count, and a record that the bus keeps.
//!
//! A command that changes something is answered when its record is kept, or after
//! [`PATIENCE`]: a record that cannot be kept, since the disk of the server is full or the bus is
//! away, holds up no command. It waits, in its order, and is kept as soon as that can be done; its
//! log line was written in any case.

use std::time::Duration;

use lacuna_model::{ControlsChange, NodeId, UseLimit};
use lacuna_runtime::clock::wall;
use lacuna_runtime::metrics::{self, Error, Registry};
use lacuna_runtime::{Bus, Context};
use lacuna_wire::address;
use lacuna_wire::msg::{AuditRecord, Reply};
use prometheus::{IntCounter, IntCounterVec};
use tokio::sync::{mpsc, oneshot};

/// How long an answer waits for the record.
const PATIENCE: Duration = Duration::from_secs(2);
/// Between attempts to keep a record.
const AGAIN: Duration = Duration::from_secs(1);
/// Most records that wait to be kept; what comes beyond them stands in the log alone.
const MOST_WAITING: usize = 10_000;
/// Most names that one record lists.
const MOST_NAMES: usize = 100;

/// What is counted.
#[derive(Debug, Clone)]
pub struct AuditMetrics {
    requests: IntCounterVec,
    unkept: IntCounter,
}

/// All that can be asked.
const ACTIONS: [&str; 14] = [
    "submit",
    "check",
    "cancel",
    "logs",
    "pause",
    "resume",
    "drain",
    "undrain",
    "only",
    "avoid",
    "max-nodes",
    "window",
    "pilots-stop",
    "pilots-resume",
];

impl AuditMetrics {
    /// Registers them.
    ///
    /// # Errors
    /// If a name is taken.
    pub fn new(registry: &Registry) -> Result<Self, Error> {
        let requests = metrics::counters(
            registry,
            "lacuna_control_requests_total",
            "what users and operators asked for, by action and whether it was accepted",
            &["action", "outcome"],
        )?;
        for action in ACTIONS {
            for outcome in ["accepted", "refused"] {
                let _ = requests.with_label_values(&[action, outcome]);
            }
        }
        let unkept = metrics::counter(
            registry,
            "lacuna_control_audit_failures_total",
            "attempts to keep a record of the audit log that failed, and records given up",
        )?;
        Ok(Self { requests, unkept })
    }
}

/// Who asked for what.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) user: String,
    pub(crate) action: &'static str,
    pub(crate) target: Vec<String>,
    pub(crate) detail: String,
}

/// Where records go.
#[derive(Debug, Clone)]
pub(crate) struct Trail {
    proven: bool,
    metrics: AuditMetrics,
    into: mpsc::Sender<(AuditRecord, oneshot::Sender<()>)>,
}

impl Trail {
    /// Begins to keep records; `proven`: the bus proves who asks.
    pub(crate) fn start(ctx: &Context, metrics: AuditMetrics, proven: bool) -> Self {
        let (into, records) = mpsc::channel(MOST_WAITING);
        let keeper = Keeper {
            bus: ctx.bus.clone(),
            metrics: metrics.clone(),
        };
        let stop = ctx.shutdown.clone();
        tokio::spawn(async move { keeper.run(records, stop).await });
        Self {
            proven,
            metrics,
            into,
        }
    }

    /// Notes what came of a request. What is given back ends when the record is kept, or after a
    /// time.
    pub(crate) fn note(&self, asked: Asked, reply: &Reply) -> impl Future<Output = ()> + use<> {
        let (outcome, code, reason) = match reply {
            Reply::Refused { code, reason } => ("refused", code.as_str(), reason.as_str()),
            _ => ("accepted", "", ""),
        };
        let Asked {
            user,
            action,
            mut target,
            mut detail,
        } = asked;
        if target.len() > MOST_NAMES {
            let more = target.len() - MOST_NAMES;
            target.truncate(MOST_NAMES);
            target.push(format!("and {more} more"));
        }
        if !reason.is_empty() {
            if !detail.is_empty() {
                detail.push_str("; ");
            }
            detail.push_str(reason);
        }
        let names = target.join(" ");
        if outcome == "refused" {
            tracing::warn!(target: "audit", user, proven = self.proven, action, names, outcome, code, detail, "asked");
        } else {
            tracing::info!(target: "audit", user, proven = self.proven, action, names, outcome, detail, "asked");
        }
        let counter = &self.metrics.requests;
        counter.with_label_values(&[action, outcome]).inc();
        let record = AuditRecord {
            at: wall(),
            user,
            proven: self.proven,
            action: action.to_owned(),
            target,
            outcome: outcome.to_owned(),
            code: code.to_owned(),
            detail,
        };
        let (kept, told) = oneshot::channel();
        if self.into.try_send((record, kept)).is_err() {
            self.metrics.unkept.inc();
            tracing::error!(target: "audit", "too many records wait: this one stands in the log alone");
        }
        async move {
            // Dropped or late: the log has it.
            let _ = tokio::time::timeout(PATIENCE, told).await;
        }
    }
}

struct Keeper {
    bus: Bus,
    metrics: AuditMetrics,
}

impl Keeper {
    async fn run(
        self,
        mut records: mpsc::Receiver<(AuditRecord, oneshot::Sender<()>)>,
        stop: tokio_util::sync::CancellationToken,
    ) {
        let subject = address::audit(self.bus.cluster(), self.bus.service());
        while let Some((record, kept)) = records.recv().await {
            while let Err(error) = self.bus.store(&subject, &record, "").await {
                self.metrics.unkept.inc();
                tracing::warn!(%error, waiting = records.len() + 1, "audit record not kept yet");
                if stop.is_cancelled() {
                    return;
                }
                tokio::time::sleep(AGAIN).await;
            }
            let _ = kept.send(());
        }
    }
}

/// One change of the controls, as the audit log names it: action, targets, details.
pub(crate) fn named(change: &ControlsChange) -> (&'static str, Vec<String>, String) {
    let names = |nodes: &[NodeId]| nodes.iter().map(ToString::to_string).collect();
    match change {
        ControlsChange::Pause {
            limit,
            until,
            reason,
        } => {
            let mut detail = limited(*limit);
            if let Some(until) = until {
                detail = format!("{detail} until {}", lacuna_wire::time_text::format(*until));
            }
            ("pause", Vec::new(), because(detail, reason))
        }
        ControlsChange::Resume => ("resume", Vec::new(), String::new()),
        ControlsChange::Drain { nodes, reason } => {
            ("drain", names(nodes), because(String::new(), reason))
        }
        ControlsChange::Undrain { nodes } => ("undrain", names(nodes), String::new()),
        ControlsChange::Only { patterns } => ("only", patterns.clone(), String::new()),
        ControlsChange::Avoid { patterns } => ("avoid", patterns.clone(), String::new()),
        ControlsChange::MaxNodes { nodes } => {
            let most = nodes.map_or_else(|| "none".to_owned(), |most| most.to_string());
            ("max-nodes", Vec::new(), most)
        }
        ControlsChange::SetWindow(window) => {
            let days = if window.days.is_empty() {
                "every day".to_owned()
            } else {
                window.days.join(",")
            };
            let zone = window.zone.as_deref().unwrap_or("local time");
            let (from, to, limit) = (&window.from, &window.to, limited(window.limit));
            let detail = format!("{days} {from}-{to} {zone}: {limit}");
            ("window", vec![window.name.clone()], detail)
        }
        ControlsChange::RemoveWindow { name } => {
            ("window", vec![name.clone()], "removed".to_owned())
        }
    }
}

fn limited(limit: UseLimit) -> String {
    match limit {
        UseLimit::NoGrowth => "no growth".to_owned(),
        UseLimit::AtMost { nodes } => format!("at most {nodes} nodes"),
        UseLimit::Nothing => "nothing".to_owned(),
    }
}

fn because(detail: String, reason: &str) -> String {
    match (detail.is_empty(), reason.is_empty()) {
        (_, true) => detail,
        (true, false) => reason.to_owned(),
        (false, false) => format!("{detail}: {reason}"),
    }
}
