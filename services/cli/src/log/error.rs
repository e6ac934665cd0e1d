//! Errors of the log reader as errors of the command line.

use lacuna_trace::ReadError;

use crate::error::{CliError, Exit};

/// The error of a log that cannot be read. Its text names the file, the line and the expectation.
/// A log of unknown format has code `L0018`; other errors have none.
#[must_use]
pub fn unreadable(error: ReadError) -> CliError {
    let message = error.to_string();
    match error {
        ReadError::UnknownFormat { .. } => CliError::new("L0018", Exit::Failed, message),
        _ => CliError::failed(message),
    }
}
