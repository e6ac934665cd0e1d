//! Leases: the right of one trainer on one node.

use serde::{Deserialize, Serialize};

use crate::{NodeId, TrainerId};

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

/// The right of one trainer on one node. There is at most one per node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// The node.
    pub node: NodeId,
    /// Who may use it; nobody after a release.
    pub trainer: Option<TrainerId>,
    /// The fencing token.
    pub epoch: Epoch,
}
