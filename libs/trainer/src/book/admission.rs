//! Submission, cancellation and the queue.

use std::collections::BTreeSet;

use lacuna_model::{Phase, Span, Timestamp, TrainerId, TrainerRecord, TrainerSpec};

use crate::Now;
use crate::account::Account;
use crate::book::pauses::Pauses;
use crate::book::profile::Profile;
use crate::book::quota::user_of;
use crate::book::state::{Out, Trainer};
use crate::book::trial::Trials;
use crate::book::{Book, Effect, Note, Refusal, RefusalKind};
use crate::comings::Bounds;
use crate::queue::{Places, has_place};

impl Book {
    pub(crate) fn submit(
        &mut self,
        specs: Vec<TrainerSpec>,
        user: &str,
        test_only: bool,
        now: Now,
        out: &mut Out,
    ) {
        let checked = self.check(&specs);
        if let Err(refusal) = checked.and_then(|()| self.check_quotas(&specs, user)) {
            out.rest.push(Effect::Reply(Err(refusal)));
            return;
        }
        let ids = specs.iter().map(|spec| spec.id.clone()).collect();
        if !test_only {
            for mut spec in specs {
                // Whoever names no time means now.
                if spec.submit == Timestamp::default() {
                    spec.submit = now.cluster;
                }
                out.records.insert(spec.id.clone());
                let mut record = TrainerRecord::new(spec, self.next_order);
                user.clone_into(&mut record.user);
                self.next_order += 1;
                self.enter(record, now);
            }
        }
        out.rest.push(Effect::Reply(Ok(ids)));
    }

    /// All or nothing: one bad trainer refuses the whole submission.
    fn check(&self, specs: &[TrainerSpec]) -> Result<(), Refusal> {
        let mut seen = BTreeSet::new();
        for spec in specs {
            spec.check().map_err(|error| Refusal {
                kind: RefusalKind::Spec,
                reason: error.to_string(),
            })?;
            if self.trainers.contains_key(&spec.id) || !seen.insert(&spec.id) {
                return Err(Refusal {
                    kind: RefusalKind::Duplicate,
                    reason: format!(
                        "a trainer named {} exists already: names are for ever, choose another",
                        spec.id
                    ),
                });
            }
        }
        Ok(())
    }

    /// Puts a record into the books, and into the queue if it waits.
    pub(crate) fn enter(&mut self, mut record: TrainerRecord, now: Now) {
        if let Some(measured) = record.measured.as_deref_mut() {
            // Trials end with control: whoever holds nodes without using them gives them back.
            measured.aside.clear();
        }
        let id = record.spec.id.clone();
        if record.phase == Phase::Queued {
            let (spec, order, owner) = (&record.spec, record.order, user_of(&record).to_owned());
            self.queue
                .submit(spec.submit, spec.priority, order, owner, id.clone());
        }
        let trainer = Trainer {
            account: Account::default(),
            profile: Profile::resumed(&record),
            pauses: Pauses::resumed(&record),
            trials: Trials::default(),
            record,
            target: None,
            loss: None,
            replaced_from: None,
            restart: None,
            broken: None,
            not_before: Timestamp::default(),
            up: now.wall,
            progressed: now.wall,
            healthy: Span::ZERO,
            dirty: false,
        };
        self.trainers.insert(id, trainer);
    }

    /// Admits who has been submitted by now, by priority, then first come first served, as far as
    /// there are places, each owner has its share of them, and it does not come anew too often.
    pub(crate) fn admit(&mut self, now: Now, out: &mut Out) {
        let first = self.queue.next_submission(|_| true);
        if let Some(submit) = first.filter(|submit| *submit <= now.cluster) {
            self.sums.since = Some(self.sums.since.map_or(submit, |since| since.min(submit)));
        }
        self.queue.arrive(now.cluster);
        if !self.knows_pool() {
            return;
        }
        let mut queue = std::mem::take(&mut self.queue);
        loop {
            let places = self.places();
            let has_place = |owner: &String| {
                places.free_for(&owner.as_str()) && self.may_come(owner, None, now)
            };
            let has_room = |id: &TrainerId| {
                let may = self
                    .comer(id)
                    .is_none_or(|(owner, bounds)| self.may_come(owner, Some(bounds), now));
                may && self.fits(id) && self.has_room(id)
            };
            // One without room waits, and others go first.
            let Some(id) = queue.next(has_place, has_room) else {
                break;
            };
            self.come(&id, now);
            let Some(trainer) = self.trainers.get_mut(&id) else {
                continue;
            };
            trainer.record.phase = Phase::Active;
            out.records.insert(id.clone());
            out.note(Note::Admitted {
                trainer: id.clone(),
            });
            self.active.push(id.clone());
            self.changed = true;
            self.take_over(&id, out);
        }
        self.queue = queue;
        self.comings
            .settle(self.config.control.anew_every, now.cluster);
    }

