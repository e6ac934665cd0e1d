//! What an agent asks of its process.

use lacuna_model::{AgentStatus, Assignment, Epoch, RunId, Timestamp, TrainerId};

/// What an agent has to do.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Start this part of a run.
    Start(Box<Assignment>),
    /// Start the program of a trainer that regroups, to be told of a run later, and call
    /// [`ready`](crate::agent::Agent::ready) when it is.
    Prepare(Box<Assignment>),
    /// Tell the program, which lives, of its next run.
    Regroup {
        /// The run under which it was started.
        started: RunId,
        /// The next run.
        assignment: Box<Assignment>,
    },
    /// Stop the program, all of it, send its last report for a moment no later than `at`,
    /// and then call [`stopped`](crate::agent::Agent::stopped).
    Stop {
        /// Which trainer.
        trainer: TrainerId,
        /// The run under which it was started.
        run: RunId,
        /// When the run ended, in the cluster's time.
        at: Timestamp,
        /// Why.
        reason: String,
    },
    /// Say this.
    Report(AgentStatus),
    /// A command was refused, being older than what is known.
    Refused {
        /// Its epoch.
        epoch: Epoch,
        /// Its number.
        seq: u64,
    },
    /// A command was refused because its epoch belongs to another trainer: one lease has one
    /// owner, so whoever sent it has numbered leases wrongly.
    Contradicted {
        /// Its epoch.
        epoch: Epoch,
        /// Whom it names.
        trainer: TrainerId,
        /// Whose the epoch is.
        holder: TrainerId,
    },
}
