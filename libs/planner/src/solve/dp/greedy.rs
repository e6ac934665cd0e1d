//! The relaxation: concave hulls of the options, filled in order of slope.

#![expect(
    clippy::indexing_slicing,
    reason = "hot path; all indices are positions of lists built in this file"
)]

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use super::options::Options;
use super::table::{Choice, Table};

/// A step of some trainer's hull. Steps are taken from the largest on: by slope, of equal ones
/// that of the earlier trainer. Slopes of one hull strictly fall, so its steps keep their order.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Head {
    slope: f64,
    trainer: u32,
}

impl Eq for Head {}

impl Ord for Head {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_slope = self.slope.total_cmp(&other.slope);
        by_slope.then(other.trainer.cmp(&self.trainer))
    }
}

impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// An answer with the bound that judges it.
#[derive(Debug, Clone, Default)]
pub(super) struct Greedy {
    /// Number of hull steps that each trainer takes.
    taken: Vec<u32>,
    heads: BinaryHeap<Head>,
    tails: BinaryHeap<Reverse<Head>>,
    /// The chosen option of each trainer.
    chosen: Vec<u32>,
    /// The largest gain less the price of its nodes, of each trainer.
    reduced: Vec<f64>,
    /// Price of a node.
    price: f64,
    /// The price of the last problem that was scarce: where to look first.
    guess: f64,
    /// Upper bound on the objective.
    bound: f64,
    /// Objective of the choice (with tie bonuses).
    value: f64,
}

/// Halvings at most, when the price is looked for from afar.
const HALVINGS: u32 = 48;

impl Greedy {
    /// Every trainer its best option; right when they fit.
    pub(super) fn take_best(&mut self, options: &Options) {
        self.chosen.clear();
        self.taken.clear();
        self.reduced.clear();
        for table in options.tables() {
            let last = table.list.len().max(1) - 1;
            self.chosen.push(last as u32);
            self.taken.push(table.hull.len() as u32);
            self.reduced
                .push(table.list.last().map_or(0.0, |choice| choice.gain));
        }
        self.price = 0.0;
        self.value = self.value_of(options);
        self.bound = self.value;
    }

    /// Fills the pool along the hulls, then improves one trainer at a time.
    pub(super) fn run(&mut self, options: &Options, nodes: u32) {
        let used = self.start_near(options, nodes);
        let left = self.fill(options, nodes, used);
        self.guess = self.price;
        self.chosen.clear();
        self.reduced.clear();
        self.bound = self.price * f64::from(nodes);
        for (table, &taken) in options.tables().zip(&self.taken) {
            let at = table.after(taken);
            self.chosen.push(at);
            // Along the steps that are taken no slope is below the price, along the others none
            // is above: so this choice has the largest gain less the price of its nodes.
            let reduced = table
                .list
                .get(at as usize)
                .map_or(0.0, |choice| self.reduced_gain(choice));
            self.reduced.push(reduced);
            self.bound += reduced;
        }
        self.improve(options, left);
        self.value = self.value_of(options);
    }

    /// Forgets where to look first.
    pub(super) const fn forget(&mut self) {
        self.guess = 0.0;
    }

    /// Takes every step above some price that about fills the pool: that of the problem before,
    /// or one found by halving. Gives the nodes that are then used.
    fn start_near(&mut self, options: &Options, nodes: u32) -> u64 {
        let wanted = u64::from(nodes);
        let near = 16 + 2 * options.trainers() as u64;
        let mut price = self.guess;
        if price <= 0.0 {
            let best = options.lists().filter_map(<[Choice]>::last);
            let (gain, n) = best.fold((0.0, 0.0), |sum, choice| {
                (sum.0 + choice.gain, sum.1 + f64::from(choice.n))
            });
            price = gain / f64::max(n, 1.0);
        }
        let mut used = self.take_above(options, price);
        let (mut low, mut high) = (0.0, f64::INFINITY);
        for _ in 0..HALVINGS {
            if used.abs_diff(wanted) <= near {
                break;
            }
            if used > wanted {
                low = price;
            } else {
                high = price;
            }
            let next = if high.is_finite() {
                f64::midpoint(low, high)
            } else {
                price * 2.0
            };
            if next == price || !next.is_finite() {
                break;
            }
            price = next;
            used = self.take_above(options, price);
        }
        used
    }

