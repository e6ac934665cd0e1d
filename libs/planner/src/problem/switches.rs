//! Where nodes are, by ordinals: the switches above each node of a list.
//!
//! Where all nodes are on one leaf, or no trainer loses by distance, decisions are those of a planner
//! without topology, byte for byte (`Situation::apart`).

use std::collections::{BTreeSet, HashMap};

use lacuna_model::{NodeId, Topology};

/// The switches above each node of a list, from the leaf up, as ordinals.
///
/// Without levels nothing is known about distance, and all nodes are at tier 0. So is a list whose
/// nodes all lie on one leaf.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Switches {
    levels: usize,
    /// By node, then level; the ordinals of all levels differ.
    above: Vec<u32>,
    crossing: Option<u32>,
    uplink: Option<u32>,
}

impl Switches {
    /// The switches above these nodes. A node that the topology does not know shares none.
    #[must_use]
    pub fn new<'a>(topology: &Topology, nodes: impl IntoIterator<Item = &'a NodeId>) -> Self {
        let paths = nodes.into_iter().map(|node| topology.path(node));
        Self::below(topology.levels(), paths)
    }

    /// The switches of these paths, each from the leaf up over all levels; none for a node that
    /// shares no switch.
    #[must_use]
    pub fn below<'a>(levels: usize, paths: impl IntoIterator<Item = Option<&'a [String]>>) -> Self {
        let mut numbers: HashMap<(usize, &str), u32> = HashMap::new();
        let (mut next, mut above) = (0, Vec::new());
        let mut fresh = || {
            next += 1;
            next - 1
        };
        for path in paths {
            match path {
                Some(path) => above.extend((0..).zip(path).map(|(level, switch)| {
                    *numbers.entry((level, switch)).or_insert_with(&mut fresh)
                })),
                None => above.extend((0..levels).map(|_| fresh())),
            }
        }
        Self {
            levels,
            above,
            crossing: None,
            uplink: None,
        }
        .or_flat()
    }

    /// The switches of some of the nodes, by their places, in this order, with the numbers that a list
    /// of these nodes alone has. A place outside the list counts as the first node.
    #[must_use]
    pub fn only(&self, places: impl IntoIterator<Item = usize>) -> Self {
        if self.is_flat() {
            return Self::default();
        }
        let mut numbers: HashMap<u32, u32> = HashMap::new();
        let paths = places.into_iter().map(|place| self.path(place));
        let above = paths.flatten().map(|switch| {
            let next = numbers.len() as u32;
            *numbers.entry(*switch).or_insert(next)
        });
        Self {
            levels: self.levels,
            above: above.collect(),
            crossing: self.crossing,
            uplink: self.uplink,
        }
        .or_flat()
    }

    /// Nothing, if all nodes are on one leaf.
    fn or_flat(self) -> Self {
        let mut leaves = self.above.iter().step_by(self.levels.max(1));
        let first = leaves.next();
        if leaves.all(|leaf| Some(leaf) == first) {
            return Self::default();
        }
        self
    }

    /// The switches with a limit on the trainers that cross the uplink of a leaf.
    #[must_use]
    pub fn carrying(self, crossing: Option<u32>) -> Self {
        Self { crossing, ..self }.or_flat()
    }

    /// The most trainers that may cross the uplink of a leaf, if there is a limit.
    #[must_use]
    pub const fn crossing(&self) -> Option<u32> {
        self.crossing
    }

    /// The switches with uplinks that carry this number of crossing trainers at full speed; more
    /// share it. Without a number an uplink carries all.
    #[must_use]
    pub fn sharing(self, uplink: Option<u32>) -> Self {
        Self { uplink, ..self }.or_flat()
    }

    /// The number of crossing trainers that an uplink carries at full speed; none if it carries all.
    #[must_use]
    pub const fn uplink(&self) -> Option<u32> {
        self.uplink
    }

    /// How crowded the uplinks of each of `trainers` trainers are ([`lacuna_model::crowds`]). `owned`
    /// are nodes with their owners.
    #[must_use]
    pub fn crowds(
        &self,
        owned: impl IntoIterator<Item = (usize, Option<u32>)>,
        trainers: usize,
    ) -> Vec<f64> {
        let Some(carries) = self.uplink.filter(|_| !self.is_flat()) else {
            return vec![1.0; trainers];
        };
        let mut leaves: Vec<BTreeSet<u32>> = vec![BTreeSet::new(); trainers];
        for (node, owner) in owned {
            if let Some(leaves) = owner.and_then(|j| leaves.get_mut(j as usize)) {
                leaves.insert(self.switch(node, 0));
            }
        }
        lacuna_model::crowds(&leaves, carries)
    }

    /// Whether all nodes are at tier 0.
    #[must_use]
    pub const fn is_flat(&self) -> bool {
        self.levels == 0
    }

    /// The levels of switches: the highest tier.
    #[must_use]
    pub const fn levels(&self) -> usize {
        self.levels
    }

    /// The switches above a node, from the leaf up; none if all nodes are at tier 0.
    #[must_use]
    pub fn path(&self, node: usize) -> &[u32] {
        let from = node * self.levels;
        let path = self.above.get(from..from + self.levels);
        path.or_else(|| self.above.get(..self.levels))
            .unwrap_or(&[])
    }

    /// The switch above a node at a level; one for all at the highest tier.
    #[must_use]
    pub fn switch(&self, node: usize, level: usize) -> u32 {
        self.path(node).get(level).copied().unwrap_or(u32::MAX)
    }

    /// How far apart two nodes are.
    #[must_use]
    pub fn between(&self, a: usize, b: usize) -> usize {
        let paths = self.path(a).iter().zip(self.path(b));
        paths.take_while(|(a, b)| a != b).count()
    }

    /// How far apart the nodes of each of `trainers` trainers are; `owned` are nodes with their
    /// owners.
    #[must_use]
    pub fn tiers(
        &self,
        owned: impl IntoIterator<Item = (usize, Option<u32>)>,
        trainers: usize,
    ) -> Vec<usize> {
        let mut found = vec![0; trainers];
        if self.is_flat() {
            return found;
        }
        let mut last = vec![None; trainers];
        for (node, owner) in owned {
            let Some(j) = owner.map(|j| j as usize) else {
                continue;
            };
            if let Some((tier, last)) = found.get_mut(j).zip(last.get_mut(j)) {
                let before = last.replace(node).unwrap_or(node);
                *tier = self.between(before, node).max(*tier);
            }
        }
        found
    }

    /// How far apart nodes are: as the farthest two neighbours of any order.
    #[must_use]
    pub fn tier(&self, nodes: impl IntoIterator<Item = usize>) -> usize {
        let mut nodes = nodes.into_iter();
        let Some(mut last) = nodes.next().filter(|_| !self.is_flat()) else {
            return 0;
        };
        nodes.fold(0, |tier, node| {
            let apart = self.between(last, node);
            last = node;
            tier.max(apart)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(name: &str) -> NodeId {
        NodeId::new(name).unwrap()
    }

    #[test]
    fn crossing_trainers_share_the_uplink_of_their_most_crowded_leaf() {
        let paths: Vec<Vec<String>> = [0, 0, 0, 1, 1, 2, 2]
            .map(|leaf: u32| vec![leaf.to_string()])
            .into();
        let switches = Switches::below(1, paths.iter().map(|path| Some(path.as_slice())));
        // 0 and 1 cross leaves 0 and 1, 2 crosses leaves 0 and 2, 3 is on leaf 2.
        let owners = [0, 1, 2, 0, 1, 2, 3].map(Some);
        let crowds = |uplink| {
            let switches = switches.clone().sharing(uplink);
            switches.crowds(owners.into_iter().enumerate(), 4)
        };
        assert_eq!(crowds(None), [1.0; 4]);
        assert_eq!(crowds(Some(1)), [3.0, 3.0, 3.0, 1.0]);
        assert_eq!(crowds(Some(2)), [1.5, 1.5, 1.5, 1.0]);
        assert_eq!(crowds(Some(3)), [1.0; 4]);
    }

    #[test]
    fn tiers_are_those_of_the_topology() {
        let rows = [
            ("a", ["l1", "p1"]),
            ("b", ["l1", "p1"]),
            ("c", ["l2", "p1"]),
            ("d", ["l3", "p2"]),
        ];
        let rows = rows.map(|(node, path)| (id(node), path.map(str::to_owned).to_vec()));
        let topology = Topology::new(rows.into()).unwrap();
        // `x` is not known.
        let nodes = ["d", "a", "x", "b", "c"].map(id);
        let switches = Switches::new(&topology, &nodes);
        for set in 1_usize..32 {
            let places = || (0..5).filter(|place| set >> place & 1 == 1);
            let named = places().map(|place| &nodes[place]);
            assert_eq!(switches.tier(places()), usize::from(topology.tier(named).0));
        }
        assert_eq!(switches.only([1, 3]), Switches::default());
        assert_eq!(switches.only([4, 1]).tier([0, 1]), 1);
        assert!(Switches::new(&Topology::default(), &nodes).is_flat());
    }
}
