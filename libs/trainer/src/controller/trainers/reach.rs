//! Which members a smaller incarnation keeps: those near to each other, or far apart.

use std::collections::BTreeSet;

use lacuna_model::{NodeId, Tier, Topology};

/// How far apart the nodes of a probe are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reach {
    /// As near to rank 0 as can be.
    Near,
    /// As far from rank 0 as can be.
    Far,
}

impl Reach {
    /// Rank 0 with the nearest or farthest of the others, `size` nodes in all, in the order of
    /// `nodes`. Of nodes that are equally far, the first stay.
    pub(crate) fn of(self, topology: &Topology, nodes: &[NodeId], size: usize) -> Vec<NodeId> {
        let Some((first, others)) = nodes.split_first() else {
            return Vec::new();
        };
        let mut others: Vec<(Tier, &NodeId)> = others
            .iter()
            .map(|node| (topology.tier([first, node]), node))
            .collect();
        match self {
            Self::Near => others.sort_by_key(|(tier, _)| *tier),
            Self::Far => others.sort_by_key(|(tier, _)| std::cmp::Reverse(*tier)),
        }
        others.truncate(size.saturating_sub(1));
        let chosen: BTreeSet<&NodeId> = others.into_iter().map(|(_, node)| node).collect();
        let stays = |node: &&NodeId| *node == first || chosen.contains(*node);
        nodes.iter().filter(stays).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str) -> NodeId {
        NodeId::new(name).unwrap()
    }

    #[test]
    fn near_or_far_members_stay_with_rank_0() {
        let leaves = [
            ("a1", "l1"),
            ("a2", "l2"),
            ("a3", "l1"),
            ("a4", "l2"),
            ("a5", "l1"),
        ];
        let paths = leaves.map(|(name, leaf)| (node(name), vec![leaf.to_owned()]));
        let topology = Topology::new(paths.into()).unwrap();
        let nodes = leaves.map(|(name, _)| node(name));
        let of = |reach: Reach, topology: &Topology, size| {
            let stay = reach.of(topology, &nodes, size);
            stay.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(of(Reach::Near, &topology, 3), ["a1", "a3", "a5"]);
        assert_eq!(of(Reach::Near, &topology, 4), ["a1", "a2", "a3", "a5"]);
        assert_eq!(of(Reach::Far, &topology, 2), ["a1", "a2"]);
        assert_eq!(of(Reach::Far, &topology, 4), ["a1", "a2", "a3", "a4"]);
        // Without a topology all are equally near: the first stay.
        for reach in [Reach::Near, Reach::Far] {
            assert_eq!(of(reach, &Topology::default(), 2), ["a1", "a2"]);
        }
        assert!(Reach::Near.of(&topology, &[], 2).is_empty());
    }
}
