//! Submission, cancellation and lists of pilots: command lines, and the meaning of their output.
//!
//! [`Submitter`] has one implementation for each batch scheduler that runs pilots.

use lacuna_model::{NodeId, SchedulerName, Span};

use crate::job::{JobId, Listed};
use crate::unsupported::{Unsupported, lacks};

/// A command line, with the input of the program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandLine {
    /// Program to run.
    pub program: String,
    /// Arguments of the program.
    pub args: Vec<String>,
    /// Standard input of the program.
    pub stdin: Option<String>,
}

/// Output of a program that has ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CommandOutput {
    /// Exit code; `None` if a signal ended the program.
    pub code: Option<i32>,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

/// Why a program has no output.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// The program does not exist, or may not be run.
    #[error("{program} cannot be run: {reason}")]
    NotRun {
        /// The program.
        program: String,
        /// Reason of the operating system.
        reason: String,
    },
    /// The program exceeded its time limit and was killed, with all processes that it started.
    #[error("{program} did not end within {limit} and was killed")]
    Late {
        /// The program.
        program: String,
        /// Time limit of the program.
        limit: Span,
    },
}

/// Why a list must not be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ListError {
    /// The program did not run to its end.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The program failed.
    #[error("{program} failed: {text}")]
    Failed {
        /// The program.
        program: String,
        /// Its error message.
        text: String,
    },
    /// The output does not have the requested form.
    #[error("{program}: {reason}")]
    Form {
        /// The program.
        program: String,
        /// Expected and found form.
        reason: String,
    },
}

impl ListError {
    /// An error for output of another form.
    pub(crate) fn form(program: &[String], reason: &impl ToString) -> Self {
        Self::Form {
            program: program.join(" "),
            reason: reason.to_string(),
        }
    }
}

/// Why a submission failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Cause by which the keeper decides what to do.
    pub cause: Cause,
    /// Message of the scheduler.
    pub text: String,
}

/// Causes of failed submissions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// The node is not available.
    Node,
    /// The user may not submit at all: account, partition, permission.
    Denied,
    /// The program does not exist on this machine.
    Missing,
    /// The owner of the pilot may not have it; others may have theirs.
    Owner,
    /// The user has too many jobs or requests.
    Busy,
    /// The scheduler did not answer in time. The job may exist.
    Unreachable,
    /// Another cause. The job may exist.
    Unclear,
}

impl Cause {
    /// All causes.
    pub const ALL: [Self; 7] = [
        Self::Node,
        Self::Denied,
        Self::Missing,
        Self::Owner,
        Self::Busy,
        Self::Unreachable,
        Self::Unclear,
    ];

    /// Its label in logs and metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Node => "node",
            Self::Denied => "denied",
            Self::Missing => "missing",
            Self::Owner => "owner",
            Self::Busy => "busy",
            Self::Unreachable => "unreachable",
            Self::Unclear => "unclear",
        }
    }

    /// Whether the job may exist although its submission failed.
    #[must_use]
    pub const fn unsure(self) -> bool {
        matches!(self, Self::Unreachable | Self::Unclear)
    }
}

/// How pilots are submitted to a scheduler.
#[derive(Debug, Clone, Copy)]
pub struct Pilots {
    /// The scheduler's own programs.
    pub programs: fn() -> Programs,
    /// The batch script of a pilot, which becomes the agent with this configuration.
    pub script: fn(agent: &str, config: &str) -> String,
    /// Beginnings of the names of variables that tell the programs where the scheduler is.
    pub variables: &'static [&'static str],
    /// Submits pilots with these parameters.
    pub submitter: fn(Submission) -> Box<dyn Submitter>,
}

/// Submits, cancels and lists pilots with the parameters of a [`Submission`].
pub trait Submitter: Send + Sync {
    /// The scheduler.
    fn scheduler(&self) -> SchedulerName;

    /// Command that submits a pilot to `node` with a time limit.
    fn submit(&self, node: &NodeId, limit: Span) -> CommandLine;

    /// Reads the output of a submission.
    ///
    /// # Errors
    /// [`Refusal`] if no pilot was submitted, or if that is unknown ([`Cause::unsure`]).
    fn submitted(&self, output: &Result<CommandOutput, RunError>) -> Result<JobId, Refusal>;

    /// Command that cancels pilots. `pending_only` spares pilots that have their node, if the
    /// scheduler can distinguish them.
    fn cancel(&self, jobs: &[JobId], pending_only: bool) -> CommandLine;

    /// Command that lists our own jobs, or the pilots of all users ([`Submission::all_users`]).
    fn list(&self) -> CommandLine;

    /// Reads the output of a list.
    ///
    /// # Errors
    /// [`ListError`] if any part of the list is unusable. It is then not used at all.
    fn listed(&self, output: &Result<CommandOutput, RunError>) -> Result<Vec<Listed>, ListError>;

    /// Whether the list holds the pilots of other users too, which the caller then leaves out.
    fn lists_all(&self) -> bool {
        true
    }

