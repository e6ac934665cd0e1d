//! The record of a trainer, which control keeps and publishes.

use serde::{Deserialize, Serialize};

use crate::{
    Attained, Ending, Goodput, InForce, Launch, Learning, Measured, NodeId, Program, Progress,
    RunId, StepCosts, Timestamp, TrainerSpec, Tries, is_default,
};

/// The phase of a trainer's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Submitted, not yet admitted.
    Queued,
    /// Admitted. The planner may give it nodes; it may have none at present.
    Active,
    /// All its work is done.
    Done,
    /// Ended by its owner.
    Cancelled,
    /// Given up after repeated failures of its program.
    Failed,
}

impl Phase {
    /// Whether the trainer has ended.
    #[must_use]
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Done | Self::Cancelled | Self::Failed)
    }
}

/// The cost of one cause of changes, in time and in work. The stall cost in samples is a field
/// beside it. `lacuna_trainer::measure` defines all three.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Stall {
    /// Seconds of cluster time without training.
    pub seconds: f64,
    /// Samples of ended incarnations that no checkpoint covers. They are done again.
    pub redone: f64,
}

/// A [`Stall`] for each cause.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Stalls {
    /// Changes of size by the planner.
    pub rescale: Stall,
    /// Preemptions: nodes that left without a plan.
    pub preempt: Stall,
    /// Restarts of failed or broken programs on the same nodes.
    pub restart: Stall,
}

/// The cause of a loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LossCause {
    /// The planner changes a size.
    Rescale,
    /// Nodes leave unasked.
    Preempt,
    /// A program begins again on its nodes.
    Restart,
}

impl LossCause {
    /// All causes.
    pub const ALL: [Self; 3] = [Self::Rescale, Self::Preempt, Self::Restart];

    /// Value of the label `cause` of metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rescale => "rescale",
            Self::Preempt => "preempt",
            Self::Restart => "restart",
        }
    }

    /// The stall of this cause.
    #[must_use]
    pub const fn of(self, stalls: &Stalls) -> &Stall {
        match self {
            Self::Rescale => &stalls.rescale,
            Self::Preempt => &stalls.preempt,
            Self::Restart => &stalls.restart,
        }
    }
}

/// An ended incarnation whose last reports may still come. `lacuna_trainer::account` says what
/// counts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EndedRun {
    /// Its number.
    pub run: RunId,
    /// The nodes whose reports of it count.
    pub leaders: Vec<NodeId>,
    /// Whether only the samples in its newest checkpoint count.
    #[serde(default, skip_serializing_if = "is_default")]
    pub saved_only: bool,
    /// Samples of it that count.
    pub counted: f64,
    /// Samples that it reported.
    pub reported: f64,
    /// Why it ended: the cause of its samples redone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<LossCause>,
    /// Reports of later moments are not counted.
    pub until: Timestamp,
}

/// Node-time that the ended incarnations of a trainer held.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Held {
    /// Seconds of cluster time with at least one node.
    pub seconds: f64,
    /// Node-seconds of cluster time.
    pub node_s: f64,
}

/// Efficiency U, or why it is not known. `lacuna_trainer::measure` defines it.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Efficiency {
    /// Samples done, over the samples of the same trainers on as much dedicated node-time.
    Known(f64),
    /// Control does not report it.
    #[default]
    Untold,
    /// Less than a node-minute was idle so far.
    TooLittleIdle,
    /// No trainer had a node so far.
    NoTrainer,
    /// Trainers did work in node-time that was not counted.
    Uncounted,
    /// A scaling curve is assumed and not yet measured.
    CurveAssumed,
    /// A trainer did more than its scaling curve allows.
    CurveExceeded,
    /// A trainer has rates by kind of node, and node-time is not counted by kind.
    ByKind,
}

impl Efficiency {
    /// The figure, if it is known.
    #[must_use]
    pub const fn known(self) -> Option<f64> {
        match self {
            Self::Known(share) => Some(share),
            _ => None,
        }
    }

    /// Why it is not known; empty if it is.
    #[must_use]
    pub const fn why_not(self) -> &'static str {
        match self {
            Self::Known(_) => "",
            Self::Untold => "control does not report it",
            Self::TooLittleIdle => "less than a node-minute was idle so far",
            Self::NoTrainer => "no trainer had a node so far",
            Self::Uncounted => "trainers did work in node-time that was not counted",
            Self::CurveAssumed => "a trainer's scaling curve is assumed and not yet measured",
            Self::CurveExceeded => "a trainer did more than its scaling curve allows",
            Self::ByKind => {
                "a trainer has rates by kind of node, and node-time is not counted by kind"
            }
        }
    }
}

