//! Outputs of earlier runs, kept in a file: an evaluation of hours that ends early goes on where it
//! ended.

use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use lacuna_cli::error::{Result, file_error};

/// One run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Run {
    /// The build of the program: another build may decide otherwise.
    build: String,
    command: Vec<String>,
    output: Value,
}

/// The runs of one build that a file has.
#[derive(Debug)]
pub struct Kept {
    path: PathBuf,
    file: File,
    build: String,
    runs: Vec<Run>,
}

impl Kept {
    /// Opens or makes the file. Runs of other builds and damaged lines are passed over.
    ///
    /// # Errors
    /// The file cannot be opened or read, or the program cannot be found.
    pub fn open(path: &Path, program: &Path) -> Result<Self> {
        let build = build(program).map_err(|e| file_error("read", program, &e))?;
        let failed = |e: std::io::Error| file_error("open", path, &e);
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(failed)?;
        }
        let mut file = OpenOptions::new();
        let file = file.create(true).read(true).append(true).open(path);
        let file = file.map_err(failed)?;
        let mut runs = Vec::new();
        let mut is_whole = true;
        for line in BufReader::new(&file).split(b'\n') {
            let run = serde_json::from_slice::<Run>(&line.map_err(failed)?);
            is_whole = run.is_ok();
            runs.extend(run.ok().filter(|run| run.build == build));
        }
        if !is_whole {
            // The next line must not be appended to a part of one.
            writeln!(&file).map_err(failed)?;
        }
        Ok(Self {
            path: path.to_owned(),
            file,
            build,
            runs,
        })
    }

    /// The output of a command that has run.
    #[must_use]
    pub fn output(&self, command: &[String]) -> Option<&Value> {
        let run = self.runs.iter().find(|run| run.command == command)?;
        Some(&run.output)
    }

    /// Keeps the output of a command.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn keep(&self, command: &[String], output: &Value) -> Result<()> {
        let run = Run {
            build: self.build.clone(),
            command: command.to_vec(),
            output: output.clone(),
        };
        let line = serde_json::to_string(&run).unwrap_or_default();
        writeln!(&self.file, "{line}").map_err(|e| file_error("write", &self.path, &e))
    }
}

/// Size and time of the program's file.
fn build(program: &Path) -> std::io::Result<String> {
    let file = std::fs::metadata(program)?;
    let since = file
        .modified()?
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap_or_default();
    Ok(format!("{} bytes of {}", file.len(), since.as_millis()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn runs_of_this_build_are_found_again_also_after_a_half_written_line() {
        let folder = tempfile::tempdir().unwrap();
        let (path, program) = (folder.path().join("kept"), folder.path().join("program"));
        std::fs::write(&program, "one").unwrap();
        let command = |word: &str| vec!["replay".to_owned(), word.to_owned()];
        let kept = Kept::open(&path, &program).unwrap();
        kept.keep(&command("a"), &json!({"samples": 1})).unwrap();
        let mut text = std::fs::read_to_string(&path).unwrap();
        text.push_str("{\"build\": \"");
        std::fs::write(&path, text).unwrap();
        let kept = Kept::open(&path, &program).unwrap();
        kept.keep(&command("b"), &json!({"samples": 2})).unwrap();
        let kept = Kept::open(&path, &program).unwrap();
        assert_eq!(kept.output(&command("a")), Some(&json!({"samples": 1})));
        assert_eq!(kept.output(&command("b")), Some(&json!({"samples": 2})));
        assert_eq!(kept.output(&command("c")), None);
        std::fs::write(&program, "another").unwrap();
        let other = Kept::open(&path, &program).unwrap();
        assert_eq!(other.output(&command("a")), None);
    }
}
