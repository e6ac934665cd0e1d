//! Any number of kinds of nodes: prices by a linear program, then a program over patterns by HiGHS.
//!
//! **Sets.** Trainers j; the patterns o of each: its mixes that none dominates, no nodes among them.
//!
//! **Constants.** `g_jo` gain of a pattern; `n_jok` its nodes of kind k; `N_k` nodes of the pool.
//!
//! **Variables.** `x_jo` in {0, 1}: trainer j has pattern o.
//!
//! **Maximise** `sum_jo g_jo x_jo` subject to
//!
//! - C1 (one pattern): `sum_o x_jo = 1` for each j;
//! - C2 (pool): `sum_jo n_jok x_jo <= N_k` for each k.
//!
//! Without integrality the duals of C2 are the prices at which the bound L of [`super`] is least
//! (Geoffrion 1974, Lagrangean relaxation for integer programming). Patterns come into that linear
//! program only while they pay at its prices. The answer at these prices, repaired and filled, has a
//! gap; patterns that lose more than it are left out of the program in {0, 1}. All solves end by
//! counts. If the last one ends without a proof, the better answer stands with its gap.

use lacuna_milp as milp;
use lacuna_milp::Sense;
use lacuna_model::{MOST_KINDS, Outcome, Solve};

use crate::milp::{CERTIFICATE, MilpOptions, PEGGING};
use crate::problem::{Mix, MixProblem, MixSizes, count};

use super::program::{Open, peg};
use super::{Choice, FREE, Prices, best_at, first_answer, options_of, used};

/// Most rounds in which patterns come into the linear program. The bound holds at any price.
const MOST_ROUNDS: u32 = 200;

/// A pattern comes in if it pays by more than this, relative to the largest gain.
const PAYS: f64 = 1e-9;

/// HiGHS works to absolute tolerances of 1e-6: gains are brought to this.
const LARGEST: f64 = 1e5;

/// The best answer found, with its gap from the bound, or a proof.
#[must_use]
pub fn solve(problem: &MixProblem, options: &MilpOptions) -> (MixSizes, Solve) {
    let (lists, bonus) = options_of(problem);
    let best = lists.iter().map(|list| best_at(list, FREE));
    let best: Vec<Choice> = best.collect();
    let answer = |chosen: &[Choice]| problem.sizes(chosen.iter().map(|c| c.mix).collect());
    if used(&best).fits(problem.nodes) {
        let sizes = answer(&best);
        let solve = solved(&sizes, Outcome::Optimal, Some("slack"), false);
        return (sizes, solve);
    }
    let unit = unit(&lists);
    let prices = prices(&lists, problem.nodes, unit, options);
    let (known, gap) = first_answer(&lists, problem.nodes, prices);
    let tolerance = bonus / 16.0;
    if gap <= tolerance {
        let sizes = answer(&known);
        let solve = solved(&sizes, Outcome::Optimal, Some(CERTIFICATE), false);
        return (sizes, solve);
    }
    let open: Vec<Vec<Open>> = lists
        .iter()
        .map(|list| peg(list, prices, gap + tolerance))
        .collect();
    let (found, solution) = by_highs(&open, problem.nodes, unit, &known, options);
    let sum = |chosen: &[Choice]| chosen.iter().map(|choice| choice.gain).sum::<f64>();
    let known_gain = sum(&known);
    let is_proven = found.is_some() && solution.outcome == milp::Outcome::Optimal;
    let chosen = found
        .filter(|found| sum(found) > known_gain)
        .unwrap_or(known);
    let gain = sum(&chosen);
    let outcome = if is_proven {
        Outcome::Optimal
    } else {
        // The bound of the prices holds for any answer; that of HiGHS may be nearer.
        let bound = (known_gain + gap).min(bound_of(&solution) * unit);
        Outcome::Feasible {
            gap: (bound - gain).max(0.0) / gain.abs().max(f64::MIN_POSITIVE),
        }
    };
    let sizes = answer(&chosen);
    let solve = solved(&sizes, outcome, Some(PEGGING), solution.stopped_by_clock);
    (sizes, solve)
}

fn solved(
    sizes: &MixSizes,
    outcome: Outcome,
    shortcut: Option<&str>,
    stopped_by_clock: bool,
) -> Solve {
    let solver = match shortcut {
        Some(PEGGING) => "highs over patterns of kinds",
        _ => "prices over kinds",
    };
    Solve {
        outcome,
        objective: sizes.objective,
        solver: solver.to_owned(),
        shortcut: shortcut.map(str::to_owned),
        stopped_by_clock,
    }
}

/// The bound of HiGHS, in its unit; infinite if it has none.
fn bound_of(solution: &milp::Solution) -> f64 {
    if solution.bound.is_finite() {
        solution.bound
    } else {
        f64::INFINITY
    }
}

