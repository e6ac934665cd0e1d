//! The keeper: which node needs a pilot, and which pilot is cancelled.
//!
//! Inputs of [`Keeper`] are the idle nodes, the agents that report, the scheduler's lists of
//! pilots, and the results of its own requests. Its effects are submissions, cancellations and
//! requests for lists. Its assumptions:
//!
//! - A list shows the moment of its request, not of its arrival. A pilot submitted since then may
//!   be missing from it.
//! - A pilot that is missing from one list is not gone. A pilot that several lists lack, over some
//!   time, is gone.
//! - The job id *and* the time of submission identify a pilot. The end of an earlier job with the
//!   same id ends no pilot.
//! - A pilot that is completing still has its node.
//! - An agent that still reports long after its pilot is over ([`Keeper::forgotten`]) is one that nothing
//!   ends: its node has left the scheduler's configuration, or the scheduler has lost its state. It must
//!   end by itself.
//! - A submission whose command failed or hung may have succeeded. Its node waits until lists show
//!   whether it has a pilot.
//! - Preemption is normal. So is the end of a pilot at its time limit, or after its agent has left.
//!   None of these counts as a failure of the node.
//! - Nothing is submitted before the second list after a start, since pilots may already run. They
//!   are adopted.
//!
//! - Where two kinds of nodes at least are known, no more pilots go to nodes of a kind than trainers
//!   can use of it.
//! - With pilots of single trainers ([`Settings::of_trainers`]) a node gets a pilot of the trainer
//!   that has it, and only while one has it. A pilot of another trainer is cancelled first. What an
//!   owner may not have holds back submissions of that trainer alone.
//!
//! Job name and comment mark our own pilots, which any control of the cluster adopts.

mod agents;
mod decide;
mod input;
mod listing;
mod node;
mod outcome;
mod settings;
mod trainers;

use std::collections::{BTreeMap, BTreeSet};

use lacuna_model::{KindName, NodeId, NodeKinds, Span, Timestamp, TrainerId};
use lacuna_scheduler::job::JobId;

pub use input::{Effect, Input, Limits, Note, Offer, Ticket, Wants};
pub use lacuna_model::pilots::Mode;
pub use lacuna_scheduler::submit::{Cause, Refusal};
pub use settings::Settings;

use listing::Asked;
use node::{NodeRecord, Phase};
use trainers::HeldBack;

/// Number of lists after a start that show all running pilots.
const FIRST_LISTS: u32 = 2;

/// The state machine of pilots; see the module.
#[derive(Debug)]
pub struct Keeper {
    settings: Settings,
    mode: Mode,
    nodes: BTreeMap<NodeId, NodeRecord>,
    /// The nodes that each trainer can use, and their number.
    wants: Vec<Wants>,
    demand: u32,
    /// The same of each kind; empty where fewer than two kinds are known.
    demand_of: BTreeMap<KindName, u32>,
    /// Of which kind nodes are.
    kinds: NodeKinds,
    limits: Limits,
    /// Trainers that can have pilots, and those of which submissions are held back.
    trainers: BTreeSet<TrainerId>,
    held_back: BTreeMap<TrainerId, HeldBack>,
    /// Requested cancellations.
    cancelled: BTreeMap<JobId, Asked>,
    next_ticket: u64,
    /// Submissions that may be made at once, in thousandths, at `tokens_at`.
    tokens: i64,
    tokens_at: Timestamp,
    /// Failed submissions in a row on any node; nothing is submitted before `paused_until`.
    refused: u32,
    paused_until: Timestamp,
    /// Time of the request for the newest list; `None` before the first.
    listed: Option<Timestamp>,
    /// Number of lists received.
    lists: u32,
    /// Time of the newest request for a list, and whether its list is pending.
    asked: Option<Timestamp>,
    listing: bool,
    /// Time of the newest pool.
    pool_at: Option<Timestamp>,
    /// Whether the bus is connected, and since when.
    linked: bool,
    linked_at: Timestamp,
}

