//! What one event did to the pool.

use lacuna_model::{Hole, Timestamp};
use serde::{Deserialize, Serialize};

/// How well the end of a hole is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HoleEnd {
    /// An event said when the hole ended.
    Seen,
    /// The hole was found ended (by a snapshot, or behind a gap): it ended at some moment
    /// between `last_seen` and its discovery.
    Unseen {
        /// The last moment at which the hole was known to be open.
        last_seen: Timestamp,
    },
}

/// One change of the pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// A hole is now present.
    Opened {
        /// The hole.
        hole: Hole,
        /// The moment from which on it is known: its start, or later if a snapshot showed it.
        seen: Timestamp,
    },
    /// A hole is no longer present.
    Closed {
        /// The hole.
        hole: Hole,
        /// The moment at which it ended or was found ended; never before its start.
        at: Timestamp,
        /// Which of the two.
        end: HoleEnd,
    },
}

/// What became of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It was taken (it may still have changed nothing).
    Applied,
    /// Its number had been seen, or a snapshot already included it.
    Duplicate,
    /// It is older than the node's newest known change: refused.
    Late,
    /// It names a node that is not of this cluster: refused.
    UnknownNode,
    /// Events before it are missing: kept until they come or a snapshot does; it may only
    /// have closed a hole.
    HeldBack,
    /// A snapshot older than what is known: refused.
    OldSnapshot,
}

/// The changes of one step, in order, and what became of the event itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changes {
    /// Every change in the order in which it happened: for each node, openings and closings
    /// alternate.
    pub list: Vec<Change>,
    /// What became of the event.
    pub outcome: Outcome,
}

impl Changes {
    /// Whether the pool is as it was.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The holes that opened.
    pub fn opened(&self) -> impl Iterator<Item = &Hole> {
        self.list.iter().filter_map(|change| match change {
            Change::Opened { hole, .. } => Some(hole),
            Change::Closed { .. } => None,
        })
    }

    /// The holes that closed, each with the moment.
    pub fn closed(&self) -> impl Iterator<Item = (&Hole, Timestamp)> {
        self.list.iter().filter_map(|change| match change {
            Change::Closed { hole, at, .. } => Some((hole, *at)),
            Change::Opened { .. } => None,
        })
    }
}

/// Totals since the keeper began, for metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Counts {
    /// Events of every kind, refused ones included.
    pub events: u64,
    /// Events whose number had been seen.
    pub duplicates: u64,
    /// Times that numbers were found missing.
    pub gaps: u64,
    /// Events older than their node's newest change.
    pub late: u64,
    /// Events older than the newest event of any node (late ones included).
    pub backwards: u64,
    /// Names of nodes that are not of this cluster.
    pub unknown: u64,
    /// Snapshots taken.
    pub snapshots: u64,
    /// Snapshots refused because they were older than what is known.
    pub old_snapshots: u64,
    /// Snapshots that found the pool different from what the events had made of it.
    pub repairs: u64,
    /// Snapshots after which the numbering began anew.
    pub renumbered: u64,
    /// Holes opened.
    pub opened: u64,
    /// Holes closed.
    pub closed: u64,
}
