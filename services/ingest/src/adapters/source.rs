//! The common part of all adapters: observations for the shell, and health, metrics and logs.

use lacuna_model::{NodeId, Timestamp};
use lacuna_runtime::{HealthCheck, Stopwatch, clock};
use lacuna_scheduler::NodeStatus;
use lacuna_scheduler::live::PlannedJob;
use tokio::sync::{mpsc, oneshot};

use super::metrics::SchedulerMetrics;
use super::{Observation, Receipt};

/// The connection of an adapter to the shell.
#[derive(Debug)]
pub(crate) struct Source {
    /// Name of the scheduler, in lower case.
    name: &'static str,
    to: mpsc::Sender<Observation>,
    pub(crate) metrics: SchedulerMetrics,
    health: HealthCheck,
    /// Time since the newest answer, or since the start.
    answered: Stopwatch,
    /// The newest failure, if no answer has followed it.
    failing: Option<String>,
    /// What was wrong in the newest answer.
    flaws: Vec<String>,
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
            flaws: Vec::new(),
        }
    }

    /// Sends an observation to the shell and waits until its events are stored, which may be late
    /// while the bus is down. `None`: the service ends.
    pub(crate) async fn send(
        &self,
        at: Timestamp,
        nodes: Vec<(NodeId, NodeStatus)>,
        planned: Vec<PlannedJob>,
    ) -> Option<Receipt> {
        let (done, receipt) = oneshot::channel();
        let observation = Observation {
            at,
            nodes,
            planned,
            done,
        };
        self.to.send(observation).await.ok()?;
        receipt.await.ok()
    }

    /// The scheduler has answered.
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

    /// The newest answer was used, but these parts of it could not be read as they are.
    pub(crate) fn flawed(&mut self, flaws: &[String]) {
        let count = i64::try_from(flaws.len()).unwrap_or(i64::MAX);
        self.metrics.flaws.set(count);
        let Some(first) = flaws.first() else {
            self.flaws.clear();
            return;
        };
        let name = self.name;
        if self.flaws != flaws {
            let count = flaws.len();
            tracing::warn!(
                scheduler = name,
                count,
                first,
                "a part of the answer is damaged"
            );
            self.flaws = flaws.to_vec();
        }
        self.health.ok_but(format!(
            "a part of the answer of {name} is damaged: {first}"
        ));
    }

    /// The scheduler has not answered. The pool stays as it was.
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
