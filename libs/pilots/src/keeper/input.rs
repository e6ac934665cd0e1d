//! Inputs and effects of the keeper.

use std::collections::{BTreeMap, BTreeSet};

use lacuna_model::pilots::Mode;
use lacuna_model::{KindName, NodeId, NodeKinds, Span, Timestamp, TrainerId, TrainerSpec};
use lacuna_scheduler::job::{End, JobId, Listed};
use lacuna_scheduler::submit::Refusal;

/// Identifies a submission in its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(pub u64);

/// An idle node, with the time limit of a pilot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    /// The idle node.
    pub node: NodeId,
    /// Time limit of a pilot submitted now.
    pub limit: Span,
}

/// The nodes that a trainer can use.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Wants {
    /// Most nodes in all.
    pub nodes: u32,
    /// Most nodes of each kind that it can use; empty if every node is alike to it.
    pub of_kinds: BTreeMap<KindName, u32>,
}

impl Wants {
    /// What a trainer can use.
    #[must_use]
    pub fn of(spec: &TrainerSpec) -> Self {
        let most = |kind: &KindName| (kind.clone(), spec.kinds.most(kind).min(spec.max_nodes));
        Self {
            nodes: spec.max_nodes,
            of_kinds: spec.kinds.names().map(most).collect(),
        }
    }
}

/// The operator's controls.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Limits {
    /// Nodes that get no pilot, and whose pilot is cancelled once no trainer uses the node.
    pub withheld: BTreeSet<NodeId>,
    /// Largest number of nodes with pilots; `None` is unlimited.
    pub at_most: Option<u32>,
    /// Whether submissions are stopped.
    pub no_growth: bool,
}

/// An input of the keeper.
#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    /// The mode of pilots.
    Mode(Mode),
    /// All idle nodes. Nodes with only our own pilots count as idle.
    Pool(Vec<Offer>),
    /// The nodes that each trainer can use.
    Demand(Vec<Wants>),
    /// Of which kind nodes are.
    Kinds(NodeKinds),
    /// With pilots of single trainers: which trainer has each node or is being given it, and the
    /// trainers that are not over.
    Given {
        /// The trainer of each node.
        nodes: BTreeMap<NodeId, TrainerId>,
        /// Trainers that can have pilots.
        trainers: BTreeSet<TrainerId>,
        /// Trainers whose owners have signed again: refusals before it count no longer.
        renewed: BTreeSet<TrainerId>,
    },
    /// The operator's controls.
    Use(Limits),
    /// A report of an agent.
    Agent {
        /// Node of the agent.
        node: NodeId,
        /// Whether this is its last report.
        leaving: bool,
        /// Whether it has no trainer.
        free: bool,
        /// The only trainer that it serves.
        serves: Option<TrainerId>,
    },
    /// Whether the bus is connected; without it no report arrives.
    Link(bool),
    /// The outcome of a submission.
    Submitted {
        /// Ticket of the submission.
        ticket: Ticket,
        /// The job, or the refusal.
        outcome: Result<JobId, Refusal>,
    },
    /// A cancellation did not reach the scheduler.
    CancelFailed(Vec<JobId>),
    /// The scheduler's list of all our jobs. Foreign jobs in it are ignored.
    Listing {
        /// Time of the request.
        asked: Timestamp,
        /// Jobs of the list.
        jobs: Vec<Listed>,
    },
    /// The request for a list failed.
    ListingFailed,
    /// A tick of the timer. Only this input causes submissions and cancellations.
    Timer,
}

/// An effect that the caller applies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Submit a pilot.
    Submit {
        /// Ticket of the answer.
        ticket: Ticket,
        /// The only node of the pilot.
        node: NodeId,
        /// Time limit of the pilot.
        limit: Span,
        /// The only trainer that it serves.
        trainer: Option<TrainerId>,
    },
    /// Cancel our own pilots.
    Cancel {
        /// Pilots to cancel.
        jobs: Vec<JobId>,
        /// Whether pilots that have their node are spared.
        pending_only: bool,
    },
    /// Request a list of the scheduler.
    List,
    /// Log and count a note.
    Note(Note),
}

/// A note for logs and metrics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Note {
    /// The mode of pilots has changed.
    Mode(Mode),
    /// A submission failed.
    Refused {
        /// Node of the submission.
        node: NodeId,
        /// The only trainer that it was to serve.
        trainer: Option<TrainerId>,
        /// Cause and message.
        refusal: Refusal,
        /// Wait before the next submission to this node, for this trainer if the cause is its owner,
        /// or to any node.
        again_in: Span,
    },
    /// A running pilot was found and adopted.
    Adopted {
        /// Node of the pilot.
        node: NodeId,
        /// Job id of the pilot.
        job: JobId,
    },
    /// A pilot is over.
    Ended {
        /// Node of the pilot.
        node: NodeId,
        /// Job id, if it was ever known.
        job: Option<JobId>,
        /// Outcome; `None` if the scheduler no longer knows the pilot.
        end: Option<End>,
    },
    /// A pilot is being cancelled.
    Cancelling {
        /// Job id of the pilot.
        job: JobId,
        /// Node of the pilot, if it is known.
        node: Option<NodeId>,
        /// Cause: `pending`, `duplicate`, `no agent`, `mute`, `stray`, `idle`, `withheld`, `off`,
        /// `other trainer`, `over`.
        cause: &'static str,
    },
    /// A pilot failed, which counts as a failure of its node.
    Failed {
        /// Node of the pilot.
        node: NodeId,
        /// Failures in a row.
        failures: u32,
        /// Kind of failure.
        cause: &'static str,
        /// Wait before the next submission to this node.
        again_in: Span,
        /// Whether the node is in quarantine.
        quarantined: bool,
    },
}
