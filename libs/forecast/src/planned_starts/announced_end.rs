//! One announced end of a hole.

use lacuna_model::{NodeId, Timestamp};
use serde::{Deserialize, Serialize};

/// The kind of an announced end. A reservation sorts before a planned start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndKind {
    /// A hard end, by a reservation: the hole does not last beyond the time.
    Reservation,
    /// A soft end, by the planned start of a waiting batch job. It may be withdrawn, or come
    /// earlier or later.
    PlannedStart,
}

/// The end of one hole, as the scheduler announces it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnnouncedEnd {
    /// The node of the hole.
    pub node: NodeId,
    /// The announced time of the end.
    pub at: Timestamp,
    /// Whether a planned start or a reservation ends the hole.
    pub kind: EndKind,
}
