//! Where recordings lie, if there are any.

use std::path::PathBuf;

/// A file of the recordings' folder: `LACUNA_DATA`, else `../shared/data` as seen from the
/// working directory. Nothing if there is no such file.
#[must_use]
pub(crate) fn file(name: &str) -> Option<PathBuf> {
    let folder = std::env::var_os("LACUNA_DATA")
        .map_or_else(|| PathBuf::from("../shared/data"), PathBuf::from);
    Some(folder.join(name)).filter(|path| path.is_file())
}
