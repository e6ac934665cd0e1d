//! Effects: requests of the controller to its service.

use std::fmt;

use lacuna_model::{
    AgentTerms, Command, Epoch, Generation, KindName, Members, NodeId, RunId, Span, TrainerId,
    TrainerRecord, WithheldBy,
};

use crate::controller::TrainersView;

/// A lease to be written by compare-and-set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseWrite {
    /// The node of the entry.
    pub node: NodeId,
    /// Its new owner; none for a release.
    pub trainer: Option<TrainerId>,
    /// The revision that the entry must have; 0 if there must be none.
    pub expected: Epoch,
}

/// The outcome of a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseResult {
    /// The node of the entry.
    pub node: NodeId,
    /// The entry as it is now, owner and revision; nothing if that is unknown.
    pub entry: Option<(Option<TrainerId>, Epoch)>,
    /// Whether the write was accepted.
    pub written: bool,
}

/// Kinds of refusals.
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
    /// Its owner's quota is used up.
    Quota,
    /// Its program would run under the account of another owner's.
    Account,
    /// There is no room for its record.
    Room,
}

/// Why a request was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Its kind.
    pub kind: RefusalKind,
    /// The fault and the remedy.
    pub reason: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

/// Something to log and to count.
#[derive(Debug, Clone, PartialEq)]
pub enum Note {
    /// A trainer may now be given nodes.
    Admitted {
        /// Which.
        trainer: TrainerId,
    },
    /// A trainer has a new incarnation.
    Run {
        /// Which.
        trainer: TrainerId,
        /// The incarnation.
        run: RunId,
        /// Nodes before.
        before: u32,
        /// Nodes now.
        after: u32,
        /// Why: `start`, `grown`, `shrunk`, `replaced`, `preempted`, `restarted`, `paced`
        /// or `ended`.
        cause: &'static str,
    },
    /// A trainer lost nodes by a departure.
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
        /// The node; `None` if the failure is of no single node.
        node: Option<NodeId>,
        /// Failures in a row.
        failures: u32,
        /// The reason that the program gave.
        reason: String,
        /// Time until its next start.
        again_in: Span,
    },
    /// A trainer goes on with some of its nodes, for the sake of measuring.
    Probe {
        /// Which.
        trainer: TrainerId,
        /// The number of nodes.
        nodes: u32,
        /// The number of all its nodes; the same when the probe is over.
        of: u32,
    },
    /// The cost of probes since this was last noted.
    ProbeEnded {
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
    /// Nothing speaks against a node any more, by the word of an operator.
    Reopened {
        /// Which.
        node: NodeId,
    },
    /// A program failed on a node and is sound on another.
    Suspect {
        /// Which.
        node: NodeId,
        /// The trainer.
        trainer: TrainerId,
        /// How it ended there.
        reason: String,
        /// Where it is sound.
        sound_on: NodeId,
    },
    /// A node is closed to an owner: it is slow, or programs failed there and were sound elsewhere.
    Closed {
        /// Which.
        node: NodeId,
        /// The owner.
        owner: String,
        /// For this long.
        length: Span,
    },
    /// A trainer has the node, and no agent has ever spoken there.
    NoAgent {
        /// Which.
        node: NodeId,
        /// Agents that speak under names that no scheduler has given.
        perhaps: Vec<NodeId>,
    },
    /// A node keeps several trainers waiting in each step.
    Slow {
        /// Which.
        node: NodeId,
        /// The trainers.
        trainers: Vec<TrainerId>,
    },
    /// A control takes nodes that are in use.
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
        /// Real time from the release to the agent's status.
        after: Span,
    },
    /// A node that the main scheduler waited for was given back.
    GivenBack {
        /// Which node.
        node: NodeId,
        /// Its kind, where two kinds at least are known.
        kind: Option<KindName>,
        /// How the main scheduler had asked for it: `preempted`, `idle`, `drained`, `taken` or
        /// `wanted`.
        cause: &'static str,
        /// How long the main scheduler waited; of a node wanted by a deadline, beyond that.
        harm: Span,
    },
    /// A group broke, and goes on in another incarnation.
    Broke {
        /// Its trainer.
        trainer: TrainerId,
        /// The incarnation.
        run: RunId,
        /// Members that reported it.
        said: u32,
        /// Members that did not answer, and are left out.
        silent: u32,
    },
    /// A release was not confirmed, but its agent must have given up by now. The main scheduler is
    /// answered. The node stays out of use until an agent reports there.
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
        /// How many trainers were left as they are, since their incarnation had changed meanwhile.
        skipped: u32,
    },
    /// A plan was refused.
    PlanRefused {
        /// Its number.
        generation: Generation,
        /// Why: `older` or `stale`.
        cause: &'static str,
    },
    /// An agent may take longer to give its node back than by control's configuration.
    OtherTerms {
        /// Which node.
        node: NodeId,
        /// Its terms.
        terms: AgentTerms,
    },
    /// A lease in the bucket was another than expected.
    LeaseConflict {
        /// Which node.
        node: NodeId,
    },
    /// A report came too late to count.
    LateReport {
        /// Of which trainer.
        trainer: TrainerId,
        /// Of which incarnation.
        run: RunId,
    },
    /// A report came from a node that does not have rank 0, and was not counted.
    ForeignReport {
        /// Of which trainer.
        trainer: TrainerId,
        /// Of which incarnation.
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

/// One effect.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Publish the trainers for the planner.
    PublishTrainers(TrainersView),
    /// Write these leases, all at once, and answer with
    /// [`crate::controller::Input::LeasesWritten`].
    WriteLeases(Vec<LeaseWrite>),
    /// Keep this record.
    PutTrainer(Box<TrainerRecord>),
    /// Keep the members of an incarnation, before its commands are sent. The commands wait while
    /// that is impossible: the controller repeats both.
    Say(Members),
    /// Send this command.
    Send(Command),
    /// Tell the scheduler that a node that it wanted is free.
    AnswerReleased {
        /// Which node.
        node: NodeId,
    },
    /// Tell that the loop has settled.
    Settled {
        /// The step.
        step: u64,
        /// Which of its two ticks.
        complete: bool,
    },
    /// Answer the submission or cancellation.
    Reply(Result<Vec<TrainerId>, Refusal>),
    /// Log and count.
    Note(Note),
}
