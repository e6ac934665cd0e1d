//! Effects of one step, collected by kind, since kinds leave in a fixed order.

use std::collections::BTreeSet;

use lacuna_model::{Command, TrainerId};

use crate::controller::trainers::Trainers;
use crate::controller::{Effect, LeaseWrite, Note, Refusal};

/// The effects of one step, so far.
#[derive(Debug, Default)]
pub(crate) struct Out {
    writes: Vec<LeaseWrite>,
    records: BTreeSet<TrainerId>,
    members: BTreeSet<TrainerId>,
    sends: Vec<Command>,
    rest: Vec<Effect>,
}

impl Out {
    pub(crate) fn write(&mut self, write: LeaseWrite) {
        self.writes.push(write);
    }

    /// The trainer's record is to be kept, as it is at the end of the step.
    pub(crate) fn record(&mut self, trainer: &TrainerId) {
        self.records.insert(trainer.clone());
    }

    /// The members of the trainer's incarnation are to be published.
    pub(crate) fn members(&mut self, trainer: &TrainerId) {
        self.members.insert(trainer.clone());
    }

    pub(crate) fn send(&mut self, command: Command) {
        self.sends.push(command);
    }

    pub(crate) fn note(&mut self, note: Note) {
        self.rest.push(Effect::Note(note));
    }

    pub(crate) fn reply(&mut self, reply: Result<Vec<TrainerId>, Refusal>) {
        self.rest.push(Effect::Reply(reply));
    }

    /// An effect of a kind without a place of its own in the order.
    pub(crate) fn push(&mut self, effect: Effect) {
        self.rest.push(effect);
    }

    pub(crate) const fn has_writes(&self) -> bool {
        !self.writes.is_empty()
    }

    /// All effects: leases, then records, members, commands, then the rest.
    pub(crate) fn into_effects(self, trainers: &mut Trainers) -> Vec<Effect> {
        let mut effects = Vec::new();
        if self.has_writes() {
            effects.push(Effect::WriteLeases(self.writes));
        }
        for id in &self.records {
            effects.extend(trainers.keep(id).map(|r| Effect::PutTrainer(Box::new(r))));
        }
        let members = self.members.iter().filter_map(|id| trainers.members(id));
        effects.extend(members.map(Effect::Say));
        effects.extend(self.sends.into_iter().map(Effect::Send));
        effects.extend(self.rest);
        effects
    }
}
