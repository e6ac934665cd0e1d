//! Runs a command of the scheduler and reads its answer.

use lacuna_model::Span;
use lacuna_runtime::command::{self, Bounds, CommandError, Ended};
use lacuna_scheduler::AnswerError;
use lacuna_scheduler::live::{Live, Request};
use tokio::process::Command;

/// Longest answer, bytes. A hundred thousand jobs take about 20 MB.
const MOST: usize = 256 << 20;

/// Why a request has no usable answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The command failed.
    #[error(transparent)]
    Run(#[from] CommandError),
    /// The answer was refused.
    #[error("{program}: {source}{}", hint(stderr))]
    Answer {
        /// The program.
        program: String,
        /// Why the answer was refused.
        source: Box<AnswerError>,
        /// Standard error of the program.
        stderr: String,
    },
}

fn hint(stderr: &str) -> String {
    match stderr {
        "" => String::new(),
        text => format!(" (its error output: {text})"),
    }
}

/// Labels of failures in metrics.
pub(crate) const REASONS: [&str; 7] = [
    "absent", "denied", "limit", "exit", "too_long", "io", "answer",
];

impl Failure {
    /// Label of the failure in metrics.
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
/// [`Failure::Answer`] if the answer is refused.
pub(crate) fn read<T>(
    ended: &Ended,
    program: &str,
    read: impl FnOnce(&str) -> Result<T, AnswerError>,
) -> Result<T, Failure> {
    read(&ended.stdout).map_err(|source| Failure::Answer {
        program: program.to_owned(),
        source: Box::new(source),
        stderr: ended.stderr.trim().to_owned(),
    })
}

/// Variables with which the commands of a scheduler run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Variables {
    set: &'static [(&'static str, &'static str)],
    unset: &'static [&'static str],
}

impl Variables {
    pub(crate) fn of(live: &dyn Live) -> Self {
        Self {
            set: live.variables(),
            unset: live.unset(),
        }
    }
}

/// Runs the command of a request, for at most `limit`.
///
/// # Errors
/// [`Failure::Run`] if the command fails or exceeds its limit.
pub(crate) async fn run(
    request: &Request,
    variables: Variables,
    limit: Span,
) -> Result<Ended, Failure> {
    let (program, arguments) = request
        .command
        .split_first()
        .map_or(("", &[][..]), |(program, rest)| (program, rest));
    let mut prepared = Command::new(program);
    prepared.args(arguments).envs(variables.set.iter().copied());
    for (key, _) in std::env::vars_os() {
        // An administrator's preferences must not change the form of the answer.
        let name = key.to_string_lossy();
        if variables.unset.iter().any(|begin| name.starts_with(begin)) {
            prepared.env_remove(&key);
        }
    }
    let bounds = Bounds {
        time: limit,
        stdout: MOST,
    };
    Ok(command::run(prepared, None, bounds).await?.good()?)
}