/// The unit of gains for HiGHS.
fn unit(lists: &[Vec<Choice>]) -> f64 {
    let gains = lists.iter().flatten().map(|choice| choice.gain.abs());
    let largest = gains.fold(0.0, f64::max);
    if largest > 0.0 {
        largest / LARGEST
    } else {
        1.0
    }
}

/// The prices of a node of each kind at which the bound is least, by the relaxation over patterns.
/// Without an answer of the solver those of its last round stand.
fn prices(lists: &[Vec<Choice>], nodes: Mix, unit: f64, options: &MilpOptions) -> Prices {
    let one = lists.iter().map(|_| (1.0, 1.0));
    let pool = nodes
        .iter()
        .map(|&nodes| (f64::NEG_INFINITY, f64::from(nodes)));
    let rows: Vec<(f64, f64)> = one.chain(pool).collect();
    let mut program = milp::Linear::new(Sense::Maximise, &rows);
    let kinds_from = lists.len() as u32;
    let add = |program: &mut milp::Linear, j: u32, choice: &Choice| {
        let kinds = (kinds_from..)
            .zip(choice.mix)
            .filter(|(_, nodes)| *nodes > 0);
        let kinds = kinds.map(|(row, nodes)| (row, f64::from(nodes)));
        let terms: Vec<(u32, f64)> = std::iter::once((j, 1.0)).chain(kinds).collect();
        program.add(choice.gain / unit, &terms)
    };
    // No nodes are the first option of each, so that the program has an answer.
    for (j, list) in (0..).zip(lists) {
        if let Some(none) = list.first() {
            add(&mut program, j, none);
        }
    }
    let (mut prices, mut worth) = (FREE, vec![f64::NEG_INFINITY; lists.len()]);
    for _ in 0..MOST_ROUNDS {
        let mut more = false;
        for ((j, list), worth) in (0..).zip(lists).zip(&worth) {
            let best = best_at(list, prices);
            if best.reduced(prices) > worth + PAYS * unit * LARGEST {
                more |= add(&mut program, j, &best);
            }
        }
        if !more {
            break;
        }
        let vertex = program.solve(options.iterations, options.time_limit);
        if vertex.outcome != milp::Outcome::Optimal {
            break;
        }
        let dual = |row: usize| vertex.duals.get(row).copied().unwrap_or_default() * unit;
        for (kind, price) in prices.iter_mut().enumerate() {
            *price = dual(lists.len() + kind).max(0.0);
        }
        for (j, worth) in worth.iter_mut().enumerate() {
            *worth = dual(j);
        }
    }
    prices
}

/// The best patterns among the open ones, and how HiGHS ended.
fn by_highs(
    open: &[Vec<Open>],
    nodes: Mix,
    unit: f64,
    known: &[Choice],
    options: &MilpOptions,
) -> (Option<Vec<Choice>>, milp::Solution) {
    let mut model = milp::Model::new(Sense::Maximise);
    let mut warm = Vec::new();
    let columns: Vec<Vec<_>> = open
        .iter()
        .zip(known)
        .map(|(list, known)| {
            let column = |(choice, _): &Open| {
                warm.push(f64::from(u8::from(choice.mix == known.mix)));
                model.binary(choice.gain / unit)
            };
            list.iter().map(column).collect()
        })
        .collect();
    for columns in &columns {
        model.row(1.0, 1.0, columns.iter().map(|column| (*column, 1.0)));
    }
    for kind in (0..MOST_KINDS).filter(|kind| count(&nodes, *kind) > 0) {
        let each = columns.iter().flatten().zip(open.iter().flatten());
        let used = each.map(|(column, (choice, _))| (*column, count(&choice.mix, kind)));
        let used = used.filter(|(_, nodes)| *nodes > 0);
        let terms = used.map(|(column, nodes)| (column, f64::from(nodes)));
        let most = f64::from(count(&nodes, kind));
        model.row(f64::NEG_INFINITY, most, terms.collect::<Vec<_>>());
    }
    let solution = milp::solve(
        &model,
        &milp::Options {
            tree_nodes: options.tree_nodes,
            time_limit: options.time_limit,
            gap: options.gap,
            warm: Some(warm),
            ..milp::Options::default()
        },
    );
    let is_chosen = |column: &milp::ColumnId| {
        let value = solution.values.get(column.index());
        value.is_some_and(|value| *value > 0.5)
    };
    let chosen = open.iter().zip(&columns).map(|(list, columns)| {
        let at = columns.iter().position(is_chosen)?;
        list.get(at).map(|(choice, _)| *choice)
    });
    let chosen: Option<Vec<Choice>> = chosen.collect();
    let chosen = chosen.filter(|chosen| solution.has_values() && used(chosen).fits(nodes));
    (chosen, solution)
}
