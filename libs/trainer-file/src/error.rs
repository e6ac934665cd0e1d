//! Errors of files of trainers.

use lacuna_trace::ReadError;

/// The reason why a file of trainers is refused.
#[derive(Debug, thiserror::Error)]
pub enum TrainerFileError {
    /// The file cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A field is wrong.
    #[error("{file}:{line}: {field}: {problem}: {remedy}")]
    Field {
        /// The file.
        file: String,
        /// The line, from 1.
        line: usize,
        /// The key, or the kind of syntax error.
        field: String,
        /// The fault.
        problem: String,
        /// The text to write instead.
        remedy: String,
    },
    /// The file has no trainer.
    #[error("{file}: no trainer: write a [[trainer]] table, as in deploy/examples/simulated.toml")]
    Empty {
        /// The file.
        file: String,
    },
}

/// What is wrong with a trainer, before its place in the file is known.
#[derive(Debug)]
pub(crate) struct Fault {
    /// The key, as `scaling.nodes`; `trainer` for the whole of it.
    pub(crate) key: String,
    /// The fault.
    pub(crate) problem: String,
    /// The text to write instead.
    pub(crate) remedy: String,
}

/// The most characters of a fault in an error, which may repeat what is in the file.
const MOST: usize = 400;

impl Fault {
    pub(crate) fn new(
        key: impl Into<String>,
        problem: impl ToString,
        remedy: impl Into<String>,
    ) -> Self {
        let mut problem = problem.to_string().replace('\n', " ");
        if let Some((at, _)) = problem.char_indices().nth(MOST) {
            problem.truncate(at);
            problem += "...";
        }
        Self {
            key: key.into(),
            problem,
            remedy: remedy.into(),
        }
    }

    /// The error at a line of a file.
    pub(crate) fn at(self, file: &str, line: usize) -> TrainerFileError {
        let Self {
            key: field,
            problem,
            remedy,
        } = self;
        TrainerFileError::Field {
            file: file.to_owned(),
            line,
            field,
            problem,
            remedy,
        }
    }
}
