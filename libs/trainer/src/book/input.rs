//! What happens to the books.

use lacuna_model::{
    AgentStatus, Hole, NodeId, Plan, Progress, RunId, Timestamp, TrainerId, TrainerSpec,
};

use crate::book::LeaseResult;
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
}

/// How the main scheduler took a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    /// A batch job has it or is promised it.
    Busy,
    /// It is down or drained.
    Down,
    /// It is to be given back by a moment of the cluster's time.
    Wanted {
        /// By when.
        deadline: Timestamp,
    },
}

/// One thing that happens.
#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    /// Trainers were submitted.
    Submit {
        /// What their owner wrote.
        trainers: Vec<TrainerSpec>,
        /// Who submits them.
        user: String,
        /// Only check them.
        test_only: bool,
    },
    /// What the operator wants of the use of nodes, now.
    Controls(Wanted),
    /// A trainer is to end.
    Cancel(TrainerId),
    /// Holes closed, then opened, all at one moment. Leases on closed holes are released at
    /// once; the new runs of those who lost nodes begin with the next input of another kind,
    /// so that losses in quick succession are one change: say [`Input::Drained`] after the
    /// last.
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
    /// No more changes of the pool wait to be read.
    Drained,
    /// All present holes; what is not listed is no hole.
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
        /// The run of each trainer.
        runs: Vec<(TrainerId, RunId)>,
    },
    /// Agents spoke, in this order. What follows from all of it is done at once: leases are
    /// written together, and a plan is looked at once.
    Agents(Vec<AgentStatus>),
    /// A run reported.
    Progress(Progress),
    /// What became of [`crate::book::Effect::WriteLeases`].
    LeasesWritten(Vec<LeaseResult>),
    /// The cluster's clock.
    Clock(Tick),
    /// Some time has passed.
    Timer,
    /// The bus is there (again).
    Connected,
    /// The bus is gone.
    Disconnected,
}
