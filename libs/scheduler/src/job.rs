//! Pilots as batch jobs of the scheduler: id, stage, outcome, owner.

use std::fmt;

use lacuna_model::NodeId;
use lacuna_records::JobOutcome;

/// Job id of the scheduler: `4711`, `4711_3`, `4711.server`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(String);

impl JobId {
    /// Reads an id as the scheduler writes it. `None` if a command line could take it for
    /// something else than an id.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        let known = |c: char| c.is_ascii_alphanumeric() || "._-[]@".contains(c);
        let sound = text.starts_with(|c: char| c.is_ascii_digit())
            && text.len() <= 128
            && text.chars().all(known);
        sound.then(|| Self(text.to_owned()))
    }

    /// The id as text.
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

/// State of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum JobState {
    /// The job waits.
    Pending,
    /// The nodes of the job are being prepared.
    Configuring,
    /// The job runs.
    Running,
    /// The job has ended, but its nodes are not free yet.
    Completing,
    /// The job is suspended, or changes its size, and keeps its nodes.
    Suspended,
    /// The job is over.
    Over(JobOutcome),
    /// An unknown state, as of a later release. The job holds the nodes that it names.
    Other,
}

/// How a job ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The job ended by itself, without an error.
    Completed,
    /// The job was cancelled.
    Cancelled,
    /// The scheduler took the node for a batch job. This is normal.
    Preempted,
    /// The job reached its time limit.
    TimeLimit,
    /// The program of the job failed.
    Failed,
    /// The node failed.
    NodeFailed,
}

impl End {
    /// Its label in logs and metrics.
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

/// Stage of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobStage {
    /// The job waits for its node.
    Pending,
    /// The job has its node.
    Running,
    /// The job is over, but its node is not free yet.
    Ending,
    /// The job is over and its node is free.
    Ended(End),
}

impl JobStage {
    /// Stage of a job in this state; `None` for an unknown state.
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

/// One job in the scheduler's list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Job id.
    pub job: JobId,
    /// Time of submission, as the scheduler prints it. An id that is used again, after a requeue
    /// or a restart of the numbering, has another time.
    pub submitted: String,
    /// User who submitted the job.
    pub user: String,
    /// Job name.
    pub name: String,
    /// Comment, or another mark.
    pub mark: String,
    /// The node that the job has or requests.
    pub node: Option<NodeId>,
    /// Stage of the job.
    pub stage: JobStage,
}

/// Marks that distinguish our own pilots from foreign jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// Job name of pilots.
    pub name: String,
    /// Mark of pilots. It contains the cluster's id, so that two installations of Lacuna do not
    /// cancel each other's pilots.
    pub mark: String,
    /// User of pilots. `None`: the list holds only our own jobs.
    pub user: Option<String>,
}

impl Owner {
    /// Whether a job is one of our own pilots.
    #[must_use]
    pub fn owns(&self, job: &Listed) -> bool {
        let of_user = self.user.as_ref().is_none_or(|user| *user == job.user);
        of_user && job.name == self.name && job.mark == self.mark
    }
}
