//! The log file of a child, and the part of it that belongs to this run.

use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::PathBuf;

use crate::error::{Result, file_error};

/// The log of one child. Text of earlier runs is ignored.
#[derive(Debug, Clone)]
pub(crate) struct Log {
    /// The path of the file.
    pub(crate) path: PathBuf,
    /// Its length in bytes at the start of this run.
    from: u64,
}

impl Log {
    /// Opens a log for a new run. A log larger than 16 MiB is renamed first.
    ///
    /// # Errors
    /// The directory cannot be written.
    pub(crate) fn begin(path: PathBuf) -> Result<Self> {
        const LIMIT: u64 = 16 << 20;
        let mut from = std::fs::metadata(&path).map_or(0, |meta| meta.len());
        if from > LIMIT {
            std::fs::rename(&path, path.with_extension("log.old"))
                .map_err(|e| file_error("rename", &path, &e))?;
            from = 0;
        }
        Ok(Self { path, from })
    }

    fn text(&self) -> String {
        let mut bytes = Vec::new();
        // Without a log there is no text to quote.
        let _ = std::fs::File::open(&self.path).and_then(|mut file| {
            file.seek(SeekFrom::Start(self.from))?;
            file.read_to_end(&mut bytes)
        });
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// The last lines of this run, indented for an error text, after a line that names the file.
    /// References to help pages are left out, since the error has its own.
    #[must_use]
    pub(crate) fn tail(&self, count: usize) -> String {
        let text = self.text();
        let lines: Vec<&str> = text
            .lines()
            .filter(|line| !line.trim_start().starts_with("more: lacuna help "))
            .collect();
        if lines.is_empty() {
            return format!("it has written nothing to {}", self.path.display());
        }
        let from = lines.len().saturating_sub(count);
        let shown: Vec<String> = lines
            .iter()
            .skip(from)
            .map(|line| format!("\n    {line}"))
            .collect();
        format!("the end of {}:{}", self.path.display(), shown.concat())
    }

    /// The newest error of this run, without time and source; else the last line.
    #[must_use]
    pub(crate) fn newest_error(&self) -> Option<String> {
        let text = self.text();
        let lines = || text.lines().rev().filter(|line| !line.trim().is_empty());
        let found = lines().find_map(error_of);
        found.or_else(|| lines().next().map(|line| line.trim().to_owned()))
    }
}

/// The message of a line of level ERROR, as text or as JSON.
fn error_of(line: &str) -> Option<String> {
    if line.starts_with('{') {
        let value: serde_json::Value = serde_json::from_str(line).ok()?;
        if value.get("level")?.as_str()? != "ERROR" {
            return None;
        }
        let fields = value.get("fields").unwrap_or(&value);
        let said = |key| fields.get(key).and_then(serde_json::Value::as_str);
        let (message, error) = (said("message").unwrap_or_default(), said("error"));
        return Some(error.map_or_else(|| message.to_owned(), |e| format!("{message}: {e}")));
    }
    let (_, after) = line.split_once(" ERROR ")?;
    // The name of the module means nothing to an operator.
    let said = after.split_once(": ").map_or(after, |(_, said)| said);
    Some(said.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lines_of_this_run_are_quoted() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.log");
        let log = Log::begin(path.clone()).unwrap();
        assert!(log.tail(3).starts_with("it has written nothing"));
        assert_eq!(log.newest_error(), None);
        std::fs::write(&path, "old\nt ERROR m: old error\n").unwrap();
        let log = Log::begin(path.clone()).unwrap();
        let new = "old\nt ERROR m: old error\na\nb\n  more: lacuna help L0005\nc\n";
        std::fs::write(&path, new).unwrap();
        assert!(log.tail(2).ends_with("x.log:\n    b\n    c"));
        assert_eq!(log.newest_error().as_deref(), Some("c"));
    }

    #[test]
    fn errors_are_found_in_text_and_in_json() {
        let text = "2026-01-01T00:00:00Z ERROR lacuna_runtime::service: service failed error=x";
        assert_eq!(error_of(text).as_deref(), Some("service failed error=x"));
        let json = r#"{"level":"ERROR","fields":{"message":"service failed","error":"x"}}"#;
        assert_eq!(error_of(json).as_deref(), Some("service failed: x"));
        assert_eq!(error_of("2026-01-01T00:00:00Z  INFO a: b"), None);
        assert_eq!(error_of(r#"{"level":"INFO","fields":{}}"#), None);
    }
}
