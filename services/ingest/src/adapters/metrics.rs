//! What the adapter of a scheduler counts.

use lacuna_runtime::metrics::{self, Error, Registry};
use lacuna_schedlog::living::Standing;
use prometheus::{Gauge, GaugeVec, HistogramVec, IntCounter, IntCounterVec, IntGauge};

use super::command::REASONS;
use super::pacer::Breaker;

/// Bounds of the time that an answer takes, seconds.
const BOUNDS: [f64; 10] = [0.01, 0.03, 0.1, 0.3, 1.0, 2.0, 5.0, 10.0, 30.0, 100.0];

/// Standings as labels.
const STANDINGS: [&str; 4] = ["hole", "wanted", "taken", "unusable"];

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
        for standing in STANDINGS {
            made.nodes.with_label_values(&[standing]);
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

    /// Counts nodes by standing.
    pub(crate) fn count<'a>(&self, standings: impl Iterator<Item = &'a Standing>) {
        let mut counts = [0.0_f64; STANDINGS.len()];
        for standing in standings {
            let place = match standing {
                Standing::Hole => 0,
                Standing::Wanted { .. } => 1,
                Standing::Taken => 2,
                Standing::Unusable { .. } => 3,
            };
            if let Some(count) = counts.get_mut(place) {
                *count += 1.0;
            }
        }
        for (standing, count) in STANDINGS.iter().zip(counts) {
            self.nodes.with_label_values(&[standing]).set(count);
        }
    }
}
