//! Solutions of a model.

/// How a solve ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// Proven optimal within the requested gap.
    Optimal,
    /// A limit was reached first. The best answer is at most this gap from the optimum, relative to
    /// its objective (infinite without a bound).
    Feasible {
        /// Relative gap.
        gap: f64,
    },
    /// A limit was reached before any answer was found.
    NoIncumbent,
    /// The model has no answer.
    Infeasible,
    /// The objective has no limit: the model is wrong.
    Unbounded,
    /// The solver failed, or its answer breaks the model.
    Failed {
        /// The reason.
        reason: String,
    },
}

/// An answer to a model, if there is one.
#[derive(Debug, Clone, PartialEq)]
pub struct Solution {
    /// How the solve ended. Only `Optimal` and `Feasible` come with values.
    pub outcome: Outcome,
    /// Objective of `values`; not a number without values.
    pub objective: f64,
    /// Proven bound on the objective (not a number, or infinite, without one).
    pub bound: f64,
    /// A value for each column, integers rounded; empty without an answer.
    pub values: Vec<f64>,
    /// Whether the emergency stop ended the solve, so that another solve may have another answer.
    pub stopped_by_clock: bool,
}

impl Solution {
    /// A solution without values.
    pub(crate) const fn without_values(outcome: Outcome) -> Self {
        Self {
            outcome,
            objective: f64::NAN,
            bound: f64::NAN,
            values: Vec::new(),
            stopped_by_clock: false,
        }
    }

    pub(crate) fn failed(reason: impl Into<String>) -> Self {
        Self::without_values(Outcome::Failed {
            reason: reason.into(),
        })
    }

    /// Whether there is an answer, proven optimal or not.
    #[must_use]
    pub const fn has_values(&self) -> bool {
        matches!(self.outcome, Outcome::Optimal | Outcome::Feasible { .. })
    }
}
