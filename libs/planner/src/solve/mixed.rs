//! Two kinds of nodes, exactly: prices, and a dynamic program over both counts.
//!
//! Each trainer j chooses a mix (a, b) with its gain `g`. Sums of a and b are at most A and B;
//! maximise the sum of g: a knapsack with multiple choice and two constraints. For prices p, q >= 0,
//! `L(p, q) = p A + q B + sum_j max (g - p a - q b)` bounds the optimum from above, and for any
//! choice `sum g = L - sum_j loss_j - p slack_a - q slack_b` with the loss of an option against the
//! best at these prices (Kellerer, Pferschy, Pisinger: Knapsack Problems, chapters 9 and 11). So
//!
//! 1. options are left out for which another needs no more of either kind and gains no less;
//! 2. if the best option of each trainer fits, that is the optimum;
//! 3. else the prices minimise L, which is convex: golden sections over p, bisection over q;
//! 4. the choice at these prices, repaired and filled, is a first answer with `gap = L - sum g`;
//! 5. an option that loses more than the gap is in no better answer; a dynamic program over (a, b)
//!    takes those left, without states whose loss and unused nodes exceed the gap.
//!
//! The program ends by a count of its steps, [`MOST_STEPS`]. Then the answer of 4 stands with its
//! gap. Ties go to the present mix.

mod program;
pub mod reference;

use lacuna_model::{Outcome, Solve};

use crate::problem::{Mix, MixItem, MixProblem, MixSizes};

/// Most steps of the dynamic program, each an option of a state. About half a second.
pub const MOST_STEPS: u64 = 100_000_000;

/// Bonus of the present mix, relative to the largest gain of any option.
const KEEP_BONUS: f64 = 1e-10;

/// Sections and halvings of the search for prices. The bound holds at any price.
const SECTIONS: u32 = 30;
const HALVINGS: u32 = 30;

/// An option of a trainer.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Choice {
    mix: Mix,
    gain: f64,
}

impl Choice {
    /// Its gain less the price of its nodes.
    fn reduced(&self, [p, q]: [f64; 2]) -> f64 {
        let [a, b] = self.mix;
        self.gain - p * f64::from(a) - q * f64::from(b)
    }
}

/// The best answer, and how it was found.
#[must_use]
pub fn solve(problem: &MixProblem) -> (MixSizes, Solve) {
    solve_within(problem, MOST_STEPS)
}

/// As [`solve`], with at most `steps` steps of the program.
#[must_use]
pub fn solve_within(problem: &MixProblem, steps: u64) -> (MixSizes, Solve) {
    let scale = problem.trainers.iter().map(|item| {
        let value = item.value.at(item.value.most());
        let value = if value.is_finite() { value } else { 0.0 };
        (problem.horizon_s * value).max(item.rate_now * (item.up_s + item.down_s))
    });
    let bonus = KEEP_BONUS * scale.fold(f64::MIN_POSITIVE, f64::max);
    let lists: Vec<Vec<Choice>> = problem
        .trainers
        .iter()
        .map(|item| choices(item, problem, bonus))
        .collect();
    let mut outcome = Outcome::Optimal;
    let mut shortcut = None;
    let best = lists.iter().map(|list| best_at(list, [0.0, 0.0]));
    let mut chosen: Vec<Choice> = best.collect();
    if used(&chosen).fits(problem.nodes) {
        shortcut = Some("slack".to_owned());
    } else {
        let prices = prices(&lists, problem.nodes);
        chosen = lists.iter().map(|list| best_at(list, prices)).collect();
        repair(&lists, &mut chosen, problem.nodes, prices);
        fill(&lists, &mut chosen, problem.nodes);
        let gain: f64 = chosen.iter().map(|choice| choice.gain).sum();
        let gap = (bound(&lists, problem.nodes, prices) - gain).max(0.0);
        let tolerance = bonus / 16.0;
        if gap <= tolerance {
            shortcut = Some("certificate".to_owned());
        } else {
            let frame = program::Frame {
                nodes: problem.nodes,
                prices,
                gap,
                tolerance,
                steps,
            };
            match program::improve(&lists, &frame) {
                program::Ended::Better(better) => chosen = better,
                program::Ended::Proven => {}
                program::Ended::OutOfSteps => {
                    outcome = Outcome::Feasible {
                        gap: gap / gain.abs().max(f64::MIN_POSITIVE),
                    };
                }
            }
        }
    }
    let sizes = problem.sizes(chosen.iter().map(|choice| choice.mix).collect());
    let solve = Solve {
        outcome,
        objective: sizes.objective,
        solver: "dp over two kinds".to_owned(),
        shortcut,
        stopped_by_clock: false,
    };
    (sizes, solve)
}

