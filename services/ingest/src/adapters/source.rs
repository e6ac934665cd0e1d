//! What the adapters of schedulers have in common: telling the shell, and telling people.

use lacuna_model::{NodeId, Timestamp};
use lacuna_runtime::{HealthCheck, Stopwatch, clock};
use lacuna_scheduler::{NodeStatus, PlannedJob};
use tokio::sync::{mpsc, oneshot};

use super::metrics::SchedulerMetrics;
use super::{Receipt, Observation};

/// A source of observations.
#[derive(Debug)]
pub(crate) struct Source {
    /// The scheduler's name, in lower case.
    name: &'static str,
    to: mpsc::Sender<Observation>,
    pub(crate) metrics: SchedulerMetrics,
    health: HealthCheck,
    /// Since the newest answer, or the beginning.
    answered: Stopwatch,
    /// The newest failure, if no answer has come since.
    failing: Option<String>,
}

impl Source {
    pub(crate) fn new(
        name: &'static str,
        to: mpsc::Sender<Observation>,
        metrics: SchedulerMetrics,
        health: HealthCheck,
    ) -> Self {
        Self {
            name,
            to,
            metrics,
            health,
            answered: Stopwatch::start(),
            failing: None,
        }
    }

    /// Hands a observation to the shell and waits until all that came of it is kept, which may be
    /// late while the bus is gone. Nothing: the service ends.
    pub(crate) async fn send(
        &self,
        at: Timestamp,
        nodes: Vec<(NodeId, NodeStatus)>,
        planned: Vec<PlannedJob>,
    ) -> Option<Receipt> {
        let (done, kept) = oneshot::channel();
        let observation = Observation {
            at,
            nodes,
            planned,
            done,
        };
        self.to.send(observation).await.ok()?;
        kept.await.ok()
    }

    /// It has answered.
    pub(crate) fn answered(&mut self) {
        if let Some(failure) = self.failing.take() {
            tracing::info!(scheduler = self.name, after = %self.answered.span(), failure,
                "the scheduler answers again");
        }
        self.answered = Stopwatch::start();
        self.metrics.stale.set(0);
        self.metrics
            .answered
            .set(clock::wall().unix_ms() as f64 / 1000.0);
        self.health.ok();
    }

    /// It has not. Nothing changes: what was known before still holds, as far as anybody knows.
    pub(crate) fn failed(&mut self, failure: &str) {
        self.metrics.stale.set(1);
        let name = self.name;
        if self.failing.as_deref() == Some(failure) {
            tracing::debug!(
                scheduler = name,
                failure,
                "the scheduler still does not answer"
            );
        } else {
            tracing::warn!(
                scheduler = name,
                failure,
                "no answer from the scheduler: the pool stays as it was"
            );
        }
        let silent = self.answered.span();
        self.health
            .ok_but(format!("no answer from {name} for {silent}: {failure}"));
        self.failing = Some(failure.to_owned());
    }
}
