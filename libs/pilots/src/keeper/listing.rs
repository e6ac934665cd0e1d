//! Comparison of the scheduler's list with the known pilots.

use std::collections::{BTreeMap, BTreeSet};

use lacuna_model::{NodeId, Timestamp};
use lacuna_scheduler::job::{JobId, JobStage, Listed};

use super::node::{ADOPTED, Phase, Pilot};
use super::{Effect, Keeper, Mode, Note, Ticket};

/// A cancelled pilot that is not over is cancelled again after this time, milliseconds.
const AGAIN_MS: i64 = 30_000;
/// A pilot is gone after this many lists in a row without it.
const MISSES: u32 = 2;

impl Keeper {
    /// Takes a list that was requested at `asked`.
    pub(super) fn listing(
        &mut self,
        asked: Timestamp,
        jobs: Vec<Listed>,
        now: Timestamp,
        out: &mut Vec<Effect>,
    ) {
        self.listing = false;
        if self.listed.is_some_and(|newest| asked < newest) {
            return;
        }
        self.listed = Some(asked);
        self.lists = self.lists.saturating_add(1);
        let owner = &self.settings.owner;
        let (live, ended): (Vec<Listed>, Vec<Listed>) = jobs
            .into_iter()
            .filter(|job| owner.owns(job))
            .partition(|job| job.stage.lives());
        let mut seen = BTreeSet::new();
        for job in &ended {
            self.ended(job, &mut seen, now, out);
        }
        let mut cancel = Cancel::default();
        // Running pilots first, so that of two pilots on a node the waiting one is cancelled.
        let (waiting, holding): (Vec<&Listed>, Vec<&Listed>) =
            live.iter().partition(|job| job.stage == JobStage::Pending);
        let present: BTreeSet<&JobId> = live.iter().map(|job| &job.job).collect();
        for job in holding.into_iter().chain(waiting) {
            self.live(job, asked, &present, &mut seen, &mut cancel, now, out);
        }
        self.missing(asked, &seen, now, out);
        self.cancel(cancel, now, out);
        // A cancelled job that is no longer listed is forgotten.
        let long_ago = |asked: &Asked| now.since(asked.at).as_ms() > 10 * AGAIN_MS;
        self.cancelled
            .retain(|job, asked| present.contains(job) || !long_ago(asked));
    }

    /// A pilot that is over. An earlier job with the same id ends no pilot.
    fn ended(
        &mut self,
        job: &Listed,
        seen: &mut BTreeSet<NodeId>,
        now: Timestamp,
        out: &mut Vec<Effect>,
    ) {
        let JobStage::Ended(end) = job.stage else {
            return;
        };
        let found = self.nodes.iter().find(|(_, record)| {
            let pilot = record.pilot.as_ref();
            pilot.is_some_and(|pilot| pilot.is(&job.job, &job.submitted))
        });
        if let Some((node, _)) = found {
            let node = node.clone();
            seen.insert(node.clone());
            self.over(&node, Some(end), now, out);
        }
    }

