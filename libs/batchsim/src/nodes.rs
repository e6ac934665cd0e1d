//! Sets of nodes, lowest numbers first.

use crate::job::NodeRange;

/// Nodes of one machine as a bit set that knows its size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NodeSet {
    words: Vec<u64>,
    count: u32,
}

impl NodeSet {
    /// The empty set, on a machine of `nodes` nodes.
    pub(crate) fn empty(nodes: u32) -> Self {
        Self {
            words: vec![0; nodes.div_ceil(64) as usize],
            count: 0,
        }
    }

    /// The set of all `nodes` nodes.
    pub(crate) fn all(nodes: u32) -> Self {
        let mut set = Self::empty(nodes);
        set.insert(&[NodeRange {
            first: 0,
            count: nodes,
        }]);
        set
    }

    /// The number of nodes in the set.
    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    /// Adds nodes, which may be in the set already.
    pub(crate) fn insert(&mut self, ranges: &[NodeRange]) {
        for range in ranges {
            for (index, mask) in masks(*range) {
                if let Some(word) = self.words.get_mut(index) {
                    self.count += (mask & !*word).count_ones();
                    *word |= mask;
                }
            }
        }
    }

    /// Removes nodes, which need not be in the set.
    pub(crate) fn remove(&mut self, ranges: &[NodeRange]) {
        for range in ranges {
            for (index, mask) in masks(*range) {
                if let Some(word) = self.words.get_mut(index) {
                    self.count -= (mask & *word).count_ones();
                    *word &= !mask;
                }
            }
        }
    }

    /// Whether all these nodes are in the set.
    pub(crate) fn contains(&self, ranges: &[NodeRange]) -> bool {
        ranges.iter().all(|range| {
            masks(*range).all(|(index, mask)| {
                let word = self.words.get(index).copied().unwrap_or(0);
                word & mask == mask
            })
        })
    }

    /// Keeps only the nodes that are in `other` too.
    pub(crate) fn keep(&mut self, other: &Self) {
        self.count = 0;
        for (word, other) in self.words.iter_mut().zip(&other.words) {
            *word &= other;
            self.count += word.count_ones();
        }
    }

    /// Removes all nodes of `other`.
    pub(crate) fn minus(&mut self, other: &Self) {
        self.count = 0;
        for (word, other) in self.words.iter_mut().zip(&other.words) {
            *word &= !other;
            self.count += word.count_ones();
        }
    }

    /// Becomes a copy of `other` without new memory.
    pub(crate) fn copy_from(&mut self, other: &Self) {
        self.words.clone_from(&other.words);
        self.count = other.count;
    }

    /// Removes and returns the `wanted` lowest nodes; all if there are fewer.
    pub(crate) fn take(&mut self, wanted: u32) -> Vec<NodeRange> {
        let mut ranges: Vec<NodeRange> = Vec::new();
        let mut left = wanted;
        for (word, base) in self.words.iter_mut().zip((0u32..).step_by(64)) {
            while *word != 0 && left > 0 {
                let bit = word.trailing_zeros();
                let count = (*word >> bit).trailing_ones().min(left);
                *word &= !mask(bit, count);
                left -= count;
                push(&mut ranges, base + bit, count);
            }
            if left == 0 {
                break;
            }
        }
        self.count -= wanted - left;
        ranges
    }

    /// The `wanted` lowest nodes; `None` if there are fewer.
    pub(crate) fn lowest(&self, wanted: u32) -> Option<Vec<NodeRange>> {
        if self.count < wanted {
            return None;
        }
        let mut ranges: Vec<NodeRange> = Vec::new();
        let mut left = wanted;
        for range in self.ranges() {
            let count = range.count.min(left);
            push(&mut ranges, range.first, count);
            left -= count;
            if left == 0 {
                break;
            }
        }
        Some(ranges)
    }

    /// The first `wanted` nodes of the lowest block of adjacent nodes that is long enough.
    pub(crate) fn block(&self, wanted: u32) -> Option<NodeRange> {
        if self.count < wanted {
            return None;
        }
        let mut found = self.ranges().filter(|range| range.count >= wanted);
        found.next().map(|range| NodeRange {
            first: range.first,
            count: wanted,
        })
    }

    /// The nodes as maximal blocks, ascending.
    pub(crate) fn ranges(&self) -> NodeRanges<'_> {
        NodeRanges {
            words: &self.words,
            other: None,
            at: 0,
        }
    }

    /// The nodes that are not in `other`, as maximal blocks, ascending.
    pub(crate) fn ranges_beyond<'a>(&'a self, other: &'a Self) -> NodeRanges<'a> {
        NodeRanges {
            words: &self.words,
            other: Some(&other.words),
            at: 0,
        }
    }
}

