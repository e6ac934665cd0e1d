//! The views of the controller (`show.rs` makes them).

use std::collections::BTreeMap;

use lacuna_model::{
    Activity, Efficiency, Epoch, Generation, Harm, KindName, KindUse, NodeId, Stalls, Timestamp,
    TrainerId, TrainerRecord, Trouble,
};

/// The view of trainers that the planner needs.
#[derive(Debug, Clone, PartialEq)]
pub struct TrainersView {
    /// Grows with every change that a plan depends on.
    pub version: u64,
    /// The moment, in the cluster's time.
    pub as_of: Timestamp,
    /// Admitted trainers, in order of admission, as [`crate::controller::Controller::for_all`]
    /// shows them.
    pub trainers: Vec<TrainerRecord>,
    /// Nodes that must not be given to any trainer.
    pub unusable: Vec<NodeId>,
    /// Seconds for which a node waits for a pilot of its trainer's owner; 0 where agents serve any
    /// trainer.
    pub pilot_s: f64,
    /// The newest plan that was followed; 0 before the first.
    pub followed: Generation,
}

/// One node, as control sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct HeldNode {
    /// The node.
    pub node: NodeId,
    /// Since when it is a hole.
    pub idle_since: Option<Timestamp>,
    /// The trainer that holds its lease.
    pub trainer: Option<TrainerId>,
    /// The fencing token.
    pub epoch: Epoch,
    /// The activity of its agent, by its last status.
    pub activity: Option<Activity>,
    /// Seconds since the agent's last status.
    pub silent_s: Option<f64>,
    /// What keeps it from being used as the others are.
    pub trouble: Option<Trouble>,
    /// Whether it left the pool as down, drained or rebooting.
    pub is_down: bool,
}

/// How far apart the nodes of trainers are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Apart {
    /// Nodes of incarnations by tier. The last number also has those of farther tiers.
    pub nodes: [u32; 4],
    /// Trainers at a tier from 1 on.
    pub crossing: u32,
}

/// Sums over all trainers and nodes. Those over time are kept across restarts.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Tally {
    /// Cluster time of the first event or submission.
    pub since: Option<Timestamp>,
    /// Cluster time up to which is summed.
    pub upto: Option<Timestamp>,
    /// Node-seconds in the pool.
    pub idle_node_s: f64,
    /// Node-seconds in the pool under a lease.
    pub harvested_node_s: f64,
    /// Samples done by all trainers.
    pub samples: f64,
    /// Stall cost of changes of size by the planner, in samples.
    pub rescale_cost: f64,
    /// Stall cost of preemptions, in samples.
    pub preempt_cost: f64,
    /// Stall cost of restarts of programs on the same nodes, in samples.
    pub restart_cost: f64,
    /// Seconds stalled and samples redone, by cause.
    pub stalls: Stalls,
    /// Efficiency U ([`crate::measure`]).
    pub efficiency: Efficiency,
    /// Times that a trainer lost nodes by a departure.
    pub preemptions: u64,
    /// Times that the planner changed a trainer's size.
    pub rescales: u64,
    /// Trainers whose work is done.
    pub done: u64,
    /// Trainers waiting.
    pub queued: u32,
    /// Trainers admitted.
    pub active: u32,
    /// Nodes in the pool.
    pub pool_nodes: u32,
    /// Nodes under a lease.
    pub leased_nodes: u32,
    /// Node-time and harm by kind; empty where fewer than two kinds of nodes are known.
    pub kinds: BTreeMap<KindName, KindUse>,
    /// Waits of the main scheduler for nodes, by how it asked for them.
    pub harm: BTreeMap<String, Harm>,
    /// Releases that no agent confirmed within the lease timeout.
    pub unconfirmed: u64,
}
