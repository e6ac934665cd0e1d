//! What Prometheus reads of the helper.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::Path;

use crate::book::Book;
use crate::config::Config;

/// Writes the file in one step, so that Prometheus never reads half of it.
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
    fs::write(&beside, text)?;
    fs::rename(beside, path)
}