    /// Whose a trainer is, and how many nodes it can use.
    fn comer(&self, id: &TrainerId) -> Option<(&str, Bounds)> {
        let record = self.record(id)?;
        let bounds = (record.spec.min_nodes, record.spec.max_nodes);
        Some((user_of(record), bounds))
    }

    /// Whether an owner comes beside others. Replay knows no such rule, nor does lock step.
    fn beside_others(&self, owner: &str) -> bool {
        let mut active = self.active.iter().filter_map(|id| self.record(id));
        !self.lock_step() && active.any(|record| user_of(record) != owner)
    }

    /// Whether an owner's trainer of these bounds, or without them any, may come: see
    /// [`crate::comings`].
    fn may_come(&self, owner: &str, bounds: Option<Bounds>, now: Now) -> bool {
        let every = self.config.control.anew_every;
        let may = |bounds| self.comings.may_come(owner, bounds, every, now.cluster);
        may(bounds) || !self.beside_others(owner)
    }

    fn come(&mut self, id: &TrainerId, now: Now) {
        let comer = self
            .comer(id)
            .filter(|(owner, _)| self.beside_others(owner));
        let Some((owner, bounds)) = comer.map(|(owner, bounds)| (owner.to_owned(), bounds)) else {
            return;
        };
        let every = self.config.control.anew_every;
        self.comings.come(&owner, bounds, every, now.cluster);
    }

    /// Whether the pool of the present moment is known, and who has lost nodes has left them: until
    /// then nobody can tell who fits. In lock step replay admits once a moment as well, after all of
    /// its events.
    fn knows_pool(&self) -> bool {
        let Some(seq) = self.seq.filter(|_| self.hit.is_empty()) else {
            return false;
        };
        match self.tick {
            Some(tick) if tick.lock_step => tick.complete && seq >= tick.events_upto,
            Some(_) => true,
            // Before the first tick an empty pool is one of which nobody has told yet.
            None => self.pool_nodes > 0,
        }
    }

    /// The places of active trainers: those that have nodes, or could have, take one.
    fn places(&self) -> Places<&str> {
        let active = self.active.iter().filter_map(|id| {
            let owner = user_of(self.record(id)?);
            Some((owner, self.fits(id)))
        });
        Places::new(self.config.control.max_parallel as usize, active)
    }

    /// Whether a trainer has nodes, or the pool has its least. Every admitted one fits while the pool
    /// is not known.
    pub(crate) fn fits(&self, id: &TrainerId) -> bool {
        let pool = self.seq.map_or(u32::MAX, |_| self.pool_nodes);
        self.record(id).is_some_and(|record| {
            let nodes = u32::try_from(record.nodes.len()).unwrap_or(u32::MAX);
            has_place(nodes, record.spec.min_nodes, pool)
        })
    }

    pub(crate) fn cancel(&mut self, id: &TrainerId, now: Now, out: &mut Out) {
        let refusal = match self.trainers.get(id).map(|t| t.record.phase) {
            None => Some((
                RefusalKind::Unknown,
                format!("there is no trainer named {id}: `lacuna trainers --all` lists them"),
            )),
            Some(phase) if phase.is_final() => Some((
                RefusalKind::Final,
                format!("trainer {id} is over already: nothing to cancel"),
            )),
            Some(_) => None,
        };
        if let Some((kind, reason)) = refusal {
            out.rest.push(Effect::Reply(Err(Refusal { kind, reason })));
            return;
        }
        self.end(id, Phase::Cancelled, "cancelled by request", now, out);
        out.rest.push(Effect::Reply(Ok(vec![id.clone()])));
    }
}
