//! How a solve over patterns is bounded, and what comes of it.

use std::time::Duration;

use lacuna_model::Outcome;

use crate::patterns::Column;

/// How a solve is bounded. It ends by `rounds`, `max_columns`, `iterations` and `tree_nodes`, so
/// that answers do not depend on the machine.
#[derive(Clone, Copy)]
pub struct Options<'a> {
    /// Relative gap between answer and bound that counts as optimal.
    pub gap: f64,
    /// Emergency stop of the whole solve by the stopwatch; [`Answer::stopped_by_clock`] tells of it.
    pub time_limit: Duration,
    /// Most columns that are generated.
    pub max_columns: usize,
    /// Most rounds of pricing.
    pub rounds: u32,
    /// Most iterations of the simplex method for one relaxation.
    pub iterations: u32,
    /// Most nodes of the solver's tree for the programme.
    pub tree_nodes: u32,
    /// Most classes of free nodes. Fewer are faster; where more than like nodes have to share
    /// one, values are too low and the bound is none, as [`Answer::lost_s`] says.
    pub classes: usize,
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
            classes: 64,
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
            .field("classes", &self.classes)
            .finish_non_exhaustive()
    }
}

/// Who found the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// Keeping for all: nothing better was found.
    Keep,
    /// The columns that the caller began with.
    Warm,
    /// Rounded from the relaxation and improved trainer by trainer; the solver found none
    /// better.
    Rounding,
    /// The mixed-integer programme.
    Highs,
}

impl Source {
    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Keep => "keep",
            Self::Warm => "segments",
            Self::Rounding => "rounding",
            Self::Highs => "highs",
        }
    }
}

/// Where the time went, by the stopwatch.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Seconds {
    /// Pricing patterns.
    pub pricing: f64,
    /// Solving relaxations.
    pub relaxation: f64,
    /// Rounding and improving.
    pub rounding: f64,
    /// Solving the mixed-integer programme.
    pub programme: f64,
    /// All of it.
    pub total: f64,
}

/// What came of a solve.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// A pattern for each trainer, in their order; together within the capacities.
    pub chosen: Vec<Column>,
    /// Sum of their values, objective units.
    pub objective: f64,
    /// No choice over all patterns that are priced is worth more; infinite if pricing is not
    /// exact. The answer may be, where [`Patterns::fit`](crate::patterns::Patterns::fit) knows
    /// patterns beyond those.
    pub bound: f64,
    /// `Optimal`: within the gap that was asked for of the bound, or above it. `Feasible`: as far from it as
    /// said. `Failed`: the solver failed, and this is the best that was found without it.
    pub outcome: Outcome,
    /// Who found it.
    pub source: Source,
    /// Columns generated.
    pub columns: usize,
    /// Rounds of pricing.
    pub rounds: u32,
    /// Whether the generation of columns came to its end: no pattern would raise the optimum
    /// of the relaxation by more than a tenth of the gap.
    pub converged: bool,
    /// Optimum of the relaxation over the columns at hand, objective units.
    pub relaxation: f64,
    /// The prices at which the bound was found, objective units a node, by class.
    pub prices: Vec<f64>,
    /// Seconds by which nodes outlive the first of their class, mean over free nodes and
    /// scenarios: what classes lose. 0 if only like nodes share one; then values are exact.
    pub lost_s: f64,
    /// Whether the emergency stop came before the work was done.
    pub stopped_by_clock: bool,
    /// Where the time went.
    pub seconds: Seconds,
}

impl Answer {
    /// Nothing was found, and nothing is known.
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
            lost_s: 0.0,
            stopped_by_clock: false,
            seconds: Seconds::default(),
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

/// Patterns that make no sense: whoever gives them is wrong.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Error {
    /// A value that is not a number, or infinite.
    #[error("a pattern of trainer {trainer} has the value {value}")]
    Value {
        /// Whose.
        trainer: usize,
        /// Its value.
        value: f64,
    },
    /// A class that does not exist, comes twice or out of order.
    #[error("a pattern of trainer {trainer} has no sound list of classes")]
    Classes {
        /// Whose.
        trainer: usize,
    },
    /// A pattern of another trainer, or of one that does not exist.
    #[error("a pattern of trainer {found} where one of {trainer} was asked for")]
    Trainer {
        /// Whose was asked for.
        trainer: usize,
        /// Whose came.
        found: u32,
    },
    /// Keeping takes or gives back nodes.
    #[error("keeping changes the nodes of trainer {trainer}")]
    Keep {
        /// Whose.
        trainer: usize,
    },
}
