//! The folder of recorded data, and errors of its files.

use std::path::PathBuf;

use lacuna_cli::error::{CliError, Exit};
use lacuna_trace::ReadError;

/// A file in the folder of recorded data: `LACUNA_DATA`, else `../shared/data` relative to the
/// working directory. None if there is no such file.
#[must_use]
pub(crate) fn file(name: &str) -> Option<PathBuf> {
    let folder = std::env::var_os("LACUNA_DATA")
        .map_or_else(|| PathBuf::from("../shared/data"), PathBuf::from);
    Some(folder.join(name)).filter(|path| path.is_file())
}

/// The error of a file that cannot be read, `L0011`.
pub(crate) fn unreadable(error: ReadError) -> CliError {
    CliError::new("L0011", Exit::Failed, error.to_string())
}
