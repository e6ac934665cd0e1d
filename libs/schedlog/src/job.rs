//! One record for batch jobs of every scheduler.

use lacuna_model::{Span, Timestamp};

/// How a batch job ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum JobOutcome {
    /// The log does not say.
    #[default]
    Unknown,
    /// It had not ended when the log did.
    Running,
    /// It did what it was to do.
    Completed,
    /// It ended with an error of its own.
    Failed,
    /// Somebody cancelled it, perhaps before it started.
    Cancelled,
    /// It reached its walltime.
    Timeout,
    /// A node failed under it.
    NodeFailed,
    /// The scheduler took its nodes away (preempted, or put back into the queue).
    Preempted,
}

impl JobOutcome {
    /// What a state of Slurm says of the end, if it is one (manual page of `sacct`, "JOB STATE
    /// CODES").
    pub(crate) fn of_slurm(state: &[u8]) -> Option<Self> {
        Some(match state {
            b"COMPLETED" => Self::Completed,
            b"FAILED" | b"OUT_OF_MEMORY" | b"LAUNCH_FAILED" | b"RECONFIG_FAIL" => Self::Failed,
            b"CANCELLED" | b"REVOKED" => Self::Cancelled,
            b"TIMEOUT" | b"DEADLINE" => Self::Timeout,
            b"NODE_FAIL" | b"BOOT_FAIL" => Self::NodeFailed,
            b"PREEMPTED" => Self::Preempted,
            _ => return None,
        })
    }
}

/// One life of a batch job on its nodes: a requeued job has one record for each of its starts.
///
/// Readers fill the same record again and again ([`JobRecord::clear`] keeps its memory).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct JobRecord {
    /// Its name in the log, with array index or component.
    pub id: String,
    /// When it was submitted.
    pub submit: Option<Timestamp>,
    /// When it started. Nothing: it never did.
    pub start: Option<Timestamp>,
    /// When it ended. Nothing: it never started, or still ran when the log ended.
    pub end: Option<Timestamp>,
    /// How many nodes it had, or asked for. 0: the log does not say.
    pub nodes: u32,
    /// How long it asked for. Nothing: no limit, or the log does not say.
    pub walltime: Option<Span>,
    /// Its nodes in Slurm's notation (`n[1-4,7],login`), see [`crate::hosts`]. Empty: the log
    /// does not say.
    pub hosts: String,
    /// How it ended.
    pub outcome: JobOutcome,
    /// Who submitted it. Empty: the log does not say.
    pub user: String,
    /// The queue or partition. Empty: the log does not say.
    pub queue: String,
}

impl JobRecord {
    /// Empties it but keeps its memory.
    pub fn clear(&mut self) {
        let Self {
            id,
            submit,
            start,
            end,
            nodes,
            walltime,
            hosts,
            outcome,
            user,
            queue,
        } = self;
        for text in [id, hosts, user, queue] {
            text.clear();
        }
        (*submit, *start, *end, *walltime) = (None, None, None, None);
        *nodes = 0;
        *outcome = JobOutcome::Unknown;
    }
}
