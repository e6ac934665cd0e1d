//! Limits and answers of a solve by columns.

use std::time::Duration;

use lacuna_model::Outcome;

use super::Column;

/// Limits of a solve. It ends by `rounds`, `max_columns`, `iterations` and `tree_nodes`, so that
/// answers do not depend on the machine.
#[derive(Clone, Copy)]
pub struct Options<'a> {
    /// Relative gap between answer and bound that counts as optimal.
    pub gap: f64,
    /// Stop of the solve by the stopwatch; [`Answer::stopped_by_clock`] reports it.
    pub time_limit: Duration,
    /// Most columns that are generated.
    pub max_columns: usize,
    /// Most rounds of pricing.
    pub rounds: u32,
    /// Most iterations of the simplex method for one relaxation.
    pub iterations: u32,
    /// Most nodes of the solver's tree for the program.
    pub tree_nodes: u32,
    /// Seconds since any fixed moment.
    pub stopwatch: &'a dyn Fn() -> f64,
}

impl<'a> Options<'a> {
    /// The defaults with this stopwatch (seconds since any fixed moment).
    #[must_use]
    pub const fn new(stopwatch: &'a dyn Fn() -> f64) -> Self {
        Self {
            gap: 1e-3,
            time_limit: Duration::from_secs(30),
            max_columns: 20_000,
            rounds: 60,
            iterations: 10_000,
            tree_nodes: 10,
            stopwatch,
        }
    }
}

impl std::fmt::Debug for Options<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options")
            .field("gap", &self.gap)
            .field("time_limit", &self.time_limit)
            .field("max_columns", &self.max_columns)
            .field("rounds", &self.rounds)
            .field("iterations", &self.iterations)
            .field("tree_nodes", &self.tree_nodes)
            .finish_non_exhaustive()
    }
}

/// The method that found the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// Keeping for all: no better answer was found.
    Keep,
    /// The relaxation, rounded and improved trainer by trainer; the solver found no better answer.
    Rounding,
    /// The mixed-integer program.
    Highs,
}

/// The answer of a solve.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// A pattern for each trainer, in their order; together within the capacities.
    pub chosen: Vec<Column>,
    /// Sum of their values, objective units.
    pub objective: f64,
    /// Upper bound on the objective over all priced patterns; infinite before the first pricing. The
    /// answer may exceed it where [`Pricing::fit`](super::Pricing::fit) knows further patterns.
    pub bound: f64,
    /// `Optimal`: within the requested gap of the bound, or above it. `Feasible`: at the given gap
    /// from it. `Failed`: the solver failed, and this is the best answer without it.
    pub outcome: Outcome,
    /// The method that found it.
    pub source: Source,
    /// Columns generated.
    pub columns: usize,
    /// Rounds of pricing.
    pub rounds: u32,
    /// Whether column generation converged: no pattern would raise the optimum of the relaxation by
    /// more than a tenth of the gap.
    pub converged: bool,
    /// Optimum of the relaxation over the generated columns, objective units.
    pub relaxation: f64,
    /// The prices of the bound, objective units per node, by class.
    pub prices: Vec<f64>,
    /// Whether the stopwatch ended the solve.
    pub stopped_by_clock: bool,
}

impl Answer {
    /// The answer of a solve that failed.
    pub(crate) fn failed() -> Self {
        Self {
            chosen: Vec::new(),
            objective: f64::NAN,
            bound: f64::INFINITY,
            outcome: Outcome::Failed,
            source: Source::Keep,
            columns: 0,
            rounds: 0,
            converged: false,
            relaxation: f64::NAN,
            prices: Vec::new(),
            stopped_by_clock: false,
        }
    }

    /// Distance from objective to bound over the objective.
    #[must_use]
    pub fn gap(&self) -> f64 {
        gap(self.objective, self.bound)
    }
}

/// Distance from objective to bound over the objective; 0 where they meet.
pub(crate) fn gap(objective: f64, bound: f64) -> f64 {
    let distance = (bound - objective).max(0.0);
    if distance == 0.0 {
        0.0
    } else if distance.is_finite() && objective != 0.0 {
        distance / objective.abs()
    } else {
        f64::INFINITY
    }
}

/// A fault of a [`Pricing`](super::Pricing) or of a given column.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Error {
    /// A value that is not finite.
    #[error("a pattern of trainer {trainer} has the value {value}")]
    Value {
        /// Trainer of the pattern.
        trainer: usize,
        /// Its value.
        value: f64,
    },
    /// A class that does not exist, comes twice or out of order.
    #[error("a pattern of trainer {trainer} has no sound list of classes")]
    Classes {
        /// Trainer of the pattern.
        trainer: usize,
    },
    /// A pattern of another trainer, or of one that does not exist.
    #[error("a pattern of trainer {found} where one of {trainer} was asked for")]
    Trainer {
        /// Trainer that was asked for.
        trainer: usize,
        /// Trainer of the pattern that came.
        found: u32,
    },
    /// Keeping takes or gives back nodes.
    #[error("keeping changes the nodes of trainer {trainer}")]
    Keep {
        /// Trainer of the pattern.
        trainer: usize,
    },
}
