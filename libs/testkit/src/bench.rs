//! A folder with files, and commands that run in it.

use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::Value;

/// A folder that is deleted with the test.
#[derive(Debug)]
pub struct Bench {
    folder: tempfile::TempDir,
}

impl Bench {
    /// A folder with these files: names and texts.
    ///
    /// # Panics
    /// If it cannot be written.
    #[must_use]
    #[expect(clippy::unwrap_used, reason = "for tests alone")]
    pub fn with(files: &[(&str, &str)]) -> Self {
        let bench = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        for (name, text) in files {
            bench.file(name, text);
        }
        bench
    }

    /// The path of a file of this name.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a file.
    ///
    /// # Panics
    /// If it cannot be written.
    #[expect(clippy::unwrap_used, reason = "for tests alone")]
    pub fn file(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    /// Runs `lacuna` with these arguments in the folder.
    ///
    /// # Panics
    /// If it is not built.
    #[must_use]
    pub fn lacuna(&self, arguments: &[&str]) -> Output {
        self.run("lacuna", arguments)
    }

    /// Runs `lacuna-lab` with these arguments in the folder.
    ///
    /// # Panics
    /// If it is not built.
    #[must_use]
    pub fn lab(&self, arguments: &[&str]) -> Output {
        self.run("lacuna-lab", arguments)
    }

    #[expect(clippy::unwrap_used, reason = "for tests alone")]
    fn run(&self, name: &str, arguments: &[&str]) -> Output {
        Command::new(program(name))
            .current_dir(self.folder.path())
            .args(arguments)
            .output()
            .unwrap()
    }
}

/// A program of the workspace, in the folder of the test program.
///
/// # Panics
/// If it is not built.
#[must_use]
#[expect(clippy::panic, reason = "for tests alone")]
pub fn program(name: &str) -> PathBuf {
    let own = std::env::current_exe().unwrap_or_default();
    let path = own.ancestors().nth(2).unwrap_or(&own).join(name);
    if !path.is_file() {
        panic!(
            "{} is missing: `make test` builds it first (cargo build --release --workspace)",
            path.display()
        );
    }
    path
}

/// The one JSON value of a command that succeeded.
///
/// # Panics
/// If the command failed, or printed anything else.
#[must_use]
#[expect(clippy::unwrap_used, reason = "for tests alone")]
pub fn json(output: &Output) -> Value {
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}
