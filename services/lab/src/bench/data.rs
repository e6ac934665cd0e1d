//! The folder of recorded data.

use std::path::PathBuf;

/// A file in the folder of recorded data: `LACUNA_DATA`, else `../shared/data` relative to the
/// working directory. None if there is no such file.
#[must_use]
pub(crate) fn file(name: &str) -> Option<PathBuf> {
    let folder = std::env::var_os("LACUNA_DATA")
        .map_or_else(|| PathBuf::from("../shared/data"), PathBuf::from);
    Some(folder.join(name)).filter(|path| path.is_file())
}
