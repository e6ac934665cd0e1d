//! The kind of each node.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::{KindName, NodeId};

/// The kind of each node, as the main scheduler, a setting or a file says. Without any, all nodes
/// are of one kind.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NodeKinds(BTreeMap<NodeId, KindName>);

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