    /// A pilot that waits, runs or is completing.
    #[expect(
        clippy::too_many_arguments,
        reason = "one step of one loop, given its state"
    )]
    fn live(
        &mut self,
        job: &Listed,
        asked: Timestamp,
        present: &BTreeSet<&JobId>,
        seen: &mut BTreeSet<NodeId>,
        cancel: &mut Cancel,
        now: Timestamp,
        out: &mut Vec<Effect>,
    ) {
        let Some(node) = &job.node else {
            // The job requests no single node, so it is no pilot of this version.
            cancel.add(job, None, "stray");
            return;
        };
        let (linked, linked_at) = (self.linked, self.linked_at);
        let record = self.nodes.entry(node.clone()).or_default();
        let speaks = record.agent.is_some_and(|agent| {
            !linked || now.since(agent.at.max(linked_at)) < self.settings.silent_after
        });
        match &mut record.pilot {
            // The pending answer of the submission will show whether this job is the pilot.
            Some(pilot) if pilot.phase == Phase::Submitting => return,
            Some(pilot) if pilot.job.as_ref() == Some(&job.job) => {
                if !pilot.is(&job.job, &job.submitted) {
                    // The id is used again: a successor, whose state starts from the beginning.
                    *pilot = found(job, pilot.ticket, now);
                }
            }
            Some(pilot) if pilot.phase == Phase::Unsure => {
                *pilot = found(job, pilot.ticket, pilot.began);
            }
            Some(pilot)
                if pilot.job.as_ref().is_some_and(|own| present.contains(own))
                    && (pilot.phase != Phase::Pending || job.stage == JobStage::Pending) =>
            {
                // Two pilots on one node, as after a crash between submission and answer.
                cancel.add(job, Some(node), "duplicate");
                return;
            }
            other => {
                *other = Some(found(job, ADOPTED, now));
                out.push(Effect::Note(Note::Adopted {
                    node: node.clone(),
                    job: job.job.clone(),
                }));
            }
        }
        seen.insert(node.clone());
        record.over = record.over.take().filter(|over| over.job != job.job);
        let Some(pilot) = &mut record.pilot else {
            return;
        };
        pilot.missed = None;
        pilot.listed = Some(job.stage);
        pilot.submitted.get_or_insert_with(|| job.submitted.clone());
        match job.stage {
            JobStage::Pending => {
                // The report of an agent is newer than a list that was requested before it.
                if pilot.spoke && speaks {
                    return;
                }
                pilot.phase = Phase::Pending;
                let unwanted = self.mode != Mode::On;
                if unwanted || asked.since(pilot.began) >= self.settings.pace.pending_limit {
                    cancel.waiting.push(job.job.clone());
                    let wait = super::outcome::doubled(
                        self.settings.pace.backoff,
                        record.waits,
                        self.settings.pace.backoff_max,
                    );
                    if !self.cancelled.contains_key(&job.job) {
                        record.waits = record.waits.saturating_add(1);
                        record.not_before = record.not_before.max(now + wait);
                    }
                }
            }
            JobStage::Running if pilot.left.is_none() => {
                pilot.phase = Phase::Running;
                pilot.running_since.get_or_insert(now);
                // The pilot got its node before the cancellation of waiting pilots.
                if self.cancelled.get(&job.job).is_some_and(|c| c.pending_only) {
                    self.cancelled.remove(&job.job);
                }
            }
            JobStage::Running | JobStage::Ending | JobStage::Ended(_) => {
                pilot.phase = Phase::Ending
            }
        }
    }

    /// Pilots that are missing from the list. A single list is no proof.
    fn missing(
        &mut self,
        asked: Timestamp,
        seen: &BTreeSet<NodeId>,
        now: Timestamp,
        out: &mut Vec<Effect>,
    ) {
        let mut gone = Vec::new();
        for (node, record) in &mut self.nodes {
            let Some(pilot) = &mut record.pilot else {
                continue;
            };
            let may_miss = pilot.phase == Phase::Submitting || asked <= pilot.known_at;
            if may_miss || seen.contains(node) {
                continue;
            }
            let (first, times) = pilot.missed.unwrap_or((asked, 0));
            let times = times.saturating_add(1);
            pilot.missed = Some((first, times));
            if times >= MISSES && asked.since(first) >= self.settings.absent_for {
                gone.push(node.clone());
            }
        }
        for node in gone {
            self.over(&node, None, now, out);
        }
    }

    /// Requests cancellations, each again only after [`AGAIN_MS`].
    pub(super) fn cancel(&mut self, cancel: Cancel, now: Timestamp, out: &mut Vec<Effect>) {
        let Cancel {
            mut waiting,
            mut holding,
            why,
        } = cancel;
        let mut due = |jobs: &mut Vec<JobId>, pending_only: bool| {
            jobs.retain(|job| {
                let last = self.cancelled.get(job);
                last.is_none_or(|asked| !asked.recent(now) || (asked.pending_only && !pending_only))
            });
            for job in jobs.iter() {
                let asked = Asked {
                    at: now,
                    pending_only,
                };
                self.cancelled.insert(job.clone(), asked);
                let (node, cause) = why.get(job).cloned().unwrap_or((None, "pending"));
                out.push(Effect::Note(Note::Cancelling {
                    job: job.clone(),
                    node,
                    cause,
                }));
            }
        };
        due(&mut waiting, true);
        due(&mut holding, false);
        for (jobs, pending_only) in [(waiting, true), (holding, false)] {
            if !jobs.is_empty() {
                out.push(Effect::Cancel { jobs, pending_only });
            }
        }
    }
}

/// A requested cancellation.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked {
    pub(super) at: Timestamp,
    /// Whether it spares a pilot that has its node.
    pub(super) pending_only: bool,
}

impl Asked {
    /// Whether it is too early to repeat the request.
    pub(super) fn recent(&self, now: Timestamp) -> bool {
        now.since(self.at).as_ms() < AGAIN_MS
    }
}

/// Pilots to cancel.
#[derive(Debug, Default)]
pub(super) struct Cancel {
    /// Pilots to cancel only while they wait.
    pub(super) waiting: Vec<JobId>,
    /// Pilots to cancel in any stage.
    pub(super) holding: Vec<JobId>,
    /// Node and cause for each pilot.
    pub(super) why: BTreeMap<JobId, (Option<NodeId>, &'static str)>,
}

impl Cancel {
    fn add(&mut self, job: &Listed, node: Option<&NodeId>, cause: &'static str) {
        self.push(job.job.clone(), node, cause);
    }

    pub(super) fn push(&mut self, job: JobId, node: Option<&NodeId>, cause: &'static str) {
        self.why.insert(job.clone(), (node.cloned(), cause));
        self.holding.push(job);
    }
}

/// A pilot found in a list.
fn found(job: &Listed, ticket: Ticket, began: Timestamp) -> Pilot {
    Pilot {
        job: Some(job.job.clone()),
        submitted: Some(job.submitted.clone()),
        phase: Phase::Pending,
        ..Pilot::new(ticket, began)
    }
}
