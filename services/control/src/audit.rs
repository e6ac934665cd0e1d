//! Requests and their outcomes: a log line, a count, and a record that the bus keeps.
//!
//! A command that changes something is answered when its record is kept, or after
//! [`PATIENCE`]: a record that cannot be kept, since the disk of the server is full or the bus is
//! away, holds up no command. It waits, in its order, and is kept as soon as that can be done; its
//! log line was written in any case.
//!
//! A refused request was not checked. Its record is short and in plain characters, so that no
//! user pushes others out of the log or forges lines of it.
//!
//! Records go to `lacuna.v1.c.audit.control`, log lines have the target `audit`. At most 10,000
//! records wait; beyond that, and if control ends first, the log line is what is left.

use std::time::Duration;

use lacuna_model::{ControlsChange, NodeId, UseLimit};
use lacuna_runtime::clock::wall;
use lacuna_runtime::metrics;
use lacuna_runtime::metrics::{Error, Registry};
use lacuna_runtime::{Bus, BusError};
use lacuna_wire::address;
use lacuna_wire::msg::{AuditRecord, Reply};
use prometheus::{IntCounter, IntCounterVec};
use tokio::sync::{mpsc, oneshot};

use crate::sections::Context;

/// How long an answer waits for the record.
const PATIENCE: Duration = Duration::from_secs(2);
/// Between attempts to keep a record.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// Most records that wait to be kept. Records beyond them are in the log alone.
const MOST_WAITING: usize = 10_000;
/// Most names that one record lists.
const MOST_NAMES: usize = 100;
/// Most bytes of these names together.
const MOST_OF_NAMES: usize = 4000;
/// About the most bytes of any other text of a record.
const MOST_TEXT: usize = 500;
/// Most records of one request.
const MOST_RECORDS: usize = 16;

metrics! {
    /// The counters of the audit log.
    pub struct AuditMetrics {
        requests: IntCounterVec = "lacuna_control_requests_total",
            "requests of users and operators, by action and outcome", by ["action", "outcome"];
        unkept: IntCounter = "lacuna_control_audit_failures_total",
            "attempts to keep a record of the audit log that failed, and records given up";
    }
}

/// All actions that can be requested.
const ACTIONS: [&str; 15] = [
    "submit",
    "check",
    "cancel",
    "renew",
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
    /// Registers them, with a zero for each action and outcome.
    ///
    /// # Errors
    /// If a name is taken.
    pub fn declared(registry: &Registry) -> Result<Self, Error> {
        let made = Self::new(registry)?;
        for action in ACTIONS {
            for outcome in ["accepted", "refused"] {
                let _ = made.requests.with_label_values(&[action, outcome]);
            }
        }
        Ok(made)
    }
}

/// A request as the audit log has it.
#[derive(Debug, Clone)]
pub(crate) struct AuditedRequest {
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
    /// Begins to keep records; `proven`: the bus proves the user of a request.
    pub(crate) fn start(ctx: &Context, metrics: AuditMetrics, proven: bool) -> Self {
        let (into, records) = mpsc::channel(MOST_WAITING);
        let keeper = Keeper {
            bus: ctx.bus.clone(),
            metrics: metrics.clone(),
        };
        let stop = ctx.shutdown.clone();
        lacuna_runtime::task::spawn(async move { keeper.run(records, stop).await });
        Self {
            proven,
            metrics,
            into,
        }
    }

    /// Notes the outcome of a request. The future ends when the record is kept, or after
    /// [`PATIENCE`].
    pub(crate) fn note(
        &self,
        audited: AuditedRequest,
        reply: &Reply,
    ) -> impl Future<Output = ()> + use<> {
        let (outcome, code, reason) = match reply {
            Reply::Refused { code, reason } => ("refused", code.as_str(), reason.as_str()),
            _ => ("accepted", "", ""),
        };
        let action = audited.action;
        let user = plain(&audited.user);
        let target = listed(&audited.target);
        let mut detail = plain(&audited.detail);
        if !reason.is_empty() {
            if !detail.is_empty() {
                detail.push_str("; ");
            }
            detail.push_str(&plain(reason));
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
        let (kept, stored) = oneshot::channel();
        if self.into.try_send((record, kept)).is_err() {
            self.metrics.unkept.inc();
            tracing::error!(target: "audit", "too many records wait: this one is in the log alone");
        }
        async move {
            // Dropped or late: the log has it.
            let _ = tokio::time::timeout(PATIENCE, stored).await;
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
                if is_permanent(&error) {
                    // Those that wait behind it must not wait forever.
                    tracing::error!(%error, "audit record given up: it is in the log alone");
                    break;
                }
                tracing::warn!(%error, waiting = records.len() + 1, "audit record not kept yet");
                if stop.is_cancelled() {
                    return;
                }
                tokio::time::sleep(RETRY_AFTER).await;
            }
            let _ = kept.send(());
        }
    }
}

/// Whether the same record would fail again.
const fn is_permanent(error: &BusError) -> bool {
    matches!(
        error,
        BusError::TooLarge { .. } | BusError::Encode(_) | BusError::NotKept { .. }
    )
}

/// Characters that end a line, command a terminal, or turn the direction of what follows.
fn is_control(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
        )
}

/// A text in one line of bounded length, without control characters.
pub(crate) fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len().min(MOST_TEXT));
    for c in text.chars() {
        let c = if is_control(c) {
            char::REPLACEMENT_CHARACTER
        } else {
            c
        };
        if plain.len() + c.len_utf8() > MOST_TEXT {
            plain.push('…');
            break;
        }
        plain.push(c);
    }
    plain
}

