//! The commands that query and control a cluster. Each prints a table or one JSON value.

pub(crate) mod audit;
pub(crate) mod check;
pub(crate) mod complete;
pub(crate) mod config;
pub(crate) mod controls;
pub(crate) mod events;
pub(crate) mod explain;
pub(crate) mod forecast;
pub(crate) mod help;
pub(crate) mod holes;
pub(crate) mod keys;
pub(crate) mod logs;
pub(crate) mod nodes;
pub(crate) mod observe;
pub(crate) mod place;
pub(crate) mod plan;
pub(crate) mod recommend;
pub(crate) mod renew;
pub(crate) mod report;
pub(crate) mod selector;
pub(crate) mod signing;
pub(crate) mod stalls;
pub(crate) mod submit;
pub(crate) mod ticket;
pub(crate) mod top;
pub(crate) mod topology;
pub(crate) mod trainers;
pub(crate) mod wait;

/// The form of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// Aligned columns, for people.
    Table,
    /// Cells separated by `|`, for programs.
    Parsable,
}

/// The switches of commands that print tables.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    json: crate::output::JsonArg,
    /// Separate cells by | instead of aligning them
    #[arg(long, conflicts_with = "json")]
    parsable: bool,
}

impl ListArgs {
    /// Whether the result is one JSON value.
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
