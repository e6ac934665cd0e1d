//! Changes of the pool by one event, and totals.

use lacuna_model::{Hole, Timestamp};
use serde::{Deserialize, Serialize};

/// How exactly the end of a hole is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HoleEnd {
    /// An event gave the time at which the hole ended.
    Seen,
    /// A snapshot or an event behind a gap showed that the hole had ended. The end lies between
    /// `last_seen` and that time.
    Unseen {
        /// The last time at which the hole was known to be open.
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
        /// The time from which the hole is known: its start, or later if a snapshot showed it.
        seen: Timestamp,
    },
    /// A hole is no longer present.
    Closed {
        /// The hole.
        hole: Hole,
        /// The time at which the hole ended or was found ended; never before its start.
        at: Timestamp,
        /// Whether `at` is the end itself or its discovery.
        end: HoleEnd,
    },
}

/// The outcome of one event or snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The event was applied; the pool may still be unchanged.
    Applied,
    /// The number was seen before, or a snapshot included the event (K1).
    Duplicate,
    /// The event is older than its node's newest change, and refused (K4).
    Late,
    /// The event names a node that is not of this cluster, and is refused.
    UnknownNode,
    /// Earlier events are missing. The event waits for them or for a snapshot, and may only have
    /// closed a hole (K2).
    HeldBack,
    /// The snapshot is older than events that are included, and refused (K6).
    OldSnapshot,
}

/// The changes of one step, in order, and the outcome of the event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changes {
    /// Every change, in order of time. For each node, openings and closings alternate (K7).
    pub list: Vec<Change>,
    /// The outcome of the event.
    pub outcome: Outcome,
}

impl Changes {
    /// Whether the pool is unchanged.
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

    /// The holes that closed, each with the time.
    pub fn closed(&self) -> impl Iterator<Item = (&Hole, Timestamp)> {
        self.list.iter().filter_map(|change| match change {
            Change::Closed { hole, at, .. } => Some((hole, *at)),
            Change::Opened { .. } => None,
        })
    }
}

/// Totals since the keeper was made, for metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Counts {
    /// Events of every kind, refused ones included.
    pub events: u64,
    /// Events whose number was seen before.
    pub duplicates: u64,
    /// Gaps in the numbers.
    pub gaps: u64,
    /// Events older than their node's newest change.
    pub late: u64,
    /// Events older than the newest event of any node (late ones included).
    pub backwards: u64,
    /// Events and holes with a node that is not of this cluster.
    pub unknown: u64,
    /// Snapshots accepted.
    pub snapshots: u64,
    /// Snapshots refused because they were older than events that are included.
    pub old_snapshots: u64,
    /// Snapshots that differed from the pool that the events gave.
    pub repairs: u64,
    /// Snapshots with which the numbering or time restarted.
    pub renumbered: u64,
    /// Holes opened.
    pub opened: u64,
    /// Holes closed.
    pub closed: u64,
}
