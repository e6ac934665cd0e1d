//! The kind of each node.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::{KindName, NodeId, Span};

/// The kind of each node, as the main scheduler, a setting or a file says. Without any, all nodes
/// are of one kind.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NodeKinds(BTreeMap<NodeId, KindName>);

/// Most kinds of nodes that plans tell apart.
pub const MOST_KINDS: usize = 4;

/// What nodes of one kind offered and gave so far, and how long the main scheduler waited for them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct KindUse {
    /// Idle node-seconds: in the pool.
    pub idle_node_s: f64,
    /// Harvested node-seconds: in the pool and under a lease.
    pub harvested_node_s: f64,
    /// Nodes that were given back to the main scheduler, each time.
    pub given_back: u64,
    /// Harm: seconds that the main scheduler waited for these nodes, summed.
    pub harm_s: f64,
    /// The longest of these waits, seconds.
    pub longest_harm_s: f64,
}

impl KindUse {
    /// A node was given back after this wait.
    pub fn give_back(&mut self, harm: Span) {
        let seconds = harm.as_secs_f64();
        self.given_back += 1;
        self.harm_s += seconds;
        self.longest_harm_s = self.longest_harm_s.max(seconds);
    }
}

impl NodeKinds {
    /// The kinds of these nodes.
    #[must_use]
    pub fn new(kinds: BTreeMap<NodeId, KindName>) -> Self {
        Self(kinds)
    }

    /// Whether no node has a kind.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The kind of a node; none for a node of which nothing is known.
    #[must_use]
    pub fn of(&self, node: &NodeId) -> Option<&KindName> {
        self.0.get(node)
    }

    /// The nodes with their kinds, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&NodeId, &KindName)> {
        self.0.iter()
    }

    /// The kinds that any node has, by name.
    #[must_use]
    pub fn names(&self) -> BTreeSet<&KindName> {
        self.0.values().collect()
    }
}
