//! A folder with files, and the command at work in it.

#![expect(clippy::unwrap_used, reason = "helpers of tests may panic")]

use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::Value;

/// A folder that goes with the test.
pub(crate) struct Bench {
    folder: tempfile::TempDir,
}

impl Bench {
    /// A folder with these files.
    pub(crate) fn with(files: &[(&str, &str)]) -> Self {
        let bench = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        for (name, text) in files {
            bench.file(name, text);
        }
        bench
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn file(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    pub(crate) fn lacuna(&self, arguments: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_lacuna"))
            .current_dir(self.folder.path())
            .args(arguments)
            .output()
            .unwrap()
    }
}

/// The one JSON value of a command that succeeded.
pub(crate) fn json(output: &Output) -> Value {
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}
