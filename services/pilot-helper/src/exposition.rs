//! What Prometheus reads of the helper.

use std::fmt::Write;
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use crate::book::Book;
use crate::config::Config;

/// Writes the file in one step, so that Prometheus never reads half of it. The helper is root, and others
/// may write in such folders: the file beside it is always a new one, so no link there is followed.
///
/// # Errors
/// If the file cannot be written.
pub(crate) fn write(path: &Path, book: &Book, config: &Config) -> io::Result<()> {
    let mut text = String::new();
    let name = "lacuna_pilot_helper_refused_total";
    let _ = writeln!(text, "# TYPE {name} counter");
    for (cause, count) in book.refusals() {
        let _ = writeln!(text, "{name}{{cause=\"{cause}\"}} {count}");
    }
    let name = "lacuna_pilot_helper_key_end_timestamp_seconds";
    let _ = writeln!(text, "# TYPE {name} gauge");
    for (owner, end) in config.keys.ends() {
        let labels = format!("cluster=\"{}\",owner=\"{owner}\"", config.cluster);
        let _ = writeln!(text, "{name}{{{labels}}} {}", end.unix_seconds());
    }
    let beside = path.with_extension("new");
    match fs::remove_file(&beside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = fs::OpenOptions::new();
    let new = options.write(true).create_new(true).mode(0o644);
    new.open(&beside)?.write_all(text.as_bytes())?;
    fs::rename(beside, path)
}
