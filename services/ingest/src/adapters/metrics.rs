//! Metrics of adapters.

use lacuna_runtime::metrics;
use lacuna_runtime::metrics::{Error, Registry};
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

metrics! {
    /// Metrics of polling.
    pub struct SchedulerMetrics {
        pub requests: IntCounterVec = "lacuna_ingest_scheduler_requests_total",
            "requests to the main scheduler", by ["command"];
        pub seconds: HistogramVec = "lacuna_ingest_scheduler_seconds",
            "durations of the main scheduler's answers", by ["command"], within BOUNDS;
        pub failures: IntCounterVec = "lacuna_ingest_scheduler_failures_total",
            "requests to the main scheduler without a usable answer", by ["command", "reason"];
        pub breaker: IntGauge = "lacuna_ingest_scheduler_breaker",
            "circuit breaker on slow answers: 0 closed, 1 probe, 2 open";
        pub stale: IntGauge = "lacuna_ingest_scheduler_stale",
            "whether the newest request has failed, so that the pool may be out of date";
        pub answered: Gauge = "lacuna_ingest_scheduler_answered_timestamp_seconds",
            "time of the main scheduler's newest answer";
        pub delayed: IntCounter = "lacuna_ingest_scheduler_delayed_total",
            "cycles that waited for the budget of requests";
        pub nodes: GaugeVec = "lacuna_ingest_scheduler_nodes",
            "nodes by status in the main scheduler's newest answer", by ["standing"], of STATUSES;
        pub missing: IntGauge = "lacuna_ingest_scheduler_missing_nodes",
            "nodes that are missing in the newest answer and not yet gone";
        pub flaws: IntGauge = "lacuna_ingest_scheduler_damaged_parts",
            "damaged texts and nodes in the newest answer, which was used without them";
        pub silent: IntGauge = "lacuna_ingest_scheduler_silent_nodes",
            "nodes that the scheduler has not heard from and that keep their status";
        pub planned: IntGauge = "lacuna_ingest_scheduler_promises",
            "planned starts of batch jobs that forecasts receive";
    }
}

impl SchedulerMetrics {
    /// Registers the metrics for these commands.
    ///
    /// # Errors
    /// If a name is already registered.
    pub fn of_commands(registry: &Registry, commands: &[&str]) -> Result<Self, Error> {
        let made = Self::new(registry)?;
        for command in commands {
            made.requests.with_label_values(&[command]);
            made.seconds.with_label_values(&[command]);
            for reason in REASONS {
                made.failures.with_label_values(&[command, reason]);
            }
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

metrics! {
    /// Metrics of following a file.
    pub struct FollowMetrics {
        pub lines: IntCounter = "lacuna_ingest_follow_lines_total",
            "lines read of the main scheduler's file";
        pub damaged: IntCounter = "lacuna_ingest_follow_damaged_lines_total",
            "damaged lines of the main scheduler's file";
        pub files: GaugeVec = "lacuna_ingest_follow_files",
            "files rotated, truncated or lost, and lines skipped, since the start",
            by ["what"], of CHANGES;
        pub stale: IntGauge = "lacuna_ingest_follow_stale",
            "whether the main scheduler's file cannot be read";
        pub unsaved: IntCounter = "lacuna_ingest_follow_unsaved_total",
            "failures to save the position in the main scheduler's file";
    }
}

/// Changes of a file as labels.
const CHANGES: [&str; 4] = ["rotated", "truncated", "lost", "passed"];

impl FollowMetrics {
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
