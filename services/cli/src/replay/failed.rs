//! Errors of a replay, in words of the command.

use lacuna_sim::SimError;

use crate::error::CliError;
use crate::log::unreadable;

/// The error of a replay.
pub(super) fn failed(error: SimError) -> CliError {
    match error {
        SimError::Log(error) => unreadable(error),
        error => CliError::failed(error.to_string()),
    }
}
