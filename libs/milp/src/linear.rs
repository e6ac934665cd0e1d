//! A linear program that grows column by column and keeps its basis between solves.
//!
//! Column generation solves the same rows again and again with a few more columns. HiGHS keeps the
//! basis of the last solve when a column is added, so the next solve starts from it. The facts of
//! the mixed-integer back end hold here too: one instance in the process at a time, bound to its
//! thread, and a binding that panics.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use highs::{ColProblem, HighsModelStatus as Status};

use crate::instance::{Alone, is_open_here};
use crate::options::Set;
use crate::{Outcome, Sense};

/// A linear program over fixed rows, to which columns are added between solves. While it lives,
/// other threads of the process wait with their solves, and solves of its own thread fail at once.
#[derive(Debug)]
pub struct Linear {
    /// Nothing after a failure, since the state of the solver is unreliable then.
    state: Option<State>,
    columns: usize,
    /// Nothing if another program of the same thread was already open.
    _alone: Option<Alone>,
}

#[derive(Debug)]
struct State {
    highs: highs::Model,
    rows: Vec<highs::Row>,
}

/// An answer to a [`Linear`].
#[derive(Debug, Clone, PartialEq)]
pub struct Vertex {
    /// How the solve ended. `Optimal` fills all fields, any other outcome none.
    pub outcome: Outcome,
    /// Objective of `values`; not a number without values.
    pub objective: f64,
    /// A value for each column, in the order in which they were added.
    pub values: Vec<f64>,
    /// For each row the rise of the objective per unit of its bound: at least 0 for an upper bound
    /// when maximising.
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
    /// A program with these rows (`lower..=upper`, infinite bounds allowed) and no columns. It
    /// first waits for another solve of this process to end.
    #[must_use]
    pub fn new(sense: Sense, rows: &[(f64, f64)]) -> Self {
        if is_open_here() {
            return Self {
                state: None,
                columns: 0,
                _alone: None,
            };
        }
        let alone = Alone::open();
        let state = catch_unwind(|| {
            let mut problem = ColProblem::new();
            let rows = rows
                .iter()
                .map(|&(lower, upper)| problem.add_row(lower..=upper))
                .collect();
            let mut highs = problem.try_optimise(direction(sense)).ok()?;
            // The rows are few and a basis is known: presolve would cost more than it saves.
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

    /// Adds a column from 0 upwards with its objective coefficient and its coefficients by place of
    /// the row. False if the solver refused it: a number that is not finite, an unknown row or a
    /// row that comes twice. A refused column leaves the program unchanged.
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

    /// Number of columns.
    #[must_use]
    pub const fn columns(&self) -> usize {
        self.columns
    }

    /// Solves it from the last basis, in at most `iterations` iterations of the simplex method.
    /// `time_limit` is the emergency stop. Without the optimum there are no values, and a further
    /// solve continues from the same basis. It never panics; after a failure every further solve
    /// fails.
    #[must_use]
    pub fn solve(&mut self, iterations: u32, time_limit: Duration) -> Vertex {
        let Some(State { mut highs, rows }) = self.state.take() else {
            return Vertex::failed("the solver failed before, or another program is open");
        };
        let columns = self.columns;
        let solved = catch_unwind(AssertUnwindSafe(|| {
            // The clock and the count of HiGHS begin at zero with each solve.
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
