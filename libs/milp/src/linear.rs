//! A linear programme that grows column by column and keeps its basis between solves.
//!
//! Column generation solves the same rows again and again with a few columns more. HiGHS keeps
//! the basis of the last solve when a column is added, so the next solve starts where the last
//! ended. Facts that shape this file are those of the mixed-integer back end: one instance in
//! the process at a time, bound to its thread, and a binding that panics.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;

use highs::{ColProblem, HighsModelStatus as Status};

use crate::highs_backend::{ONE_INSTANCE, Set};
use crate::{Outcome, Sense};

thread_local! {
    /// Whether a programme of this thread is open.
    static OPEN: Cell<bool> = const { Cell::new(false) };
}

/// Whether a programme of this thread is open: to wait for the instance would be for ever.
pub(crate) fn is_open_here() -> bool {
    OPEN.get()
}

/// A linear programme over fixed rows, to which columns are added between solves. While it
/// lives no other solve of this process goes on: those of other threads wait, those of its own
/// thread fail at once.
#[derive(Debug)]
pub struct Linear {
    /// Nothing after a failure: what the solver holds then is not to be trusted.
    state: Option<State>,
    columns: usize,
    /// Nothing if a programme of the same thread was open already.
    _alone: Option<Alone>,
}

/// The right to the one instance, for as long as a programme is open.
#[derive(Debug)]
struct Alone {
    _guard: MutexGuard<'static, ()>,
}

impl Drop for Alone {
    fn drop(&mut self) {
        OPEN.set(false);
    }
}

#[derive(Debug)]
struct State {
    highs: highs::Model,
    rows: Vec<highs::Row>,
}

/// An answer to a [`Linear`].
#[derive(Debug, Clone, PartialEq)]
pub struct Vertex {
    /// How the solve ended: `Optimal` comes with all fields filled, anything else with none.
    pub outcome: Outcome,
    /// Objective of `values`; not a number without values.
    pub objective: f64,
    /// A value for each column, in the order in which they were added.
    pub values: Vec<f64>,
    /// For each row how much the objective rises for each unit by which its bound does: at
    /// least 0 for an upper bound when maximising.
    pub duals: Vec<f64>,
    /// Iterations of the simplex method in this solve.
    pub iterations: u64,
    /// Whether the emergency stop ended it.
    pub stopped_by_clock: bool,
}

impl Vertex {
    fn without_values(outcome: Outcome) -> Self {
        Self {
            outcome,
            objective: f64::NAN,
            values: Vec::new(),
            duals: Vec::new(),
            iterations: 0,
            stopped_by_clock: false,
        }
    }

    fn failed(reason: impl Into<String>) -> Self {
        Self::without_values(Outcome::Failed {
            reason: reason.into(),
        })
    }
}

impl Linear {
    /// A programme with these rows (`lower..=upper`, infinite bounds allowed) and no columns.
    /// Waits for another solve of this process to end first.
    #[must_use]
    pub fn new(sense: Sense, rows: &[(f64, f64)]) -> Self {
        if is_open_here() {
            return Self {
                state: None,
                columns: 0,
                _alone: None,
            };
        }
        let alone = Alone {
            _guard: ONE_INSTANCE.lock().unwrap_or_else(PoisonError::into_inner),
        };
        OPEN.set(true);
        let state = catch_unwind(|| {
            let mut problem = ColProblem::new();
            let rows = rows
                .iter()
                .map(|&(lower, upper)| problem.add_row(lower..=upper))
                .collect();
            let mut highs = problem.try_optimise(direction(sense)).ok()?;
            // The rows are few and a basis is at hand: presolve would cost more than it saves.
            let set = Set::new(&mut highs).to("presolve", "off");
            set.to("solver", "simplex").done().ok()?;
            Some(State { highs, rows })
        });
        Self {
            state: state.ok().flatten(),
            columns: 0,
            _alone: Some(alone),
        }
    }

