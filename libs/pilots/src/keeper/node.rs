//! State of one node in the keeper.

use lacuna_model::{Span, Timestamp, TrainerId};
use lacuna_scheduler::job::{JobId, JobStage};

use super::Ticket;

/// An agent whose pilot is over is heard within this time.
const HEARD: Span = Span::from_secs(60);

/// The ticket of a pilot that another keeper has submitted.
pub(super) const ADOPTED: Ticket = Ticket(0);

/// State of one node.
#[derive(Debug, Default)]
pub(super) struct NodeRecord {
    /// Time limit of a pilot submitted now; `None` if the node is not idle.
    pub(super) hole: Option<Span>,
    /// Time at which the node left the pool.
    pub(super) closed_at: Option<Timestamp>,
    /// The trainer that has the node or is being given it.
    pub(super) given: Option<TrainerId>,
    /// Time since which no trainer has it.
    pub(super) unused_since: Timestamp,
    /// The agent on the node, if it has reported and not left.
    pub(super) agent: Option<Agent>,
    /// The pilot on the node, or its submission.
    pub(super) pilot: Option<Pilot>,
    /// The newest pilot here that is over without a word of its agent.
    pub(super) over: Option<Over>,
    /// Failed pilots in a row.
    pub(super) failures: u32,
    /// Pilots in a row that had to wait for the node.
    pub(super) waits: u32,
    /// Nothing is submitted before this time.
    pub(super) not_before: Timestamp,
    /// Whether `not_before` is the end of a quarantine.
    pub(super) quarantined: bool,
    /// Nothing is submitted before this time, unless the node has left the pool since.
    pub(super) rest_until: Timestamp,
}

/// A pilot that is over.
#[derive(Debug, Clone)]
pub(super) struct Over {
    pub(super) job: JobId,
    /// Time at which this was known.
    pub(super) at: Timestamp,
}

/// An agent that reports.
#[derive(Debug, Clone, Copy)]
pub(super) struct Agent {
    /// Time of its newest report.
    pub(super) at: Timestamp,
    /// Time since which it has no trainer.
    pub(super) free_since: Option<Timestamp>,
}

/// A pilot or its submission.
#[derive(Debug)]
pub(super) struct Pilot {
    pub(super) ticket: Ticket,
    /// Job id; `None` until the scheduler answers.
    pub(super) job: Option<JobId>,
    /// Time of submission, as the scheduler prints it; `None` until a list contains it.
    pub(super) submitted: Option<String>,
    pub(super) phase: Phase,
    /// The only trainer that it serves; `None` also until the agent of an adopted pilot has said it.
    pub(super) serves: Option<TrainerId>,
    /// Time of our submission or adoption.
    pub(super) began: Timestamp,
    /// A list requested before this time may lack the pilot.
    pub(super) known_at: Timestamp,
    /// Time since which the pilot is known to have its node.
    pub(super) running_since: Option<Timestamp>,
    /// Whether an agent has reported since.
    pub(super) spoke: bool,
    /// Time at which its agent reported that it leaves.
    pub(super) left: Option<Timestamp>,
    /// Stage in the newest list.
    pub(super) listed: Option<JobStage>,
    /// Whether its failure has been counted.
    pub(super) counted: bool,
    /// The first list without the pilot, and the number of such lists in a row.
    pub(super) missed: Option<(Timestamp, u32)>,
}

/// Phase of a pilot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// The submission is under way.
    Submitting,
    /// The submission failed, but the job may exist.
    Unsure,
    /// The pilot waits for its node.
    Pending,
    /// The pilot has its node.
    Running,
    /// The pilot is over or leaves; its node is not free yet.
    Ending,
}

impl NodeRecord {
    pub(super) fn opened(&mut self, limit: Span) {
        self.hole = Some(limit);
        self.closed_at = None;
    }

    /// The node is not in the pool. `fresh`: the pool before this one was recent.
    pub(super) fn closed(&mut self, now: Timestamp, fresh: bool) {
        if self.hole.take().is_some() || self.closed_at.is_none() || !fresh {
            self.closed_at = Some(now);
        }
        // The rest ends with the hole.
        self.rest_until = now;
        self.waits = 0;
    }

    /// Whether the record holds no state worth keeping.
    pub(super) fn forgettable(&self, now: Timestamp) -> bool {
        self.hole.is_none()
            && self.agent.is_none()
            && self.pilot.is_none()
            && self.given.is_none()
            && self
                .over
                .as_ref()
                .is_none_or(|over| now.since(over.at) > HEARD)
            && self.not_before <= now
            && self.failures == 0
    }
}

impl Pilot {
    /// A pilot whose submission begins now.
    pub(super) const fn new(ticket: Ticket, now: Timestamp) -> Self {
        Self {
            ticket,
            job: None,
            submitted: None,
            phase: Phase::Submitting,
            serves: None,
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

    /// Whether this keeper has submitted it. Other pilots are adopted.
    pub(super) fn is_submitted(&self) -> bool {
        self.ticket != ADOPTED
    }

    /// Whether a job of a list is this pilot, and not another job with the same id.
    pub(super) fn is(&self, job: &JobId, submitted: &str) -> bool {
        self.job.as_ref() == Some(job)
            && self.submitted.as_deref().is_none_or(|own| own == submitted)
    }
}
