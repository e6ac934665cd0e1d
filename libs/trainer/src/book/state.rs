//! What the books hold.

use std::collections::{BTreeMap, BTreeSet};

use lacuna_model::{
    AgentStatus, Command, Epoch, Generation, NodeId, Past, Plan, RunId, Span, Timestamp, TrainerId,
    TrainerRecord, WithheldBy,
};

use crate::Queue;
use crate::account::{Account, Change};
use crate::book::harm::{Asked, Gone};
use crate::book::pauses::Pauses;
use crate::book::profile::Profile;
use crate::book::quarantine::Blame;
use crate::book::trial::Trials;
use crate::book::withhold::Withholding;
use crate::book::{Effect, LeaseWrite, Note, Tick};
use crate::comings::Comings;
use crate::settings::{Agent, Control};

/// Settings. Lengths are of real time.
#[derive(Debug, Clone, PartialEq)]
pub struct BookConfig {
    /// As the configuration has it.
    pub control: Control,
    /// An agent that hears no renewal for this long gives its node back by itself.
    pub dead_man: Span,
    /// Added to the dead man's time before nobody waits for an unconfirmed release any more.
    pub safety: Span,
    /// A command that is not acknowledged for this long is sent again; then after twice that,
    /// and so on, 16-fold at most.
    pub resend_after: Span,
    /// A trainer waits this long for nodes that others have still to give back; a node that
    /// is not given back in that time is offered to nobody until it is.
    pub transfer_wait: Span,
    /// Longest wait before a restart.
    pub backoff_max: Span,
    /// After progress for so long, over all runs since the last failure, failures are
    /// forgotten.
    pub healthy_after: Span,
    /// Failures in a row of one owner's programs on one node after which it is closed to that owner:
    /// to everybody, in quarantine, if to two owners or to all who have trainers.
    pub node_failures: u32,
    /// How long after its end a real program's last report counts, in cluster time.
    pub last_words: Span,
}

impl Default for BookConfig {
    fn default() -> Self {
        Self {
            control: Control::default(),
            dead_man: Agent::default().dead_man,
            safety: Span::from_secs(5),
            resend_after: Span::from_secs(2),
            transfer_wait: Span::from_secs(10),
            backoff_max: Span::from_secs(60),
            healthy_after: Span::from_secs(60),
            node_failures: 3,
            last_words: Span::from_secs(60),
        }
    }
}

/// What a written lease is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Pending {
    Grant(TrainerId),
    Release,
}

/// A release that the agent has not confirmed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Release {
    pub(crate) since: Timestamp,
    /// From when on the agent must have given up by itself.
    pub(crate) safe_at: Timestamp,
}

/// The newest command to a node.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sent {
    pub(crate) command: Command,
    pub(crate) first: Timestamp,
    pub(crate) last: Timestamp,
    /// How often it was sent again since its agent was last known to listen.
    pub(crate) again: u32,
}

/// One node.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Node {
    /// Since when it is a hole.
    pub(crate) idle_since: Option<Timestamp>,
    /// Who holds its lease, as the bucket says.
    pub(crate) owner: Option<TrainerId>,
    /// The revision of its entry.
    pub(crate) epoch: Epoch,
    pub(crate) pending: Option<Pending>,
    /// Why the pending or last release was made.
    pub(crate) reason: String,
    pub(crate) release: Option<Release>,
    /// Whether that release takes longer than others should count on.
    pub(crate) overdue: bool,
    /// When the run ended for which the node is released, if it was part of one.
    pub(crate) left: Option<Timestamp>,
    pub(crate) sent: Option<Sent>,
    pub(crate) status: Option<AgentStatus>,
    /// When its agent last spoke, or when we began to listen.
    pub(crate) heard: Option<Timestamp>,
    pub(crate) silent: bool,
    /// Its agent has said its last words.
    pub(crate) gone: Option<Gone>,
    /// How programs fail here, by owner; whoever has none there has no failure to answer for.
    pub(crate) blame: BTreeMap<String, Blame>,
    /// How long programs have made progress here since the last failure.
    pub(crate) healthy: Span,
    pub(crate) quarantined: bool,
    /// Whether the scheduler took it and waits for our answer.
    pub(crate) wanted: bool,
    /// That the main scheduler waits for it to be given back.
    pub(crate) asked: Option<Asked>,
    /// Whether the operator's lists leave it out, once that was looked at.
    pub(crate) barred: Option<Option<WithheldBy>>,
    /// Why it is not to be used, if the operator wants it so.
    pub(crate) withheld: Option<WithheldBy>,
}

