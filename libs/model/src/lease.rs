//! Numbers that order leases and incarnations.

use serde::{Deserialize, Serialize};

/// The fencing token of a lease: it grows with every change of a node's owner, and an agent
/// refuses a command with an older one.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Epoch(pub u64);

/// The number of an incarnation. It grows with every change of the trainer's nodes, and samples are
/// counted once per incarnation.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct RunId(pub u64);
