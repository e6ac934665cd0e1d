//! Finds the folders of recorded data that evaluations read.

use std::path::{Path, PathBuf};

use lacuna_cli::error::{CliError, Exit, Result};

/// A folder within a folder of recorded data.
#[derive(Debug, Clone, Copy)]
pub struct Recording {
    name: &'static str,
    /// The files that are read.
    files: &'static [&'static str],
}

/// The trace of BFTrainer.
pub const SUMMIT: Recording = Recording {
    name: "summit-2021-02",
    files: &[
        "holes.csv.gz",
        "nodes.txt",
        "hpo-1000.jsonl.gz",
        "mixed-1001-throughput.jsonl.gz",
        "mixed-1001-speedup.jsonl.gz",
    ],
};

/// Rates over counts of two kinds of nodes.
pub(crate) const KIND_RATES: Recording = Recording {
    name: "seeds",
    files: &["heterps_two_kinds.json"],
};

/// Measured steps and noise scales of five networks.
pub(crate) const GOODPUT: Recording = Recording {
    name: "seeds",
    files: &["pollux_profiles.json"],
};

impl Recording {
    /// A folder of this name, with the files that are read.
    #[must_use]
    pub const fn new(name: &'static str, files: &'static [&'static str]) -> Self {
        Self { name, files }
    }

    /// Finds it: in the given folder, else in the one that `LACUNA_DATA` names, else in
    /// `../shared/data`. The folder itself may be named as well.
    ///
    /// # Errors
    /// `L0017`, with the searched folder and the missing files.
    pub fn find(self, asked: Option<&Path>) -> Result<PathBuf> {
        let variable = std::env::var_os("LACUNA_DATA").map(PathBuf::from);
        self.found(asked, variable)
    }

    fn found(self, asked: Option<&Path>, variable: Option<PathBuf>) -> Result<PathBuf> {
        let (root, source) = match (asked, variable) {
            (Some(root), _) => (root.to_owned(), "--data"),
            (None, Some(root)) => (root, "LACUNA_DATA"),
            (None, None) => (PathBuf::from("../shared/data"), "the default"),
        };
        let within = root.join(self.name);
        let first = self
            .files
            .first()
            .is_some_and(|first| root.join(first).exists());
        let folder = if within.is_dir() || !first {
            within
        } else {
            root.clone()
        };
        let missing: Vec<&str> = self
            .files
            .iter()
            .copied()
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
            "name the folder that holds {}/ with --data or LACUNA_DATA",
            self.name
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_trace_is_found_or_its_missing_files_are_named() {
        let root = tempfile::tempdir().unwrap();
        let error = SUMMIT.found(Some(root.path()), None).unwrap_err();
        assert_eq!(error.code.as_deref(), Some("L0017"));
        assert!(error.message.contains("there is no folder"), "{error}");
        let within = root.path().join(SUMMIT.name);
        std::fs::create_dir(&within).unwrap();
        for name in SUMMIT.files.iter().skip(1) {
            std::fs::write(within.join(name), "").unwrap();
        }
        let error = SUMMIT
            .found(None, Some(root.path().to_owned()))
            .unwrap_err();
        assert!(error.message.ends_with("has no holes.csv.gz (LACUNA_DATA)"));
        std::fs::write(within.join(SUMMIT.files[0]), "").unwrap();
        for named in [root.path(), &within] {
            assert_eq!(SUMMIT.found(Some(named), None).unwrap(), within);
        }
    }
}