impl Trainer {
    /// A re-placement is complete: leaving and joining are one rescale if the size is another.
    pub(crate) fn replaced(&mut self) {
        let nodes = self.record.nodes.len() as u32;
        let from = self.replaced_from.take();
        if from.is_some_and(|from| from > 0 && from != nodes) {
            self.record.rescales += 1;
        }
    }

    /// Takes back the restart that waits: something else explains it than a failure.
    pub(crate) fn forgive(&mut self) {
        if let Some(restart) = self.restart.take().filter(|restart| restart.failed) {
            self.record.failures = self.record.failures.saturating_sub(1);
            self.healthy += restart.healthy;
        }
    }
}

/// A write to the bus and the way to an agent, at worst.
const SLACK: Span = Span::from_secs(5);
/// The longest that an agent is believed to take. What says more is no agent of ours.
const LONGEST: Span = Span::from_secs(86_400);

impl Node {
    /// How long after a release its agent has surely given up by itself: by control's configuration
    /// or by the agent's own, whichever is longer.
    pub(crate) fn safe_after(&self, config: &BookConfig) -> Span {
        let terms = self.status.as_ref().and_then(|status| status.terms);
        let own = terms.map_or(Span::ZERO, |terms| {
            (terms.dead_man + terms.grace + SLACK).min(LONGEST)
        });
        own.max(config.dead_man + config.safety)
    }

    pub(crate) fn usable(&self) -> bool {
        !self.silent && !self.overdue && !self.quarantined && self.withheld.is_none()
    }

    /// Whether it can be given to a trainer at once.
    pub(crate) fn ready(&self) -> bool {
        self.idle_since.is_some()
            && self.owner.is_none()
            && self.pending.is_none()
            && self.release.is_none()
            && self.usable()
    }

    /// Whether the agent has obeyed the newest command.
    pub(crate) fn acknowledged(&self) -> bool {
        let Some(sent) = &self.sent else { return true };
        self.status.as_ref().is_some_and(|status| {
            (status.epoch, status.seq) >= (sent.command.epoch, sent.command.seq)
        })
    }
}

/// The set of nodes that a trainer is to get.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Target {
    pub(crate) nodes: BTreeSet<NodeId>,
    pub(crate) since: Timestamp,
    /// As what it is charged.
    pub(crate) change: Change,
}

/// A restart that waits.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Restart {
    pub(crate) at: Timestamp,
    /// Whether a failure of the program was counted for it.
    pub(crate) failed: bool,
    /// How long the trainer had made progress before it.
    pub(crate) healthy: Span,
    /// Whether it says nothing against the nodes: a program ended with exit code 0, perhaps
    /// having done its work, or its group could not be built.
    pub(crate) clean: bool,
}

/// Nodes that a trainer has lost and that its run still lists, until the next run begins.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Loss {
    pub(crate) nodes: BTreeSet<NodeId>,
    /// The moment of the newest event.
    pub(crate) at: Timestamp,
    /// When the run ended: with the first of them (cluster time).
    pub(crate) since: Timestamp,
}

/// A plan with the trainers that it was made from.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Planned {
    pub(crate) plan: Plan,
    pub(crate) version: u64,
    pub(crate) runs: BTreeMap<TrainerId, RunId>,
}

/// One trainer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Trainer {
    pub(crate) record: TrainerRecord,
    pub(crate) account: Account,
    pub(crate) profile: Profile,
    pub(crate) pauses: Pauses,
    pub(crate) trials: Trials,
    pub(crate) target: Option<Target>,
    pub(crate) loss: Option<Loss>,
    /// Nodes that it had before the first step of a re-placement that is under way.
    pub(crate) replaced_from: Option<u32>,
    pub(crate) restart: Option<Restart>,
    /// Real time at which a member of the present run first said that its group is broken.
    pub(crate) broken: Option<Timestamp>,
    /// After a failure, no newcomer is started before this moment of real time.
    pub(crate) not_before: Timestamp,
    /// Real time at which the present run began.
    pub(crate) up: Timestamp,
    /// Real time of the present run's newest progress, or of its beginning.
    pub(crate) progressed: Timestamp,
    /// How long it has made progress since its last failure.
    pub(crate) healthy: Span,
    /// Whether the record has changed since it was last kept.
    pub(crate) dirty: bool,
}

/// What a step has gathered; see [`crate::book::step`] for the order in which it leaves.
#[derive(Debug, Default)]
pub(crate) struct Out {
    pub(crate) writes: Vec<LeaseWrite>,
    pub(crate) records: BTreeSet<TrainerId>,
    /// Trainers of whose run is to be said who trains in it.
    pub(crate) members: BTreeSet<TrainerId>,
    pub(crate) sends: Vec<Command>,
    pub(crate) rest: Vec<Effect>,
}

