//! Trainers: their records, and which of them are admitted.
//!
//! Invariants:
//! - Admitted are the trainers of phase active and no others, in order of admission.
//! - *Hit* are the trainers with a loss that has not been settled.
//! - A used name is never free again. A trainer leaves only for the archive, and its sums stay.

mod health;
mod launch;
mod learnt;
mod moves;
mod next_probe;
mod parked;
mod probes;
mod reach;
mod stalls;
#[cfg(test)]
mod tests;
mod trainer;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use lacuna_model::{Members, NodeId, Past, Phase, Span, Timestamp, TrainerId, TrainerRecord};
use lacuna_rates::OfRelatives;

use crate::Now;
use crate::controller::nodes::NotHeld;

pub(crate) use health::Due;
pub(crate) use launch::{LOADERS_FILE, loaders_file};
pub(crate) use moves::Target;
pub(crate) use next_probe::{Next, next_probe};
pub(crate) use parked::all_nodes;

pub(crate) use trainer::{AfterLoss, Trainer};

/// All trainers that the archive does not have.
#[derive(Debug, Default)]
pub(crate) struct Trainers {
    by_id: BTreeMap<TrainerId, Trainer>,
    /// In order of admission.
    admitted: Vec<TrainerId>,
    /// The newest place in the order of arrival.
    order: u64,
    hit: BTreeSet<TrainerId>,
    /// The sums of those that have left for the archive.
    past: Past,
}

impl Trainers {
    pub(crate) fn get(&self, id: &TrainerId) -> Option<&Trainer> {
        self.by_id.get(id)
    }

    pub(crate) fn get_mut(&mut self, id: &TrainerId) -> Option<&mut Trainer> {
        self.by_id.get_mut(id)
    }

    pub(crate) fn record(&self, id: &TrainerId) -> Option<&TrainerRecord> {
        self.get(id).map(Trainer::record)
    }

    pub(crate) fn contains(&self, id: &TrainerId) -> bool {
        self.by_id.contains_key(id)
    }

