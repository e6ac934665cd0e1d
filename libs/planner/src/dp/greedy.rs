//! The relaxation: concave hulls of the options, filled in order of slope.

#![expect(
    clippy::indexing_slicing,
    reason = "hot path; all indices are positions of lists built in this file"
)]

use super::options::{Choice, Options};

/// A step along a trainer's hull.
#[derive(Debug, Clone, Copy)]
struct Step {
    slope: f64,
    trainer: u32,
    /// Option that it leads to.
    to: u32,
    /// How many nodes it adds.
    more: u32,
}

/// An answer with the bound that judges it.
#[derive(Debug, Clone, Default)]
pub(super) struct Greedy {
    steps: Vec<Step>,
    hull: Vec<u32>,
    /// The chosen option of each trainer.
    chosen: Vec<u32>,
    /// Price of a node.
    price: f64,
    /// Upper bound on the objective.
    bound: f64,
    /// Objective of the choice (with tie bonuses).
    value: f64,
}

impl Greedy {
    /// Every trainer its best option; right when they fit.
    pub(super) fn take_best(&mut self, options: &Options) {
        self.chosen.clear();
        self.chosen
            .extend(options.lists().map(|list| (list.len().max(1) - 1) as u32));
        self.price = 0.0;
        self.value = self.value_of(options);
        self.bound = self.value;
    }

    /// Fills the pool along the hulls, then improves one trainer at a time.
    pub(super) fn run(&mut self, options: &Options, nodes: u32) {
        self.steps.clear();
        self.chosen.clear();
        let mut left = nodes;
        for (j, list) in options.lists().enumerate() {
            self.chosen.push(0);
            left = left.saturating_sub(list.first().map_or(0, |c| c.n));
            self.add_hull(j as u32, list);
        }
        // Slopes of one hull strictly decrease, so a stable order keeps a trainer's steps in
        // sequence; equal slopes go to the earlier trainer.
        self.steps.sort_by(|a, b| {
            b.slope
                .total_cmp(&a.slope)
                .then(a.trainer.cmp(&b.trainer))
                .then(a.to.cmp(&b.to))
        });
        self.price = 0.0;
        for step in &self.steps {
            if step.more > left {
                self.price = step.slope;
                break;
            }
            left -= step.more;
            self.chosen[step.trainer as usize] = step.to;
        }
        self.bound = self.bound_at(options, nodes);
        self.improve(options, left);
        self.value = self.value_of(options);
    }

    /// Appends the steps of the upper concave hull of a trainer's options.
    fn add_hull(&mut self, trainer: u32, list: &[Choice]) {
        self.hull.clear();
        for (at, option) in list.iter().enumerate() {
            while let [.., a, b] = self.hull[..] {
                let (a, b) = (list[a as usize], list[b as usize]);
                // b is under or on the line from a to the new option.
                if slope(a, b) > slope(b, *option) {
                    break;
                }
                self.hull.pop();
            }
            self.hull.push(at as u32);
        }
        for pair in self.hull.windows(2) {
            let (a, b) = (list[pair[0] as usize], list[pair[1] as usize]);
            self.steps.push(Step {
                slope: slope(a, b),
                trainer,
                to: pair[1],
                more: b.n - a.n,
            });
        }
    }

    fn bound_at(&self, options: &Options, nodes: u32) -> f64 {
        let best: f64 = options.lists().map(|list| self.best_reduced(list)).sum();
        self.price * f64::from(nodes) + best
    }

    /// The largest gain less the price of its nodes.
    pub(super) fn best_reduced(&self, list: &[Choice]) -> f64 {
        list.iter()
            .map(|c| c.gain - self.price * f64::from(c.n))
            .fold(f64::NEG_INFINITY, f64::max)
    }

    /// While some trainer can better itself with what is left (or by giving some back), lets
    /// the one that gains most do so.
    fn improve(&mut self, options: &Options, mut left: u32) {
        for _ in 0..2 * options.trainers() {
            let mut best: Option<(f64, usize, u32)> = None;
            for (j, list) in options.lists().enumerate() {
                let Some(now) = list.get(self.chosen[j] as usize) else {
                    continue;
                };
                // Gains increase with node counts: the largest that fits is the best.
                let fits = list.partition_point(|c| c.n <= now.n + left);
                let Some(to) = fits
                    .checked_sub(1)
                    .filter(|&to| to > self.chosen[j] as usize)
                else {
                    continue;
                };
                let better = list[to].gain - now.gain;
                if best.is_none_or(|(most, _, _)| better > most) {
                    best = Some((better, j, to as u32));
                }
            }
            let Some((_, j, to)) = best else { return };
            let list = options.list(j);
            left -= list[to as usize].n - list[self.chosen[j] as usize].n;
            self.chosen[j] = to;
            if left == 0 {
                return;
            }
        }
    }

    fn value_of(&self, options: &Options) -> f64 {
        options
            .lists()
            .zip(&self.chosen)
            .map(|(list, &at)| list.get(at as usize).map_or(0.0, |c| c.gain))
            .sum()
    }

    /// How far the answer may be from the optimum.
    pub(super) fn gap(&self) -> f64 {
        (self.bound - self.value).max(0.0)
    }

    /// Price of a node.
    pub(super) const fn price(&self) -> f64 {
        self.price
    }

    /// Replaces the answer.
    pub(super) fn replace(&mut self, chosen: &[u32]) {
        self.chosen.clear();
        self.chosen.extend_from_slice(chosen);
    }

    /// The node count of each trainer.
    pub(super) fn counts(&self, options: &Options) -> Vec<u32> {
        options
            .lists()
            .zip(&self.chosen)
            .map(|(list, &at)| list.get(at as usize).map_or(0, |c| c.n))
            .collect()
    }
}

fn slope(a: Choice, b: Choice) -> f64 {
    (b.gain - a.gain) / f64::from(b.n - a.n)
}
