//! Commands of control to an agent, and the agent's status and progress.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{
    Epoch, Launch, Learning, NodeId, RescaleCost, RunId, ScalingCurve, Span, StepCosts, Timestamp,
    Token, TrainerId, Work,
};

/// A node of a trainer, with the epoch of its lease.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// The node.
    pub node: NodeId,
    /// The fencing token of its lease.
    pub epoch: Epoch,
}

/// The members of a trainer's present incarnation. Commands carry only their number; this message
/// carries their names, once for all of them. It is empty for a trainer without nodes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Members {
    /// The trainer.
    pub trainer: TrainerId,
    /// The incarnation.
    pub run: RunId,
    /// Its nodes, in order of rank.
    pub nodes: Vec<NodeId>,
}

/// Everything that an agent needs to run its part of a trainer, except the names of the other nodes
/// ([`Members`]).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Assignment {
    /// The trainer.
    pub trainer: TrainerId,
    /// The incarnation.
    pub run: RunId,
    /// This node's place among the nodes of the incarnation. Rank 0 reports the trainer's progress.
    pub rank: u32,
    /// Number of nodes of the incarnation; 0 for a node that is no member of it.
    pub nodes: u32,
    /// How the program is started.
    pub launch: Arc<Launch>,
    /// Throughput by node count. The simulated launcher trains at this rate.
    pub throughput: ScalingCurve,
    /// Rescale costs of the trainer.
    pub rescale: RescaleCost,
    /// The whole work of the trainer.
    pub work: Work,
    /// Samples done before this incarnation.
    pub samples_before: f64,
    /// Stall debt: samples that this incarnation pays with its time before its work counts.
    pub owed: f64,
    /// When this incarnation began, in the cluster's time.
    pub since: Timestamp,
    /// The newest known checkpoint.
    pub checkpoint: Option<String>,
    /// Host and port of the `TCPStore` at which the members meet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub store: Option<String>,
    /// What members show there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<Token>,
    /// The owner of the trainer, as control knows them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// The account that may run programs of several owners (`control.shared_account`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared_account: Option<String>,
}

/// The action that a command asks for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "do")]
pub enum Action {
    /// Run this incarnation. A later incarnation of the same trainer replaces an earlier one.
    Run(Box<Assignment>),
    /// Start the program of a trainer that regroups, so that a later incarnation can include it.
    /// The assignment is that of the present incarnation, of which the node is no member.
    Prepare(Box<Assignment>),
    /// Stop the running program, and give the node back.
    Release {
        /// The reason.
        reason: String,
        /// When the incarnation ended for this node, in the cluster's time.
        #[serde(default)]
        at: Option<Timestamp>,
    },
}

/// A command to the agent of one node. It is obeyed only if its epoch is the newest seen for
/// that node, and only once per `(epoch, seq)`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Command {
    /// The node.
    pub node: NodeId,
    /// The epoch of the lease.
    pub epoch: Epoch,
    /// Number of the command within the epoch.
    pub seq: u64,
    /// The action.
    pub action: Action,
}

/// What runs on a node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum Activity {
    /// Nothing runs.
    Free,
    /// A member of this incarnation runs.
    Running {
        /// The trainer.
        trainer: TrainerId,
        /// The incarnation.
        run: RunId,
    },
    /// The program of a trainer that regroups is started, and waits to join an incarnation.
    Prepared {
        /// The trainer.
        trainer: TrainerId,
        /// Whether the program has reported that it is ready.
        ready: bool,
    },
    /// The program ended by itself.
    Exited {
        /// The trainer.
        trainer: TrainerId,
        /// The incarnation.
        run: RunId,
        /// Exit code, or 128 + signal number.
        code: i32,
        /// The last lines of its output, if any.
        reason: String,
        /// Whether the agent has killed it, for this reason: the code says nothing then.
        #[serde(default, skip_serializing_if = "is_false")]
        killed: bool,
        /// When it failed, by the node's clock, to a second where it left no word. Agents of older
        /// releases do not say.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        at: Option<Timestamp>,
        /// Whether it failed because it had lost a peer, as it says.
        #[serde(default, skip_serializing_if = "is_false")]
        lost_peer: bool,
    },
}

