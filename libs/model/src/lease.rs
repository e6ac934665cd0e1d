//! What tells leases and runs from those before them.

use serde::{Deserialize, Serialize};

/// The fencing token of a lease: it grows with every change of a node's owner, and an agent
/// refuses a command with an older one.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Epoch(pub u64);

/// One membership of a trainer: it grows with every change of the set of its nodes. Samples
/// are counted once per run.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct RunId(pub u64);
