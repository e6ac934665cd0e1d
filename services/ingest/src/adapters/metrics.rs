//! What the adapter of a scheduler counts.

use lacuna_runtime::metrics::{self, Error, Registry};
use lacuna_trace::FieldError;
use lacuna_scheduler::NodeStatus;
use lacuna_trace::tail::TailCounts;
use prometheus::{Gauge, GaugeVec, HistogramVec, IntCounter, IntCounterVec, IntGauge};

use super::command::REASONS;
use super::pacer::Breaker;

/// Bounds of the time that an answer takes, seconds.
const BOUNDS: [f64; 10] = [0.01, 0.03, 0.1, 0.3, 1.0, 2.0, 5.0, 10.0, 30.0, 100.0];

/// Standings as labels.
const STATUSES: [&str; 4] = ["hole", "wanted", "taken", "unusable"];

/// What the adapter of a scheduler counts.
#[derive(Debug, Clone)]
pub struct SchedulerMetrics {
    /// Requests, by command.
    pub requests: IntCounterVec,
    /// How long answers take, by command.
    pub seconds: HistogramVec,
    /// Requests without a usable answer, by command and reason.
    pub failures: IntCounterVec,
    /// 0 closed, 1 trial, 2 open.
    pub breaker: IntGauge,
    /// Whether what is known may be out of date.
    pub stale: IntGauge,
    /// Unix seconds of the newest answer; 0 before the first.
    pub answered: Gauge,
    /// Times that a cycle waited for its budget.
    pub delayed: IntCounter,
    /// Nodes of the newest answer, by what they are to us.
    pub nodes: GaugeVec,
    /// Nodes missing in the newest answer and not yet taken for gone.
    pub missing: IntGauge,
    /// Nodes that the scheduler has not heard from, which keep their status for a while.
    pub silent: IntGauge,
    /// Planned starts passed on to forecasts.
    pub promises: IntGauge,
}

impl SchedulerMetrics {
    /// Registers all, for these commands.
    ///
    /// # Errors
    /// If a name is taken.
    pub fn new(registry: &Registry, commands: &[&str]) -> Result<Self, Error> {
        let name = |rest: &str| format!("lacuna_ingest_scheduler_{rest}");
        let made = Self {
            requests: metrics::counters(
                registry,
                &name("requests_total"),
                "requests to the main scheduler",
                &["command"],
            )?,
            seconds: metrics::histograms(
                registry,
                &name("seconds"),
                "how long the main scheduler's answers take",
                &BOUNDS,
                &["command"],
            )?,
            failures: metrics::counters(
                registry,
                &name("failures_total"),
                "requests to the main scheduler without a usable answer",
                &["command", "reason"],
            )?,
            breaker: metrics::gauge(
                registry,
                &name("breaker"),
                "circuit breaker on slow answers: 0 closed, 1 trial, 2 open",
            )?,
            stale: metrics::gauge(
                registry,
                &name("stale"),
                "whether the newest request has failed, so that the pool may be out of date",
            )?,
            answered: metrics::float_gauge(
                registry,
                &name("answered_timestamp_seconds"),
                "when the main scheduler last answered",
            )?,
            delayed: metrics::counter(
                registry,
                &name("delayed_total"),
                "cycles that waited for the budget of requests",
            )?,
            nodes: metrics::gauges(
                registry,
                &name("nodes"),
                "nodes by what they are to us, by the main scheduler's newest answer",
                &["standing"],
            )?,
            missing: metrics::gauge(
                registry,
                &name("missing_nodes"),
                "nodes missing in the newest answer and not yet taken for gone",
            )?,
            silent: metrics::gauge(
                registry,
                &name("silent_nodes"),
                "nodes that the scheduler has not heard from and that are not yet given up",
            )?,
            promises: metrics::gauge(
                registry,
                &name("promises"),
                "planned starts of batch jobs passed on to forecasts",
            )?,
        };
        for command in commands {
            made.requests.with_label_values(&[command]);
            made.seconds.with_label_values(&[command]);
            for reason in REASONS {
                made.failures.with_label_values(&[command, reason]);
            }
        }
        for status in STATUSES {
            made.nodes.with_label_values(&[status]);
        }
        Ok(made)
    }