/// The first names, and how many more there are.
fn listed(names: &[String]) -> Vec<String> {
    let mut bytes = 0;
    let mut listed: Vec<String> = names
        .iter()
        .take(MOST_NAMES)
        .map(|name| plain(name))
        .take_while(|name| {
            bytes += name.len();
            bytes <= MOST_OF_NAMES
        })
        .collect();
    let more = names.len() - listed.len();
    if more > 0 {
        listed.push(format!("and {more} more"));
    }
    listed
}

/// The changes of one request, as the audit log names them: a record for each, and the last one
/// says how many have none.
pub(crate) fn changes(user: &str, changes: &[ControlsChange]) -> Vec<AuditedRequest> {
    let more = changes.len().saturating_sub(MOST_RECORDS);
    let mut audited: Vec<AuditedRequest> = changes
        .iter()
        .take(MOST_RECORDS)
        .map(|change| {
            let (action, target, detail) = named(change);
            AuditedRequest {
                user: user.to_owned(),
                action,
                target,
                detail,
            }
        })
        .collect();
    if let Some(last) = audited.last_mut().filter(|_| more > 0) {
        // In front: a long text is cut at its end.
        let remark = format!("and {more} more changes of this request");
        last.detail = because(remark, &last.detail);
    }
    audited
}

/// One change of the controls, as the audit log names it: action, targets, details.
fn named(change: &ControlsChange) -> (&'static str, Vec<String>, String) {
    let names = |nodes: &[NodeId]| nodes.iter().map(ToString::to_string).collect();
    match change {
        ControlsChange::Pause {
            limit,
            until,
            reason,
        } => {
            let mut detail = limited(*limit);
            if let Some(until) = until {
                detail = format!("{detail} until {until}");
            }
            ("pause", Vec::new(), because(detail, reason))
        }
        ControlsChange::Resume => ("resume", Vec::new(), String::new()),
        ControlsChange::StopPilots => ("pilots-stop", Vec::new(), String::new()),
        ControlsChange::StartPilots => ("pilots-resume", Vec::new(), String::new()),
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
        ControlsChange::KeepIdle { nodes } => {
            ("keep-idle", Vec::new(), nodes.unwrap_or(0).to_string())
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
        UseLimit::KeepIdle { nodes } => format!("{nodes} idle nodes stay free"),
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

#[cfg(test)]
mod tests {
    use lacuna_model::ClusterId;
    use lacuna_runtime::Start;
    use lacuna_testkit::{TestNats, connect};

    use super::*;

    #[test]
    fn a_text_is_cut_between_characters_and_made_one_plain_line() {
        assert_eq!(plain("fan on a1, größer"), "fan on a1, größer");
        let odd = plain("a\nb\r\u{1b}[31mc\u{9b}2J\u{202e}d\u{2028}e\u{7f}");
        assert!(!odd.chars().any(is_control), "{odd:?}");
        assert!(
            odd.starts_with("a\u{fffd}b") && odd.contains("[31mc"),
            "{odd:?}"
        );
        for text in ["x", "ö", "…", "🦀", "\n"] {
            let long = plain(&text.repeat(5_000));
            assert!(long.len() <= MOST_TEXT + 3 && long.ends_with('…'), "{long}");
        }
        assert_eq!(plain(&"x".repeat(MOST_TEXT)).len(), MOST_TEXT);
    }

    #[test]
    fn names_and_changes_are_capped_and_the_rest_is_counted() {
        let names: Vec<String> = (0..250).map(|n| format!("n{n}")).collect();
        let some = listed(&names);
        assert_eq!(some.len(), MOST_NAMES + 1);
        assert_eq!(some.last().map(String::as_str), Some("and 150 more"));
        assert_eq!(listed(&names[..3]), ["n0", "n1", "n2"]);
        let long = listed(&vec!["p".repeat(1_000_000); 50]);
        assert!(long.concat().len() < MOST_OF_NAMES + 20);
        let last = long.last().unwrap();
        assert!(
            last.starts_with("and 4") && last.ends_with(" more"),
            "{last}"
        );

        let many = vec![ControlsChange::Resume; 1_000];
        let audited = changes("ann", &many);
        assert_eq!(audited.len(), MOST_RECORDS);
        let last = &audited.last().unwrap().detail;
        assert_eq!(last, "and 984 more changes of this request");
        assert!(
            changes("ann", &many[..2])
                .iter()
                .all(|a| a.detail.is_empty())
        );
    }

    #[tokio::test]
    async fn a_record_that_cannot_be_kept_holds_up_no_later_one() {
        let nats = TestNats::start();
        let cluster = ClusterId::new("c").unwrap();
        let bus = connect(&nats, &cluster, "control").await;
        let record = |detail: String| AuditRecord {
            at: wall(),
            user: "ann".to_owned(),
            proven: false,
            action: "pause".to_owned(),
            target: Vec::new(),
            outcome: "refused".to_owned(),
            code: "L0020".to_owned(),
            detail,
        };
        let metrics = AuditMetrics::new(&Registry::new()).unwrap();
        let (into, records) = mpsc::channel(2);
        let mut kept = Vec::new();
        for detail in ["x".repeat(70_000_000), "later".to_owned()] {
            let (done, stored) = oneshot::channel();
            into.try_send((record(detail), done)).unwrap();
            kept.push(stored);
        }
        drop(into);
        let keeper = Keeper {
            bus: bus.clone(),
            metrics: metrics.clone(),
        };
        let run = keeper.run(records, tokio_util::sync::CancellationToken::new());
        tokio::time::timeout(Duration::from_secs(20), run)
            .await
            .unwrap();
        for stored in kept {
            stored.await.unwrap();
        }
        assert_eq!(metrics.unkept.get(), 1);
        let all = address::audit_all(&cluster);
        let mut found = bus.follow(&all, Start::All).await.unwrap();
        assert_eq!(found.next().await.unwrap().message.detail, "later");
    }
}
