//! One node as the keeper sees it.

use lacuna_model::{Span, Timestamp};
use lacuna_scheduler::job::{JobId, Stage};

use super::Ticket;

/// One node.
#[derive(Debug, Default)]
pub(super) struct Place {
    /// Whether it is idle, and the time limit of a pilot submitted now.
    pub(super) hole: Option<Span>,
    /// Since when it is out of the pool.
    pub(super) closed_at: Option<Timestamp>,
    /// The agent there, if one has spoken and not left.
    pub(super) agent: Option<Agent>,
    /// The pilot there, or on its way.
    pub(super) pilot: Option<Pilot>,
    /// Pilots that failed here in a row.
    pub(super) failures: u32,
    /// Pilots that had to wait here in a row.
    pub(super) waits: u32,
    /// Nothing is submitted before.
    pub(super) not_before: Timestamp,
    /// Whether that is a quarantine.
    pub(super) quarantined: bool,
    /// Nor before this, unless the node has left the pool since.
    pub(super) rest_until: Timestamp,
}

/// An agent that speaks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Agent {
    /// When it last did.
    pub(super) at: Timestamp,
    /// Since when it has nothing to do.
    pub(super) free_since: Option<Timestamp>,
}

/// A pilot, or the attempt to make one.
#[derive(Debug)]
pub(super) struct Pilot {
    pub(super) ticket: Ticket,
    /// Nothing until the scheduler has told.
    pub(super) job: Option<JobId>,
    /// The moment of its submission in the scheduler's words; nothing until a list has told.
    pub(super) submitted: Option<String>,
    pub(super) phase: Phase,
    /// When we submitted or found it.
    pub(super) began: Timestamp,
    /// A list asked for before this need not hold it.
    pub(super) known_at: Timestamp,
    /// Since when it has its node, as far as we know.
    pub(super) running_since: Option<Timestamp>,
    /// Whether an agent has spoken since.
    pub(super) spoke: bool,
    /// When its agent said that it leaves.
    pub(super) left: Option<Timestamp>,
    /// What the newest list said of it.
    pub(super) listed: Option<Stage>,
    /// Whether its failure has been counted already.
    pub(super) counted: bool,
    /// The first of the lists in a row that left it out, and how many did.
    pub(super) missed: Option<(Timestamp, u32)>,
}

/// How far a pilot has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Its submission is under way.
    Submitting,
    /// Its submission failed in a way that leaves open whether there is a job.
    Unsure,
    /// It waits for its node.
    Pending,
    /// It has its node.
    Running,
    /// It is over or about to be; its node is not free yet.
    Ending,
}

impl Place {
    pub(super) fn opened(&mut self, limit: Span) {
        self.hole = Some(limit);
        self.closed_at = None;
    }

    /// The node is not in the pool. `fresh` says whether the pool before this one was recent.
    pub(super) fn closed(&mut self, now: Timestamp, fresh: bool) {
        if self.hole.take().is_some() || self.closed_at.is_none() || !fresh {
            self.closed_at = Some(now);
        }
        // The next hole is another one.
        self.rest_until = now;
        self.waits = 0;
    }

    /// Whether nothing would be lost with it.
    pub(super) fn forgettable(&self, now: Timestamp) -> bool {
        self.hole.is_none()
            && self.agent.is_none()
            && self.pilot.is_none()
            && self.not_before <= now
            && self.failures == 0
    }
}

impl Pilot {
    /// One whose submission begins now.
    pub(super) const fn new(ticket: Ticket, now: Timestamp) -> Self {
        Self {
            ticket,
            job: None,
            submitted: None,
            phase: Phase::Submitting,
            began: now,
            known_at: now,
            running_since: None,
            spoke: false,
            left: None,
            listed: None,
            counted: false,
            missed: None,
        }
    }

    /// Whether a list says of this pilot, and not of another with its number.
    pub(super) fn is(&self, job: &JobId, submitted: &str) -> bool {
        self.job.as_ref() == Some(job)
            && self.submitted.as_deref().is_none_or(|own| own == submitted)
    }
}
