//! Errors of a replay, in words of the command.

use lacuna_sim::SimError;

use crate::error::CliError;
use crate::log::unreadable;

/// The error of a replay.
pub(super) fn failed(error: SimError) -> CliError {
    match error {
        SimError::Log(error) => unreadable(error),
        error @ SimError::Setting { what: "beside", .. } => CliError::failed(error.to_string())
            .remedy("leave out --beside, or give --trainers without kinds and no --kinds"),
        error => CliError::failed(error.to_string()),
    }
}
