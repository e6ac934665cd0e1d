//! Inputs of the controller.

use std::collections::BTreeMap;

use lacuna_model::{
    AgentStatus, Hole, NodeId, NodeKinds, Plan, Progress, RunId, Span, Timestamp, Topology,
    TrainerId, TrainerSpec,
};

use crate::controller::LeaseResult;
use crate::controls::Wanted;

/// A tick of the cluster's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tick {
    /// The cluster's time.
    pub now: Timestamp,
    /// Number of the moment.
    pub step: u64,
    /// The last event published so far.
    pub events_upto: u64,
    /// Whether the events of this step are out.
    pub complete: bool,
    /// Whether time waits until the loop has settled.
    pub lock_step: bool,
    /// Whether the cluster's time is that of the wall clock.
    pub is_wall: bool,
}

/// How the main scheduler took a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    /// A batch job has it or has it reserved.
    Busy,
    /// It is down or drained.
    Down,
    /// It is to be given back by a moment of the cluster's time.
    Wanted {
        /// The moment.
        deadline: Timestamp,
    },
}

/// One input.
#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    /// Trainers were submitted.
    Submit {
        /// Their specifications.
        trainers: Vec<TrainerSpec>,
        /// Packed tickets of their owners, where pilots need them.
        tickets: BTreeMap<TrainerId, String>,
        /// The user that submits them.
        user: String,
        /// Only check them.
        test_only: bool,
    },
    /// The owner of a trainer may have no pilots for now.
    NoPilots {
        /// The trainer.
        trainer: TrainerId,
        /// Why.
        reason: String,
        /// Real time until it is tried again.
        again_in: Span,
    },
    /// Another ticket of a trainer's owner, in place of the present one.
    Renew {
        /// The trainer.
        trainer: TrainerId,
        /// The packed ticket.
        ticket: String,
    },
    /// The operator's controls, as they are now.
    Controls(Wanted),
    /// An operator opens nodes: nothing speaks against them any more.
    Reopen(Vec<NodeId>),
    /// A trainer is to end.
    Cancel(TrainerId),
    /// Holes closed, then opened, all at one moment. Leases on closed holes are released at once.
    /// The next incarnations of trainers that lost nodes begin with the next input of another kind,
    /// so losses in quick succession are one change: [`Input::Drained`] comes after the last.
    Pool {
        /// The newest event that is included.
        seq: u64,
        /// When it happened.
        at: Timestamp,
        /// Holes that opened.
        opened: Vec<Hole>,
        /// Nodes whose holes closed.
        closed: Vec<(NodeId, Taken)>,
    },
    /// No further change of the pool waits to be read.
    Drained,
    /// All present holes: a node that is not listed is no hole.
    Snapshot {
        /// The newest event that is included.
        seq: u64,
        /// When it was taken.
        at: Timestamp,
        /// The holes.
        idle: Vec<Hole>,
    },
    /// The planner's newest plan, and the trainers that it was made from.
    Plan {
        /// The plan.
        plan: Plan,
        /// The version of the trainers.
        trainers_version: u64,
        /// The incarnation of each trainer.
        runs: Vec<(TrainerId, RunId)>,
    },
    /// Statuses of agents, in this order. Their effects are collected: leases are written together,
    /// and a plan is followed once.
    Agents(Vec<AgentStatus>),
    /// An incarnation reported.
    Progress(Progress),
    /// The outcome of [`crate::controller::Effect::WriteLeases`].
    LeasesWritten(Vec<LeaseResult>),
    /// Where nodes are.
    Topology(Topology),
    /// Of which kind nodes are.
    Kinds(NodeKinds),
    /// The cluster's clock.
    Clock(Tick),
    /// Some time has passed.
    Timer,
    /// The bus is there (again).
    Connected,
    /// The bus is gone.
    Disconnected,
}