impl Out {
    pub(crate) fn note(&mut self, note: Note) {
        self.rest.push(Effect::Note(note));
    }
}

/// Sums over time.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Sums {
    pub(crate) since: Option<Timestamp>,
    pub(crate) upto: Option<Timestamp>,
    pub(crate) idle_node_s: f64,
    pub(crate) harvested_node_s: f64,
}

/// Control's books. See the module's text.
#[derive(Debug)]
pub struct Book {
    pub(crate) config: BookConfig,
    pub(crate) trainers: BTreeMap<TrainerId, Trainer>,
    pub(crate) nodes: BTreeMap<NodeId, Node>,
    pub(crate) queue: Queue<String, TrainerId>,
    pub(crate) comings: Comings,
    /// Admitted, in order of admission.
    pub(crate) active: Vec<TrainerId>,
    pub(crate) next_order: u64,
    pub(crate) version: u64,
    /// Whether the planner must hear of a change.
    pub(crate) changed: bool,
    /// Whether only figures have changed.
    pub(crate) figures: bool,
    /// Real time at which the planner was last told.
    pub(crate) told: Timestamp,
    pub(crate) generation: Generation,
    pub(crate) connected: bool,
    /// The newest event seen; nothing before the first snapshot.
    pub(crate) seq: Option<u64>,
    pub(crate) tick: Option<Tick>,
    /// The plan that waits: for its step in lock step, for events that it knows of, or for
    /// the bus.
    pub(crate) plan: Option<Planned>,
    /// The step for which a plan was applied.
    pub(crate) planned_step: Option<u64>,
    /// Trainers with a [`Loss`].
    pub(crate) hit: BTreeSet<TrainerId>,
    /// The last tick that was answered.
    pub(crate) settled: Option<(u64, bool)>,
    /// Nodes with a command that is not acknowledged.
    pub(crate) unacked: BTreeSet<NodeId>,
    /// Nodes with a release that is not confirmed.
    pub(crate) releasing: BTreeSet<NodeId>,
    /// Nodes given back after a start of control, before the pool was known.
    pub(crate) returned: BTreeSet<NodeId>,
    /// Nodes with a write of which the outcome is unknown.
    pub(crate) unwritten: BTreeSet<NodeId>,
    /// Nodes that are closed to an owner at least.
    pub(crate) closed: BTreeSet<NodeId>,
    pub(crate) pool_nodes: u32,
    pub(crate) leased_nodes: u32,
    pub(crate) sums: Sums,
    /// What those did that have left for the archive.
    pub(crate) past: Past,
    pub(crate) withholding: Withholding,
}

impl Book {
    /// Empty books.
    #[must_use]
    pub fn new(config: BookConfig) -> Self {
        Self {
            config,
            trainers: BTreeMap::new(),
            nodes: BTreeMap::new(),
            queue: Queue::default(),
            comings: Comings::default(),
            active: Vec::new(),
            next_order: 1,
            version: 0,
            changed: true,
            figures: false,
            told: Timestamp::default(),
            generation: Generation(0),
            connected: true,
            seq: None,
            tick: None,
            plan: None,
            planned_step: None,
            hit: BTreeSet::new(),
            settled: None,
            unacked: BTreeSet::new(),
            releasing: BTreeSet::new(),
            returned: BTreeSet::new(),
            unwritten: BTreeSet::new(),
            closed: BTreeSet::new(),
            pool_nodes: 0,
            leased_nodes: 0,
            sums: Sums::default(),
            past: Past::default(),
            withholding: Withholding::default(),
        }
    }

    pub(crate) fn node(&mut self, id: &NodeId) -> &mut Node {
        self.nodes.entry(id.clone()).or_default()
    }

    pub(crate) fn lock_step(&self) -> bool {
        self.tick.is_some_and(|tick| tick.lock_step)
    }

    /// Sets the owner that the bucket names.
    pub(crate) fn set_owner(&mut self, id: &NodeId, owner: Option<TrainerId>, epoch: Epoch) {
        let node = self.nodes.entry(id.clone()).or_default();
        let before = node.owner.is_some();
        let after = owner.is_some();
        node.owner = owner;
        node.epoch = epoch;
        match (before, after) {
            (false, true) => self.leased_nodes += 1,
            (true, false) => self.leased_nodes = self.leased_nodes.saturating_sub(1),
            _ => {}
        }
    }
}
