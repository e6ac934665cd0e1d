//! Holes: times during which a node is idle and not promised to a batch job.

use serde::{Deserialize, Serialize};

use crate::{NodeId, Span, Timestamp};

/// A present hole. Its start is known, its end is not.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Hole {
    /// The idle node.
    pub node: NodeId,
    /// Since when it is idle.
    pub since: Timestamp,
}

/// A past hole out of a recording: the node was idle in `[from, until)`.
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
    /// How long the hole was (a lower bound if censored).
    #[must_use]
    pub const fn length(&self) -> Span {
        self.until.since(self.from)
    }
}
