//! Sums over the trainers that control has moved to the archive.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Attained, Efficiency, ScalingCurve, Stalls, TrainerId, is_default};

/// Sums over the trainers in the archive. Totals start from them.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Past {
    /// Number of archived trainers.
    pub trainers: u64,
    /// The trainers of the newest move, which the sums already include. A record of one of them
    /// that is still in the bucket does not count again.
    pub moved: Vec<TrainerId>,
    /// The greatest order of arrival among archived trainers.
    pub order: u64,
    /// Trainers that are done.
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
    /// Number of preemptions.
    pub preemptions: u64,
    /// Number of changes of size by the planner.
    pub rescales: u64,
    /// Node-seconds of the trainers that did work.
    pub node_s: f64,
    /// Sum of node-seconds times efficiency of the trainers that did work.
    pub weighed: f64,
    /// Kinds of the trainers that did work; at most two, since a third changes nothing.
    pub kinds: Vec<PastKind>,
    /// Why their efficiency is unknown, if it is.
    #[serde(default, skip_serializing_if = "is_default")]
    pub unknown: Option<Efficiency>,
    /// Service attained by each owner.
    pub attained: BTreeMap<String, Attained>,
    /// What each owner's trainers had; those without an owner are under `""`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub owners: BTreeMap<String, OwnerUse>,
}

/// What the trainers of one owner had.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct OwnerUse {
    /// Number of trainers.
    pub trainers: u64,
    /// Those that are done.
    pub done: u64,
    /// Node-seconds.
    pub node_s: f64,
    /// Samples done.
    pub samples: f64,
}

/// Trainers with equal bounds and an equal curve.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PastKind {
    /// Fewest nodes.
    pub min_nodes: u32,
    /// Most nodes.
    pub max_nodes: u32,
    /// Their curve.
    pub throughput: ScalingCurve,
    /// Number of such trainers.
    pub trainers: u32,
}
