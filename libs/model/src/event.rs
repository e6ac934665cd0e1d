//! Events: changes in what the main scheduler does with its nodes.

use serde::{Deserialize, Serialize};

use crate::{NodeId, Timestamp};

/// The state of one node in the main scheduler.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeState {
    /// No batch job runs, and none is promised the node: a hole.
    Idle,
    /// A batch job runs on the node, or is promised it.
    Busy,
    /// Down, drained or unknown. The node is not used.
    Down,
}

/// A change in what the main scheduler does (version 1 of the event vocabulary).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type")]
pub enum EventKind {
    /// The node became idle: a hole opens.
    #[serde(rename = "node.idle")]
    NodeIdle {
        /// The node.
        node: NodeId,
    },
    /// The node was taken by a batch job: the hole ends.
    #[serde(rename = "node.busy")]
    NodeBusy {
        /// The node.
        node: NodeId,
    },
    /// The node is down or drained.
    #[serde(rename = "node.down")]
    NodeDown {
        /// The node.
        node: NodeId,
        /// The reason, as the scheduler words it.
        #[serde(default)]
        reason: String,
    },
    /// The scheduler wants the node back by a deadline.
    #[serde(rename = "node.wanted")]
    NodeWanted {
        /// The node.
        node: NodeId,
        /// When the node must be back.
        deadline: Timestamp,
    },
    /// Lacuna has given the node back, in answer to `NodeWanted`.
    #[serde(rename = "node.released")]
    NodeReleased {
        /// The node.
        node: NodeId,
    },
    /// The scheduler plans a batch job onto nodes. An empty list withdraws the plan.
    #[serde(rename = "job.planned")]
    JobPlanned {
        /// The batch job's id in the scheduler.
        job: String,
        /// The nodes.
        nodes: Vec<NodeId>,
        /// When it is planned to start.
        start: Timestamp,
    },
    /// Nodes are reserved from `start` to `end`.
    #[serde(rename = "reservation")]
    Reservation {
        /// The reservation's name.
        name: String,
        /// The nodes.
        nodes: Vec<NodeId>,
        /// When it begins.
        start: Timestamp,
        /// When it ends.
        end: Timestamp,
    },
    /// The full state: every idle node with the start of its hole. A node that is not listed is not
    /// idle.
    #[serde(rename = "snapshot")]
    Snapshot {
        /// All present holes.
        idle: Vec<crate::Hole>,
    },
}

/// An event with its place in the stream of its cluster.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NodeEvent {
    /// 1, 2, 3, ... without gaps, given by ingest. A snapshot carries the number of the
    /// last event that it includes.
    pub seq: u64,
    /// When it happened, in the cluster's time.
    pub at: Timestamp,
    /// The change.
    pub kind: EventKind,
}
