//! Objectives: the value of each size of each trainer, which the planner maximises.
//!
//! Work is always counted in samples. An objective only sets the value of a size relative to the
//! sizes of others. With `P_j(n)` samples/s on n nodes, `S_j(n) = P_j(n) / P_j(1)` the speed-up
//! over one node (scaling efficiency in BFTrainer, arXiv 2106.12091) and `w_j` the weight of
//! trainer j, `O_j(n)` is
//!
//! | objective | `O_j(n)` |
//! |---|---|
//! | [`Objective::AsGiven`] | the trainer's own table, else `P_j(n)` |
//! | [`Objective::Throughput`] | `P_j(n)` |
//! | [`Objective::ScalingEfficiency`] | `S_j(n)` |
//! | [`Objective::Goodput`] | `w_j P_j(n) / P_j(n1)`, `n1` its least size |
//! | [`Objective::Weighted`] | `w_j S_j(n)` |
//! | [`Objective::Deadline`] | `u_j w_j S_j(n)`, see [`urgency`] |
//! | [`Objective::LeastAttained`] | `f_j w_j S_j(n)`, see [`Service`] |
//! | [`Objective::Fair`] | as given, within shares of nodes that [`crate::fair`] makes over owners |
//! | [`Objective::Expression`] | whatever is written, see [`Expression`] |
//!
//! Goodput is learning per second (Pollux, OSDI 2021), and may dip. `P_j` is then the record's
//! [`Goodput`](lacuna_model::Goodput), which control finds by `lacuna-goodput`; without one the
//! rates are taken for it, which they are where samples count as those of the owner's batch. Over
//! the least size, and not over one node, a trainer that needs several counts as much as another
//! there.
//!
//! The weight is [`effective_weight`](lacuna_model::TrainerSpec::effective_weight). Multiplying all
//! weights by one factor changes nothing.
//!
//! `Deadline`, `LeastAttained` and expressions can depend on a trainer's progress. [`ValueTable`]
//! keeps the constant part, and tells when its table changes.
//!
//! Service is `model::Attained`, kept by control in each trainer's record and by the replay for
//! each owner. The input of a plan has the owner's service. Tables that depend on a trainer's
//! progress change in steps of 1 %, so most solves reuse the previous table.
//!
//! **One more objective** needs:
//!
//! | file | what the objective needs there |
//! |---|---|
//! | `objective.rs` | the variant, its row above, its place in `NAMES` |
//! | `objective/value_table.rs` | its table in `ValueTable::of`, for which the compiler asks, and a `Rule` if it changes with a [`State`]. Values are finite and not negative, with no samples left too. A trainer that ends by itself has no samples left: refuse it ([`ObjectiveError::NoWork`]) or fall back |
//! | `libs/model/src/planning.rs`, `services/cli/src/replay/args.rs`, `services/planner/src/shell.rs` | its name in the doc comment, the help, the error |
//! | `deploy/lacuna.toml`, `deploy/replay.md`, `CHANGELOG.md` | its words for people |
//!
//! Tests: `objective/tests.rs`, `tests/all/objectives.rs` (plans), the list in `tests/all/together.rs`
//! (loaders), `libs/sim/tests/all/objectives.rs` (a replay). One that needs more than [`State`] of a
//! trainer also touches `plan/roster.rs` and `libs/sim/src/world/membership.rs`.

mod expression;
mod named;
mod program;
mod service;
#[cfg(test)]
mod tests;
mod urgency;
mod value_table;

use std::fmt;
use std::str::FromStr;

use lacuna_model::TrainerId;
use serde::{Deserialize, Serialize};

pub use expression::Expression;
pub use named::NamedExpressions;
pub use service::{SERVICE_UNIT_S, Service};
pub use urgency::{LOST, MOST_URGENT, urgency};
pub use value_table::{State, ValueTable};

/// The objective, which is maximised. Its text is its name, or the expression itself.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Objective {
    /// The own objective of each trainer, across owners.
    AsGiven,
    /// Samples per second.
    Throughput,
    /// Speed-up over one node.
    ScalingEfficiency,
    /// Learning per second over that at the least size, times the trainer's weight.
    Goodput,
    /// Speed-up over one node, times the trainer's weight.
    Weighted,
    /// As weighted, times how urgent the trainer's deadline is.
    Deadline,
    /// As weighted, times how little its owner has got so far.
    LeastAttained,
    /// The own objective of each trainer, within its owner's max-min share of the nodes.
    #[default]
    Fair,
    /// An expression of the size.
    Expression(Expression),
}

/// An error of an objective.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ObjectiveError {
    /// The expression cannot be read.
    #[error("objective {text:?}, character {at}: {what}")]
    Syntax {
        /// The expression.
        text: String,
        /// The character, from 1.
        at: usize,
        /// The fault, and the expected text.
        what: String,
    },
    /// The expression gives an invalid value.
    #[error("objective of trainer {trainer} at {nodes} nodes is {value}: expected {expected}")]
    Value {
        /// The trainer.
        trainer: TrainerId,
        /// The number of nodes.
        nodes: u32,
        /// The value.
        value: f64,
        /// The accepted values.
        expected: &'static str,
    },
    /// The expression asks for the work left of a trainer that has no amount of work.
    #[error(
        "objective of trainer {trainer} names samples_left, but the trainer ends by itself: \
         expected an amount of work"
    )]
    NoWork {
        /// The trainer.
        trainer: TrainerId,
    },
    /// A file of expressions cannot be read.
    #[error("line {line}: {what}")]
    Line {
        /// The line, from 1.
        line: usize,
        /// The fault, and the expected text.
        what: String,
    },
}

/// Objectives that have a name.
const NAMES: [(&str, Objective); 8] = [
    ("as-given", Objective::AsGiven),
    ("throughput", Objective::Throughput),
    ("scaling-efficiency", Objective::ScalingEfficiency),
    ("goodput", Objective::Goodput),
    ("weighted", Objective::Weighted),
    ("deadline", Objective::Deadline),
    ("least-attained", Objective::LeastAttained),
    ("fair", Objective::Fair),
];

impl FromStr for Objective {
    type Err = ObjectiveError;

    /// A name, or an expression.
    fn from_str(text: &str) -> Result<Self, ObjectiveError> {
        let named = NAMES.into_iter().find(|(name, _)| *name == text.trim());
        named.map_or_else(
            || Ok(Self::Expression(text.parse()?)),
            |(_, objective)| Ok(objective),
        )
    }
}

impl fmt::Display for Objective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Self::Expression(expression) = self {
            return f.write_str(expression.text());
        }
        let named = NAMES.iter().find(|(_, objective)| objective == self);
        f.write_str(named.map_or("", |(name, _)| name))
    }
}

impl From<Objective> for String {
    fn from(objective: Objective) -> Self {
        objective.to_string()
    }
}

impl TryFrom<String> for Objective {
    type Error = ObjectiveError;

    fn try_from(text: String) -> Result<Self, ObjectiveError> {
        text.parse()
    }
}
