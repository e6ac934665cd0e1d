//! HiGHS behind the neutral model.
//!
//! Facts that shape this file: a process has one instance at a time (`instance`). By default HiGHS
//! stops at a relative gap of 1e-4 and takes half of the machine's threads. The binding panics on
//! unknown statuses. Limits on iterations hold for linear programs, but not for those within a
//! tree.

use std::panic::{AssertUnwindSafe, catch_unwind};

use highs::{HighsModelStatus as Status, RowProblem};

use crate::instance::{is_open_here, lock};
use crate::options::Set;
use crate::{Heuristics, Kind, Model, Options, Outcome, Sense, Solution};

/// Largest violation of a bound by an accepted answer, relative to the larger of 1 and the bound
/// (HiGHS itself works to 1e-6).
const TOLERANCE: f64 = 1e-5;

/// Solves a model. It first waits for another solve of this process to end. The solve ends by its
/// limits of work, or shortly after the time limit in an emergency. It never panics, and keeps
/// every answer found before a limit. It fails while a [`crate::Linear`] of this thread is open.
#[must_use]
pub fn solve(model: &Model, options: &Options) -> Solution {
    if is_open_here() {
        return Solution::failed("a linear program of this thread is open");
    }
    let _alone = lock();
    catch_unwind(AssertUnwindSafe(|| run(model, options)))
        .unwrap_or_else(|_| Solution::failed("the solver's binding panicked"))
}

fn run(model: &Model, options: &Options) -> Solution {
    if model.columns.is_empty() {
        return trivial(model);
    }
    let Ok(mut highs) = problem(model).try_optimise(match model.sense {
        Sense::Maximise => highs::Sense::Maximise,
        Sense::Minimise => highs::Sense::Minimise,
    }) else {
        return Solution::failed("the solver refused the model");
    };
    if let Err(refused) = set_options(&mut highs, options) {
        return Solution::failed(refused);
    }
    if let Some(warm) = &options.warm {
        // A bad start costs time only.
        let _ = highs.try_set_solution(Some(warm), None, None, None);
    }
    match highs.try_solve() {
        Ok(solved) => Solution {
            stopped_by_clock: solved.status() == Status::ReachedTimeLimit,
            ..read(model, options, &solved)
        },
        Err(status) => Solution::failed(format!("the solver ended with status {status:?}")),
    }
}

fn problem(model: &Model) -> RowProblem {
    let mut problem = RowProblem::new();
    let ids: Vec<highs::Col> = model
        .columns
        .iter()
        .map(|column| {
            let bounds = column.lower..=column.upper;
            match column.kind {
                Kind::Continuous => problem.add_column(column.cost, bounds),
                Kind::Integer => problem.add_integer_column(column.cost, bounds),
            }
        })
        .collect();
    for row in &model.rows {
        let terms: Vec<(highs::Col, f64)> = row
            .terms
            .iter()
            .filter_map(|(id, factor)| Some((*ids.get(id.index())?, *factor)))
            .collect();
        problem.add_row(row.lower..=row.upper, terms);
    }
    problem
}

fn set_options(highs: &mut highs::Model, options: &Options) -> Result<(), String> {
    let mut set = Set::new(highs)
        .limit("mip_max_nodes", options.tree_nodes)
        .limit("simplex_iteration_limit", options.iterations)
        .to("time_limit", options.time_limit.as_secs_f64())
        .to("mip_rel_gap", options.gap)
        .to("mip_abs_gap", 0.0);
    if options.heuristics == Heuristics::None {
        set = set.to("mip_heuristic_effort", 0.0);
        for name in [
            "mip_heuristic_run_feasibility_jump",
            "mip_heuristic_run_rins",
            "mip_heuristic_run_rens",
            "mip_heuristic_run_root_reduced_cost",
            "mip_detect_symmetry",
            "mip_allow_restart",
        ] {
            set = set.to(name, false);
        }
    }
    set.done()
}

/// The solution of a model without columns. HiGHS calls it empty, yet its rows may be infeasible.
fn trivial(model: &Model) -> Solution {
    if model.check(&[], TOLERANCE).is_err() {
        return Solution::without_values(Outcome::Infeasible);
    }
    Solution {
        outcome: Outcome::Optimal,
        objective: 0.0,
        bound: 0.0,
        values: Vec::new(),
        stopped_by_clock: false,
    }
}

fn read(model: &Model, options: &Options, solved: &highs::SolvedModel) -> Solution {
    let status = solved.status();
    let limit = match status {
        Status::Optimal => false,
        Status::Infeasible => return Solution::without_values(Outcome::Infeasible),
        Status::Unbounded | Status::UnboundedOrInfeasible => {
            return Solution::without_values(Outcome::Unbounded);
        }
        Status::ReachedTimeLimit
        | Status::ReachedIterationLimit
        | Status::ReachedSolutionLimit
        | Status::ReachedInterrupt
        | Status::ReachedMemoryLimit
        | Status::ObjectiveBound
        | Status::ObjectiveTarget
        | Status::Unknown => true,
        // The remaining statuses are failures, and so is any later one.
        other => return Solution::failed(format!("the solver ended as {other:?}")),
    };
    // 2 is HiGHS' "feasible"; without an incumbent it is 0 or 1.
    let incumbent = solved.int_info_value(c"primal_solution_status") == Ok(2);
    if !incumbent {
        return if limit {
            Solution::without_values(Outcome::NoIncumbent)
        } else {
            Solution::failed("the solver proved an optimum and has no solution")
        };
    }
    let mut values = solved.get_solution().columns().to_vec();
    let rounded = values.iter_mut().zip(&model.columns);
    for (value, _) in rounded.filter(|(_, c)| c.kind == Kind::Integer) {
        if (*value - value.round()).abs() <= TOLERANCE {
            *value = value.round();
        }
    }
    if let Err(violation) = model.check(&values, TOLERANCE) {
        return Solution::failed(format!("the solver's answer breaks the model: {violation}"));
    }
    let objective = model.objective(&values);
    let bound = if model.integers() > 0 {
        solved
            .double_info_value(c"mip_dual_bound")
            .unwrap_or(f64::NAN)
    } else if limit {
        f64::NAN
    } else {
        objective
    };
    let gap = relative_gap(objective, bound);
    let outcome = if !limit || gap <= options.gap {
        Outcome::Optimal
    } else {
        Outcome::Feasible { gap }
    };
    Solution {
        outcome,
        objective,
        bound,
        values,
        stopped_by_clock: false,
    }
}

/// Distance of bound and objective over the objective, as HiGHS defines its gap.
fn relative_gap(objective: f64, bound: f64) -> f64 {
    let distance = (bound - objective).abs();
    if distance == 0.0 {
        0.0
    } else if distance.is_finite() && objective != 0.0 {
        distance / objective.abs()
    } else {
        f64::INFINITY
    }
}
