//! Effects: what the agent's state machine asks of its process.

use lacuna_model::{AgentStatus, Assignment, Epoch, RunId, Timestamp, TrainerId};

/// One thing that the agent's process has to do.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Start this part of an incarnation.
    Start(Box<Assignment>),
    /// Start the program of a trainer that regroups, before it joins an incarnation. Call
    /// [`ready`](crate::agent::Agent::ready) when it is ready.
    Prepare(Box<Assignment>),
    /// Send the living program its next incarnation.
    Regroup {
        /// The incarnation under which it was started.
        started: RunId,
        /// The next incarnation.
        assignment: Box<Assignment>,
    },
    /// Stop the program with all its processes, and send its last report for a moment no later
    /// than `at`. Then call [`stopped`](crate::agent::Agent::stopped).
    Stop {
        /// The trainer of the program.
        trainer: TrainerId,
        /// The incarnation under which it was started.
        run: RunId,
        /// When the incarnation ended, in cluster time.
        at: Timestamp,
        /// Why it is stopped.
        reason: String,
    },
    /// Publish this status.
    Report(AgentStatus),
    /// A command was refused since a newer one is known.
    Refused {
        /// Its epoch.
        epoch: Epoch,
        /// Its number within the epoch.
        seq: u64,
    },
    /// A command was refused because its epoch belongs to another trainer. One lease has one
    /// owner, so the sender has numbered leases wrongly.
    Contradicted {
        /// Its epoch.
        epoch: Epoch,
        /// The trainer that the command names.
        trainer: TrainerId,
        /// The trainer that has the epoch.
        holder: TrainerId,
    },
}
