//! The options of each trainer that can be in an optimum, in one flat list.

use std::sync::Arc;

use crate::{Item, Problem};

/// One size of one trainer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Choice {
    /// Node count.
    pub(super) n: u32,
    /// Net gain, with the tie bonus.
    pub(super) gain: f64,
}

/// For each trainer its undominated options: node count and gain both strictly increase.
#[derive(Debug, Clone, Default)]
pub(super) struct Options {
    all: Vec<Choice>,
    /// Trainer j has `all[ends[j - 1]..ends[j]]`.
    ends: Vec<usize>,
    tolerance: f64,
}

/// Bonus of the present size, relative to the largest gain of any option.
const KEEP_BONUS: f64 = 1e-10;

/// Whether two trainers are interchangeable.
pub(super) fn same(a: &Item, b: &Item) -> bool {
    a.current == b.current
        && a.min == b.min
        && a.max == b.max
        && a.rate_now == b.rate_now
        && a.up_s == b.up_s
        && a.down_s == b.down_s
        && (Arc::ptr_eq(&a.value, &b.value) || a.value == b.value)
}

impl Options {
    /// Takes the options of a problem. Gives back the limit on changes that was applied: none
    /// if it left no feasible choice.
    pub(super) fn build(&mut self, problem: &Problem) -> Option<u32> {
        self.fill(problem, problem.max_change);
        let limit = problem.max_change?;
        let least: u64 = self
            .lists()
            .map(|list| u64::from(list.first().map_or(0, |c| c.n)))
            .sum();
        if least > u64::from(problem.nodes) || self.lists().any(<[Choice]>::is_empty) {
            self.fill(problem, None);
            return None;
        }
        Some(limit)
    }

    fn fill(&mut self, problem: &Problem, limit: Option<u32>) {
        self.all.clear();
        self.ends.clear();
        let horizon_s = problem.horizon_s;
        let scale = problem
            .trainers
            .iter()
            .map(|item| {
                let top = item.max.min(problem.nodes) as usize;
                let best = item.value.get(top).copied().unwrap_or(0.0);
                (horizon_s * best).max(item.rate_now * item.up_s.max(item.down_s))
            })
            .fold(f64::MIN_POSITIVE, f64::max);
        let bonus = KEEP_BONUS * scale;
        self.tolerance = bonus / 16.0;
        for item in &problem.trainers {
            let from = self.all.len();
            let top = item.max.min(problem.nodes);
            // The cost of a change is one number on each side of the present size.
            let (down, up) = (item.rate_now * item.down_s, item.rate_now * item.up_s);
            let mut best = f64::NEG_INFINITY;
            let mut consider = |n: u32, value: f64| {
                let gain = match n.cmp(&item.current) {
                    std::cmp::Ordering::Less => horizon_s * value - down,
                    std::cmp::Ordering::Equal => horizon_s * value + bonus,
                    std::cmp::Ordering::Greater => horizon_s * value - up,
                };
                if gain > best && (limit.is_none() || item.may_become(n, limit)) {
                    best = gain;
                    self.all.push(Choice { n, gain });
                }
            };
            consider(0, item.value.first().copied().unwrap_or(0.0));
            let first = item.min.max(1);
            for (n, &value) in (first..=top).zip(item.value.iter().skip(first as usize)) {
                consider(n, value);
            }
            debug_assert!(
                limit.is_some() || self.all.len() > from,
                "zero is an option"
            );
            self.ends.push(self.all.len());
        }
    }

    /// The options of each trainer.
    pub(super) fn lists(&self) -> impl Iterator<Item = &[Choice]> {
        let starts = std::iter::once(&0).chain(&self.ends);
        starts
            .zip(&self.ends)
            .map(|(&from, &to)| self.all.get(from..to).unwrap_or(&[]))
    }

    /// The options of trainer `j`.
    pub(super) fn list(&self, j: usize) -> &[Choice] {
        let from = j
            .checked_sub(1)
            .and_then(|before| self.ends.get(before))
            .map_or(0, |&end| end);
        let to = self.ends.get(j).copied().unwrap_or(from);
        self.all.get(from..to).unwrap_or(&[])
    }

    /// How many trainers there are.
    pub(super) fn trainers(&self) -> usize {
        self.ends.len()
    }

    /// Whether all trainers can have their best option at once.
    pub(super) fn fits_best(&self, nodes: u32) -> bool {
        let total: u64 = self
            .lists()
            .map(|list| u64::from(list.last().map_or(0, |c| c.n)))
            .sum();
        total <= u64::from(nodes)
    }

    /// Differences in objective below this count as none.
    pub(super) const fn tolerance(&self) -> f64 {
        self.tolerance
    }
}
