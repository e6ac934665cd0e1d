//! Events: changes in what the main scheduler does with its nodes.

use serde::{Deserialize, Serialize};

use crate::{NodeId, Timestamp};

/// What is known of one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeState {
    /// No batch job and none promised: a hole.
    Idle,
    /// A batch job runs there or was promised the node.
    Busy,
    /// Down, drained or unknown: nobody may use it.
    Down,
}

/// A change in what the main scheduler does (version 1 of the event vocabulary).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type")]
pub enum EventKind {
    /// The node became idle: a hole opens.
    #[serde(rename = "node.idle")]
    NodeIdle {
        /// Which node.
        node: NodeId,
    },
    /// The node was taken by a batch job: the hole ends.
    #[serde(rename = "node.busy")]
    NodeBusy {
        /// Which node.
        node: NodeId,
    },
    /// The node is down or drained.
    #[serde(rename = "node.down")]
    NodeDown {
        /// Which node.
        node: NodeId,
        /// Why, in the words of the scheduler.
        #[serde(default)]
        reason: String,
    },
    /// The scheduler wants the node back by a deadline.
    #[serde(rename = "node.wanted")]
    NodeWanted {
        /// Which node.
        node: NodeId,
        /// By when.
        deadline: Timestamp,
    },
    /// Lacuna has given the node back (our answer to `NodeWanted`).
    #[serde(rename = "node.released")]
    NodeReleased {
        /// Which node.
        node: NodeId,
    },
    /// A batch job was planned onto nodes; may be withdrawn by an empty list.
    #[serde(rename = "job.planned")]
    JobPlanned {
        /// The batch job, in the scheduler's words.
        job: String,
        /// On which nodes.
        nodes: Vec<NodeId>,
        /// When it is planned to start.
        start: Timestamp,
    },
    /// Nodes are reserved from `start` to `end`.
    #[serde(rename = "reservation")]
    Reservation {
        /// The reservation's name.
        name: String,
        /// Which nodes.
        nodes: Vec<NodeId>,
        /// From when.
        start: Timestamp,
        /// Until when.
        end: Timestamp,
    },
    /// The full state: every idle node with the start of its hole. What is not listed is
    /// not idle.
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
    /// What happened.
    pub kind: EventKind,
}
