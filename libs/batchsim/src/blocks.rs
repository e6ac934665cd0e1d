//! Blocked nodes: drained by an outage, or reserved.

use crate::job::NodeRange;
use crate::machine::Machine;
use crate::nodes::NodeSet;

/// Nodes that are blocked in `[from, until)`.
type Block = (NodeRange, i64, i64);

/// The blocked nodes over time.
#[derive(Debug, Clone, Default)]
pub(crate) struct Calendar {
    /// The nodes blocked from each time until the next one; none before the first.
    points: Vec<(i64, NodeSet)>,
}

impl Calendar {
    fn new(nodes: u32, blocks: &[Block]) -> Self {
        let mut sorted = blocks.to_vec();
        sorted.sort_by_key(|&(_, from, _)| from);
        let mut coming = sorted.into_iter().peekable();
        let mut active: Vec<Block> = Vec::new();
        let points = edges(blocks)
            .into_iter()
            .map(|at| {
                active.retain(|&(_, _, until)| until > at);
                while let Some(block) = coming.next_if(|&(_, from, _)| from <= at) {
                    active.push(block);
                }
                let mut set = NodeSet::empty(nodes);
                for (range, _, _) in &active {
                    set.insert(&[*range]);
                }
                (at, set)
            })
            .collect();
        Self { points }
    }

    /// The nodes that are blocked at a time.
    pub(crate) fn at(&self, moment: i64) -> Option<&NodeSet> {
        let after = self.points.partition_point(|(at, _)| *at <= moment);
        let place = after.checked_sub(1)?;
        self.points.get(place).map(|(_, set)| set)
    }

    /// The times of changes after this one, each with the nodes that are blocked from then on.
    pub(crate) fn after(&self, moment: i64) -> &[(i64, NodeSet)] {
        let after = self.points.partition_point(|(at, _)| *at <= moment);
        self.points.get(after..).unwrap_or_default()
    }
}

/// The times at which a block begins or ends, ascending, without the largest number.
fn edges(blocks: &[Block]) -> Vec<i64> {
    let ends = blocks.iter().flat_map(|b| [b.1, b.2]);
    let mut edges: Vec<i64> = ends.filter(|&at| at < i64::MAX).collect();
    edges.sort_unstable();
    edges.dedup();
    edges
}

/// The outages and reservations of a machine, and those in force now.
#[derive(Debug, Clone)]
pub(crate) struct Blocks {
    nodes: u32,
    outages: Vec<Block>,
    edges: Vec<i64>,
    /// The number of edges that have passed.
    passed: usize,
    /// All reservations, which are known from the beginning.
    pub(crate) reservations: Calendar,
    /// The outages in force, the only ones that the scheduler knows.
    pub(crate) known_outages: Calendar,
    /// Drained nodes.
    pub(crate) down: NodeSet,
    /// Reserved nodes.
    pub(crate) reserved: NodeSet,
    /// Nodes without a job, drained and reserved ones included.
    pub(crate) idle: NodeSet,
}

impl Blocks {
    /// The blocks of a machine; `None` if it has no outages and no reservations.
    pub(crate) fn new(machine: &Machine) -> Option<Self> {
        let outages = machine.outages.iter();
        let outages: Vec<Block> = outages.map(|o| (o.nodes, o.from, o.until)).collect();
        let reservations = machine.reservations.iter();
        let reservations: Vec<Block> = reservations.map(|r| (r.nodes, r.from, r.until)).collect();
        let all: Vec<Block> = outages.iter().chain(&reservations).copied().collect();
        if all.is_empty() {
            return None;
        }
        let nodes = machine.nodes;
        Some(Self {
            nodes,
            edges: edges(&all),
            outages,
            passed: 0,
            reservations: Calendar::new(nodes, &reservations),
            known_outages: Calendar::default(),
            down: NodeSet::empty(nodes),
            reserved: NodeSet::empty(nodes),
            idle: NodeSet::all(nodes),
        })
    }

    /// The time of the next change.
    pub(crate) fn next_edge(&self) -> Option<i64> {
        self.edges.get(self.passed).copied()
    }

    /// Advances to `now` and tells whether blocked nodes changed.
    pub(crate) fn reach(&mut self, now: i64) -> bool {
        let passed = self.edges.partition_point(|at| *at <= now);
        if passed == self.passed {
            return false;
        }
        self.passed = passed;
        let holding = self.outages.iter();
        let holding: Vec<Block> = holding
            .filter(|&&(_, from, until)| from <= now && until > now)
            .copied()
            .collect();
        self.known_outages = Calendar::new(self.nodes, &holding);
        let none = NodeSet::empty(self.nodes);
        self.down
            .copy_from(self.known_outages.at(now).unwrap_or(&none));
        self.reserved
            .copy_from(self.reservations.at(now).unwrap_or(&none));
        true
    }

    /// Removes from a set the nodes that are known to be blocked at a time not in the past.
    pub(crate) fn strike(&self, set: &mut NodeSet, at: i64) {
        for calendar in [&self.known_outages, &self.reservations] {
            if let Some(blocked) = calendar.at(at) {
                set.minus(blocked);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::{Outage, Reservation};

    #[test]
    fn overlapping_blocks_end_each_at_its_own_time() {
        let range = |first, count| NodeRange { first, count };
        let machine = Machine {
            outages: vec![
                Outage {
                    nodes: range(0, 2),
                    from: 10,
                    until: 30,
                },
                Outage {
                    nodes: range(1, 2),
                    from: 20,
                    until: 40,
                },
            ],
            reservations: vec![Reservation {
                name: "maintenance".to_owned(),
                nodes: range(3, 1),
                from: 20,
                until: 50,
            }],
            ..Machine::new(4)
        };
        let mut blocks = Blocks::new(&machine).unwrap();
        let mut seen = Vec::new();
        while let Some(at) = blocks.next_edge() {
            assert!(blocks.reach(at) && !blocks.reach(at));
            let down: Vec<u32> = blocks.down.ranges().flat_map(NodeRange::nodes).collect();
            seen.push((at, down, blocks.reserved.count()));
        }
        assert_eq!(
            seen,
            [
                (10, vec![0, 1], 0),
                (20, vec![0, 1, 2], 1),
                (30, vec![1, 2], 1),
                (40, vec![], 1),
                (50, vec![], 0),
            ]
        );
        // The reservation is known in advance, the outages are not.
        blocks.passed = 0;
        blocks.reach(5);
        let mut set = NodeSet::all(4);
        blocks.strike(&mut set, 25);
        assert_eq!(set.count(), 3);
    }
}
