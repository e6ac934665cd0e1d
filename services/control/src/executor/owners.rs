//! Pilots of owners: what the executor knows of trainers that own nodes, and whose job each pilot is.

use std::collections::{BTreeMap, BTreeSet};

use lacuna_model::{NodeId, Span, Timestamp, TrainerId};
use lacuna_owner::{Signed, Ticket};
use lacuna_pilots::keeper::Input;
use lacuna_scheduler::job::{JobId, Listed};

/// An end that the helper has not taken is tried again after this time.
const AGAIN: Span = Span::from_secs(30);

/// What the controller tells of trainers, nodes and tickets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Grants {
    /// The trainer that has each node, or is about to get it.
    pub(crate) nodes: BTreeMap<NodeId, TrainerId>,
    /// The packed ticket of each trainer that has one, and whether the trainer is over.
    pub(crate) tickets: BTreeMap<TrainerId, (String, bool)>,
}

/// The owner of a trainer may have no pilots for now.
#[derive(Debug)]
pub(crate) struct NoPilots {
    pub(crate) trainer: TrainerId,
    pub(crate) reason: String,
    /// Real time until the next submission.
    pub(crate) again_in: Span,
}

/// A ticket as it goes to the helper.
#[derive(Debug)]
struct Known {
    word: String,
    signed: Signed,
    ticket: Ticket,
    is_over: bool,
}

/// Trainers with their tickets, and owners of pilots.
#[derive(Debug, Default)]
pub(super) struct Owners {
    known: BTreeMap<TrainerId, Known>,
    /// Users of pilots.
    of_jobs: BTreeMap<JobId, String>,
    /// Trainers that are over, of which the helper has heard.
    ended: BTreeSet<TrainerId>,
    /// The trainer of whose end the helper is hearing now, and when it may hear of the next.
    ending: Option<TrainerId>,
    next_end: Timestamp,
}

impl Owners {
    /// Takes what the controller tells. Returns it for the keeper.
    pub(super) fn take(&mut self, grants: &Grants) -> Input {
        self.known.retain(|id, _| grants.tickets.contains_key(id));
        self.ended.retain(|id| grants.tickets.contains_key(id));
        let mut renewed = BTreeSet::new();
        for (id, (word, is_over)) in &grants.tickets {
            let known = self.known.get_mut(id);
            if known.as_ref().is_some_and(|known| known.word != *word) {
                renewed.insert(id.clone());
            } else if let Some(known) = known {
                known.is_over = *is_over;
                continue;
            }
            let opened = Signed::from_word(word).and_then(|signed| {
                let ticket = Signed::unpacked(word)?;
                Ok((signed, ticket))
            });
            match opened {
                Ok((signed, ticket)) => {
                    let is_over = *is_over;
                    let known = Known {
                        word: word.clone(),
                        signed,
                        ticket,
                        is_over,
                    };
                    self.known.insert(id.clone(), known);
                }
                Err(error) => tracing::warn!(trainer = %id, %error, "ticket not readable"),
            }
        }
        let live = self.known.iter().filter(|(_, known)| !known.is_over);
        let trainers: BTreeSet<TrainerId> = live.map(|(id, _)| id.clone()).collect();
        let nodes = grants.nodes.iter();
        let nodes = nodes.filter(|(_, id)| trainers.contains(*id));
        Input::Given {
            nodes: nodes.map(|(node, id)| (node.clone(), id.clone())).collect(),
            trainers,
            renewed,
        }
    }

    /// The ticket of a trainer, and its owner.
    pub(super) fn of(&self, trainer: &TrainerId) -> Option<(&Signed, &str)> {
        let known = self.known.get(trainer)?;
        Some((&known.signed, &known.ticket.owner))
    }

    /// A pilot of this owner was submitted.
    pub(super) fn submitted(&mut self, job: JobId, owner: String) {
        self.of_jobs.insert(job, owner);
    }

    /// The scheduler has listed these jobs, asked at a moment when `submitted` had been heard of.
    pub(super) fn listed(&mut self, jobs: &[Listed]) {
        for job in jobs {
            self.of_jobs.insert(job.job.clone(), job.user.clone());
        }
        // A job that one list lacks may only just have been submitted.
        if self.of_jobs.len() > 2 * jobs.len() + 1000 {
            let listed: BTreeSet<&JobId> = jobs.iter().map(|job| &job.job).collect();
            self.of_jobs.retain(|job, _| listed.contains(job));
        }
    }

    /// Whose job a pilot is.
    pub(super) fn owner(&self, job: &JobId) -> Option<&str> {
        self.of_jobs.get(job).map(String::as_str)
    }

    /// The next trainer of whose end the helper has to hear, and its ticket.
    pub(super) fn next_end(&mut self, now: Timestamp) -> Option<(TrainerId, Signed)> {
        if self.ending.is_some() || now < self.next_end {
            return None;
        }
        let mut over = self.known.iter().filter(|(_, known)| known.is_over);
        let (id, known) = over.find(|(id, _)| !self.ended.contains(*id))?;
        self.ending = Some(id.clone());
        Some((id.clone(), known.signed.clone()))
    }

    /// The helper has heard of an end, or could not be reached.
    pub(super) fn heard_of_end(&mut self, trainer: TrainerId, settled: bool, now: Timestamp) {
        self.ending = None;
        if settled {
            self.ended.insert(trainer);
        } else {
            self.next_end = now + AGAIN;
        }
    }
}
