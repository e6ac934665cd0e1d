//! Which node needs a pilot, and which pilot must go.
//!
//! [`Keeper`] hears which nodes are idle, on which an agent speaks, which pilots the scheduler
//! lists, and what became of its own requests; it asks for submissions, cancellations and new
//! lists. It relies on little:
//!
//! - A list tells of the moment at which it was asked for, not of the one at which it came. A
//!   pilot submitted since then may be missing from it.
//! - A pilot that one list leaves out is not gone; one that several leave out, over some time,
//!   is.
//! - A pilot is its number *and* the moment of its submission: what is said of an earlier job
//!   of that number ends nothing.
//! - A pilot that is completing still has its node.
//! - A submission whose command failed or hung may have been taken all the same: the node waits
//!   until lists show which.
//! - To be preempted is normal, and so is the end of a pilot whose time is up or whose agent
//!   said that it leaves. None of these counts against a node.
//! - Before the second list after a start nothing is submitted: pilots may run already, and are
//!   adopted.
//!
//! Pilots are ours, and adopted, by job name and comment, whichever control submitted them.

mod agents;
mod decide;
mod input;
mod listing;
mod outcome;
mod place;
mod settings;

use std::collections::BTreeMap;

use lacuna_model::{NodeId, Span, Timestamp};
use lacuna_scheduler::job::JobId;

pub use input::{Effect, Input, Limits, Note, Offer, Ticket};
pub use lacuna_scheduler::submit::{Cause, Refusal};
pub use settings::Settings;

pub use crate::settings::Mode;

use listing::Asked;
use place::{Phase, Place};

/// After a start so many lists are needed to know the pilots that run already.
const FIRST_LISTS: u32 = 2;

/// The state machine. See the module.
#[derive(Debug)]
pub struct Keeper {
    settings: Settings,
    mode: Mode,
    places: BTreeMap<NodeId, Place>,
    /// How many nodes trainers can use.
    demand: u32,
    limits: Limits,
    /// Jobs that we have asked to be cancelled.
    cancelled: BTreeMap<JobId, Asked>,
    next_ticket: u64,
    /// Submissions that may be made at once, in thousandths, and when that was so.
    tokens: i64,
    tokens_at: Timestamp,
    /// Submissions that failed in a row, whatever the node, and until when nothing is tried.
    refused: u32,
    paused_until: Timestamp,
    /// When the newest list was asked for that has been answered; nothing before the first.
    listed: Option<Timestamp>,
    /// How many have been answered.
    lists: u32,
    /// When a list was last asked for, and whether its answer is still to come.
    asked: Option<Timestamp>,
    listing: bool,
    /// When the pool last came.
    pool_at: Option<Timestamp>,
    /// Whether the bus stands, and since when.
    linked: bool,
    linked_at: Timestamp,
}

/// How many nodes are in which state.
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
    /// Nodes on which an agent speaks.
    pub agents: u32,
    /// Nodes that are left alone for a time after failures.
    pub held_back: u32,
    /// Nodes in quarantine.
    pub quarantined: u32,
}

impl Keeper {
    /// A keeper that knows nothing yet.
    #[must_use]
    pub fn new(settings: Settings, mode: Mode, now: Timestamp) -> Self {
        let tokens = i64::from(settings.pace.burst) * 1000;
        Self {
            settings,
            mode,
            places: BTreeMap::new(),
            demand: 0,
            limits: Limits::default(),
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

    /// Takes one input at a moment of any clock that never goes back, and says what must
    /// happen.
    #[must_use = "what must happen does not happen by itself"]
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
            Input::Demand(nodes) => self.demand = nodes,
            Input::Use(limits) => self.limits = limits,
            Input::Agent {
                node,
                leaving,
                free,
            } => self.agent(&node, leaving, free, now),
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

    /// How many nodes are in which state.
    #[must_use]
    pub fn counts(&self, now: Timestamp) -> Counts {
        let mut counts = Counts::default();
        for place in self.places.values() {
            counts.idle += u32::from(place.hole.is_some());
            counts.agents += u32::from(self.agent_speaks(place, now));
            counts.held_back += u32::from(place.not_before > now);
            counts.quarantined += u32::from(place.quarantined && place.not_before > now);
            match place.pilot.as_ref().map(|p| p.phase) {
                None => {}
                Some(Phase::Submitting | Phase::Unsure) => counts.submitting += 1,
                Some(Phase::Pending) => counts.pending += 1,
                Some(Phase::Running) => counts.running += 1,
                Some(Phase::Ending) => counts.ending += 1,
            }
        }
        counts
    }

    /// Whether the scheduler's lists have failed to come for so long that nothing is known.
    #[must_use]
    pub fn blind(&self, now: Timestamp) -> bool {
        let old = |at: Option<Timestamp>, limit: Span| at.is_none_or(|at| now.since(at) > limit);
        self.lists < FIRST_LISTS
            || old(self.listed, self.settings.blind_after)
            || old(self.pool_at, self.settings.pool_stale)
    }

    /// The idle nodes, all of them.
    fn pool(&mut self, offers: Vec<Offer>, now: Timestamp) {
        // After a time without a pool nobody knows since when a node is out of it.
        let fresh = self
            .pool_at
            .is_some_and(|at| now.since(at) <= self.settings.pool_stale);
        self.pool_at = Some(now);
        let mut present = BTreeMap::new();
        for offer in offers {
            present.insert(offer.node, offer.limit);
        }
        for (node, place) in &mut self.places {
            match present.remove(node) {
                Some(limit) => place.opened(limit),
                None => place.closed(now, fresh),
            }
        }
        for (node, limit) in present {
            self.places.entry(node).or_default().opened(limit);
        }
        self.places.retain(|_, place| !place.forgettable(now));
    }
}