/// Numbers of nodes by state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Nodes in the pool.
    pub idle: u32,
    /// Submissions under way or of unknown outcome.
    pub submitting: u32,
    /// Pilots that wait for their node.
    pub pending: u32,
    /// Pilots that have their node.
    pub running: u32,
    /// Pilots that are over, whose node is not free yet.
    pub ending: u32,
    /// Nodes with an agent that reports.
    pub agents: u32,
    /// Nodes that get no pilot for a time after failures.
    pub held_back: u32,
    /// Nodes in quarantine.
    pub quarantined: u32,
}

/// Numbers of nodes of one kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OfKind {
    /// Nodes that trainers can use.
    pub demand: u32,
    /// Nodes in the pool.
    pub idle: u32,
    /// Pilots that are asked for, or wait for their node.
    pub waiting: u32,
    /// Pilots that have their node.
    pub running: u32,
}

impl Keeper {
    /// A keeper without any state yet.
    #[must_use]
    pub fn new(settings: Settings, mode: Mode, now: Timestamp) -> Self {
        let tokens = i64::from(settings.pace.burst) * 1000;
        Self {
            settings,
            mode,
            nodes: BTreeMap::new(),
            wants: Vec::new(),
            demand: 0,
            demand_of: BTreeMap::new(),
            kinds: NodeKinds::default(),
            limits: Limits::default(),
            trainers: BTreeSet::new(),
            held_back: BTreeMap::new(),
            cancelled: BTreeMap::new(),
            next_ticket: 1,
            tokens,
            tokens_at: now,
            refused: 0,
            paused_until: now,
            listed: None,
            lists: 0,
            asked: None,
            listing: false,
            pool_at: None,
            linked: true,
            linked_at: now,
        }
    }

    /// Takes one input at time `now` of a monotonic clock. Returns the effects to apply.
    #[must_use = "the caller applies the effects"]
    pub fn step(&mut self, input: Input, now: Timestamp) -> Vec<Effect> {
        let mut out = Vec::new();
        match input {
            Input::Mode(mode) => {
                if mode != self.mode {
                    self.mode = mode;
                    out.push(Effect::Note(Note::Mode(mode)));
                }
            }
            Input::Pool(offers) => self.pool(offers, now),
            Input::Demand(wants) => {
                self.wants = wants;
                self.sum_demand();
            }
            Input::Kinds(kinds) => {
                self.kinds = kinds;
                self.sum_demand();
            }
            Input::Given {
                nodes,
                trainers,
                renewed,
            } => {
                self.given(nodes, trainers, now);
                renewed.iter().for_each(|id| self.let_go(Some(id)));
            }
            Input::Use(limits) => self.limits = limits,
            Input::Agent {
                node,
                leaving,
                free,
                serves,
            } => self.agent(&node, (leaving, free), serves, now),
            Input::Link(up) => {
                if up && !self.linked {
                    self.linked_at = now;
                }
                self.linked = up;
            }
            Input::Submitted { ticket, outcome } => {
                self.submitted(ticket, outcome, now, &mut out);
            }
            Input::CancelFailed(jobs) => {
                for job in jobs {
                    self.cancelled.remove(&job);
                }
            }
            Input::Listing { asked, jobs } => self.listing(asked, jobs, now, &mut out),
            Input::ListingFailed => self.listing = false,
            Input::Timer => self.decide(now, &mut out),
        }
        out
    }

    /// Numbers of nodes by state.
    #[must_use]
    pub fn counts(&self, now: Timestamp) -> Counts {
        let mut counts = Counts::default();
        for record in self.nodes.values() {
            counts.idle += u32::from(record.hole.is_some());
            counts.agents += u32::from(self.agent_speaks(record, now));
            counts.held_back += u32::from(record.not_before > now);
            counts.quarantined += u32::from(record.quarantined && record.not_before > now);
            match record.pilot.as_ref().map(|p| p.phase) {
                None => {}
                Some(Phase::Submitting | Phase::Unsure) => counts.submitting += 1,
                Some(Phase::Pending) => counts.pending += 1,
                Some(Phase::Running) => counts.running += 1,
                Some(Phase::Ending) => counts.ending += 1,
            }
        }
        counts
    }