    /// Command that prints the ids of the pilots of one user, which the pilot helper needs.
    ///
    /// # Errors
    /// [`Unsupported`] if pilots cannot be submitted under the accounts of their owners.
    fn owned(&self, owner: &str) -> Result<CommandLine, Unsupported> {
        let _ = owner;
        let remedy = "no helper: all pilots under the account of control";
        let what = "pilots under their owners' accounts";
        Err(lacks(self.scheduler(), what, remedy))
    }
}

/// Parameters of a submission, for any scheduler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Submission {
    /// Job name of pilots.
    pub name: String,
    /// Mark of our own pilots: `lacuna:<cluster>`.
    pub mark: String,
    /// Partition or queue; the scheduler's default if empty.
    pub partition: String,
    /// Account; the user's default if empty.
    pub account: String,
    /// Quality of service; none if empty.
    pub qos: String,
    /// Whether a pilot has the whole node.
    pub exclusive: bool,
    /// Output file of the batch script; `%j` is the job id in Slurm.
    pub output: String,
    /// Further arguments of the submission.
    pub extra: Vec<String>,
    /// The batch script.
    pub script: String,
    /// PBS: resources of the chunk besides its host, as in `ncpus=64:ngpus=4`; may be empty.
    pub chunk: String,
    /// Shortest time that Slurm may grant instead of the time limit, to fit a pilot in before a
    /// batch job. `None`: the whole time limit.
    pub time_min: Option<Span>,
    /// Whether the list has the pilots of all users, and not those of this user alone.
    pub all_users: bool,
    /// The programs for submission, cancellation and lists.
    pub programs: Programs,
}

/// Commands of a scheduler, each a program with its first arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Programs {
    /// Submits, as `sbatch`.
    pub submit: Vec<String>,
    /// Cancels, as `scancel`.
    pub cancel: Vec<String>,
    /// Lists, as `squeue`.
    pub list: Vec<String>,
}

impl Programs {
    /// Programs by the words of their commands.
    pub(crate) fn of([submit, cancel, list]: [&str; 3]) -> Self {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect();
        Self {
            submit: words(submit),
            cancel: words(cancel),
            list: words(list),
        }
    }
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

/// Mark of the pilots of one cluster.
#[must_use]
pub fn mark(cluster: &lacuna_model::ClusterId) -> String {
    format!("lacuna:{cluster}")
}

/// Quotes a word for the shell.
pub(crate) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=:,@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

/// First line of the output that is not blank, cut to 300 characters.
fn first_line(output: &CommandOutput) -> String {
    let lines = || output.stderr.lines().chain(output.stdout.lines());
    let first = lines().map(str::trim).find(|line| !line.is_empty());
    let text: String = first.unwrap_or_default().chars().take(300).collect();
    match (text.is_empty(), output.code) {
        (false, _) => text,
        (true, Some(code)) => format!("exit code {code} without output"),
        (true, None) => "ended by a signal without output".to_owned(),
    }
}

/// Reads the output of a submission. `number` cuts the job id out of the last line that is not
/// blank; a wrapper may print lines before it. `causes` are messages of the scheduler in lower
/// case. The first that fits counts.
///
/// # Errors
/// [`Refusal`] if no job was submitted, or if that is unknown.
pub(crate) fn submitted(
    output: &Result<CommandOutput, RunError>,
    number: impl Fn(&str) -> &str,
    causes: &[(&str, Cause)],
) -> Result<JobId, Refusal> {
    let output = output.as_ref().map_err(|error| Refusal {
        cause: match error {
            RunError::NotRun { .. } => Cause::Missing,
            RunError::Late { .. } => Cause::Unreachable,
        },
        text: error.to_string(),
    })?;
    if output.code != Some(0) {
        let text = output.stderr.to_lowercase();
        let known = causes.iter().find(|(words, _)| text.contains(words));
        return Err(Refusal {
            cause: known.map_or(Cause::Unclear, |(_, cause)| *cause),
            text: first_line(output),
        });
    }
    let last = output.stdout.lines().rev().find(|l| !l.trim().is_empty());
    last.and_then(|line| JobId::new(number(line.trim())))
        .ok_or_else(|| Refusal {
            cause: Cause::Unclear,
            text: format!("no job number in the answer {:?}", output.stdout.trim()),
        })
}

/// The text of a list.
///
/// # Errors
/// [`ListError`] unless the program succeeded.
pub(crate) fn list_text<'a>(
    program: &[String],
    output: &'a Result<CommandOutput, RunError>,
) -> Result<&'a str, ListError> {
    let output = output.as_ref().map_err(Clone::clone)?;
    if output.code == Some(0) {
        return Ok(&output.stdout);
    }
    Err(ListError::Failed {
        program: program.join(" "),
        text: first_line(output),
    })
}

/// A time limit in whole minutes, rounded up.
pub(crate) fn minutes(span: Span) -> i64 {
    span.as_ms().max(1).saturating_add(59_999) / 60_000
}

/// A time limit for schedulers: `HH:MM:SS`, rounded up to whole minutes, which is Slurm's unit.
pub(crate) fn clock_time(span: Span) -> String {
    let minutes = minutes(span);
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
