//! Submission, cancellation and the queue.
//!
//! A trainer waits in the queue until there is a place for it, its owner has its share of the
//! places and may enter ([`crate::controller::entries`]), and its least fits into its owner's
//! quota.

use std::collections::{BTreeMap, BTreeSet};

use lacuna_model::{Phase, Timestamp, TrainerId, TrainerRecord, TrainerSpec};

use crate::Now;
use crate::controller::entries::Entries;
use crate::controller::out::Out;
use crate::controller::trainers::Trainer;
use crate::controller::{Controller, Note, Refusal, RefusalKind};
use crate::queue::{Places, Queue, has_place};

/// Trainers that wait, and how often their owners have entered.
#[derive(Debug, Default)]
pub(crate) struct Admission {
    queue: Queue<String, TrainerId>,
    entries: Entries,
}

impl Admission {
    /// A trainer waits from now on.
    pub(crate) fn submit(&mut self, record: &TrainerRecord, owner: &str) {
        let spec = &record.spec;
        let (id, owner) = (spec.id.clone(), owner.to_owned());
        self.queue
            .submit(spec.submit, spec.priority, record.order, owner, id);
    }

    /// A trainer has ended, out of this phase.
    pub(crate) fn ended(&mut self, trainer: &Trainer, phase: Phase) {
        match phase {
            Phase::Queued => self.queue.remove(trainer.id()),
            Phase::Active if !trainer.loads() => {
                self.entries.leave(trainer.owner(), trainer.bounds())
            }
            _ => {}
        }
    }
}

/// Requests.
impl Controller {
    pub(super) fn submit(
        &mut self,
        (specs, mut tickets): (Vec<TrainerSpec>, BTreeMap<TrainerId, String>),
        user: &str,
        test_only: bool,
        now: Now,
        out: &mut Out,
    ) {
        let ids = specs.iter().map(|spec| spec.id.clone()).collect();
        let specs = match self.with_loaders(specs) {
            Ok(specs) => specs,
            Err(refusal) => {
                out.reply(Err(refusal));
                return;
            }
        };
        let checked = self.check(&specs);
        let checked = checked.and_then(|()| self.check_kinds(&specs));
        let checked = checked.and_then(|()| self.check_account(&specs, user));
        if let Err(refusal) = checked.and_then(|()| self.check_quotas(&specs, user)) {
            out.reply(Err(refusal));
            return;
        }
        if !test_only {
            for mut spec in specs {
                // No time means now.
                if spec.submit == Timestamp::default() {
                    spec.submit = now.cluster;
                }
                out.record(&spec.id);
                let ticket = tickets.remove(&spec.id);
                let mut record = TrainerRecord::new(spec, self.trainers.next_order());
                record.ticket = ticket;
                user.clone_into(&mut record.user);
                if record.spec.kinds.loads_for().is_some() {
                    self.enter_loader(record, now);
                } else {
                    self.enter(record, now);
                }
            }
        }
        out.reply(Ok(ids));
    }

    /// Takes a new trainer out, whose record cannot be kept. A plan that has it is followed without it.
    pub fn withdraw(&mut self, id: &TrainerId, now: Now) {
        let reason = "its record cannot be kept";
        self.end(id, Phase::Cancelled, reason, now, &mut Out::default());
        self.loaders.remove(id);
        self.trainers.remove(id);
        self.publication.change();
    }

    /// All or nothing: one bad trainer refuses the whole submission.
    fn check(&self, specs: &[TrainerSpec]) -> Result<(), Refusal> {
        let mut seen = BTreeSet::new();
        for spec in specs {
            spec.check().map_err(|error| Refusal {
                kind: RefusalKind::Spec,
                reason: error.to_string(),
            })?;
            if self.trainers.contains(&spec.id) || !seen.insert(&spec.id) {
                return Err(Refusal {
                    kind: RefusalKind::Duplicate,
                    reason: format!(
                        "a trainer named {} exists already: a name is used only once, choose another",
                        spec.id
                    ),
                });
            }
        }
        Ok(())
    }

    /// Takes a record in, and into the queue if it waits.
    pub(super) fn enter(&mut self, record: TrainerRecord, now: Now) {
        let id = record.spec.id.clone();
        if record.spec.kinds.loads_for().is_some() && !record.phase.is_final() {
            self.loaders.insert(id.clone(), None);
            self.trainers.enter(record, now);
            return;
        }
        self.trainers.enter(record, now);
        if let Some(trainer) = self.trainers.get(&id)
            && trainer.record().phase == Phase::Queued
        {
            self.admission.submit(trainer.record(), trainer.owner());
        }
    }

    pub(super) fn cancel(&mut self, id: &TrainerId, now: Now, out: &mut Out) {
        if let Some(refusal) = self.not_live(id, "cancel") {
            out.reply(Err(refusal));
            return;
        }
        self.end(id, Phase::Cancelled, "cancelled by request", now, out);
        out.reply(Ok(vec![id.clone()]));
    }

