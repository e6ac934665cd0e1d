//! The published formulation, one binary per node and trainer (arXiv 2106.12091): for
//! comparison on small instances only. It is symmetric, and slow for that reason.
//!
//! With `c_jn` the present map (nodes are given out in order of trainers) and
//! `n_j = sum_n x_jn`:
//!
//! - P1: `sum_j x_jn <= 1` for each node n;
//! - P2: `n_j = sum_k k y_jk`, `sum_k y_jk = 1`: the size is 0 or `min_j..=max_j`;
//! - P3 (no migration): with `D_j = n_j + C_j - 2 sum_n c_jn x_jn`, the number of nodes that
//!   change, `D_j <= n_j - C_j + M (1 - b_j)` and `D_j <= C_j - n_j + M b_j`: the new set
//!   contains the old one (b = 1) or is contained in it (b = 0);
//! - P4: `n_j - C_j <= W up_j`, `C_j - n_j <= W dw_j`.
//!
//! **Maximise** `sum_j (T sum_k O_j(k) y_jk - cr_j (R_up up_j + R_dw dw_j))`.
//!
//! In P3 the published `M = N + 1` also implies `2 |n_j - C_j| <= N + 1`, an unintended limit on
//! changes; `M = 2 N + 1` does not.

use lacuna_milp as milp;
use lacuna_milp::{ColumnId, Kind, Sense};
use lacuna_model::{Outcome, Solve};

use super::milp::MilpOptions;
use crate::{Problem, Sizes};

/// The constant of P3.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BigM {
    /// `N + 1`, as published: it caps changes.
    Published,
    /// `2 N + 1`: it caps nothing.
    Sound,
}

struct Trainer {
    /// x_jn, by node.
    on: Vec<ColumnId>,
    /// y_jk with k.
    size: Vec<(u32, ColumnId)>,
    grows: ColumnId,
    shrinks: ColumnId,
    contains: ColumnId,
    /// c_jn: the range of nodes held now.
    held: std::ops::Range<u32>,
}

/// Solves the published formulation; no sizes if the solver has no answer within its limits.
/// `big_m` decides in place of `problem.max_change`. There are no short cuts.
#[must_use]
pub fn solve(problem: &Problem, big_m: BigM, options: &MilpOptions) -> (Option<Sizes>, Solve) {
    let mut model = milp::Model::new(Sense::Maximise);
    let trainers = columns(&mut model, problem);
    p1_one_owner(&mut model, problem, &trainers);
    p2_sizes(&mut model, &trainers);
    let nodes = f64::from(problem.nodes);
    let m = match big_m {
        BigM::Published => nodes + 1.0,
        BigM::Sound => 2.0 * nodes + 1.0,
    };
    p3_no_migration(&mut model, &trainers, m);
    p4_changes(&mut model, problem, &trainers);
    let solution = milp::solve(
        &model,
        &milp::Options {
            tree_nodes: options.tree_nodes,
            time_limit: options.time_limit,
            gap: options.gap,
            ..milp::Options::default()
        },
    );
    let sizes = solution.has_values().then(|| {
        let value = |id: &ColumnId| solution.values.get(id.index()).copied().unwrap_or(0.0);
        let count = |t: &Trainer| t.on.iter().map(value).sum::<f64>().round() as u32;
        problem.sizes(trainers.iter().map(count).collect())
    });
    let solve = Solve {
        outcome: match solution.outcome {
            milp::Outcome::Optimal => Outcome::Optimal,
            milp::Outcome::Feasible { gap } => Outcome::Feasible { gap },
            milp::Outcome::NoIncumbent => Outcome::NoIncumbent,
            milp::Outcome::Infeasible => Outcome::Infeasible,
            milp::Outcome::Unbounded | milp::Outcome::Failed { .. } => Outcome::Failed,
        },
        objective: sizes.as_ref().map_or(0.0, |sizes| sizes.objective),
        solver: "node-binary".to_owned(),
        shortcut: None,
        stopped_by_clock: solution.stopped_by_clock,
    };
    (sizes, solve)
}

fn columns(model: &mut milp::Model, problem: &Problem) -> Vec<Trainer> {
    let mut first_free = 0;
    problem
        .trainers
        .iter()
        .map(|item| {
            let held = first_free..first_free + item.current;
            first_free = held.end;
            let sizes = (0..=item.max.min(problem.nodes)).filter(|&n| item.is_size(n));
            let worth = |n: u32| {
                let value = item.value_at(n);
                let waits = if n > item.current {
                    item.pilot_wait(value)
                } else {
                    0.0
                };
                let stops = if n == 0 && item.current > 0 {
                    item.rate_now * item.lost.stop_s
                } else {
                    0.0
                };
                problem.horizon_s * value - waits - stops
            };
            Trainer {
                on: (0..problem.nodes).map(|_| model.binary(0.0)).collect(),
                size: sizes.map(|n| (n, model.binary(worth(n)))).collect(),
                grows: model.binary(-item.grow_cost()),
                shrinks: model.binary(-item.shrink_cost(1)),
                contains: model.column(Kind::Integer, 0.0, 1.0, 0.0),
                held,
            }
        })
        .collect()
}

fn p1_one_owner(model: &mut milp::Model, problem: &Problem, trainers: &[Trainer]) {
    for node in 0..problem.nodes as usize {
        let owners = trainers.iter().filter_map(|t| t.on.get(node));
        model.row(0.0, 1.0, owners.map(|&id| (id, 1.0)));
    }
}

fn p2_sizes(model: &mut milp::Model, trainers: &[Trainer]) {
    for t in trainers {
        let on = t.on.iter().map(|&id| (id, 1.0));
        let size = t.size.iter().map(|&(n, id)| (id, -f64::from(n)));
        model.row(0.0, 0.0, on.chain(size.filter(|s| s.1 < 0.0)));
        model.row(1.0, 1.0, t.size.iter().map(|&(_, id)| (id, 1.0)));
    }
}

fn p3_no_migration(model: &mut milp::Model, trainers: &[Trainer], m: f64) {
    for t in trainers {
        let current = f64::from(t.held.end - t.held.start);
        let kept = |node: u32| if t.held.contains(&node) { 1.0 } else { 0.0 };
        let nodes = || (0_u32..).zip(&t.on);
        // D - n = C - 2 kept <= -C + M (1 - b)
        let outside = nodes().map(|(node, &id)| (id, -2.0 * kept(node)));
        let terms = outside.filter(|t| t.1 != 0.0).chain([(t.contains, m)]);
        model.row(f64::NEG_INFINITY, m - 2.0 * current, terms);
        // D + n = 2 n + C - 2 kept <= C + M b
        let inside = nodes().map(|(node, &id)| (id, 2.0 - 2.0 * kept(node)));
        let terms = inside.filter(|t| t.1 != 0.0).chain([(t.contains, -m)]);
        model.row(f64::NEG_INFINITY, 0.0, terms);
    }
}

fn p4_changes(model: &mut milp::Model, problem: &Problem, trainers: &[Trainer]) {
    let width = f64::from(problem.nodes.max(1));
    for t in trainers {
        let current = f64::from(t.held.end - t.held.start);
        let on = |factor: f64| t.on.iter().map(move |&id| (id, factor));
        model.row(
            f64::NEG_INFINITY,
            current,
            on(1.0).chain([(t.grows, -width)]),
        );
        model.row(
            f64::NEG_INFINITY,
            -current,
            on(-1.0).chain([(t.shrinks, -width)]),
        );
    }
}