    /// Shows the breaker.
    pub(crate) fn show(&self, breaker: Breaker) {
        self.breaker.set(match breaker {
            Breaker::Closed => 0,
            Breaker::Trial => 1,
            Breaker::Open => 2,
        });
    }

    /// Counts nodes by status.
    pub(crate) fn count<'a>(&self, statuses: impl Iterator<Item = &'a NodeStatus>) {
        let mut counts = [0.0_f64; STATUSES.len()];
        for status in statuses {
            let place = match status {
                NodeStatus::Hole => 0,
                NodeStatus::Wanted { .. } => 1,
                NodeStatus::Taken => 2,
                NodeStatus::Unusable { .. } => 3,
            };
            if let Some(count) = counts.get_mut(place) {
                *count += 1.0;
            }
        }
        for (status, count) in STATUSES.iter().zip(counts) {
            self.nodes.with_label_values(&[status]).set(count);
        }
    }
}

/// What the follower of a file counts.
#[derive(Debug, Clone)]
pub struct FollowMetrics {
    /// Lines read.
    pub lines: IntCounter,
    /// Lines that could not be understood.
    pub damaged: IntCounter,
    /// Rotations, truncations, files lost, lines passed over.
    pub files: GaugeVec,
    /// Whether the file cannot be read.
    pub stale: IntGauge,
    /// Times that the place could not be kept.
    pub unsaved: IntCounter,
}

/// What can happen to a file, as labels.
const HAPPENINGS: [&str; 4] = ["rotated", "truncated", "lost", "passed"];

impl FollowMetrics {
    /// Registers all.
    ///
    /// # Errors
    /// If a name is taken.
    pub fn new(registry: &Registry) -> Result<Self, Error> {
        let name = |rest: &str| format!("lacuna_ingest_follow_{rest}");
        let made = Self {
            lines: metrics::counter(
                registry,
                &name("lines_total"),
                "lines read of the main scheduler's file",
            )?,
            damaged: metrics::counter(
                registry,
                &name("damaged_lines_total"),
                "lines of the main scheduler's file that could not be understood",
            )?,
            files: metrics::gauges(
                registry,
                &name("files"),
                "files rotated, truncated or lost, and lines passed over, since the start",
                &["what"],
            )?,
            stale: metrics::gauge(
                registry,
                &name("stale"),
                "whether the main scheduler's file cannot be read",
            )?,
            unsaved: metrics::counter(
                registry,
                &name("unsaved_total"),
                "times that the place read to could not be kept",
            )?,
        };
        for what in HAPPENINGS {
            made.files.with_label_values(&[what]);
        }
        Ok(made)
    }

    /// Shows what has happened to the file.
    pub(crate) fn show(&self, counts: TailCounts) {
        let counts = [counts.rotated, counts.truncated, counts.lost, counts.passed];
        for (what, count) in HAPPENINGS.iter().zip(counts) {
            self.files.with_label_values(&[what]).set(count as f64);
        }
    }

    /// A line could not be understood.
    pub(crate) fn damage(&self, error: &FieldError) {
        self.damaged.inc();
        tracing::warn!(%error, "a line of the main scheduler's file is damaged");
    }

    /// The file cannot be read.
    pub(crate) fn failed(&self, error: &std::io::Error) {
        if self.stale.get() == 0 {
            tracing::warn!(%error, "the main scheduler's file cannot be read");
        }
        self.stale.set(1);
    }

    /// The place could not be kept: after a restart lines are read again, which does no harm.
    pub(crate) fn unsaved(&self, error: &std::io::Error) {
        if self.unsaved.get() == 0 {
            tracing::warn!(%error, "the place that was read to cannot be kept");
        }
        self.unsaved.inc();
    }
}
