//! Uplinks as further classes: a row for each leaf, of which a trainer that crosses it takes one.

use std::collections::BTreeMap;

use crate::problem::Switches;

/// The rows of the uplinks; none without a limit on crossing trainers.
#[derive(Debug, Clone, Default)]
pub(crate) struct Uplinks {
    /// By leaf.
    rows: BTreeMap<u32, u32>,
    /// By row, from the first on: the trainers that may cross in addition to those that do.
    pub(crate) free: Vec<u32>,
    /// The trainers that may cross in all.
    pub(crate) all: Vec<u32>,
}

impl Uplinks {
    /// The uplinks of nodes; their rows follow `first` other classes. `kept` are the nodes of pinned
    /// trainers.
    pub(crate) fn new<'a>(
        switches: &Switches,
        nodes: usize,
        first: usize,
        kept: impl Iterator<Item = &'a [usize]>,
    ) -> Self {
        let Some(most) = switches.crossing() else {
            return Self::default();
        };
        let first = first as u32;
        let mut uplinks = Self::default();
        for node in 0..nodes {
            let next = first + uplinks.rows.len() as u32;
            uplinks.rows.entry(switches.switch(node, 0)).or_insert(next);
        }
        let mut crossing = vec![0; uplinks.rows.len()];
        let taken: Vec<u32> = kept
            .flat_map(|set| uplinks.crossed(switches, set))
            .collect();
        for row in taken {
            if let Some(crossing) = crossing.get_mut((row - first) as usize) {
                *crossing += 1;
            }
        }
        // More may cross already, and as many may go on.
        uplinks.all = crossing
            .iter()
            .map(|&crossing| most.max(crossing))
            .collect();
        let free = crossing
            .iter()
            .map(|&crossing| most.saturating_sub(crossing));
        uplinks.free = free.collect();
        uplinks
    }

    /// The row of a node's leaf.
    pub(crate) fn row(&self, switches: &Switches, node: usize) -> Option<u32> {
        self.rows.get(&switches.switch(node, 0)).copied()
    }

    /// The rows that a node set takes, ascending: none if it is on one leaf.
    pub(crate) fn crossed(&self, switches: &Switches, set: &[usize]) -> Vec<u32> {
        if self.rows.is_empty() || switches.tier(set.iter().copied()) == 0 {
            return Vec::new();
        }
        let rows = set.iter().filter_map(|&node| self.row(switches, node));
        let mut rows: Vec<u32> = rows.collect();
        rows.sort_unstable();
        rows.dedup();
        rows
    }
}

/// The rows that a change takes and gives back, ascending.
pub(crate) fn change(before: &[u32], after: &[u32]) -> Vec<(u32, i32)> {
    let gone = before.iter().filter(|row| !after.contains(row));
    let new = after.iter().filter(|row| !before.contains(row));
    let mut rows: Vec<(u32, i32)> = gone.map(|&row| (row, -1)).collect();
    rows.extend(new.map(|&row| (row, 1)));
    rows.sort_unstable();
    rows
}