/// The options of a trainer that none dominates, no nodes first.
fn choices(item: &MixItem, problem: &MixProblem, bonus: f64) -> Vec<Choice> {
    let [most_a, most_b] = item.value.most();
    let [nodes_a, nodes_b] = problem.nodes;
    let (rows, columns) = (most_a.min(nodes_a), most_b.min(nodes_b));
    let mut list = Vec::new();
    // The best gain with at most so much of each kind, of the row before and of this one.
    let mut row = vec![f64::NEG_INFINITY; columns as usize + 1];
    for a in 0..=rows {
        let mut before = f64::NEG_INFINITY;
        for (b, best) in (0..=columns).zip(&mut row) {
            let mix = [a, b];
            let keep = if mix == item.current { bonus } else { 0.0 };
            let gain = item.gain(problem.horizon_s, mix) + keep;
            let other = best.max(before);
            if gain > other {
                list.push(Choice { mix, gain });
            }
            before = gain.max(other);
            *best = before;
        }
    }
    if list.is_empty() {
        let gain = item.gain(problem.horizon_s, [0, 0]);
        list.push(Choice { mix: [0, 0], gain });
    }
    list
}

/// The best option at some prices, the first of equals.
fn best_at(list: &[Choice], prices: [f64; 2]) -> Choice {
    let none = Choice {
        mix: [0, 0],
        gain: f64::NEG_INFINITY,
    };
    let better = |best: (f64, Choice), choice: &Choice| {
        let reduced = choice.reduced(prices);
        if reduced > best.0 {
            (reduced, *choice)
        } else {
            best
        }
    };
    list.iter().fold((f64::NEG_INFINITY, none), better).1
}

/// Nodes of each kind.
#[derive(Debug, Clone, Copy)]
struct Used([i64; 2]);

impl Used {
    fn fits(self, [a, b]: Mix) -> bool {
        let Self([used_a, used_b]) = self;
        used_a <= i64::from(a) && used_b <= i64::from(b)
    }

    /// With one choice in place of another.
    fn with(self, old: &Choice, new: &Choice) -> Self {
        let Self([a, b]) = self;
        let ([old_a, old_b], [new_a, new_b]) = (old.mix, new.mix);
        Self([
            a + i64::from(new_a) - i64::from(old_a),
            b + i64::from(new_b) - i64::from(old_b),
        ])
    }

    /// Nodes that are missing.
    fn over(self, [a, b]: Mix) -> i64 {
        let Self([used_a, used_b]) = self;
        (used_a - i64::from(a)).max(0) + (used_b - i64::from(b)).max(0)
    }
}

fn used(chosen: &[Choice]) -> Used {
    let sum = |kind: fn(&Mix) -> u32| chosen.iter().map(|c| i64::from(kind(&c.mix))).sum();
    Used([sum(|[a, _]| *a), sum(|[_, b]| *b)])
}

/// The bound L at some prices.
fn bound(lists: &[Vec<Choice>], [a, b]: Mix, prices: [f64; 2]) -> f64 {
    let [p, q] = prices;
    let best = lists
        .iter()
        .map(|list| best_at(list, prices).reduced(prices));
    p * f64::from(a) + q * f64::from(b) + best.sum::<f64>()
}