/// How far the end of a program has come, as its client says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// Its work is done: it takes part in no further incarnation. Its own code may go on.
    Done,
    /// The work is done, its own code has ended, and its interpreter ends.
    Exiting,
    /// It has exited with code 0 (in the record of a trainer).
    Exited,
}

/// The status of a node, sent by its agent after every command and every few seconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentStatus {
    /// The node.
    pub node: NodeId,
    /// The newest epoch seen.
    pub epoch: Epoch,
    /// The newest command obeyed within it.
    pub seq: u64,
    /// What runs on the node.
    pub activity: Activity,
    /// Why the node was last given back without a command: `lease timeout`, `wanted`, or nothing.
    #[serde(default)]
    pub released: Option<String>,
    /// Whether the agent is ending. No agent obeys commands for this node until the next status.
    #[serde(default, skip_serializing_if = "is_false")]
    pub leaving: bool,
    /// In the last status of an agent whose node was wanted back: real time from the request
    /// (SIGTERM) until nothing ran any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gave_back_in: Option<Span>,
    /// The incarnation whose process group the program has found broken. The program has left it
    /// and waits for the next one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broken: Option<RunId>,
    /// How far the end of the program has come, once it has said that its work is done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ending: Option<Ending>,
    /// The agent's limits for giving the node back by itself, if it reports them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terms: Option<AgentTerms>,
    /// The place of the node as Slurm tells its jobs (`SLURM_TOPOLOGY_ADDR`): switches from the top
    /// down to the leaf, then the node, with dots between. None outside of Slurm's jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// The only trainer whose program this agent starts, by the ticket of its pilot. None: those of
    /// all trainers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serves: Option<TrainerId>,
}

/// The limits within which an agent gives its node back by itself, from its own configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentTerms {
    /// Time since the last renewal after which the agent gives the node back.
    pub lease_timeout: Span,
    /// Time that a program has to stop.
    pub grace: Span,
}

/// The progress of one incarnation of a trainer. All figures are cumulative within the incarnation,
/// so a late or repeated report counts nothing twice.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// The reporting node.
    pub node: NodeId,
    /// The trainer.
    pub trainer: TrainerId,
    /// The incarnation.
    pub run: RunId,
    /// The moment of the report, in the cluster's time.
    pub at: Timestamp,
    /// Samples of this incarnation so far.
    pub samples: f64,
    /// Stall debt that is not yet paid, in samples.
    pub owed: f64,
    /// Optimiser step, if the program reports it.
    pub step: Option<u64>,
    /// Number of nodes that took part.
    pub world_size: u32,
    /// Training loss, if the program reports it.
    #[serde(default)]
    pub loss: Option<f64>,
    /// A complete checkpoint, if the program has written one.
    #[serde(default)]
    pub checkpoint: Option<String>,
    /// Samples of this incarnation that the newest checkpoint covers. They survive a kill of the
    /// program. Nothing if this incarnation has written no checkpoint.
    #[serde(default)]
    pub saved: Option<f64>,
    /// Samples since the trainer's beginning that the model contained when this incarnation began,
    /// if the program knows them (one that regroups does). They override the reports of earlier
    /// incarnations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<f64>,
    /// Where the time of a step goes, if the program has measured it since the report before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_costs: Option<Box<StepCosts>>,
    /// Why that is not known: the times that the program has sent cannot be replayed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_replay: Option<String>,
    /// What the batch is worth, if the program has measured it since the report before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub learning: Option<Learning>,
}

impl Progress {
    /// The report of a program on one node that knows its samples alone.
    #[must_use]
    pub const fn new(
        node: NodeId,
        trainer: TrainerId,
        run: RunId,
        at: Timestamp,
        samples: f64,
    ) -> Self {
        Self {
            node,
            trainer,
            run,
            at,
            samples,
            owed: 0.0,
            step: None,
            world_size: 1,
            loss: None,
            checkpoint: None,
            saved: None,
            base: None,
            step_costs: None,
            no_replay: None,
            learning: None,
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn is_false(value: &bool) -> bool {
    !*value
}
