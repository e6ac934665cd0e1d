//! What is kept of trainers that have left control's books for the archive.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Attained, Efficiency, ScalingCurve, Stalls, TrainerId, is_default};

/// Sums over the trainers that were moved to the archive. Those of the books go on from them.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Past {
    /// How many trainers were moved.
    pub trainers: u64,
    /// Those of the newest move, which the sums hold already: a record of one of them that still
    /// stands in the bucket counts no more.
    pub moved: Vec<TrainerId>,
    /// The greatest order of arrival among them.
    pub order: u64,
    /// Trainers that did their work.
    pub done: u64,
    /// Samples done.
    pub samples: f64,
    /// Stall cost of changes of size by the planner, in samples.
    pub rescale_cost: f64,
    /// Stall cost of preemptions, in samples.
    pub preempt_cost: f64,
    /// Stall cost of restarts of programs on the same nodes, in samples.
    pub restart_cost: f64,
    /// Seconds stalled and samples redone, by cause.
    pub stalls: Stalls,
    /// Times that a trainer lost nodes unasked.
    pub preemptions: u64,
    /// Times that the planner changed a trainer's size.
    pub rescales: u64,
    /// Node-seconds held by those that did work.
    pub node_s: f64,
    /// Sum of node-seconds times efficiency of those that did work.
    pub weighed: f64,
    /// The kinds of trainers that did work: two at most, since a third changes nothing.
    pub kinds: Vec<PastKind>,
    /// Why their efficiency is not known, if it is not.
    #[serde(default, skip_serializing_if = "is_default")]
    pub unknown: Option<Efficiency>,
    /// Service attained by each owner.
    pub attained: BTreeMap<String, Attained>,
}

/// Trainers of equal sizes and curve.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PastKind {
    /// Least nodes.
    pub min_nodes: u32,
    /// Most nodes.
    pub max_nodes: u32,
    /// Their curve.
    pub throughput: ScalingCurve,
    /// How many trainers there were of it.
    pub trainers: u32,
}
