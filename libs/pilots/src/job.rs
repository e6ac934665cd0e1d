//! Pilots as the scheduler lists them.

use std::fmt;

use lacuna_model::NodeId;
use lacuna_schedlog::JobOutcome;
use lacuna_schedlog::living::JobState;

/// A job's number in the scheduler's words: `4711`, `4711_3`, `4711.server`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(String);

impl JobId {
    /// Takes a number as the scheduler has written it; nothing if a command line could
    /// mistake it for something else.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        let known = |c: char| c.is_ascii_alphanumeric() || "._-[]@".contains(c);
        let sound = text.starts_with(|c: char| c.is_ascii_digit())
            && text.len() <= 128
            && text.chars().all(known);
        sound.then(|| Self(text.to_owned()))
    }

    /// As text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// How a job ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// By itself, without an error.
    Completed,
    /// Somebody cancelled it.
    Cancelled,
    /// The scheduler took its node for a batch job. This is normal.
    Preempted,
    /// Its time was up.
    TimeLimit,
    /// Its program failed.
    Failed,
    /// Its node failed.
    NodeFailed,
}

impl End {
    /// A word for it, for logs and metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Cancelled => "cancelled",
            Self::Preempted => "preempted",
            Self::TimeLimit => "time limit",
            Self::Failed => "failed",
            Self::NodeFailed => "node failed",
        }
    }
}

/// How far a job has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// It waits for its node.
    Pending,
    /// It has its node.
    Running,
    /// It is over, but its node is not free yet.
    Ending,
    /// It is over and its node is free.
    Ended(End),
}

impl Stage {
    /// How far a job in this state has come, if the state is known.
    #[must_use]
    pub const fn of(state: JobState) -> Option<Self> {
        Some(match state {
            JobState::Pending => Self::Pending,
            JobState::Running | JobState::Configuring | JobState::Suspended => Self::Running,
            JobState::Completing => Self::Ending,
            JobState::Over(outcome) => Self::Ended(match outcome {
                JobOutcome::Completed => End::Completed,
                JobOutcome::Cancelled => End::Cancelled,
                JobOutcome::Preempted => End::Preempted,
                JobOutcome::Timeout => End::TimeLimit,
                JobOutcome::Failed => End::Failed,
                JobOutcome::NodeFailed => End::NodeFailed,
                JobOutcome::Unknown | JobOutcome::Running => return None,
            }),
            JobState::Other => return None,
        })
    }

    /// Whether the job still has a node or a claim on one.
    #[must_use]
    pub const fn lives(self) -> bool {
        !matches!(self, Self::Ended(_))
    }
}

/// One job as the scheduler lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Its number.
    pub job: JobId,
    /// When it was submitted, in the scheduler's words. A number that comes again, after a
    /// requeue or when numbers start anew, comes with another moment.
    pub submitted: String,
    /// Whose it is.
    pub user: String,
    /// Its name.
    pub name: String,
    /// Its comment, or what else marks it.
    pub mark: String,
    /// The node that it has or asks for.
    pub node: Option<NodeId>,
    /// How far it has come.
    pub stage: Stage,
}

/// By what our pilots are told from the jobs of others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// Their job name.
    pub name: String,
    /// Their mark; it names the cluster's id, so that two Lacunas leave each other's alone.
    pub mark: String,
    /// Whose they are; where nothing is said, the list holds only our own.
    pub user: Option<String>,
}

impl Owner {
    /// Whether a job is a pilot of ours.
    #[must_use]
    pub fn owns(&self, job: &Listed) -> bool {
        let of_user = self.user.as_ref().is_none_or(|user| *user == job.user);
        of_user && job.name == self.name && job.mark == self.mark
    }
}
