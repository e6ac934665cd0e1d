//! Metrics of adapters.

use lacuna_runtime::metrics::{self, Error, Registry};
use lacuna_scheduler::NodeStatus;
use lacuna_trace::FieldError;
use lacuna_trace::tail::TailCounts;
use prometheus::{Gauge, GaugeVec, HistogramVec, IntCounter, IntCounterVec, IntGauge};

use super::command::REASONS;
use super::pacer::Breaker;

/// Bounds of the durations of answers, seconds.
const BOUNDS: [f64; 10] = [0.01, 0.03, 0.1, 0.3, 1.0, 2.0, 5.0, 10.0, 30.0, 100.0];

/// Node statuses as labels. The label `standing` is part of the interface.
const STATUSES: [&str; 4] = ["hole", "wanted", "taken", "unusable"];

/// Metrics of polling.
#[derive(Debug, Clone)]
pub struct SchedulerMetrics {
    /// Requests, by command.
    pub requests: IntCounterVec,
    /// Durations of answers, seconds, by command.
    pub seconds: HistogramVec,
    /// Requests without a usable answer, by command and reason.
    pub failures: IntCounterVec,
    /// 0 closed, 1 probe, 2 open.
    pub breaker: IntGauge,
    /// Whether the newest request has failed, so that the pool may be out of date.
    pub stale: IntGauge,
    /// Unix seconds of the newest answer; 0 before the first.
    pub answered: Gauge,
    /// Cycles that waited for the budget of requests.
    pub delayed: IntCounter,
    /// Nodes of the newest answer, by status.
    pub nodes: GaugeVec,
    /// Nodes that are missing in the newest answer and not yet gone.
    pub missing: IntGauge,
    /// Parts of the newest answer that could not be read as they are.
    pub flaws: IntGauge,
    /// Silent nodes that keep their status for a while.
    pub silent: IntGauge,
    /// Planned starts that forecasts receive.
    pub planned: IntGauge,
}

impl SchedulerMetrics {
    /// Registers the metrics for these commands.
    ///
    /// # Errors
    /// If a name is already registered.
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
                "durations of the main scheduler's answers",
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
                "circuit breaker on slow answers: 0 closed, 1 probe, 2 open",
            )?,
            stale: metrics::gauge(
                registry,
                &name("stale"),
                "whether the newest request has failed, so that the pool may be out of date",
            )?,
            answered: metrics::float_gauge(
                registry,
                &name("answered_timestamp_seconds"),
                "time of the main scheduler's newest answer",
            )?,
            delayed: metrics::counter(
                registry,
                &name("delayed_total"),
                "cycles that waited for the budget of requests",
            )?,
            nodes: metrics::gauges(
                registry,
                &name("nodes"),
                "nodes by status in the main scheduler's newest answer",
                &["standing"],
            )?,
            flaws: metrics::gauge(
                registry,
                &name("damaged_parts"),
                "damaged texts and nodes in the newest answer, which was used without them",
            )?,
            missing: metrics::gauge(
                registry,
                &name("missing_nodes"),
                "nodes that are missing in the newest answer and not yet gone",
            )?,
            silent: metrics::gauge(
                registry,
                &name("silent_nodes"),
                "nodes that the scheduler has not heard from and that keep their status",
            )?,
            planned: metrics::gauge(
                registry,
                &name("promises"),
                "planned starts of batch jobs that forecasts receive",
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

    /// Sets the gauge of the circuit breaker.
    pub(crate) fn show(&self, breaker: Breaker) {
        self.breaker.set(match breaker {
            Breaker::Closed => 0,
            Breaker::Probe => 1,
            Breaker::Open => 2,
        });
    }

    /// Sets the gauges of nodes by status.
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

/// Metrics of following a file.
#[derive(Debug, Clone)]
pub struct FollowMetrics {
    /// Lines read.
    pub lines: IntCounter,
    /// Damaged lines.
    pub damaged: IntCounter,
    /// Rotations, truncations, lost files, skipped lines.
    pub files: GaugeVec,
    /// Whether the file cannot be read.
    pub stale: IntGauge,
    /// Failures to save the position.
    pub unsaved: IntCounter,
}

/// Changes of a file as labels.
const CHANGES: [&str; 4] = ["rotated", "truncated", "lost", "passed"];

impl FollowMetrics {
    /// Registers the metrics.
    ///
    /// # Errors
    /// If a name is already registered.
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
                "damaged lines of the main scheduler's file",
            )?,
            files: metrics::gauges(
                registry,
                &name("files"),
                "files rotated, truncated or lost, and lines skipped, since the start",
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
                "failures to save the position in the main scheduler's file",
            )?,
        };
        for what in CHANGES {
            made.files.with_label_values(&[what]);
        }
        Ok(made)
    }

    /// Sets the gauges of changes of the file.
    pub(crate) fn show(&self, counts: TailCounts) {
        let counts = [
            counts.rotated,
            counts.truncated,
            counts.lost,
            counts.skipped,
        ];
        for (what, count) in CHANGES.iter().zip(counts) {
            self.files.with_label_values(&[what]).set(count as f64);
        }
    }

    /// Counts a damaged line.
    pub(crate) fn damage(&self, error: &FieldError) {
        self.damaged.inc();
        tracing::warn!(%error, "a line of the main scheduler's file is damaged");
    }

    /// Records that the file cannot be read.
    pub(crate) fn failed(&self, error: &std::io::Error) {
        if self.stale.get() == 0 {
            tracing::warn!(%error, "the main scheduler's file cannot be read");
        }
        self.stale.set(1);
    }

    /// Counts a failure to save the position. After a restart, lines are read again, which is
    /// harmless.
    pub(crate) fn unsaved(&self, error: &std::io::Error) {
        if self.unsaved.get() == 0 {
            tracing::warn!(%error, "the position in the main scheduler's file cannot be saved");
        }
        self.unsaved.inc();
    }
}