/// The prices of a node of each kind at which the bound is least, to the precision of the search.
fn prices(lists: &[Vec<Choice>], nodes: Mix) -> [f64; 2] {
    // Above these prices no option with nodes of the kind gains anything.
    let highest = |kind: fn(&Mix) -> u32| {
        let each = lists.iter().flat_map(|list| {
            let first = list.first().map_or(0.0, |choice| choice.gain);
            list.iter().map(move |c| (kind(&c.mix), c.gain - first))
        });
        let each = each.filter(|(nodes, _)| *nodes > 0);
        each.map(|(nodes, gain)| gain / f64::from(nodes))
            .fold(0.0, f64::max)
    };
    let (top_p, top_q) = (highest(|[a, _]| *a), highest(|[_, b]| *b));
    let inner = |p: f64| {
        let (mut low, mut high) = (0.0, top_q);
        for _ in 0..HALVINGS {
            let q = f64::midpoint(low, high);
            let Used([_, wanted]) = wanted(lists, [p, q]);
            if wanted > i64::from(nodes[1]) {
                low = q;
            } else {
                high = q;
            }
        }
        (bound(lists, nodes, [p, high]), high)
    };
    let golden = f64::midpoint(5.0_f64.sqrt(), -1.0);
    let (mut low, mut high) = (0.0, top_p);
    let mut left = high - golden * (high - low);
    let mut right = low + golden * (high - low);
    let (mut at_left, mut at_right) = (inner(left), inner(right));
    let mut best = [(0.0, inner(0.0)), (left, at_left), (right, at_right)]
        .into_iter()
        .min_by(|x, y| x.1.0.total_cmp(&y.1.0))
        .map_or([0.0, 0.0], |(p, (_, q))| [p, q]);
    let mut least = bound(lists, nodes, best);
    for _ in 0..SECTIONS {
        let (p, found);
        if at_left.0 <= at_right.0 {
            high = right;
            (right, at_right) = (left, at_left);
            left = high - golden * (high - low);
            at_left = inner(left);
            (p, found) = (left, at_left);
        } else {
            low = left;
            (left, at_left) = (right, at_right);
            right = low + golden * (high - low);
            at_right = inner(right);
            (p, found) = (right, at_right);
        }
        if found.0 < least {
            (least, best) = (found.0, [p, found.1]);
        }
    }
    best
}

/// Nodes of each kind that the best options at some prices need.
fn wanted(lists: &[Vec<Choice>], prices: [f64; 2]) -> Used {
    let each = lists.iter().map(|list| best_at(list, prices));
    let sum = each.fold([0, 0], |[a, b], choice| {
        let [more_a, more_b] = choice.mix;
        [a + i64::from(more_a), b + i64::from(more_b)]
    });
    Used(sum)
}

/// Changes options until the choice fits, by the least loss for each node that was missing.
fn repair(lists: &[Vec<Choice>], chosen: &mut [Choice], nodes: Mix, prices: [f64; 2]) {
    let mut now = used(chosen);
    while !now.fits(nodes) {
        let over = now.over(nodes);
        let mut best: Option<(f64, usize, Choice)> = None;
        for (j, (list, old)) in lists.iter().zip(chosen.iter()).enumerate() {
            for new in list {
                let saved = over - now.with(old, new).over(nodes);
                if saved <= 0 {
                    continue;
                }
                let loss = (old.reduced(prices) - new.reduced(prices)) / saved as f64;
                if best.as_ref().is_none_or(|known| loss < known.0) {
                    best = Some((loss, j, *new));
                }
            }
        }
        // Every trainer may give up all nodes, so there is a change until the choice fits.
        let Some((_, j, new)) = best else { return };
        if let Some(old) = chosen.get_mut(j) {
            now = now.with(old, &new);
            *old = new;
        }
    }
}

/// Changes one option at a time while that gains and fits.
fn fill(lists: &[Vec<Choice>], chosen: &mut [Choice], nodes: Mix) {
    let mut now = used(chosen);
    loop {
        let mut best: Option<(f64, usize, Choice)> = None;
        for (j, (list, old)) in lists.iter().zip(chosen.iter()).enumerate() {
            for new in list {
                let gain = new.gain - old.gain;
                let more = best.as_ref().map_or(0.0, |known| known.0);
                if gain > more && now.with(old, new).fits(nodes) {
                    best = Some((gain, j, *new));
                }
            }
        }
        let Some((_, j, new)) = best else { return };
        if let Some(old) = chosen.get_mut(j) {
            now = now.with(old, &new);
            *old = new;
        }
    }
}
