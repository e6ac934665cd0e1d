//! What one user gets out of any number of nodes (step 1).

#![expect(
    clippy::indexing_slicing,
    reason = "each row of choices has a place for every number of nodes up to its end"
)]

use std::cmp::Ordering;

use crate::{Item, Problem};

/// Levels are counted in these parts of one node's worth.
pub(super) const QUANTUM: f64 = 1e-6;

/// Level and gain that a user comes to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Score {
    /// Scaled speed-up, in [`QUANTUM`]s.
    pub(super) level: i64,
    /// Sum of the gains, objective units.
    pub(super) gain: f64,
}

impl Score {
    fn plus(self, other: Self) -> Self {
        Self {
            level: self.level.saturating_add(other.level),
            gain: self.gain + other.gain,
        }
    }

    /// By level, then by gain.
    pub(super) fn compare(&self, other: &Self) -> Ordering {
        let by_level = self.level.cmp(&other.level);
        by_level.then(self.gain.total_cmp(&other.gain))
    }
}

/// The level that one trainer adds to its user's on `n` nodes.
pub(super) fn level(problem: &Problem, item: &Item, n: u32, share: f64) -> i64 {
    let per_node = |n: u32| item.value_at(n) / f64::from(n.max(1));
    let mut worth = per_node(item.min);
    if worth <= 0.0 {
        worth = (item.min..=item.max).map(per_node).fold(0.0, f64::max);
    }
    let unit = problem.horizon_s * worth * share * QUANTUM;
    if unit > 0.0 {
        // The cast saturates.
        (item.gain(problem.horizon_s, n) / unit).round() as i64
    } else {
        0
    }
}

/// The best score of a user for each number of nodes, and the sizes that lead there.
#[derive(Debug, Clone)]
pub(super) struct Profile {
    /// Fewest nodes that it must have.
    least: u32,
    /// The score on at most `least`, `least + 1`, ... nodes.
    best: Vec<Score>,
    /// For each trainer its size by the nodes of it and those before it.
    taken: Vec<Vec<u32>>,
}

impl Profile {
    /// The profile of a user with these trainers; nothing if the limit on changes forbids every
    /// choice.
    pub(super) fn new<'a>(
        problem: &Problem,
        items: impl Iterator<Item = &'a Item>,
        share: f64,
        limit: Option<u32>,
    ) -> Option<Self> {
        let nothing = Score {
            level: 0,
            gain: 0.0,
        };
        let mut best: Vec<Option<Score>> = vec![Some(nothing)];
        let mut taken = Vec::new();
        for item in items {
            let options: Vec<(usize, Score)> = (0..=item.max.min(problem.nodes))
                .filter(|&n| item.may_become(n, limit))
                .map(|n| {
                    let level = level(problem, item, n, share);
                    let gain = item.gain(problem.horizon_s, n);
                    (n as usize, Score { level, gain })
                })
                .collect();
            let last = options.last()?.0;
            let most = (best.len() - 1 + last).min(problem.nodes as usize);
            let mut next: Vec<Option<Score>> = vec![None; most + 1];
            let mut choice = vec![0; most + 1];
            for &(n, score) in &options {
                let targets = next.iter_mut().zip(&mut choice).skip(n);
                // Beyond its end a profile is flat.
                let flat = std::iter::repeat(best.last().copied().flatten());
                for (before, (target, choice)) in best.iter().copied().chain(flat).zip(targets) {
                    let Some(score) = before.map(|before| before.plus(score)) else {
                        continue;
                    };
                    if target.is_none_or(|t| score.compare(&t) == Ordering::Greater) {
                        *target = Some(score);
                        *choice = n as u32;
                    }
                }
            }
            best = next;
            taken.push(choice);
        }
        let least = best.iter().position(Option::is_some)?;
        Some(Self {
            least: least as u32,
            best: best.into_iter().flatten().collect(),
            taken,
        })
    }

    /// Fewest nodes that it must have.
    pub(super) const fn least(&self) -> u32 {
        self.least
    }

    /// All levels that it can come to.
    pub(super) fn levels(&self) -> impl Iterator<Item = i64> {
        self.best.iter().map(|score| score.level)
    }

    /// The fewest nodes for this level, or for its highest if that is lower.
    pub(super) fn nodes_for(&self, level: i64) -> u32 {
        let highest = self.best.last().map_or(level, |score| score.level);
        let level = level.min(highest);
        self.least + self.best.partition_point(|score| score.level < level) as u32
    }

    /// The numbers of nodes from `from` to `from + more` that bring more than one node less
    /// does, each with its score.
    pub(super) fn steps(&self, from: u32, more: u32) -> impl Iterator<Item = (u32, Score)> {
        let first = from.saturating_sub(self.least) as usize;
        let mut before: Option<Score> = None;
        let range = self
            .best
            .iter()
            .skip(first)
            .take((more as usize).saturating_add(1));
        (0..).zip(range).filter_map(move |(n, &score)| {
            let better = before.is_none_or(|b| score.compare(&b) == Ordering::Greater);
            before = Some(score);
            better.then_some((n, score))
        })
    }

    /// The size of each trainer when the user has so many nodes.
    pub(super) fn sizes(&self, nodes: u32) -> Vec<u32> {
        let mut left = nodes as usize;
        let mut sizes: Vec<u32> = self
            .taken
            .iter()
            .rev()
            .map(|taken| {
                left = left.min(taken.len().saturating_sub(1));
                let n = taken[left];
                left -= n as usize;
                n
            })
            .collect();
        sizes.reverse();
        sizes
    }
}
