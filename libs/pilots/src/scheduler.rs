//! What is asked of a batch scheduler: command lines, and what their answers mean.

use lacuna_model::{NodeId, Span};

use crate::job::{JobId, Listed};
use crate::keeper::{Cause, Refusal};

/// A program to be run, with what it reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandLine {
    /// The program.
    pub program: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// What it reads from standard input.
    pub stdin: Option<String>,
}

/// What a program said.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Said {
    /// Exit code; nothing if it was killed.
    pub code: Option<i32>,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

/// Why no program said anything.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// There is no such program, or it may not be run.
    #[error("{program} cannot be run: {reason}")]
    NotRun {
        /// Which.
        program: String,
        /// Why.
        reason: String,
    },
    /// It did not end in time and was killed with all that it had started.
    #[error("{program} did not end within {limit} and was killed")]
    Late {
        /// Which.
        program: String,
        /// The time that it had.
        limit: Span,
    },
}

/// Why a list is not to be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ListError {
    /// The program did not run to its end.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The program failed.
    #[error("{program} failed: {text}")]
    Failed {
        /// Which.
        program: String,
        /// Its words.
        text: String,
    },
    /// The answer is not of the form that was asked for.
    #[error("{program}: {reason}")]
    Form {
        /// Which program.
        program: String,
        /// What was expected and what came.
        reason: String,
    },
}

impl ListError {
    /// An answer of another form.
    pub(crate) fn form(program: &[String], reason: &impl ToString) -> Self {
        Self::Form {
            program: program.join(" "),
            reason: reason.to_string(),
        }
    }
}

/// A batch scheduler that pilots can be submitted to.
pub trait Scheduler: Send + Sync {
    /// Its name, for logs.
    fn name(&self) -> &'static str;

    /// Submits a pilot to one node.
    fn submit(&self, node: &NodeId, limit: Span) -> CommandLine;

    /// What became of that.
    ///
    /// # Errors
    /// Why there is no pilot, or why nobody knows.
    fn submitted(&self, said: &Result<Said, RunError>) -> Result<JobId, Refusal>;

    /// Cancels pilots; with `pending_only` only those that still wait for their node, where the
    /// scheduler can tell.
    fn cancel(&self, jobs: &[JobId], pending_only: bool) -> CommandLine;

    /// Lists our jobs.
    fn list(&self) -> CommandLine;

    /// What the list says.
    ///
    /// # Errors
    /// [`ListError`]; the list is then not to be used at all.
    fn listed(&self, said: &Result<Said, RunError>) -> Result<Vec<Listed>, ListError>;
}

/// How pilots are submitted, to whichever scheduler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Submission {
    /// Job name of pilots.
    pub name: String,
    /// What marks them as ours: `lacuna:<cluster>`.
    pub mark: String,
    /// Partition or queue; the scheduler's default if empty.
    pub partition: String,
    /// Account; the user's default if empty.
    pub account: String,
    /// Quality of service; none if empty.
    pub qos: String,
    /// Whether a pilot has its node for itself.
    pub exclusive: bool,
    /// File for what the pilot's script says; `%j` is the job's number in Slurm.
    pub output: String,
    /// Further arguments of the submission.
    pub extra: Vec<String>,
    /// The batch script.
    pub script: String,
    /// Whether a shorter time than the limit may be given, if no more is free before a batch
    /// job, and how short.
    pub time_min: Option<Span>,
    /// The programs for submission, cancellation and lists.
    pub programs: Programs,
}

/// The commands of a scheduler, each a program with its first arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Programs {
    /// `sbatch` or `qsub`.
    pub submit: Vec<String>,
    /// `scancel` or `qdel`.
    pub cancel: Vec<String>,
    /// `squeue` or `qstat`.
    pub list: Vec<String>,
}

impl CommandLine {
    /// A command with further arguments.
    pub(crate) fn new(command: &[String], args: Vec<String>, stdin: Option<String>) -> Self {
        let (program, first) = command
            .split_first()
            .map_or(("", &[][..]), |(p, f)| (p.as_str(), f));
        Self {
            program: program.to_owned(),
            args: first.iter().cloned().chain(args).collect(),
            stdin,
        }
    }
}

/// What marks the pilots of one cluster's Lacuna.
#[must_use]
pub fn mark(cluster: &lacuna_model::ClusterId) -> String {
    format!("lacuna:{cluster}")
}

/// A word for the shell.
pub(crate) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=:,@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

/// The first line that says something, cut to what fits a log line.
fn gist(said: &Said) -> String {
    let lines = || said.stderr.lines().chain(said.stdout.lines());
    let telling = lines().map(str::trim).find(|line| !line.is_empty());
    let text: String = telling.unwrap_or_default().chars().take(300).collect();
    match (text.is_empty(), said.code) {
        (false, _) => text,
        (true, Some(code)) => format!("exit code {code} without a word"),
        (true, None) => "ended by a signal without a word".to_owned(),
    }
}

/// What the answer to a submission means: the number is the last line that says something,
/// since a wrapper may speak before, as far as `number` takes it; `causes` are the scheduler's
/// words for refusals, in lower case, of which the first that fits counts.
///
/// # Errors
/// Why there is no job, or why nobody knows.
pub(crate) fn submitted(
    said: &Result<Said, RunError>,
    number: impl Fn(&str) -> &str,
    causes: &[(&str, Cause)],
) -> Result<JobId, Refusal> {
    let said = said.as_ref().map_err(|error| Refusal {
        cause: match error {
            RunError::NotRun { .. } => Cause::Missing,
            RunError::Late { .. } => Cause::Unreachable,
        },
        text: error.to_string(),
    })?;
    if said.code != Some(0) {
        let text = said.stderr.to_lowercase();
        let known = causes.iter().find(|(words, _)| text.contains(words));
        return Err(Refusal {
            cause: known.map_or(Cause::Unclear, |(_, cause)| *cause),
            text: gist(said),
        });
    }
    let last = said.stdout.lines().rev().find(|l| !l.trim().is_empty());
    last.and_then(|line| JobId::new(number(line.trim())))
        .ok_or_else(|| Refusal {
            cause: Cause::Unclear,
            text: format!("no job number in the answer {:?}", said.stdout.trim()),
        })
}

/// The text of a list.
///
/// # Errors
/// [`ListError`], unless the program came to a good end.
pub(crate) fn list_text<'a>(
    program: &[String],
    said: &'a Result<Said, RunError>,
) -> Result<&'a str, ListError> {
    let said = said.as_ref().map_err(Clone::clone)?;
    if said.code == Some(0) {
        return Ok(&said.stdout);
    }
    Err(ListError::Failed {
        program: program.join(" "),
        text: gist(said),
    })
}

/// A time as schedulers read it: `HH:MM:SS`, rounded up to whole minutes, for Slurm counts
/// no less.
pub(crate) fn clock_time(span: Span) -> String {
    let minutes = span.as_ms().max(1).saturating_add(59_999) / 60_000;
    format!("{:02}:{:02}:00", minutes / 60, minutes % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_rounded_up_to_minutes() {
        for (seconds, text) in [
            (1, "00:01:00"),
            (60, "00:01:00"),
            (61, "00:02:00"),
            (7200, "02:00:00"),
            (360_000, "100:00:00"),
            (-5, "00:01:00"),
        ] {
            assert_eq!(clock_time(Span::from_secs(seconds)), text);
        }
    }
}