    /// Adds a column from 0 upwards with its objective coefficient and what it takes of each
    /// row, by the place of the row. False if the solver refused it, as it does what is not
    /// finite, a row that does not exist or one that comes twice; then the programme stays as
    /// it was.
    pub fn add(&mut self, cost: f64, terms: &[(u32, f64)]) -> bool {
        let Some(state) = &mut self.state else {
            return false;
        };
        let factors: Option<Vec<(highs::Row, f64)>> = terms
            .iter()
            .map(|&(row, factor)| {
                let row = *state.rows.get(row as usize)?;
                factor.is_finite().then_some((row, factor))
            })
            .collect();
        let Some(factors) = factors.filter(|_| cost.is_finite()) else {
            return false;
        };
        let highs = &mut state.highs;
        match catch_unwind(AssertUnwindSafe(|| {
            highs.try_add_column(cost, 0.0..=f64::INFINITY, factors)
        })) {
            Ok(Ok(_)) => {
                self.columns += 1;
                true
            }
            Ok(Err(_)) => false,
            Err(_) => {
                self.state = None;
                false
            }
        }
    }

    /// How many columns there are.
    #[must_use]
    pub const fn columns(&self) -> usize {
        self.columns
    }

    /// Solves it, from the last basis if there is one, in so many iterations of the simplex method
    /// at most; `time_limit` is the emergency stop. Without the optimum there are no values, and a
    /// further solve goes on from there. Never panics; after a failure every further solve fails.
    #[must_use]
    pub fn solve(&mut self, iterations: u32, time_limit: Duration) -> Vertex {
        let Some(State { mut highs, rows }) = self.state.take() else {
            return Vertex::failed("the solver failed before, or another programme is open");
        };
        let columns = self.columns;
        let solved = catch_unwind(AssertUnwindSafe(|| {
            // HiGHS begins each solve at its clock's zero, and at its count's.
            Set::new(&mut highs)
                .limit("simplex_iteration_limit", iterations)
                .to("time_limit", time_limit.as_secs_f64())
                .done()?;
            let solved = highs
                .try_solve()
                .map_err(|status| format!("the solver ended with status {status:?}"))?;
            let vertex = read(&solved, columns);
            Ok::<_, String>((highs::Model::from(solved), vertex))
        }));
        match solved {
            Ok(Ok((highs, vertex))) => {
                self.state = Some(State { highs, rows });
                vertex
            }
            Ok(Err(reason)) => Vertex::failed(reason),
            Err(_) => Vertex::failed("the solver's binding panicked"),
        }
    }
}

const fn direction(sense: Sense) -> highs::Sense {
    match sense {
        Sense::Maximise => highs::Sense::Maximise,
        Sense::Minimise => highs::Sense::Minimise,
    }
}

fn read(solved: &highs::SolvedModel, columns: usize) -> Vertex {
    match solved.status() {
        Status::Optimal => {}
        Status::Infeasible => return Vertex::without_values(Outcome::Infeasible),
        Status::Unbounded | Status::UnboundedOrInfeasible => {
            return Vertex::without_values(Outcome::Unbounded);
        }
        limit @ (Status::ReachedTimeLimit | Status::ReachedIterationLimit) => {
            return Vertex {
                stopped_by_clock: limit == Status::ReachedTimeLimit,
                ..Vertex::without_values(Outcome::NoIncumbent)
            };
        }
        other => return Vertex::failed(format!("the solver ended as {other:?}")),
    }
    let solution = solved.get_solution();
    let sound = |values: &[f64]| values.iter().all(|value| value.is_finite());
    if solution.columns().len() != columns
        || !sound(solution.columns())
        || !sound(solution.dual_rows())
    {
        return Vertex::failed("the solver's answer is not finite");
    }
    Vertex {
        outcome: Outcome::Optimal,
        objective: solved.objective_value(),
        values: solution.columns().to_vec(),
        duals: solution.dual_rows().to_vec(),
        iterations: u64::try_from(solved.simplex_iteration_count()).unwrap_or(0),
        stopped_by_clock: false,
    }
}