    /// All, by name.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Trainer> {
        self.by_id.values()
    }

    /// The records of all, by name.
    pub(crate) fn records(&self) -> impl Iterator<Item = &TrainerRecord> {
        self.iter().map(Trainer::record)
    }

    /// Those that are admitted, in order of admission.
    pub(crate) fn admitted(&self) -> impl Iterator<Item = &Trainer> {
        self.admitted.iter().filter_map(|id| self.get(id))
    }

    /// The names of those that are admitted and of which this holds, in order of admission.
    pub(crate) fn admitted_where(&self, holds: impl Fn(&Trainer) -> bool) -> Vec<TrainerId> {
        let found = self.admitted().filter(|trainer| holds(trainer));
        found.map(|trainer| trainer.id().clone()).collect()
    }

    /// Those that are not over and have been submitted by now.
    pub(crate) fn waiting_or_admitted(&self, now: Now) -> impl Iterator<Item = &Trainer> {
        self.iter().filter(move |trainer| {
            let record = trainer.record();
            !record.phase.is_final() && record.spec.submit <= now.cluster
        })
    }

    /// This much of the cluster's time does not count: its clock has jumped, or agents had given back the
    /// nodes.
    pub(crate) fn skip(&mut self, time: Span) {
        if time == Span::ZERO {
            return;
        }
        for trainer in self.by_id.values_mut() {
            trainer.skip(time);
        }
    }

    /// This much of the cluster's time does not count for one of its nodes.
    pub(crate) fn skip_node(&mut self, of: &NotHeld, time: Span) {
        if let Some(trainer) = self.by_id.get_mut(&of.trainer) {
            trainer.skip_node(of.is_last, time);
        }
    }

    /// The sums of those that have left.
    pub(crate) const fn past(&self) -> &Past {
        &self.past
    }

    pub(crate) const fn past_mut(&mut self) -> &mut Past {
        &mut self.past
    }

    /// A place in the order of arrival.
    pub(crate) const fn next_order(&mut self) -> u64 {
        self.order += 1;
        self.order
    }

    /// Takes up the sums of an archive.
    pub(crate) fn resume_past(&mut self, past: Past) {
        self.order = self.order.max(past.order);
        self.past = past;
    }

    /// Takes a record in, of a trainer that is new or was kept. It is admitted only by
    /// [`Trainers::admit`] or [`Trainers::readmit`].
    pub(crate) fn enter(&mut self, record: TrainerRecord, now: Now) {
        self.order = self.order.max(record.order);
        let id = record.spec.id.clone();
        let mut trainer = Trainer::resumed(record, now);
        // Probes end with control: nodes that are held and not used are given back.
        trainer.unpark_all();
        self.by_id.insert(id, trainer);
    }

    /// Trainers that were admitted before a start of control are so again, in the order in which
    /// they would be admitted now.
    pub(crate) fn readmit(&mut self) -> Vec<TrainerId> {
        let active = self
            .records()
            .filter(|record| record.phase == Phase::Active);
        let mut active: Vec<_> = active
            .map(|record| {
                let spec = &record.spec;
                (
                    Reverse(spec.priority),
                    spec.submit,
                    record.order,
                    spec.id.clone(),
                )
            })
            .collect();
        active.sort();
        self.admitted = active.into_iter().map(|(_, _, _, id)| id).collect();
        self.admitted.clone()
    }

    /// Admits a trainer that waits.
    pub(crate) fn admit(&mut self, id: &TrainerId) -> bool {
        let Some(trainer) = self.by_id.get_mut(id) else {
            return false;
        };
        trainer.admit();
        self.admitted.push(id.clone());
        true
    }

    /// Ends a trainer for good. Returns its phase before.
    pub(crate) fn end(
        &mut self,
        id: &TrainerId,
        phase: Phase,
        reason: &str,
        now: Now,
    ) -> Option<Phase> {
        let before = self.by_id.get_mut(id)?.end(phase, reason, now);
        self.admitted.retain(|admitted| admitted != id);
        Some(before)
    }

    /// A trainer's node is lost, by an event of this moment. Returns whether a plan depends on
    /// more than its members: the node was parked.
    pub(crate) fn lose(&mut self, id: &TrainerId, node: &NodeId, at: Timestamp, now: Now) -> bool {
        let Some(trainer) = self.by_id.get_mut(id) else {
            return false;
        };
        let was_parked = trainer.forget_node(node);
        if trainer.is_member(node) {
            trainer.lose(node, at, now);
            self.hit.insert(id.clone());
        }
        was_parked
    }

    /// Whether losses are still to be settled.
    pub(crate) fn any_hit(&self) -> bool {
        !self.hit.is_empty()
    }

    /// The incarnations that follow the losses so far. Each must begin.
    pub(crate) fn settle_losses(&mut self) -> Vec<(TrainerId, AfterLoss)> {
        let hit = std::mem::take(&mut self.hit).into_iter();
        let settled = hit.filter_map(|id| {
            let after = self.by_id.get_mut(&id)?.settle_loss()?;
            Some((id, after))
        });
        settled.collect()
    }

    /// Gives a trainer the newest measurements of its family at counts that it has not measured
    /// itself. Returns whether plans depend on it.
    pub(crate) fn take_over(&mut self, id: &TrainerId) -> bool {
        let Some(trainer) = self.get(id).filter(|trainer| trainer.is_profiled()) else {
            return false;
        };
        let of = OfRelatives::of(trainer.record(), self.records());
        self.get_mut(id)
            .is_some_and(|trainer| trainer.take_over(of))
    }

    /// Takes trainers out for the archive.
    pub(crate) fn remove(&mut self, id: &TrainerId) -> Option<TrainerRecord> {
        self.by_id.remove(id).map(Trainer::into_record)
    }

    /// A record as it is to be kept.
    pub(crate) fn keep(&mut self, id: &TrainerId) -> Option<TrainerRecord> {
        self.by_id.get_mut(id).map(Trainer::keep)
    }

    /// The members of a trainer's incarnation.
    pub(crate) fn members(&self, id: &TrainerId) -> Option<Members> {
        let record = self.record(id)?;
        Some(Members {
            trainer: id.clone(),
            run: record.run,
            nodes: record.nodes.clone(),
        })
    }
}
