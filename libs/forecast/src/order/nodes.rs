//! Numbered nodes, with their places in an order and their blocks.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};

use super::{block_of, natural_cmp};

/// The source of the order of nodes.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OrderBy {
    /// The order that the events support: names forwards, names backwards, or one estimated from
    /// taken nodes. There is no order while none is significant.
    #[default]
    Learnt,
    /// The natural order of names, by which Slurm usually numbers nodes.
    Names,
    /// The order of a list, first taken first, from the scheduler's configuration. Unlisted nodes
    /// come last.
    List(Vec<String>),
    /// By weight, lowest first, as Slurm's `Weight`; equal weights by name. Nodes without a
    /// weight come last.
    Weights(BTreeMap<String, f64>),
    /// No order: nodes are only grouped by release.
    None,
}

/// The ranks and blocks of nodes, which are numbered from 0.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Nodes {
    rank: Vec<u32>,
    block: Vec<u32>,
    blocks: u32,
}

impl Nodes {
    /// Nodes without names: the number is the rank, and all nodes are one block.
    #[must_use]
    pub fn numbered(nodes: u32) -> Self {
        Self {
            rank: (0..nodes).collect(),
            block: vec![0; nodes as usize],
            blocks: u32::from(nodes > 0),
        }
    }

    /// Nodes numbered in the order of `names`. Ranks follow `order` if it is given (names, list or
    /// weights), and names otherwise. Blocks follow [`block_of`].
    #[must_use]
    pub fn from_names<'a>(names: impl IntoIterator<Item = &'a str>, order: &OrderBy) -> Self {
        let names: Vec<&str> = names.into_iter().collect();
        let mut sorted: Vec<usize> = (0..names.len()).collect();
        let name = |at: usize| names.get(at).copied().unwrap_or_default();
        sorted.sort_by(|&a, &b| natural_cmp(name(a), name(b)));
        match order {
            OrderBy::Learnt | OrderBy::Names | OrderBy::None => {}
            OrderBy::List(list) => {
                let mut places: HashMap<&str, usize> = HashMap::new();
                for (place, listed) in list.iter().enumerate() {
                    places.entry(listed).or_insert(place);
                }
                sorted.sort_by_key(|&at| places.get(name(at)).copied().unwrap_or(usize::MAX));
            }
            OrderBy::Weights(weights) => {
                let weight = |at: usize| weights.get(name(at)).copied().unwrap_or(f64::INFINITY);
                sorted.sort_by(|&a, &b| weight(a).total_cmp(&weight(b)));
            }
        }
        let mut rank = vec![0; names.len()];
        for (place, &at) in (0u32..).zip(&sorted) {
            if let Some(slot) = rank.get_mut(at) {
                *slot = place;
            }
        }
        let mut blocks: HashMap<&str, u32> = HashMap::new();
        let block = names
            .iter()
            .map(|name| {
                let next = blocks.len() as u32;
                *blocks.entry(block_of(name)).or_insert(next)
            })
            .collect();
        Self {
            rank,
            block,
            blocks: blocks.len() as u32,
        }
    }

    /// The number of nodes.
    #[must_use]
    pub fn count(&self) -> usize {
        self.rank.len()
    }

    /// The number of blocks.
    #[must_use]
    pub fn blocks(&self) -> u32 {
        self.blocks
    }

    /// The place of a node in the order, 0 first; the last place if it is not known.
    #[must_use]
    pub fn rank(&self, node: u32) -> u32 {
        self.rank.get(node as usize).copied().unwrap_or(u32::MAX)
    }

    /// The block of a node; 0 if it is not known.
    #[must_use]
    pub fn block(&self, node: u32) -> u32 {
        self.block.get(node as usize).copied().unwrap_or(0)
    }

    /// Adds nodes that were not known, last in the order and in the first block.
    pub(crate) fn grow(&mut self, nodes: usize) {
        while self.rank.len() < nodes {
            self.rank.push(self.rank.len() as u32);
            self.block.push(0);
            self.blocks = self.blocks.max(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(names: &[&str], by: &OrderBy) -> Vec<String> {
        let nodes = Nodes::from_names(names.iter().copied(), by);
        let mut sorted: Vec<u32> = (0..names.len() as u32).collect();
        sorted.sort_by_key(|&node| nodes.rank(node));
        sorted
            .into_iter()
            .map(|node| names[node as usize].to_owned())
            .collect()
    }

    #[test]
    fn ranks_follow_the_given_order() {
        let names = ["n10", "n2", "n1"];
        assert_eq!(order(&names, &OrderBy::Learnt), ["n1", "n2", "n10"]);
        let list = OrderBy::List(vec!["n2".to_owned(), "absent".to_owned(), "n10".to_owned()]);
        assert_eq!(order(&names, &list), ["n2", "n10", "n1"]);
        let weights = OrderBy::Weights([("n10".to_owned(), 1.0), ("n1".to_owned(), 5.0)].into());
        assert_eq!(order(&names, &weights), ["n10", "n1", "n2"]);
    }

    #[test]
    fn an_unknown_node_is_last() {
        let mut nodes = Nodes::from_names(["a1", "b1"], &OrderBy::Names);
        assert_eq!((nodes.blocks(), nodes.rank(7)), (2, u32::MAX));
        nodes.grow(4);
        assert_eq!((nodes.rank(3), nodes.block(3)), (3, 0));
    }
}