    /// Numbers of nodes by kind, where the demand tells kinds apart.
    #[must_use]
    pub fn counts_by_kind(&self) -> BTreeMap<KindName, OfKind> {
        let demand = self.demand_of.iter();
        let mut counts: BTreeMap<KindName, OfKind> = demand
            .map(|(kind, &demand)| {
                let none = OfKind::default();
                (kind.clone(), OfKind { demand, ..none })
            })
            .collect();
        for (node, record) in &self.nodes {
            let Some(count) = self.kinds.of(node).and_then(|kind| counts.get_mut(kind)) else {
                continue;
            };
            count.idle += u32::from(record.hole.is_some());
            match record.pilot.as_ref().map(|p| p.phase) {
                Some(Phase::Submitting | Phase::Unsure | Phase::Pending) => count.waiting += 1,
                Some(Phase::Running) => count.running += 1,
                Some(Phase::Ending) | None => {}
            }
        }
        counts
    }

    /// Whether lists or the pool are too old, so that nothing is submitted.
    #[must_use]
    pub fn blind(&self, now: Timestamp) -> bool {
        let old = |at: Option<Timestamp>, limit: Span| at.is_none_or(|at| now.since(at) > limit);
        self.lists < FIRST_LISTS
            || old(self.listed, self.settings.blind_after)
            || old(self.pool_at, self.settings.pool_stale)
    }

    /// Pilots that are over for the scheduler, on nodes where an agent still reports. A scheduler that has
    /// lost its state gives job ids a second time: the id of a present pilot is not among them.
    #[must_use]
    pub fn forgotten(&self, now: Timestamp) -> BTreeMap<NodeId, JobId> {
        let pilots = || self.nodes.values().filter_map(|r| r.pilot.as_ref());
        let is_present = |job: &JobId| pilots().any(|pilot| pilot.job.as_ref() == Some(job));
        let nodes = self.nodes.iter();
        let speak = nodes.filter(|(_, record)| self.agent_speaks(record, now));
        speak
            .filter_map(|(node, record)| {
                let (over, agent) = (record.over.as_ref()?, record.agent?);
                let is_late = agent.at.since(over.at) >= self.settings.absent_for;
                let is_over = is_late && record.pilot.is_none() && !is_present(&over.job);
                is_over.then(|| (node.clone(), over.job.clone()))
            })
            .collect()
    }

    /// Sums the nodes that trainers can use.
    fn sum_demand(&mut self) {
        let sum = |each: &dyn Fn(&Wants) -> u32| {
            let all: u64 = self.wants.iter().map(|wants| u64::from(each(wants))).sum();
            u32::try_from(all).unwrap_or(u32::MAX)
        };
        self.demand = sum(&|wants| wants.nodes);
        let names = Some(self.kinds.names()).filter(|names| names.len() > 1);
        let of_kind = |wants: &Wants, kind| match wants.of_kinds.get(kind) {
            Some(most) => *most,
            None if wants.of_kinds.is_empty() => wants.nodes,
            None => 0,
        };
        let names = names.into_iter().flatten();
        let demand = names.map(|kind| (kind.clone(), sum(&|wants| of_kind(wants, kind))));
        self.demand_of = demand.collect();
    }

    /// Takes all idle nodes.
    fn pool(&mut self, offers: Vec<Offer>, now: Timestamp) {
        // After a time without a pool, the time at which a node left it is unknown.
        let fresh = self
            .pool_at
            .is_some_and(|at| now.since(at) <= self.settings.pool_stale);
        self.pool_at = Some(now);
        let mut present = BTreeMap::new();
        for offer in offers {
            present.insert(offer.node, offer.limit);
        }
        for (node, record) in &mut self.nodes {
            match present.remove(node) {
                Some(limit) => record.opened(limit),
                None => record.closed(now, fresh),
            }
        }
        for (node, limit) in present {
            self.nodes.entry(node).or_default().opened(limit);
        }
        self.nodes.retain(|_, record| !record.forgettable(now));
    }
}
