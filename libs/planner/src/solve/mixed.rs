//! Several kinds of nodes: prices, then a dynamic program over counts of each kind for what they leave
//! open. It is exact, as long as its steps suffice. [`patterns`] has the same problem for HiGHS.
//!
//! Each trainer j chooses a mix `n` with its gain `g`. Sums of `n_k` are at most `N_k`; maximise the
//! sum of g: a knapsack with multiple choice and a constraint for each kind k. For prices p >= 0,
//! `L(p) = sum_k p_k N_k + sum_j max (g - p n)` bounds the optimum from above, and for any choice
//! `sum g = L - sum_j loss_j - sum_k p_k slack_k` with the loss of an option against the best at these
//! prices (Kellerer, Pferschy, Pisinger: Knapsack Problems, chapters 9 and 11). So
//!
//! 1. options are left out for which another needs no more of any kind and gains no less;
//! 2. if the best option of each trainer fits, that is the optimum;
//! 3. else the prices minimise L, which is convex, among options on the upper hull;
//! 4. the choice at these prices, repaired and filled, is a first answer with `gap = L - sum g`;
//! 5. an option that loses more than the gap is in no better answer; a dynamic program over counts
//!    takes those left, without states whose loss and unused nodes exceed the gap.
//!
//! The program ends by a count of its steps and states, [`MOST_STEPS`], never by a clock. Then the
//! answer of 4 stands with its gap. Ties go to the present mix.

pub mod patterns;
mod program;
pub mod reference;

use lacuna_model::{MOST_KINDS, Outcome, Solve};

use crate::problem::{Item, Mix, MixProblem, MixSizes, NO_NODES, count, with_count};

/// Most steps of the dynamic program, each an option of a state. About half a second.
pub const MOST_STEPS: u64 = 100_000_000;

/// Bonus of the present mix, relative to the largest gain of any option.
const KEEP_BONUS: f64 = 1e-10;

/// Sections and halvings of the search for prices. The bound holds at any price.
const SECTIONS: u32 = 30;
const HALVINGS: u32 = 30;

/// Most turns through all pairs of more than two kinds.
const TURNS: u32 = 4;

/// An option of a trainer.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Choice {
    mix: Mix,
    gain: f64,
}

impl Choice {
    /// Its gain less the price of its nodes.
    fn reduced(&self, prices: Prices) -> f64 {
        let each = self.mix.iter().zip(prices);
        each.fold(self.gain, |left, (&nodes, price)| {
            left - price * f64::from(nodes)
        })
    }
}

/// The price of a node of each kind, objective units.
type Prices = [f64; MOST_KINDS];

/// No price for any kind.
const FREE: Prices = [0.0; MOST_KINDS];

/// The best answer, and how it was found.
#[must_use]
pub fn solve(problem: &MixProblem) -> (MixSizes, Solve) {
    solve_within(problem, MOST_STEPS)
}

/// Options of each trainer, and the bonus of its present mix.
fn options_of(problem: &MixProblem) -> (Vec<Vec<Choice>>, f64) {
    let scale = problem.trainers.iter().map(|item| {
        let value = item.kinds.as_ref().map(|kinds| kinds.value.highest());
        let value = problem.horizon_s * value.unwrap_or_default();
        value.max(item.rate_now * (item.up_s + item.down_s))
    });
    let bonus = KEEP_BONUS * scale.fold(f64::MIN_POSITIVE, f64::max);
    let lists = problem.trainers.iter();
    let lists = lists.map(|item| choices(item, problem, bonus)).collect();
    (lists, bonus)
}

