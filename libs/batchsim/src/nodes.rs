//! Sets of nodes, lowest numbers first.

use crate::job::Run;

/// Nodes of one machine as a bit set that knows its size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NodeSet {
    words: Vec<u64>,
    count: u32,
}

impl NodeSet {
    /// None of `nodes` nodes.
    pub(crate) fn empty(nodes: u32) -> Self {
        Self {
            words: vec![0; nodes.div_ceil(64) as usize],
            count: 0,
        }
    }

    /// All of `nodes` nodes.
    pub(crate) fn all(nodes: u32) -> Self {
        let mut set = Self::empty(nodes);
        set.insert(&[Run {
            first: 0,
            count: nodes,
        }]);
        set
    }

    /// How many nodes are in it.
    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    /// Adds nodes; some may be in it already.
    pub(crate) fn insert(&mut self, runs: &[Run]) {
        for run in runs {
            for (index, mask) in masks(*run) {
                if let Some(word) = self.words.get_mut(index) {
                    self.count += (mask & !*word).count_ones();
                    *word |= mask;
                }
            }
        }
    }

    /// Removes nodes; some may not be in it.
    pub(crate) fn remove(&mut self, runs: &[Run]) {
        for run in runs {
            for (index, mask) in masks(*run) {
                if let Some(word) = self.words.get_mut(index) {
                    self.count -= (mask & *word).count_ones();
                    *word &= !mask;
                }
            }
        }
    }

    /// Whether all these nodes are in it.
    pub(crate) fn contains(&self, runs: &[Run]) -> bool {
        runs.iter().all(|run| {
            masks(*run).all(|(index, mask)| {
                let word = self.words.get(index).copied().unwrap_or(0);
                word & mask == mask
            })
        })
    }

    /// Keeps only what is in `other` too.
    pub(crate) fn keep(&mut self, other: &Self) {
        self.count = 0;
        for (word, other) in self.words.iter_mut().zip(&other.words) {
            *word &= other;
            self.count += word.count_ones();
        }
    }

    /// Removes all of `other`.
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

    /// Takes the `wanted` lowest nodes out; fewer if there are fewer.
    pub(crate) fn take(&mut self, wanted: u32) -> Vec<Run> {
        let mut runs: Vec<Run> = Vec::new();
        let mut left = wanted;
        for (word, base) in self.words.iter_mut().zip((0u32..).step_by(64)) {
            while *word != 0 && left > 0 {
                let bit = word.trailing_zeros();
                let count = (*word >> bit).trailing_ones().min(left);
                *word &= !mask(bit, count);
                left -= count;
                push(&mut runs, base + bit, count);
            }
            if left == 0 {
                break;
            }
        }
        self.count -= wanted - left;
        runs
    }

    /// The `wanted` lowest nodes, if there are as many.
    pub(crate) fn lowest(&self, wanted: u32) -> Option<Vec<Run>> {
        if self.count < wanted {
            return None;
        }
        let mut runs: Vec<Run> = Vec::new();
        let mut left = wanted;
        for run in self.runs() {
            let count = run.count.min(left);
            push(&mut runs, run.first, count);
            left -= count;
            if left == 0 {
                break;
            }
        }
        Some(runs)
    }

    /// The first `wanted` nodes of the lowest block of adjacent nodes that is long enough.
    pub(crate) fn block(&self, wanted: u32) -> Option<Run> {
        if self.count < wanted {
            return None;
        }
        let mut found = self.runs().filter(|run| run.count >= wanted);
        found.next().map(|run| Run {
            first: run.first,
            count: wanted,
        })
    }

    /// The nodes as maximal blocks, ascending.
    pub(crate) fn runs(&self) -> Runs<'_> {
        Runs {
            words: &self.words,
            other: None,
            at: 0,
        }
    }

    /// The nodes that are not in `other`, as maximal blocks, ascending.
    pub(crate) fn runs_beyond<'a>(&'a self, other: &'a Self) -> Runs<'a> {
        Runs {
            words: &self.words,
            other: Some(&other.words),
            at: 0,
        }
    }
}

/// Maximal blocks of a set, ascending.
#[derive(Debug, Clone)]
pub(crate) struct Runs<'a> {
    words: &'a [u64],
    /// Nodes in here do not count.
    other: Option<&'a [u64]>,
    /// The next node to look at.
    at: u32,
}

impl Runs<'_> {
    fn word(&self, index: usize) -> Option<u64> {
        let word = *self.words.get(index)?;
        let other = self.other.and_then(|other| other.get(index)).copied();
        Some(word & !other.unwrap_or(0))
    }
}

impl Iterator for Runs<'_> {
    type Item = Run;

    fn next(&mut self) -> Option<Run> {
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
        Some(Run { first, count })
    }
}

/// Appends nodes to ascending runs.
fn push(runs: &mut Vec<Run>, first: u32, count: u32) {
    match runs.last_mut() {
        Some(run) if run.first + run.count == first => run.count += count,
        _ => runs.push(Run { first, count }),
    }
}

/// The words that a run touches, each with the run's bits in it.
fn masks(run: Run) -> impl Iterator<Item = (usize, u64)> {
    let end = run.first.saturating_add(run.count);
    let mut first = run.first;
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

    fn run(first: u32, count: u32) -> Run {
        Run { first, count }
    }

    #[test]
    fn the_lowest_nodes_go_first_across_words() {
        let mut free = NodeSet::all(130);
        assert_eq!(free.take(3), [run(0, 3)]);
        assert_eq!(free.lowest(70), Some(vec![run(3, 70)]));
        assert_eq!(free.take(70), [run(3, 70)]);
        free.insert(&[run(0, 3)]);
        assert_eq!(free.take(10), [run(0, 3), run(73, 7)]);
        assert_eq!(free.count(), 130 - 80);
        assert_eq!(free.take(50), [run(80, 50)]);
        assert_eq!(free.count(), 0);
        assert_eq!(free.runs().next(), None);
    }

    #[test]
    fn blocks_are_maximal_and_the_lowest_that_is_long_enough_is_taken() {
        let mut set = NodeSet::empty(256);
        set.insert(&[run(2, 3), run(60, 10), run(100, 92), run(255, 1)]);
        let all: Vec<Run> = set.runs().collect();
        assert_eq!(all, [run(2, 3), run(60, 10), run(100, 92), run(255, 1)]);
        assert_eq!(set.block(4), Some(run(60, 4)));
        assert_eq!(set.block(11), Some(run(100, 11)));
        assert_eq!(set.block(93), None);
        assert_eq!(set.lowest(12), Some(vec![run(2, 3), run(60, 9)]));
        assert!(set.contains(&[run(62, 4), run(255, 1)]) && !set.contains(&[run(4, 2)]));
    }

    #[test]
    fn sets_are_subtracted_and_counted_once() {
        let mut set = NodeSet::all(200);
        let mut other = NodeSet::empty(200);
        other.insert(&[run(10, 100), run(50, 100)]);
        assert_eq!(other.count(), 140);
        let beyond: Vec<Run> = set.runs_beyond(&other).collect();
        assert_eq!(beyond, [run(0, 10), run(150, 50)]);
        set.minus(&other);
        assert_eq!(set.count(), 60);
        set.insert(&[run(5, 195)]);
        assert_eq!(set, NodeSet::all(200));
        set.remove(&[run(0, 64)]);
        set.remove(&[run(32, 64)]);
        assert_eq!(set.count(), 104);
        set.keep(&other);
        assert_eq!(set.count(), 150 - 96);
    }
}
