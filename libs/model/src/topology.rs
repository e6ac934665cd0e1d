//! Where nodes are: the switches above each node.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::NodeId;

/// The switches of a network, from the leaf up, as the main scheduler or a file names them.
///
/// A node that the topology does not know has a leaf of its own. An empty topology knows nothing
/// about distance: all nodes are on one leaf.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    try_from = "BTreeMap<NodeId, Vec<String>>",
    into = "BTreeMap<NodeId, Vec<String>>"
)]
pub struct Topology {
    /// For each node its leaf, then the switch above it, and so on; all of one length.
    paths: BTreeMap<NodeId, Vec<String>>,
    levels: usize,
}

/// Why a topology was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TopologyError {
    /// Two nodes have paths of different lengths, or a path is empty.
    #[error(
        "node {node} has {levels} switches above it, others have {expected}: expected one number, from 1 on"
    )]
    Levels {
        /// The node.
        node: NodeId,
        /// Switches above it.
        levels: usize,
        /// Switches above the others.
        expected: usize,
    },
    /// One switch is below two others.
    #[error("switch {switch} is below {first} and below {second}: expected one switch above it")]
    TwoAbove {
        /// The switch.
        switch: String,
        /// A switch above it.
        first: String,
        /// Another switch above it.
        second: String,
    },
}

/// How far apart the nodes of one trainer are: 0 on one leaf, 1 below one switch of the next level,
/// and so on.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Tier(pub u8);

impl Topology {
    /// A topology from the switches above each node, the leaf first. No node: an empty topology.
    ///
    /// # Errors
    /// [`TopologyError`]: paths of different lengths, or a switch below two others.
    pub fn new(paths: BTreeMap<NodeId, Vec<String>>) -> Result<Self, TopologyError> {
        let levels = paths.values().next().map_or(0, Vec::len);
        let mut above: BTreeMap<(usize, &str), &str> = BTreeMap::new();
        for (node, path) in &paths {
            if path.len() != levels || path.is_empty() {
                return Err(TopologyError::Levels {
                    node: node.clone(),
                    levels: path.len(),
                    expected: levels,
                });
            }
            for (level, pair) in path.windows(2).enumerate() {
                let [below, over] = pair else { continue };
                let first = *above.entry((level, below)).or_insert(over);
                if first != over {
                    return Err(TopologyError::TwoAbove {
                        switch: below.clone(),
                        first: first.to_owned(),
                        second: over.clone(),
                    });
                }
            }
        }
        Ok(Self { paths, levels })
    }

    /// Whether the topology knows no node, and so no distance.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.paths.is_empty()
    }

    /// The levels of switches: the highest tier.
    #[must_use]
    pub fn levels(&self) -> usize {
        self.levels
    }

    /// The switches above a node, the leaf first; none for a node that the topology does not know.
    #[must_use]
    pub fn path(&self, node: &NodeId) -> Option<&[String]> {
        self.paths.get(node).map(Vec::as_slice)
    }

    /// The leaf of a node; none for a node that the topology does not know.
    #[must_use]
    pub fn leaf(&self, node: &NodeId) -> Option<&str> {
        self.path(node)?.first().map(String::as_str)
    }

    /// The nodes that the topology knows, with the switches above each.
    pub fn nodes(&self) -> impl Iterator<Item = (&NodeId, &[String])> {
        self.paths
            .iter()
            .map(|(node, path)| (node, path.as_slice()))
    }

    /// The leaves by name, each with its nodes.
    #[must_use]
    pub fn leaves(&self) -> BTreeMap<&str, Vec<&NodeId>> {
        let mut leaves: BTreeMap<&str, Vec<&NodeId>> = BTreeMap::new();
        for (node, path) in &self.paths {
            if let Some(leaf) = path.first() {
                leaves.entry(leaf).or_default().push(node);
            }
        }
        leaves
    }

    /// Nodes that another source puts on another leaf; `leaves` is its leaf of each node. Nodes
    /// that one of the two does not know are not compared.
    ///
    /// A leaf of the other source is the one of the same name. If there is none, both may have
    /// their own names: then it is the leaf here with which it shares most nodes.
    #[must_use]
    pub fn differences<'a>(
        &self,
        leaves: impl IntoIterator<Item = (&'a NodeId, &'a str)>,
    ) -> Vec<&'a NodeId> {
        let known = leaves
            .into_iter()
            .filter_map(|(node, theirs)| Some((node, theirs, self.leaf(node)?)));
        let known: Vec<(&NodeId, &str, &str)> = known.collect();
        let mut shared: BTreeMap<(&str, &str), usize> = BTreeMap::new();
        for (_, theirs, ours) in &known {
            *shared.entry((theirs, ours)).or_default() += 1;
        }
        let names = self.leaves();
        let theirs: BTreeSet<&str> = known.iter().map(|(_, theirs, _)| *theirs).collect();
        let is_named = |(a, b): (&str, &str)| a == b;
        let mut pairs: Vec<((&str, &str), usize)> = shared
            .into_iter()
            .filter(|(pair, _)| {
                is_named(*pair) || !(names.contains_key(pair.0) || theirs.contains(pair.1))
            })
            .collect();
        pairs.sort_by_key(|(pair, nodes)| (Reverse(*nodes), *pair));
        let mut same: BTreeMap<&str, &str> = BTreeMap::new();
        let mut taken: BTreeSet<&str> = BTreeSet::new();
        for ((theirs, ours), _) in pairs {
            if !same.contains_key(theirs) && taken.insert(ours) {
                same.insert(theirs, ours);
            }
        }
        let moved = known
            .into_iter()
            .filter(|(_, theirs, ours)| same.get(theirs) != Some(ours));
        moved.map(|(node, ..)| node).collect()
    }

    /// How far apart nodes are. No node and one node are at tier 0.
    #[must_use]
    pub fn tier<'a>(&self, nodes: impl IntoIterator<Item = &'a NodeId>) -> Tier {
        if self.is_empty() {
            return Tier(0);
        }
        let mut nodes = nodes.into_iter();
        let Some(first) = nodes.next() else {
            return Tier(0);
        };
        let path = self.path(first);
        let mut shared = 0;
        for node in nodes.filter(|&node| node != first) {
            let (Some(path), Some(other)) = (path, self.path(node)) else {
                return self.top();
            };
            while shared < self.levels && path.get(shared) != other.get(shared) {
                shared += 1;
            }
        }
        Tier(u8::try_from(shared).unwrap_or(u8::MAX))
    }

    /// The tier of nodes that share no switch.
    #[must_use]
    pub fn top(&self) -> Tier {
        Tier(u8::try_from(self.levels).unwrap_or(u8::MAX))
    }
}

