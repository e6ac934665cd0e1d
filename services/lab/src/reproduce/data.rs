//! Finds the files of the paper's trace.

use std::path::{Path, PathBuf};

use lacuna_cli::error::{CliError, Exit, Result};

/// The files that the rows read.
const FILES: [&str; 5] = [
    "holes.csv.gz",
    "nodes.txt",
    "hpo-1000.jsonl.gz",
    "mixed-1001-throughput.jsonl.gz",
    "mixed-1001-speedup.jsonl.gz",
];

/// The folder of the trace within a folder of recorded data.
const FOLDER: &str = "summit-2021-02";

/// Finds the trace: in the given folder, else in the one that `LACUNA_DATA` names, else in
/// `../shared/data`.
///
/// # Errors
/// `L0017`, with the searched folder and the missing files.
pub(super) fn folder(asked: Option<&Path>, variable: Option<PathBuf>) -> Result<PathBuf> {
    let (root, source) = match (asked, variable) {
        (Some(root), _) => (root.to_owned(), "--data"),
        (None, Some(root)) => (root, "LACUNA_DATA"),
        (None, None) => (PathBuf::from("../shared/data"), "the default"),
    };
    let within = root.join(FOLDER);
    // The folder of the trace itself may be named as well.
    let folder = if within.is_dir() || !root.join(FILES[0]).exists() {
        within
    } else {
        root.clone()
    };
    let missing: Vec<&str> = FILES
        .into_iter()
        .filter(|name| !folder.join(name).is_file())
        .collect();
    if missing.is_empty() {
        return Ok(folder);
    }
    let what = if folder.is_dir() {
        format!("{} has no {}", folder.display(), missing.join(", "))
    } else {
        format!("there is no folder {}", folder.display())
    };
    Err(CliError::new(
        "L0017",
        Exit::Failed,
        format!("the trace is not available: {what} ({source})"),
    )
    .remedy(format!(
        "name the folder that holds {FOLDER}/ with --data or LACUNA_DATA"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_trace_is_found_or_its_missing_files_are_named() {
        let root = tempfile::tempdir().unwrap();
        let error = folder(Some(root.path()), None).unwrap_err();
        assert_eq!(error.code.as_deref(), Some("L0017"));
        assert!(error.message.contains("there is no folder"), "{error}");
        let within = root.path().join(FOLDER);
        std::fs::create_dir(&within).unwrap();
        for name in FILES.iter().skip(1) {
            std::fs::write(within.join(name), "").unwrap();
        }
        let error = folder(None, Some(root.path().to_owned())).unwrap_err();
        assert!(error.message.ends_with("has no holes.csv.gz (LACUNA_DATA)"));
        std::fs::write(within.join(FILES[0]), "").unwrap();
        for named in [root.path(), &within] {
            assert_eq!(folder(Some(named), None).unwrap(), within);
        }
    }
}
