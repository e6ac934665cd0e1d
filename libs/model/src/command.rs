//! What control tells an agent to do, and what the agent says back.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{
    Epoch, Launch, NodeId, RescaleCost, RunId, ScalingCurve, Span, Timestamp, TrainerId, Work,
};

/// A node of a trainer's and the epoch of the lease on it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// The node.
    pub node: NodeId,
    /// The fencing token of its lease.
    pub epoch: Epoch,
}

/// Who trains in the present run of a trainer. Commands say how many there are; this says who, once
/// for all of them. Of a trainer that holds no nodes any more there is nobody.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Members {
    /// Which trainer.
    pub trainer: TrainerId,
    /// Which membership.
    pub run: RunId,
    /// Its nodes, in order of rank.
    pub nodes: Vec<NodeId>,
}

/// All that an agent needs to run its part of a trainer, but for the names of the others
/// ([`Members`]).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Assignment {
    /// Which trainer.
    pub trainer: TrainerId,
    /// Which membership.
    pub run: RunId,
    /// This node's place among the nodes of the run; rank 0 reports the trainer's progress.
    pub rank: u32,
    /// How many nodes the run has; 0 for who is no member of it.
    pub nodes: u32,
    /// How to start it.
    pub launch: Arc<Launch>,
    /// Throughput by node count (the simulated launcher goes by it).
    pub throughput: ScalingCurve,
    /// Rescale costs of the trainer.
    pub rescale: RescaleCost,
    /// How much there is to do in all.
    pub work: Work,
    /// Samples done before this run.
    pub samples_before: f64,
    /// Samples' worth of rescale cost to sit out before this run makes progress.
    pub owed: f64,
    /// When this membership began, in the cluster's time.
    pub since: Timestamp,
    /// Newest checkpoint known.
    pub checkpoint: Option<String>,
    /// Where its members find each other: host and port of a `TCPStore`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub store: Option<String>,
}

/// What an agent is told to do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "do")]
pub enum Action {
    /// Run this membership (a later run of the same trainer replaces an earlier one).
    Run(Box<Assignment>),
    /// Start the program of a trainer that regroups, so that a later run can take it in. The
    /// assignment is that of the present run, of which the node is no member.
    Prepare(Box<Assignment>),
    /// Stop what runs, and give the node back.
    Release {
        /// Why.
        reason: String,
        /// When the run ended for this node, in the cluster's time.
        #[serde(default)]
        at: Option<Timestamp>,
    },
}

/// A command to the agent of one node. It is obeyed only if its epoch is the newest seen for
/// that node, and only once per `(epoch, seq)`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Command {
    /// Which node.
    pub node: NodeId,
    /// The epoch of the lease.
    pub epoch: Epoch,
    /// Number of the command within the epoch.
    pub seq: u64,
    /// What to do.
    pub action: Action,
}

/// What an agent is doing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum Activity {
    /// Nothing runs.
    Free,
    /// A member of this run is up.
    Running {
        /// Which trainer.
        trainer: TrainerId,
        /// Which membership.
        run: RunId,
    },
    /// The program of a trainer that regroups is started, and waits to be taken into a run.
    Prepared {
        /// Which trainer.
        trainer: TrainerId,
        /// Whether it has said that it is ready.
        ready: bool,
    },
    /// The program ended by itself.
    Exited {
        /// Which trainer.
        trainer: TrainerId,
        /// Which membership.
        run: RunId,
        /// Exit code, or 128 + signal number.
        code: i32,
        /// Last words, if any.
        reason: String,
    },
}

/// What an agent says of its node: after every command, and every few seconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentStatus {
    /// Which node.
    pub node: NodeId,
    /// The newest epoch seen.
    pub epoch: Epoch,
    /// The newest command obeyed within it.
    pub seq: u64,
    /// What it does.
    pub activity: Activity,
    /// Why the node was last given back without a command: `dead man`, `wanted`, or nothing.
    #[serde(default)]
    pub released: Option<String>,
    /// These are the agent's last words: nobody is there to obey until an agent speaks again.
    #[serde(default, skip_serializing_if = "is_false")]
    pub leaving: bool,
    /// With the last words of an agent whose node was asked back: how long it took, from when it
    /// was asked (SIGTERM) until nothing ran any more, in real time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gave_back_in: Option<Span>,
    /// The run whose process group the program on this node has found broken: it has left that
    /// run, and waits for the next one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broken: Option<RunId>,
    /// How long it may take to give the node back by itself, if it says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terms: Option<AgentTerms>,
}

/// How long an agent may take to give its node back by itself, as its own configuration has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentTerms {
    /// So long after the last renewal it begins.
    pub dead_man: Span,
    /// So long a program may take to stop.
    pub grace: Span,
}

/// How far one run of a trainer has come. Cumulative within the run, so that a report that
/// comes twice or late counts nothing twice.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// Which node says so.
    pub node: NodeId,
    /// Which trainer.
    pub trainer: TrainerId,
    /// Which membership.
    pub run: RunId,
    /// At which moment, in the cluster's time.
    pub at: Timestamp,
    /// Samples of this run so far.
    pub samples: f64,
    /// Samples' worth of rescale cost not yet sat out.
    pub owed: f64,
    /// Optimiser step, if the program reports it.
    pub step: Option<u64>,
    /// How many nodes took part.
    pub world_size: u32,
    /// Training loss, if the program reports it.
    #[serde(default)]
    pub loss: Option<f64>,
    /// A complete checkpoint, if the program has written one.
    #[serde(default)]
    pub checkpoint: Option<String>,
    /// Samples of this run that the newest checkpoint covers: what is not lost when the
    /// program is killed. Nothing if it has written none in this run.
    #[serde(default)]
    pub saved: Option<f64>,
    /// Samples since the trainer's beginning that the model had absorbed when this run began,
    /// of a program that knows (one that regroups): that is the truth, whatever was reported
    /// of earlier runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<f64>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn is_false(value: &bool) -> bool {
    !*value
}
