//! Outcomes of batch jobs.

/// How a batch job ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum JobOutcome {
    /// The log does not contain the outcome.
    #[default]
    Unknown,
    /// The job still ran when the log ended.
    Running,
    /// The job ended without an error.
    Completed,
    /// The job ended with an error of its own.
    Failed,
    /// The job was cancelled, perhaps before its start.
    Cancelled,
    /// The job reached its walltime.
    Timeout,
    /// A node of the job failed.
    NodeFailed,
    /// The scheduler preempted or requeued the job.
    Preempted,
}

impl JobOutcome {
    /// The outcome of a final state of Slurm; `None` for other states (manual page of `sacct`,
    /// "JOB STATE CODES").
    #[must_use]
    pub fn of_slurm(state: &[u8]) -> Option<Self> {
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
