//! What came of a solve.

/// How a solve ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// Proven optimal within the gap that was asked for.
    Optimal,
    /// A limit was reached first; the best answer found is there, and at most this far from
    /// the optimum, relative to its objective (infinite if nothing is known).
    Feasible {
        /// Relative gap.
        gap: f64,
    },
    /// A limit was reached before any answer was found.
    NoIncumbent,
    /// There is no answer.
    Infeasible,
    /// The objective has no limit: the model is wrong.
    Unbounded,
    /// The solver failed, or its answer breaks the model.
    Failed {
        /// In words.
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
    /// Proven bound on the objective (infinite if nothing is known).
    pub bound: f64,
    /// A value for each column, whole ones rounded; empty without an answer.
    pub values: Vec<f64>,
    /// Whether the emergency stop ended it: the same model may have another answer the next time.
    pub stopped_by_clock: bool,
}

impl Solution {
    /// An end without values.
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
