//! Runs a command of the scheduler, and reads its answer.

use lacuna_model::Span;
use lacuna_runtime::command::{self, Bounds, CommandError, Ended};
use lacuna_scheduler::AnswerError;
use tokio::process::Command;

/// The longest answer, bytes: a hundred thousand jobs are some 20 MB.
const MOST: usize = 256 << 20;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The command did not come to a good end.
    #[error(transparent)]
    Run(#[from] CommandError),
    /// Its answer is not what was asked for.
    #[error("{program}: {source}{}", hint(said))]
    Answer {
        /// Which program.
        program: String,
        /// What is wrong.
        source: Box<AnswerError>,
        /// What it says beside the answer, cut short.
        said: String,
    },
}

fn hint(said: &str) -> String {
    match said {
        "" => String::new(),
        said => format!(" (it says: {said})"),
    }
}

/// The labels of failures.
pub(crate) const REASONS: [&str; 7] = [
    "absent", "denied", "limit", "exit", "too_long", "io", "answer",
];

impl Failure {
    /// As a label.
    #[must_use]
    pub(crate) const fn label(&self) -> &'static str {
        match self {
            Self::Run(CommandError::Absent { .. }) => "absent",
            Self::Run(CommandError::Denied { .. }) => "denied",
            Self::Run(CommandError::Late { .. }) => "limit",
            Self::Run(CommandError::Failed { .. }) => "exit",
            Self::Run(CommandError::TooLong { .. }) => "too_long",
            Self::Run(CommandError::Io { .. }) => "io",
            Self::Answer { .. } => "answer",
        }
    }
}

/// Reads the answer of a command.
///
/// # Errors
/// [`Failure::Answer`].
pub(crate) fn read<T>(
    ended: &Ended,
    program: &str,
    read: impl FnOnce(&str) -> Result<T, AnswerError>,
) -> Result<T, Failure> {
    read(&ended.stdout).map_err(|source| Failure::Answer {
        program: program.to_owned(),
        source: Box::new(source),
        said: ended.stderr.trim().to_owned(),
    })
}

/// Runs `command` with `more` arguments to a good end, for `limit` at most.
///
/// # Errors
/// [`Failure::Run`].
pub(crate) async fn run(
    command: &[String],
    more: &[String],
    limit: Span,
) -> Result<Ended, Failure> {
    let (program, first) = command
        .split_first()
        .map_or(("", &[][..]), |(program, first)| (program, first));
    let mut prepared = Command::new(program);
    prepared
        .args(first)
        .args(more)
        // Times without a zone would have to be guessed at.
        .env("SLURM_TIME_FORMAT", "%s");
    for (key, _) in std::env::vars_os() {
        // What an administrator prefers to see must not change the answer.
        let name = key.to_string_lossy();
        if name.starts_with("SQUEUE_") || name.starts_with("SINFO_") || name == "SLURM_CLUSTERS" {
            prepared.env_remove(&key);
        }
    }
    let bounds = Bounds {
        time: limit,
        stdout: MOST,
    };
    Ok(command::run(prepared, None, bounds).await?.good()?)
}