    /// Takes every step whose slope is above the price. Gives the nodes that are then used.
    fn take_above(&mut self, options: &Options, price: f64) -> u64 {
        self.taken.clear();
        let mut used = 0;
        for table in options.tables() {
            let taken = table.hull.partition_point(|step| step.slope > price) as u32;
            used += u64::from(table.nodes_after(taken));
            self.taken.push(taken);
        }
        used
    }

    /// Takes further steps, or gives steps back, in their order, until all are taken that come
    /// before the first that does not fit. Its slope is the price. Gives the nodes that are left.
    fn fill(&mut self, options: &Options, nodes: u32, used: u64) -> u32 {
        let nodes = u64::from(nodes);
        self.price = 0.0;
        if used > nodes {
            return self.give_back(options, nodes, used);
        }
        let mut left = nodes - used;
        self.heads.clear();
        let head = |table: &Table, taken: u32, trainer: u32| {
            let slope = table.hull.get(taken as usize)?.slope;
            Some(Head { slope, trainer })
        };
        for (trainer, table) in (0..).zip(options.tables()) {
            let taken = self.taken[trainer as usize];
            self.heads.extend(head(table, taken, trainer));
        }
        while let Some(Head { slope, trainer }) = self.heads.pop() {
            let taken = &mut self.taken[trainer as usize];
            let Some(table) = options.table(trainer as usize) else {
                break;
            };
            let more = u64::from(table.hull[*taken as usize].more);
            if more > left {
                self.price = slope;
                break;
            }
            left -= more;
            *taken += 1;
            self.heads.extend(head(table, *taken, trainer));
        }
        left as u32
    }

    fn give_back(&mut self, options: &Options, nodes: u64, mut used: u64) -> u32 {
        self.tails.clear();
        let tail = |table: &Table, taken: u32, trainer: u32| {
            let last = taken.checked_sub(1)?;
            let slope = table.hull[last as usize].slope;
            Some(Reverse(Head { slope, trainer }))
        };
        for (trainer, table) in (0..).zip(options.tables()) {
            let taken = self.taken[trainer as usize];
            self.tails.extend(tail(table, taken, trainer));
        }
        while let Some(Reverse(Head { slope, trainer })) = self.tails.pop() {
            let taken = &mut self.taken[trainer as usize];
            let Some(table) = options.table(trainer as usize) else {
                break;
            };
            *taken -= 1;
            used -= u64::from(table.hull[*taken as usize].more);
            if used <= nodes {
                self.price = slope;
                break;
            }
            self.tails.extend(tail(table, *taken, trainer));
        }
        nodes.saturating_sub(used) as u32
    }

    /// Gain less the price of its nodes.
    pub(super) fn reduced_gain(&self, choice: &Choice) -> f64 {
        choice.gain - self.price * f64::from(choice.n)
    }

    /// The largest gain less the price of its nodes, of trainer `j`.
    pub(super) fn best_reduced(&self, j: usize) -> f64 {
        self.reduced[j]
    }

    /// Number of hull steps that trainer `j` takes; there the reduced gain is largest.
    pub(super) fn taken(&self, j: usize) -> u32 {
        self.taken[j]
    }

    /// While some trainer can better itself with what is left (or by giving some back), lets
    /// the one that gains most do so.
    fn improve(&mut self, options: &Options, mut left: u32) {
        if left == 0 {
            return;
        }
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
            let Some(table) = options.table(j) else {
                return;
            };
            left -= table.list[to as usize].n - table.list[self.chosen[j] as usize].n;
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

    /// Largest distance of the answer from the optimum.
    pub(super) fn gap(&self) -> f64 {
        (self.bound - self.value).max(0.0)
    }

    /// Price of a node.
    pub(super) const fn price(&self) -> f64 {
        self.price
    }

    /// The option that trainer `j` has in the answer.
    pub(super) fn chosen(&self, j: usize) -> u32 {
        self.chosen[j]
    }

    /// Changes the option of one trainer in the answer; [`Greedy::revalue`] follows.
    pub(super) fn choose(&mut self, trainer: u32, to: u32) {
        self.chosen[trainer as usize] = to;
    }

    /// Takes account of changes.
    pub(super) fn revalue(&mut self, options: &Options) {
        self.value = self.value_of(options);
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
