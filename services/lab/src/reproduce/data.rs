//! Finds the folders of recorded data that evaluations read.

use std::path::{Path, PathBuf};

use lacuna_cli::error::{CliError, Exit, Result};

/// A folder within a folder of recorded data.
#[derive(Debug, Clone, Copy)]
pub(super) struct Recording {
    name: &'static str,
    /// The files that are read.
    files: &'static [&'static str],
}

/// The trace of BFTrainer.
pub(super) const SUMMIT: Recording = Recording {
    name: "summit-2021-02",
    files: &[
        "holes.csv.gz",
        "nodes.txt",
        "hpo-1000.jsonl.gz",
        "mixed-1001-throughput.jsonl.gz",
        "mixed-1001-speedup.jsonl.gz",
    ],
};

/// The trace of p3 spot instances.
pub(super) const P3_SPOT: Recording = Recording {
    name: "machines",
    files: &["p3-spot.csv.gz"],
};

/// The traces and models of Dally.
pub(super) const DALLY: Recording = Recording {
    name: "dally",
    files: &[
        "layers.csv",
        "compute_scale.csv",
        "fabrics.json",
        "reference_runs.csv",
    ],
};

/// Rates over counts of two kinds of nodes.
pub(super) const KIND_RATES: Recording = Recording {
    name: "seeds",
    files: &["heterps_two_kinds.json"],
};

/// Measured steps and noise scales of five networks.
pub(super) const GOODPUT: Recording = Recording {
    name: "seeds",
    files: &["pollux_profiles.json"],
};

/// Measured cases of stalls, and the published set-up.
pub(super) const STASH: Recording = Recording {
    name: "seeds",
    files: &["stash_setup.json", "stash_lab.json"],
};

impl Recording {
    /// Finds it: in the given folder, else in the one that `LACUNA_DATA` names, else in
    /// `../shared/data`. The folder itself may be named as well.
    ///
    /// # Errors
    /// `L0017`, with the searched folder and the missing files.
    pub(super) fn find(self, asked: Option<&Path>, variable: Option<PathBuf>) -> Result<PathBuf> {
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
        let error = SUMMIT.find(Some(root.path()), None).unwrap_err();
        assert_eq!(error.code.as_deref(), Some("L0017"));
        assert!(error.message.contains("there is no folder"), "{error}");
        let within = root.path().join(SUMMIT.name);
        std::fs::create_dir(&within).unwrap();
        for name in SUMMIT.files.iter().skip(1) {
            std::fs::write(within.join(name), "").unwrap();
        }
        let error = SUMMIT.find(None, Some(root.path().to_owned())).unwrap_err();
        assert!(error.message.ends_with("has no holes.csv.gz (LACUNA_DATA)"));
        std::fs::write(within.join(SUMMIT.files[0]), "").unwrap();
        for named in [root.path(), &within] {
            assert_eq!(SUMMIT.find(Some(named), None).unwrap(), within);
        }
    }
}
