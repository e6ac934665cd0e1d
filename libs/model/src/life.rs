//! Where a trainer stands: the record that control keeps and publishes.

use serde::{Deserialize, Serialize};

use crate::{Measured, NodeId, RunId, Timestamp, TrainerSpec};

/// Where a trainer is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Submitted, not yet admitted.
    Queued,
    /// Admitted: the planner may give it nodes (it may have none now).
    Active,
    /// All its work is done.
    Done,
    /// Ended by its owner.
    Cancelled,
    /// Given up after repeated failures of its program.
    Failed,
}

impl Phase {
    /// Whether it will never run again.
    #[must_use]
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Done | Self::Cancelled | Self::Failed)
    }
}

/// All that is known of one trainer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrainerRecord {
    /// What was submitted.
    pub spec: TrainerSpec,
    /// Who submitted it, as the bus proved it: only they and operators may end it. Of records of
    /// before there were users it is the owner that the specification names; empty if it names
    /// none.
    pub user: String,
    /// Order of arrival, for first-come-first-served.
    pub order: u64,
    /// Where it is in its life.
    pub phase: Phase,
    /// Nodes that it holds now, sorted.
    pub nodes: Vec<NodeId>,
    /// The present membership.
    pub run: RunId,
    /// Samples counted from all past runs.
    pub samples_before: f64,
    /// Samples reported by the present run.
    pub samples_run: f64,
    /// Of these, samples that the newest checkpoint of the present run covers.
    #[serde(default)]
    pub saved_run: f64,
    /// Samples' worth of rescale cost that the present run has still to sit out.
    pub owed: f64,
    /// When the present run began (cluster time).
    #[serde(default)]
    pub run_since: Timestamp,
    /// Samples' worth of rescale cost that the present run had to sit out when it began.
    #[serde(default)]
    pub run_owed: f64,
    /// Total rescale cost charged so far, in samples.
    pub rescale_cost: f64,
    /// Total cost of preemptions charged so far, in samples.
    pub preempt_cost: f64,
    /// How often it lost nodes without having been asked.
    pub preemptions: u64,
    /// How often the planner changed its size.
    pub rescales: u64,
    /// When it was last hit by a departure, if no plan has been followed for it since: it
    /// restarts anyway, and may take any nodes with that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hit_at: Option<Timestamp>,
    /// When it was first given a node.
    pub started: Option<Timestamp>,
    /// When it reached a final phase.
    pub ended: Option<Timestamp>,
    /// Why its last process ended, or why it is in this phase.
    #[serde(default)]
    pub reason: String,
    /// Failures of its program in a row.
    #[serde(default)]
    pub failures: u32,
    /// Newest loss reported.
    #[serde(default)]
    pub loss: Option<f64>,
    /// Newest checkpoint reported.
    #[serde(default)]
    pub checkpoint: Option<String>,
    /// What was measured of it, if it is profiled while it trains.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<Box<Measured>>,
}

impl TrainerRecord {
    /// The record of what was just submitted: queued, without nodes, nothing done.
    #[must_use]
    pub fn new(spec: TrainerSpec, order: u64) -> Self {
        Self {
            spec,
            user: String::new(),
            order,
            phase: Phase::Queued,
            nodes: Vec::new(),
            run: RunId(0),
            samples_before: 0.0,
            samples_run: 0.0,
            saved_run: 0.0,
            owed: 0.0,
            run_since: Timestamp::default(),
            run_owed: 0.0,
            rescale_cost: 0.0,
            preempt_cost: 0.0,
            preemptions: 0,
            rescales: 0,
            hit_at: None,
            started: None,
            ended: None,
            reason: String::new(),
            failures: 0,
            loss: None,
            checkpoint: None,
            measured: None,
        }
    }

    /// Samples done in all.
    #[must_use]
    pub fn samples(&self) -> f64 {
        self.samples_before + self.samples_run
    }

    /// Throughput that it should have now, samples/s.
    #[must_use]
    pub fn rate(&self) -> f64 {
        self.spec.throughput.at(self.nodes.len() as u32)
    }
}