    /// Why no user can do something to a trainer: it is unknown, or over.
    pub(super) fn not_live(&self, id: &TrainerId, what: &str) -> Option<Refusal> {
        let (kind, reason) = match self.trainers.record(id).map(|record| record.phase) {
            None => (
                RefusalKind::Unknown,
                format!("there is no trainer named {id}: `lacuna trainers --all` lists them"),
            ),
            Some(phase) if phase.is_final() => (
                RefusalKind::Final,
                format!("trainer {id} is over already: nothing to {what}"),
            ),
            Some(_) => return None,
        };
        Some(Refusal { kind, reason })
    }
}

/// Admission.
impl Controller {
    /// Admits trainers that have been submitted by now: by priority, then first come first served.
    pub(super) fn admit(&mut self, now: Now, out: &mut Out) {
        let first = self.admission.queue.next_submission(|_| true);
        if let Some(submit) = first.filter(|submit| *submit <= now.cluster) {
            self.usage.begin_by(submit);
        }
        self.admission.queue.arrive(now.cluster);
        if !self.knows_pool() {
            return;
        }
        while let Some(id) = self.next_admitted(now) {
            self.count_entry(&id, now);
            if !self.trainers.admit(&id) {
                continue;
            }
            out.record(&id);
            out.note(Note::Admitted {
                trainer: id.clone(),
            });
            self.publication.change();
            self.take_over(&id, out);
        }
        let every = self.config.control.entry_every;
        self.admission.entries.settle(every, now.cluster);
    }

    /// Takes the next trainer to be admitted out of the queue. One without room waits, and others
    /// go first.
    fn next_admitted(&mut self, now: Now) -> Option<TrainerId> {
        // The queue is looked at beside all else.
        let mut queue = std::mem::take(&mut self.admission.queue);
        let places = self.places();
        let has_place =
            |owner: &String| places.free_for(&owner.as_str()) && self.may_enter(owner, None, now);
        let has_room = |id: &TrainerId| {
            self.trainers.get(id).is_some_and(|trainer| {
                self.may_enter(trainer.owner(), Some(trainer.bounds()), now)
                    && self.fits(trainer)
                    && self.has_room(trainer)
            })
        };
        let next = queue.next(has_place, has_room);
        self.admission.queue = queue;
        next
    }

    /// Whether an owner enters beside others. Replay has no such rule, nor has lock step.
    fn is_beside_others(&self, owner: &str) -> bool {
        let mut admitted = self.trainers.admitted();
        !self.lock_step.is_on() && admitted.any(|trainer| trainer.owner() != owner)
    }

    /// Whether an owner's trainer of these bounds, or without bounds any, may enter.
    fn may_enter(&self, owner: &str, bounds: Option<(u32, u32)>, now: Now) -> bool {
        let every = self.config.control.entry_every;
        let entries = &self.admission.entries;
        entries.may_enter(owner, bounds, every, now.cluster) || !self.is_beside_others(owner)
    }

    fn count_entry(&mut self, id: &TrainerId, now: Now) {
        let trainer = self.trainers.get(id);
        let Some(trainer) = trainer.filter(|t| self.is_beside_others(t.owner())) else {
            return;
        };
        let every = self.config.control.entry_every;
        let (owner, bounds) = (trainer.owner(), trainer.bounds());
        self.admission
            .entries
            .enter(owner, bounds, every, now.cluster);
    }

    /// Whether the pool of the present moment is known, and all losses of nodes are settled: before
    /// that it is unknown which trainers fit. In lock step replay admits once a moment as well,
    /// after all of its events.
    fn knows_pool(&self) -> bool {
        let Some(seq) = self.seq.filter(|_| !self.trainers.any_hit()) else {
            return false;
        };
        match self.lock_step.tick() {
            Some(tick) if tick.lock_step => tick.complete && seq >= tick.events_upto,
            Some(_) => true,
            // Before the first tick an empty pool is an unknown one.
            None => self.nodes.in_pool() > 0,
        }
    }

    /// The places of admitted trainers: those that have nodes, or could have, take one.
    fn places(&self) -> Places<&str> {
        let admitted = self.trainers.admitted().filter(|t| !t.loads());
        let admitted = admitted.map(|trainer| (trainer.owner(), self.fits(trainer)));
        Places::new(self.config.control.max_parallel as usize, admitted)
    }

    /// Whether a trainer has nodes, or the pool has its least. Every admitted one fits while the
    /// pool is unknown.
    pub(super) fn fits(&self, trainer: &Trainer) -> bool {
        let pool = self.seq.map_or(u32::MAX, |_| self.nodes.in_pool());
        let nodes = u32::try_from(trainer.nodes().len()).unwrap_or(u32::MAX);
        let rests = trainer.lacks_pilots() || trainer.tries().rests();
        let waits = nodes == 0 && (rests || trainer.loads());
        !waits && has_place(nodes, trainer.record().spec.min_nodes, pool)
    }
}