/// The whole state of one trainer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrainerRecord {
    /// The specification as submitted. It never changes; `lacuna_rates::Rates` says what is known
    /// beside it.
    pub spec: TrainerSpec,
    /// The user who submitted it, as the bus proved it. Only this user and operators may cancel it.
    /// For records from before there were users it is the owner of the specification, or empty.
    pub user: String,
    /// Order of arrival, for first-come-first-served.
    pub order: u64,
    /// The phase of its life.
    pub phase: Phase,
    /// Nodes that it holds now, sorted.
    pub nodes: Vec<NodeId>,
    /// The present incarnation.
    pub run: RunId,
    /// Samples counted from all past incarnations.
    pub samples_before: f64,
    /// Past incarnations whose last reports may still come, the oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ended_runs: Vec<EndedRun>,
    /// Samples reported by the present incarnation.
    pub samples_run: f64,
    /// The part of `samples_run` that the newest checkpoint of the present incarnation covers.
    #[serde(default)]
    pub saved_run: f64,
    /// Stall debt of the present incarnation that is not yet paid, in samples.
    pub owed: f64,
    /// When the present incarnation began, in the cluster's time.
    #[serde(default)]
    pub run_since: Timestamp,
    /// Stall debt of the present incarnation when it began, in samples.
    #[serde(default)]
    pub run_owed: f64,
    /// Stall cost of changes of size by the planner so far, in samples.
    pub rescale_cost: f64,
    /// Stall cost of preemptions so far, in samples.
    pub preempt_cost: f64,
    /// Stall cost of restarts of its program on the same nodes so far, in samples.
    #[serde(default, skip_serializing_if = "is_default")]
    pub restart_cost: f64,
    /// Seconds stalled and samples redone so far, by cause.
    #[serde(default, skip_serializing_if = "is_default")]
    pub stalls: Stalls,
    /// Node-time of its ended incarnations.
    #[serde(default, skip_serializing_if = "is_default")]
    pub held: Held,
    /// Number of preemptions.
    pub preemptions: u64,
    /// Number of changes of size by the planner while it had nodes.
    pub rescales: u64,
    /// When a departure last hit it, if no plan has been followed for it since. Its restart is then
    /// paid for, and may use any nodes (`lacuna_rates::Rates::is_hit`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hit_at: Option<Timestamp>,
    /// When it first had a node.
    pub started: Option<Timestamp>,
    /// When it reached a final phase.
    pub ended: Option<Timestamp>,
    /// Service attained. In its record it is the trainer's own; in the input of plans it is that of
    /// its owner over all trainers.
    #[serde(default, skip_serializing_if = "is_default")]
    pub attained: Attained,
    /// Why its last program ended, or why it is in this phase.
    #[serde(default)]
    pub reason: String,
    /// Consecutive failures of its program.
    #[serde(default)]
    pub failures: u32,
    /// How far the end of its work has come, from the first word of a member of the present
    /// incarnation on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ending: Option<Ending>,
    /// Where its programs failed, and when they are tried again.
    #[serde(default, skip_serializing_if = "is_default")]
    pub tries: Tries,
    /// Newest loss reported.
    #[serde(default)]
    pub loss: Option<f64>,
    /// Newest checkpoint reported.
    #[serde(default)]
    pub checkpoint: Option<String>,
    /// What is known of its rates and costs beside its specification.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<Box<Measured>>,
    /// Where the time of a step went, as last reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_costs: Option<Box<StepCosts>>,
    /// Why the newest times of its steps say nothing, if they do not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_replay: Option<String>,
    /// What its batch was worth, as last reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub learning: Option<Learning>,
    /// How fast it would learn on each number of nodes, if its program says enough for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goodput: Option<Box<Goodput>>,
    /// Samples/s on its present nodes, where their kinds say it or, for a simulated trainer, their
    /// distance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mix_rate: Option<f64>,
    /// What its owner has signed, so that pilots may run its program under their account: a packed
    /// ticket (`lacuna-owner`). Kept where control submits pilots through the helper.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ticket: Option<String>,
}

impl TrainerRecord {
    /// The nodes that may report progress of the present incarnation: that of rank 0, or all nodes
    /// where its members rank themselves.
    #[must_use]
    pub fn leaders(&self) -> &[NodeId] {
        if self.spec.launch.ranks_itself() {
            return &self.nodes;
        }
        self.nodes.get(..1).unwrap_or_default()
    }

