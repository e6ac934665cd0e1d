//! What the books ask for.

use std::fmt;

use lacuna_model::{
    AgentTerms, Command, Epoch, Generation, Members, NodeId, RunId, Span, TrainerId, TrainerRecord,
    WithheldBy,
};

use crate::book::TrainersView;

/// A lease to be written by compare-and-set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseWrite {
    /// Which node's entry.
    pub node: NodeId,
    /// Its new owner; nobody after a release.
    pub trainer: Option<TrainerId>,
    /// The revision that the entry must have; 0 if there must be none.
    pub expected: Epoch,
}

/// What became of a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseResult {
    /// Which node's entry.
    pub node: NodeId,
    /// The entry as it is now, owner and revision; nothing if it could not be learned.
    pub entry: Option<(Option<TrainerId>, Epoch)>,
    /// Whether the write was accepted.
    pub written: bool,
}

/// What kind of refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefusalKind {
    /// A trainer of that name exists.
    Duplicate,
    /// The specification makes no sense.
    Spec,
    /// There is no such trainer.
    Unknown,
    /// The trainer is over already.
    Final,
    /// Its user has as much as they may have.
    Quota,
}

/// Why a request was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// What kind.
    pub kind: RefusalKind,
    /// What is wrong and what to do.
    pub reason: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

/// Something worth a log line and a count.
#[derive(Debug, Clone, PartialEq)]
pub enum Note {
    /// A trainer may now be given nodes.
    Admitted {
        /// Which.
        trainer: TrainerId,
    },
    /// A trainer has a new run.
    Run {
        /// Which.
        trainer: TrainerId,
        /// The run.
        run: RunId,
        /// Nodes before.
        before: u32,
        /// Nodes now.
        after: u32,
        /// Why: `start`, `grown`, `shrunk`, `repooled`, `preempted`, `restarted` or `ended`.
        cause: &'static str,
    },
    /// A trainer lost nodes unasked.
    Preempted {
        /// Which.
        trainer: TrainerId,
        /// How many nodes.
        nodes: u32,
    },
    /// A trainer is over.
    Ended {
        /// Which.
        trainer: TrainerId,
        /// `done`, `cancelled` or `failed`.
        phase: &'static str,
        /// Why.
        reason: String,
    },
    /// A trainer's program failed and will be started again.
    Failure {
        /// Which.
        trainer: TrainerId,
        /// On which node; none if it says nothing against a node.
        node: Option<NodeId>,
        /// How often in a row.
        failures: u32,
        /// What it said.
        reason: String,
        /// When it starts again, from now.
        again_in: Span,
    },
    /// A trainer goes on with so many of its nodes, for the sake of measuring.
    Trial {
        /// Which.
        trainer: TrainerId,
        /// On how many nodes.
        nodes: u32,
        /// Of how many: all, when it has tried enough.
        of: u32,
    },
    /// Trying sizes has cost so much since this was last said.
    TrialOver {
        /// Which trainer.
        trainer: TrainerId,
        /// Node-seconds.
        node_s: f64,
    },
    /// A node is kept out of use.
    Unusable {
        /// Which.
        node: NodeId,
        /// Why: `quarantine`, `silent` or `release overdue`.
        cause: &'static str,
    },
    /// A node is closed to an owner: its programs keep failing there.
    Closed {
        /// Which.
        node: NodeId,
        /// Whose programs.
        owner: String,
        /// For how long.
        length: Span,
    },
    /// The operator wants nodes back that are in use.
    Withheld {
        /// How many.
        nodes: u32,
        /// Why.
        by: WithheldBy,
    },
    /// A node may be used again.
    Usable {
        /// Which.
        node: NodeId,
    },
    /// An agent confirmed a release.
    Released {
        /// Which node.
        node: NodeId,
        /// Real time from the release to the agent's word.
        after: Span,
    },
    /// A node that the main scheduler waited for was given back.
    GivenBack {
        /// Which node.
        node: NodeId,
        /// How it had been asked for: `preempted`, `idle`, `drained`, `taken` or `wanted`.
        cause: &'static str,
        /// How long the main scheduler waited; of a node wanted by a deadline, beyond that.
        harm: Span,
    },
    /// A group broke, and goes on in another run.
    Broke {
        /// Whose.
        trainer: TrainerId,
        /// Which run.
        run: RunId,
        /// Members who said so.
        said: u32,
        /// Members who did not answer, and are left out.
        silent: u32,
    },
    /// A release was not confirmed, but its agent must have given up by now: whoever wanted the
    /// node is told. It stays
    /// out of use until an agent speaks there.
    ReleasedUnheard {
        /// Which node.
        node: NodeId,
    },
    /// A plan was applied.
    PlanApplied {
        /// Its number.
        generation: Generation,
        /// How many trainers it changed.
        changed: u32,
        /// How many trainers it said nothing new about, their run having changed meanwhile.
        skipped: u32,
    },
    /// A plan was refused.
    PlanRefused {
        /// Its number.
        generation: Generation,
        /// Why: `older` or `stale`.
        cause: &'static str,
    },
    /// An agent may take longer to give its node back than control's configuration says.
    OtherTerms {
        /// Which node.
        node: NodeId,
        /// What it says.
        terms: AgentTerms,
    },
    /// A lease was not as we knew it.
    LeaseConflict {
        /// Which node.
        node: NodeId,
    },
    /// A report came too late to count.
    LateReport {
        /// Of which trainer.
        trainer: TrainerId,
        /// Of which run.
        run: RunId,
    },
    /// A report of a run came from a node that does not lead it, and was not counted.
    ForeignReport {
        /// Of which trainer.
        trainer: TrainerId,
        /// Of which run.
        run: RunId,
        /// From which node.
        node: NodeId,
    },
    /// A report made no sense.
    BadReport {
        /// Of which trainer.
        trainer: TrainerId,
    },
    /// A command is sent once more.
    Resent {
        /// To which node.
        node: NodeId,
    },
}

/// One thing to do.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Publish what the planner needs to know.
    PublishTrainers(TrainersView),
    /// Write these leases, all at once, and answer with [`crate::book::Input::LeasesWritten`].
    WriteLeases(Vec<LeaseWrite>),
    /// Keep this record.
    PutTrainer(Box<TrainerRecord>),
    /// Keep who trains in a run, before its commands are sent. Those wait if it cannot be kept: the
    /// books say both again.
    Say(Members),
    /// Send this command.
    Send(Command),
    /// Tell the scheduler that a node which it wanted is free.
    AnswerReleased {
        /// Which node.
        node: NodeId,
    },
    /// Tell that the loop has settled.
    Settled {
        /// For which step.
        step: u64,
        /// For which of its two ticks.
        complete: bool,
    },
    /// Answer the submission or cancellation.
    Reply(Result<Vec<TrainerId>, Refusal>),
    /// Log and count.
    Note(Note),
}
