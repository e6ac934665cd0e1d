//! What the keeper hears and what it asks for.

use std::collections::BTreeSet;

use lacuna_model::{NodeId, Span, Timestamp};
use lacuna_scheduler::job::{End, JobId, Listed};
use lacuna_scheduler::submit::Refusal;

use crate::settings::Mode;

/// Which submission an answer belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(pub u64);

/// An idle node and how long a pilot there may run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    /// Which node.
    pub node: NodeId,
    /// The time limit of a pilot submitted now.
    pub limit: Span,
}

/// How the operator wants nodes to be used.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Limits {
    /// Nodes that get no pilot, and whose pilot goes once nothing trains there.
    pub withheld: BTreeSet<NodeId>,
    /// So many nodes have pilots at most; nothing means any number.
    pub at_most: Option<u32>,
    /// Whether no more pilots are submitted.
    pub no_growth: bool,
}

/// What the keeper hears.
#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    /// Whether pilots are wanted.
    Mode(Mode),
    /// All idle nodes. Nodes where only our pilots run count as idle.
    Pool(Vec<Offer>),
    /// How many nodes trainers can use in all.
    Demand(u32),
    /// How the operator wants nodes to be used.
    Use(Limits),
    /// An agent has spoken.
    Agent {
        /// Where.
        node: NodeId,
        /// Whether these were its last words.
        leaving: bool,
        /// Whether it has nothing to do.
        free: bool,
    },
    /// The bus is there or not: without it no agent is heard.
    Link(bool),
    /// What became of a submission.
    Submitted {
        /// Which.
        ticket: Ticket,
        /// The job, or why there is none.
        outcome: Result<JobId, Refusal>,
    },
    /// A cancellation did not reach the scheduler.
    CancelFailed(Vec<JobId>),
    /// Our jobs as the scheduler lists them, all of them; those of others do no harm.
    Listing {
        /// When the list was asked for.
        asked: Timestamp,
        /// The jobs.
        jobs: Vec<Listed>,
    },
    /// No list came.
    ListingFailed,
    /// Time has passed. Nothing is submitted or cancelled at any other input.
    Timer,
}

/// What must happen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// A pilot is to be submitted.
    Submit {
        /// To be named in the answer.
        ticket: Ticket,
        /// To this node alone.
        node: NodeId,
        /// With this time limit.
        limit: Span,
    },
    /// Pilots of ours are to be cancelled.
    Cancel {
        /// Which.
        jobs: Vec<JobId>,
        /// Only as far as they still wait for their node.
        pending_only: bool,
    },
    /// The scheduler is to be asked for a list.
    List,
    /// Something worth telling.
    Note(Note),
}

/// Something worth telling.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Note {
    /// Pilots are wanted in another way than before.
    Mode(Mode),
    /// A submission came to nothing.
    Refused {
        /// For which node.
        node: NodeId,
        /// Why.
        refusal: Refusal,
        /// Until nothing is tried there, or anywhere if the reason is no single node's.
        again_in: Span,
    },
    /// A pilot that runs already was found.
    Adopted {
        /// Where.
        node: NodeId,
        /// Which.
        job: JobId,
    },
    /// A pilot is over.
    Ended {
        /// Where.
        node: NodeId,
        /// Which, if that was ever known.
        job: Option<JobId>,
        /// How; nothing if the scheduler no longer knows it.
        end: Option<End>,
    },
    /// A pilot is being cancelled.
    Cancelling {
        /// Which.
        job: JobId,
        /// Where, if that is known.
        node: Option<NodeId>,
        /// Why: `pending`, `duplicate`, `no agent`, `mute`, `stray`, `idle`, `withheld`, `off`.
        cause: &'static str,
    },
    /// A pilot failed, which counts against its node.
    Failed {
        /// Where.
        node: NodeId,
        /// How often in a row.
        failures: u32,
        /// How.
        cause: &'static str,
        /// Until when the node is left alone.
        again_in: Span,
        /// Whether the node is in quarantine.
        quarantined: bool,
    },
}
