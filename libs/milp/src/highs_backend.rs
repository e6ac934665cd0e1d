//! HiGHS behind the neutral model.
//!
//! Facts that shape this file: an instance is bound to its thread, and destroying one resets
//! a scheduler that all instances share (HiGHS pull request 3141), so a process has at most
//! one instance at a time. HiGHS stops at a relative gap of 1e-4 unless told otherwise, and
//! takes half of the machine's threads. The binding panics on statuses that it does not know.
//! Limits on iterations hold for linear programs; those within a tree take what they take.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};

use highs::{HighsModelStatus as Status, RowProblem};

use crate::linear::is_open_here;
use crate::{Heuristics, Kind, Model, Options, Outcome, Sense, Solution};

/// One instance at a time in the whole process.
pub(crate) static ONE_INSTANCE: Mutex<()> = Mutex::new(());

/// How far an answer may break a bound before it is refused, relative to the larger of 1 and
/// the bound (HiGHS itself works to 1e-6).
const TOLERANCE: f64 = 1e-5;

/// Solves a model. Ends by the work that it may do, or by the time limit (plus a little) in an
/// emergency, and waits for another solve of this process to end first. Never panics, and never
/// throws an answer away that was found before a limit was reached. Fails while a
/// [`crate::Linear`] of this thread is open.
#[must_use]
pub fn solve(model: &Model, options: &Options) -> Solution {
    if is_open_here() {
        return Solution::failed("a linear programme of this thread is open");
    }
    let _alone = ONE_INSTANCE.lock().unwrap_or_else(PoisonError::into_inner);
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
        // A start that does not fit costs time only.
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

/// Options of one solve. A value that HiGHS refuses fails the solve by the option's name: a bound
/// that does not hold is none.
pub(crate) struct Set<'a> {
    highs: &'a mut highs::Model,
    refused: Option<&'static str>,
}

impl<'a> Set<'a> {
    /// What all solves have: silence, one thread and one seed. So the same model has the same
    /// answer, whatever else the machine does.
    pub(crate) fn new(highs: &'a mut highs::Model) -> Self {
        let set = Self {
            highs,
            refused: None,
        };
        set.to("output_flag", false)
            .to("threads", 1_i32)
            .to("parallel", "off")
            .to("random_seed", 0_i32)
    }

    pub(crate) fn to(mut self, name: &'static str, value: impl highs::HighsOptionValue) -> Self {
        if self.highs.try_set_option(name, value).is_err() {
            self.refused.get_or_insert(name);
        }
        self
    }

    /// A limit on a count; HiGHS takes its largest number for none.
    pub(crate) fn limit(self, name: &'static str, most: u32) -> Self {
        self.to(name, i32::try_from(most).unwrap_or(i32::MAX))
    }

    /// Names the first option that was refused.
    pub(crate) fn done(self) -> Result<(), String> {
        let refused = |name: &str| format!("the solver refused the option {name}");
        self.refused.map_or(Ok(()), |name| Err(refused(name)))
    }
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

/// A model without columns: HiGHS calls it empty, and its rows may still not hold.
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
        // The statuses that remain are failures, and so is any that is added later.
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