impl TryFrom<BTreeMap<NodeId, Vec<String>>> for Topology {
    type Error = TopologyError;

    fn try_from(paths: BTreeMap<NodeId, Vec<String>>) -> Result<Self, TopologyError> {
        Self::new(paths)
    }
}

impl From<Topology> for BTreeMap<NodeId, Vec<String>> {
    fn from(topology: Topology) -> Self {
        topology.paths
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str) -> NodeId {
        NodeId::new(name).expect("a name")
    }

    fn topology(rows: &[(&str, &[&str])]) -> Result<Topology, TopologyError> {
        let path = |path: &[&str]| path.iter().map(ToString::to_string).collect();
        Topology::new(
            rows.iter()
                .map(|(name, above)| (node(name), path(above)))
                .collect(),
        )
    }

    #[test]
    fn nodes_are_as_far_apart_as_the_lowest_switch_above_all() {
        let known = topology(&[
            ("a", &["l1", "p1"]),
            ("b", &["l1", "p1"]),
            ("c", &["l2", "p1"]),
            ("d", &["l3", "p2"]),
        ])
        .expect("a topology");
        let tier = |names: &[&str]| {
            let nodes: Vec<NodeId> = names.iter().map(|name| node(name)).collect();
            known.tier(&nodes).0
        };
        assert_eq!(tier(&[]), 0);
        assert_eq!(tier(&["x"]), 0);
        assert_eq!(tier(&["a", "b"]), 0);
        assert_eq!(tier(&["a", "b", "c"]), 1);
        assert_eq!(tier(&["c", "d"]), 2);
        assert_eq!(tier(&["a", "x"]), 2);
        assert_eq!(tier(&["x", "y"]), 2);
        assert_eq!(Topology::default().tier(&[node("a"), node("x")]), Tier(0));
    }

    #[test]
    fn leaves_are_compared_by_name_or_else_by_their_nodes() {
        let known = topology(&[
            ("a", &["l1"]),
            ("b", &["l1"]),
            ("c", &["l2"]),
            ("d", &["l2"]),
            ("e", &["l3"]),
        ])
        .expect("a topology");
        let differ = |leaves: &[(&str, &str)]| -> Vec<String> {
            let leaves: Vec<(NodeId, &str)> = leaves
                .iter()
                .map(|(name, leaf)| (node(name), *leaf))
                .collect();
            let found = known.differences(leaves.iter().map(|(node, leaf)| (node, *leaf)));
            found.into_iter().map(ToString::to_string).collect()
        };
        let none: [&str; 0] = [];
        assert_eq!(differ(&[("a", "l1"), ("c", "l2"), ("x", "l9")]), none);
        // Other names for the same leaves.
        assert_eq!(
            differ(&[("a", "s7"), ("b", "s7"), ("c", "s8"), ("d", "s8")]),
            none
        );
        // One node elsewhere, by name, even alone.
        assert_eq!(differ(&[("a", "l2")]), ["a"]);
        // One node elsewhere, by the company that it keeps.
        assert_eq!(
            differ(&[
                ("a", "s7"),
                ("b", "s7"),
                ("c", "s8"),
                ("d", "s7"),
                ("e", "s9")
            ]),
            ["d"]
        );
        // Two leaves there are one here.
        assert_eq!(differ(&[("a", "s7"), ("b", "s8")]), ["b"]);
        assert_eq!(known.leaves()["l2"].len(), 2);
    }

    #[test]
    fn a_topology_that_contradicts_itself_is_refused() {
        let two = topology(&[("a", &["l1", "p1"]), ("b", &["l1", "p2"])]);
        assert!(
            matches!(two, Err(TopologyError::TwoAbove { .. })),
            "{two:?}"
        );
        let lengths = topology(&[("a", &["l1"]), ("b", &["l1", "p2"])]);
        assert!(
            matches!(lengths, Err(TopologyError::Levels { .. })),
            "{lengths:?}"
        );
        assert!(topology(&[("a", &[])]).is_err());
    }
}
