//! A row of a study: its command, and what that printed.

use serde_json::Value;

use lacuna_cli::error::{CliError, Result};

/// One row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Its name.
    pub label: String,
    /// Its command: the arguments of `lacuna`, without `--json` and `--seed`.
    pub command: Vec<String>,
    /// Whether its command takes a seed.
    pub seeded: bool,
}

/// The result of a row.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// The output of its command for each seed.
    Done(Vec<Value>),
    /// The reason of a failure.
    Failed(String),
}

/// A row with its result.
#[derive(Debug, Clone, PartialEq)]
pub struct Done {
    /// The row.
    pub row: Row,
    /// Its result.
    pub outcome: Outcome,
}

impl Done {
    /// The outputs of all seeds; none of a row that failed.
    #[must_use]
    pub fn outputs(&self) -> &[Value] {
        match &self.outcome {
            Outcome::Done(outputs) => outputs,
            Outcome::Failed(_) => &[],
        }
    }

    /// The output of the first seed.
    ///
    /// # Errors
    /// The row failed.
    pub fn output(&self) -> Result<&Value> {
        self.outputs().first().ok_or_else(|| {
            let why = self.failure().unwrap_or("it printed nothing");
            CliError::failed(format!("{}: {why}", self.row.label))
        })
    }

    /// The reason of a failure, if there is one.
    #[must_use]
    pub fn failure(&self) -> Option<&str> {
        match &self.outcome {
            Outcome::Done(_) => None,
            Outcome::Failed(why) => Some(why),
        }
    }
}
