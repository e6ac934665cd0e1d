//! The commands that look and ask; each prints a table or one JSON value.

pub(crate) mod config;
pub(crate) mod events;
pub(crate) mod explain;
pub(crate) mod generate;
pub(crate) mod help;
pub(crate) mod nodes;
pub(crate) mod plan;
pub(crate) mod solve;
pub(crate) mod submit;
pub(crate) mod top;
pub(crate) mod trainers;

use crate::error::CliError;

/// The form of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// For people.
    Table,
    /// For programs: `|` between cells.
    Parsable,
}

/// The table switches of commands that list things.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    json: crate::output::JsonArg,
    /// Separate cells by | instead of aligning them
    #[arg(long, conflicts_with = "json")]
    parsable: bool,
}

impl ListArgs {
    /// Whether one JSON value is wanted.
    #[must_use]
    pub(crate) fn json(self) -> bool {
        self.json.json
    }

    /// The form of the table.
    #[must_use]
    pub(crate) fn style(self) -> Style {
        if self.parsable {
            Style::Parsable
        } else {
            Style::Table
        }
    }
}

/// An error of the replay, which knows nothing of this command's codes.
#[must_use]
pub(crate) fn from_replay(error: Box<dyn std::error::Error + Send + Sync>) -> CliError {
    let mut message = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let text = cause.to_string();
        if !message.contains(&text) {
            message = format!("{message}: {text}");
        }
        source = cause.source();
    }
    CliError::failed(message)
}
