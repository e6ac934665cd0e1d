//! Holes: times during which a node is idle and not promised to a batch job.

use serde::{Deserialize, Serialize};

use crate::{NodeId, Span, Timestamp};

/// A present hole. Its start is known, its end is not.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Hole {
    /// The idle node.
    pub node: NodeId,
    /// When it became idle.
    pub since: Timestamp,
}

/// A past hole of a recording: the node was idle in `[from, until)`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HoleRecord {
    /// The node.
    pub node: NodeId,
    /// The hole's first moment.
    pub from: Timestamp,
    /// The first moment after the hole.
    pub until: Timestamp,
    /// Whether the recording ended while the hole was still open, so that `until` is not its end.
    pub censored: bool,
}

impl HoleRecord {
    /// The length of the hole; a lower bound if it is censored.
    #[must_use]
    pub const fn length(&self) -> Span {
        self.until.since(self.from)
    }
}

/// An announcement of a batch scheduler for a present hole: the start that it plans for a waiting
/// job on the node, or the withdrawal of that plan. Plans follow from requested walltimes, so a
/// hole may end earlier, later, or not at all.
///
/// A planned start holds until the next one for the node, or until the hole ends. A new hole has
/// none. It expires [`LAPSE`](Self::LAPSE) after its time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedStart {
    /// When it is announced.
    pub at: Timestamp,
    /// The idle node.
    pub node: NodeId,
    /// The planned start, after `at`; absent if the plan is withdrawn.
    pub start: Option<Timestamp>,
}

impl PlannedStart {
    /// How long a planned start that has passed still holds.
    pub const LAPSE: Span = Span::from_secs(3600);
}