/// As [`solve`], with at most `steps` steps of the dynamic program.
#[must_use]
pub fn solve_within(problem: &MixProblem, steps: u64) -> (MixSizes, Solve) {
    let (lists, bonus) = options_of(problem);
    let nodes = problem.nodes;
    let mut outcome = Outcome::Optimal;
    let mut shortcut = None;
    let best = lists.iter().map(|list| best_at(list, FREE));
    let mut chosen: Vec<Choice> = best.collect();
    if used(&chosen).fits(nodes) {
        shortcut = Some("slack".to_owned());
    } else {
        let prices = prices(&lists, nodes);
        let gap;
        (chosen, gap) = first_answer(&lists, nodes, prices);
        let gain: f64 = chosen.iter().map(|choice| choice.gain).sum();
        let tolerance = bonus / 16.0;
        if gap <= tolerance {
            shortcut = Some("certificate".to_owned());
        } else {
            let frame = program::Frame {
                nodes,
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
        solver: "dp over kinds".to_owned(),
        shortcut,
        stopped_by_clock: false,
    };
    (sizes, solve)
}

/// The choice at some prices, repaired and filled, and its distance from their bound.
fn first_answer(lists: &[Vec<Choice>], nodes: Mix, prices: Prices) -> (Vec<Choice>, f64) {
    let best = lists.iter().map(|list| best_at(list, prices));
    let mut chosen: Vec<Choice> = best.collect();
    repair(lists, &mut chosen, nodes, prices);
    fill(lists, &mut chosen, nodes);
    let gain: f64 = chosen.iter().map(|choice| choice.gain).sum();
    let gap = (bound(lists, nodes, prices) - gain).max(0.0);
    (chosen, gap)
}

/// The options of a trainer that none of the same two kinds dominates, no nodes first.
fn choices(item: &Item, problem: &MixProblem, bonus: f64) -> Vec<Choice> {
    let mut list = Vec::new();
    // The best gain with at most so much of each kind, of the row before and of this one.
    let mut page = None;
    let mut row: Vec<f64> = Vec::new();
    let mut before = f64::NEG_INFINITY;
    let table = item.kinds.iter();
    for cell in table.flat_map(|kinds| kinds.value.cells(problem.nodes)) {
        let (mix, [_, b]) = (cell.mix(), cell.at());
        if page != Some(cell.page()) {
            (page, row) = (Some(cell.page()), Vec::new());
        }
        let at = b as usize;
        if row.len() <= at {
            row.resize(at + 1, f64::NEG_INFINITY);
        }
        if b == 0 {
            before = f64::NEG_INFINITY;
        }
        let Some(best) = row.get_mut(at) else {
            continue;
        };
        let keep = if mix == item.present() { bonus } else { 0.0 };
        let gain = item.gain_of(problem.horizon_s, mix) + keep;
        let other = best.max(before);
        if gain > other && !cell.is_again() {
            list.push(Choice { mix, gain });
        }
        before = gain.max(other);
        *best = before;
    }
    if list.is_empty() {
        let gain = item.gain_of(problem.horizon_s, NO_NODES);
        list.push(Choice {
            mix: NO_NODES,
            gain,
        });
    }
    list
}

/// The best option at some prices, the first of equals.
fn best_at(list: &[Choice], prices: Prices) -> Choice {
    let none = Choice {
        mix: NO_NODES,
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
struct Used([i64; MOST_KINDS]);

impl Used {
    fn fits(self, nodes: Mix) -> bool {
        let Self(used) = self;
        used.iter()
            .zip(nodes)
            .all(|(used, nodes)| *used <= i64::from(nodes))
    }

    /// With one choice in place of another.
    fn with(self, old: &Choice, new: &Choice) -> Self {
        let Self(mut used) = self;
        for ((used, new), old) in used.iter_mut().zip(new.mix).zip(old.mix) {
            *used += i64::from(new) - i64::from(old);
        }
        Self(used)
    }

    /// Nodes that are missing.
    fn over(self, nodes: Mix) -> i64 {
        let Self(used) = self;
        let each = used.iter().zip(nodes);
        each.map(|(used, nodes)| (used - i64::from(nodes)).max(0))
            .sum()
    }
}

fn used(chosen: &[Choice]) -> Used {
    let mut used = [0; MOST_KINDS];
    for choice in chosen {
        for (used, nodes) in used.iter_mut().zip(choice.mix) {
            *used += i64::from(nodes);
        }
    }
    Used(used)
}

/// The bound L at some prices.
fn bound(lists: &[Vec<Choice>], nodes: Mix, prices: Prices) -> f64 {
    let best = lists
        .iter()
        .map(|list| best_at(list, prices).reduced(prices));
    let each = prices.iter().zip(nodes);
    let pool: f64 = each.map(|(price, nodes)| price * f64::from(nodes)).sum();
    pool + best.sum::<f64>()
}

/// The prices of a node of each kind at which the bound is least, to the precision of the search: of
/// two kinds by sections over the first and halvings over the second; of more kinds two at a time, in
/// turn.
fn prices(lists: &[Vec<Choice>], nodes: Mix) -> Prices {
    let hulls: Vec<Vec<Choice>> = lists.iter().map(|list| hull(list)).collect();
    let present = |kind: &usize| count(&nodes, *kind) > 0;
    let present: Vec<usize> = (0..MOST_KINDS).filter(present).collect();
    let mut best = (bound(&hulls, nodes, FREE), FREE);
    match *present.as_slice() {
        [] => {}
        [kind] => best = best_in(&hulls, nodes, FREE, kind),
        [first, second] => best = best_in_both(&hulls, nodes, FREE, [first, second]),
        _ => {
            for _ in 0..TURNS {
                let before = best.0;
                for (at, &first) in present.iter().enumerate() {
                    for &second in present.iter().skip(at + 1) {
                        let found = best_in_both(&hulls, nodes, best.1, [first, second]);
                        best = if found.0 < best.0 { found } else { best };
                    }
                }
                if best.0 >= before {
                    break;
                }
            }
        }
    }
    best.1
}

/// The options that are the best at some prices, and few others: those on the upper hull along each
/// kind alone.
fn hull(list: &[Choice]) -> Vec<Choice> {
    let mut left = list.to_vec();
    for kind in (0..MOST_KINDS).rev() {
        let others = |choice: &Choice| with_count(choice.mix, kind, 0);
        if left.iter().all(|choice| count(&choice.mix, kind) == 0) {
            continue;
        }
        left.sort_by_key(|choice| (others(choice), count(&choice.mix, kind)));
        let mut on: Vec<Choice> = Vec::with_capacity(left.len());
        let mut from = 0;
        for choice in left {
            if on
                .last()
                .is_some_and(|last| others(last) != others(&choice))
            {
                from = on.len();
            }
            while let [.., a, b] = on.get(from..).unwrap_or_default() {
                let at = |choice: &Choice| f64::from(count(&choice.mix, kind));
                let (width, part) = (at(&choice) - at(a), at(b) - at(a));
                if (b.gain - a.gain) * width > (choice.gain - a.gain) * part {
                    break;
                }
                on.pop();
            }
            on.push(choice);
        }
        left = on;
    }
    left
}

/// Above this price no option with nodes of a kind gains anything.
fn highest_price(lists: &[Vec<Choice>], kind: usize) -> f64 {
    let each = lists.iter().flat_map(|list| {
        let first = list.first().map_or(0.0, |choice| choice.gain);
        list.iter()
            .map(move |c| (count(&c.mix, kind), c.gain - first))
    });
    let each = each.filter(|(nodes, _)| *nodes > 0);
    each.map(|(nodes, gain)| gain / f64::from(nodes))
        .fold(0.0, f64::max)
}

/// These prices with that of a kind.
fn with_price(mut prices: Prices, kind: usize, price: f64) -> Prices {
    if let Some(of) = prices.get_mut(kind) {
        *of = price;
    }
    prices
}

/// The least bound over the price of one kind, by halvings.
fn best_in(lists: &[Vec<Choice>], nodes: Mix, prices: Prices, kind: usize) -> (f64, Prices) {
    let (mut low, mut high) = (0.0, highest_price(lists, kind));
    for _ in 0..HALVINGS {
        let price = f64::midpoint(low, high);
        let Used(wanted) = wanted(lists, with_price(prices, kind, price));
        let wanted = wanted.get(kind).copied().unwrap_or_default();
        if wanted > i64::from(count(&nodes, kind)) {
            low = price;
        } else {
            high = price;
        }
    }
    let prices = with_price(prices, kind, high);
    (bound(lists, nodes, prices), prices)
}

/// The least bound over the prices of two kinds, by golden sections over the first.
fn best_in_both(
    lists: &[Vec<Choice>],
    nodes: Mix,
    prices: Prices,
    [first, second]: [usize; 2],
) -> (f64, Prices) {
    let at = |p: f64| best_in(lists, nodes, with_price(prices, first, p), second);
    let golden = f64::midpoint(5.0_f64.sqrt(), -1.0);
    let (mut low, mut high) = (0.0, highest_price(lists, first));
    let mut left = high - golden * (high - low);
    let mut right = low + golden * (high - low);
    let (mut at_left, mut at_right) = (at(left), at(right));
    let less = |a: (f64, Prices), b: (f64, Prices)| if b.0 < a.0 { b } else { a };
    let mut best = less(less(at(0.0), at_left), at_right);
    for _ in 0..SECTIONS {
        let found = if at_left.0 <= at_right.0 {
            high = right;
            (right, at_right) = (left, at_left);
            left = high - golden * (high - low);
            at_left = at(left);
            at_left
        } else {
            low = left;
            (left, at_left) = (right, at_right);
            right = low + golden * (high - low);
            at_right = at(right);
            at_right
        };
        best = less(best, found);
    }
    best
}

/// Nodes of each kind that the best options at some prices need.
fn wanted(lists: &[Vec<Choice>], prices: Prices) -> Used {
    let each = lists.iter().map(|list| best_at(list, prices));
    let mut sum = [0; MOST_KINDS];
    for choice in each {
        for (sum, nodes) in sum.iter_mut().zip(choice.mix) {
            *sum += i64::from(nodes);
        }
    }
    Used(sum)
}

/// Changes options until the choice fits, by the least loss for each node that was missing.
fn repair(lists: &[Vec<Choice>], chosen: &mut [Choice], nodes: Mix, prices: Prices) {
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