    /// The owner that it names, else the user who submitted it.
    #[must_use]
    pub fn owner(&self) -> &str {
        self.spec.owner_or(&self.user)
    }

    /// Seconds of training at `now` that only its members hold, so that a stop by choice throws them
    /// away. A program that regroups saves its state when it is asked to leave, if it has a
    /// `checkpoint_dir`; any other one goes on from its newest checkpoint.
    #[must_use]
    pub fn unsaved_s(&self, now: Timestamp) -> f64 {
        let Launch::Command(Program { checkpoint_dir, .. }) = &self.spec.launch else {
            return 0.0;
        };
        let unsaved = match (checkpoint_dir.is_some(), self.spec.launch.regroups()) {
            (true, true) => 0.0,
            (false, true) => self.samples(),
            (true, false) => (self.samples_run - self.saved_run).max(0.0),
            (false, false) => self.samples_run,
        };
        if self.nodes.is_empty() || unsaved <= 0.0 {
            return 0.0;
        }
        if self.samples_run > 0.0 {
            now.since(self.run_since).as_secs_f64().max(0.0) * unsaved / self.samples_run
        } else {
            self.held.seconds
        }
    }

    /// What decisions go by in place of its specification, if there is anything.
    #[must_use]
    pub fn in_force(&self) -> Option<&InForce> {
        self.measured.as_deref().map(|measured| &measured.in_force)
    }

    /// The same, to change it.
    pub fn in_force_mut(&mut self) -> &mut InForce {
        &mut self.measured.get_or_insert_default().in_force
    }

    /// Whether its program would start its work over after a stop: it has no checkpoint, and saves
    /// none when it is asked to leave.
    #[must_use]
    pub fn starts_over(&self) -> bool {
        let Launch::Command(Program { checkpoint_dir, .. }) = &self.spec.launch else {
            return false;
        };
        let saves = checkpoint_dir.is_some() && self.spec.launch.regroups();
        !saves && self.checkpoint.is_none()
    }

    /// Whether a report is about the present incarnation and from a node that may report.
    #[must_use]
    pub fn is_reported_by(&self, report: &Progress) -> bool {
        report.run == self.run && self.leaders().contains(&report.node)
    }

    /// The record of a new submission: queued, without nodes, without work done.
    #[must_use]
    pub fn new(spec: TrainerSpec, order: u64) -> Self {
        Self {
            spec,
            user: String::new(),
            order,
            phase: Phase::Queued,
            nodes: Vec::new(),
            run: RunId(0),
            samples_before: 0.0,
            ended_runs: Vec::new(),
            samples_run: 0.0,
            saved_run: 0.0,
            owed: 0.0,
            run_since: Timestamp::default(),
            run_owed: 0.0,
            rescale_cost: 0.0,
            preempt_cost: 0.0,
            restart_cost: 0.0,
            stalls: Stalls::default(),
            held: Held::default(),
            preemptions: 0,
            rescales: 0,
            hit_at: None,
            started: None,
            ended: None,
            attained: Attained::default(),
            reason: String::new(),
            failures: 0,
            ending: None,
            tries: Tries::default(),
            loss: None,
            checkpoint: None,
            measured: None,
            step_costs: None,
            no_replay: None,
            learning: None,
            goodput: None,
            mix_rate: None,
            ticket: None,
        }
    }

    /// Its state in a word: `queued`, `waiting` (admitted, without nodes), `resuming` (stalled by a
    /// change of its nodes), `training`, `retrying` (its program failed and will be started again),
    /// `ending` (its work is done, its programs still end), `done`, `cancelled`, `failed`.
    #[must_use]
    pub fn state(&self) -> &'static str {
        match self.phase {
            Phase::Queued => "queued",
            Phase::Active if self.nodes.is_empty() && self.failures > 0 => "retrying",
            Phase::Active if self.nodes.is_empty() => "waiting",
            Phase::Active if self.ending.is_some() => "ending",
            Phase::Active if self.owed > 0.0 => "resuming",
            Phase::Active => "training",
            Phase::Done => "done",
            Phase::Cancelled => "cancelled",
            Phase::Failed => "failed",
        }
    }

    /// Samples done in total.
    #[must_use]
    pub fn samples(&self) -> f64 {
        self.samples_before + self.samples_run
    }
}
