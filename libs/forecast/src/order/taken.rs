//! An order learnt from the nodes that were taken and passed over.

use serde::{Deserialize, Serialize};

/// Observed and expected counts for each node, over the leave events while it was idle. The
/// observed count is how often it was taken. The expected count holds if each event draws its nodes
/// at random from the idle ones.
///
/// Their ratio is the one-step estimate of the hazard ratio of the node (observed over expected of
/// the log-rank test: Peto and Peto, J. R. Stat. Soc. A 135, 1972). Each event is its own stratum,
/// so busy and quiet times weigh alike. A node with few events is drawn to its block, a block with
/// few events to the machine.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(crate) struct Taken {
    taken: Vec<f32>,
    expected: Vec<f32>,
}

/// The weight of the mean in the estimate of a node or a block, in events.
const PRIOR: f32 = 2.0;

impl Taken {
    pub(crate) fn grow(&mut self, nodes: usize) {
        if self.taken.len() < nodes {
            self.taken.resize(nodes, 0.0);
            self.expected.resize(nodes, 0.0);
        }
    }

    /// Adds an event that took `leaving` of `present`.
    pub(crate) fn event(&mut self, present: &[u32], leaving: &[u32]) {
        let share = leaving.len() as f32 / present.len().max(1) as f32;
        for &node in present {
            if let Some(expected) = self.expected.get_mut(node as usize) {
                *expected += share;
            }
        }
        for &node in leaving {
            if let Some(taken) = self.taken.get_mut(node as usize) {
                *taken += 1.0;
            }
        }
    }

    /// The hazard ratio of a node: times taken over times expected, drawn to 1.
    pub(crate) fn hazard_ratio(&self, node: u32) -> f32 {
        let (taken, expected) = self.of(node as usize);
        (taken + PRIOR) / (expected + PRIOR)
    }

    /// The counts of a node: times taken, times expected.
    pub(crate) fn of(&self, node: usize) -> (f32, f32) {
        let at = |list: &[f32]| list.get(node).copied().unwrap_or(0.0);
        (at(&self.taken), at(&self.expected))
    }

    /// Restores the counts of a node.
    pub(crate) fn set(&mut self, node: usize, counts: (f32, f32)) {
        self.grow(node + 1);
        if let (Some(taken), Some(expected)) =
            (self.taken.get_mut(node), self.expected.get_mut(node))
        {
            (*taken, *expected) = counts;
        }
    }

    /// The places of all nodes in the learnt order, 0 for the highest hazard ratio. `block_of`
    /// gives the block of a node, `tie` its place among equals.
    pub(crate) fn ranks(
        &self,
        blocks: usize,
        block_of: impl Fn(u32) -> u32,
        tie: impl Fn(u32) -> u32,
    ) -> Vec<u32> {
        let nodes = self.taken.len() as u32;
        let mut sums = vec![(0.0f32, 0.0f32); blocks.max(1)];
        for node in 0..nodes {
            let (taken, expected) = self.of(node as usize);
            if let Some(sum) = sums.get_mut(block_of(node) as usize) {
                *sum = (sum.0 + taken, sum.1 + expected);
            }
        }
        let score = |node: u32| {
            let (taken, expected) = self.of(node as usize);
            let block = sums
                .get(block_of(node) as usize)
                .map_or(1.0, |&(taken, expected)| {
                    (taken + PRIOR) / (expected + PRIOR)
                });
            (taken + PRIOR * block) / (expected + PRIOR)
        };
        let mut sorted: Vec<(f32, u32, u32)> = (0..nodes)
            .map(|node| (score(node), tie(node), node))
            .collect();
        sorted.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        let mut ranks = vec![0; nodes as usize];
        for (place, &(_, _, node)) in (0u32..).zip(&sorted) {
            if let Some(rank) = ranks.get_mut(node as usize) {
                *rank = place;
            }
        }
        ranks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_taken_more_often_than_at_random_come_first() {
        let mut taken = Taken::default();
        taken.grow(4);
        for _ in 0..20 {
            taken.event(&[0, 1, 2, 3], &[2]);
            taken.event(&[0, 1, 3], &[3]);
        }
        let ranks = taken.ranks(1, |_| 0, |node| node);
        assert_eq!((ranks[2], ranks[3]), (0, 1));
        assert_eq!((ranks[0], ranks[1]), (2, 3));
    }
}