/// Maximal blocks of a set, ascending.
#[derive(Debug, Clone)]
pub(crate) struct NodeRanges<'a> {
    words: &'a [u64],
    /// Nodes in this set are skipped.
    other: Option<&'a [u64]>,
    /// The next node to visit.
    at: u32,
}

impl NodeRanges<'_> {
    fn word(&self, index: usize) -> Option<u64> {
        let word = *self.words.get(index)?;
        let other = self.other.and_then(|other| other.get(index)).copied();
        Some(word & !other.unwrap_or(0))
    }
}

impl Iterator for NodeRanges<'_> {
    type Item = NodeRange;

    fn next(&mut self) -> Option<NodeRange> {
        let mut index = (self.at / 64) as usize;
        let mut word = self.word(index)? & (u64::MAX << (self.at % 64));
        while word == 0 {
            index += 1;
            word = self.word(index)?;
        }
        let bit = word.trailing_zeros();
        let first = index as u32 * 64 + bit;
        let mut count = (word >> bit).trailing_ones();
        let mut end = bit + count;
        while end == 64 {
            index += 1;
            let more = self.word(index).unwrap_or(0).trailing_ones();
            count += more;
            end = more;
        }
        self.at = first + count;
        Some(NodeRange { first, count })
    }
}

/// Appends nodes to ascending ranges.
fn push(ranges: &mut Vec<NodeRange>, first: u32, count: u32) {
    match ranges.last_mut() {
        Some(range) if range.first + range.count == first => range.count += count,
        _ => ranges.push(NodeRange { first, count }),
    }
}

/// The words that a range touches, each with the bits of the range.
fn masks(range: NodeRange) -> impl Iterator<Item = (usize, u64)> {
    let end = range.first.saturating_add(range.count);
    let mut first = range.first;
    std::iter::from_fn(move || {
        if first >= end {
            return None;
        }
        let bit = first % 64;
        let count = (64 - bit).min(end - first);
        let index = (first / 64) as usize;
        first += count;
        Some((index, mask(bit, count)))
    })
}

/// `count` ones from bit `bit` on; `bit + count` is at most 64.
fn mask(bit: u32, count: u32) -> u64 {
    let ones = if count >= 64 {
        u64::MAX
    } else {
        (1 << count) - 1
    };
    ones << bit
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(first: u32, count: u32) -> NodeRange {
        NodeRange { first, count }
    }

    #[test]
    fn the_lowest_nodes_are_taken_first_across_words() {
        let mut free = NodeSet::all(130);
        assert_eq!(free.take(3), [range(0, 3)]);
        assert_eq!(free.lowest(70), Some(vec![range(3, 70)]));
        assert_eq!(free.take(70), [range(3, 70)]);
        free.insert(&[range(0, 3)]);
        assert_eq!(free.take(10), [range(0, 3), range(73, 7)]);
        assert_eq!(free.count(), 130 - 80);
        assert_eq!(free.take(50), [range(80, 50)]);
        assert_eq!(free.count(), 0);
        assert_eq!(free.ranges().next(), None);
    }

    #[test]
    fn ranges_are_maximal_and_the_lowest_long_enough_is_taken() {
        let mut set = NodeSet::empty(256);
        set.insert(&[range(2, 3), range(60, 10), range(100, 92), range(255, 1)]);
        let all: Vec<NodeRange> = set.ranges().collect();
        assert_eq!(
            all,
            [range(2, 3), range(60, 10), range(100, 92), range(255, 1)]
        );
        assert_eq!(set.block(4), Some(range(60, 4)));
        assert_eq!(set.block(11), Some(range(100, 11)));
        assert_eq!(set.block(93), None);
        assert_eq!(set.lowest(12), Some(vec![range(2, 3), range(60, 9)]));
        assert!(set.contains(&[range(62, 4), range(255, 1)]) && !set.contains(&[range(4, 2)]));
    }

    #[test]
    fn sets_are_subtracted_and_counted_once() {
        let mut set = NodeSet::all(200);
        let mut other = NodeSet::empty(200);
        other.insert(&[range(10, 100), range(50, 100)]);
        assert_eq!(other.count(), 140);
        let beyond: Vec<NodeRange> = set.ranges_beyond(&other).collect();
        assert_eq!(beyond, [range(0, 10), range(150, 50)]);
        set.minus(&other);
        assert_eq!(set.count(), 60);
        set.insert(&[range(5, 195)]);
        assert_eq!(set, NodeSet::all(200));
        set.remove(&[range(0, 64)]);
        set.remove(&[range(32, 64)]);
        assert_eq!(set.count(), 104);
        set.keep(&other);
        assert_eq!(set.count(), 150 - 96);
    }
}
