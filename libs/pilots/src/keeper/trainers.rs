//! Pilots of single trainers: which trainer has a node, and submissions that are held back for one.

use std::collections::{BTreeMap, BTreeSet};

use lacuna_model::{NodeId, Span, Timestamp, TrainerId};

use super::Keeper;
use super::node::{NodeRecord, Phase, Pilot};
use super::outcome::doubled;

/// Submissions of a trainer are held back, since the owner of its pilots may not have them.
#[derive(Debug, Clone, Copy)]
pub(super) struct HeldBack {
    until: Timestamp,
    /// Refusals in a row.
    times: u32,
}

impl Keeper {
    /// Takes which trainer has each node, and which trainers are not over.
    pub(super) fn given(
        &mut self,
        mut nodes: BTreeMap<NodeId, TrainerId>,
        trainers: BTreeSet<TrainerId>,
        now: Timestamp,
    ) {
        for (node, record) in &mut self.nodes {
            let given = nodes.remove(node);
            if given.is_none() && record.given.is_some() {
                record.unused_since = now;
            }
            record.given = given;
        }
        for (node, trainer) in nodes {
            self.nodes.entry(node).or_default().given = Some(trainer);
        }
        self.held_back.retain(|id, _| trainers.contains(id));
        self.trainers = trainers;
    }

    /// Whether a node may get a pilot as far as trainers go: any, or that of the trainer that has it.
    pub(super) fn may_have_pilot(&self, record: &NodeRecord, now: Timestamp) -> bool {
        if !self.settings.of_trainers {
            return true;
        }
        let held_back =
            |id: &TrainerId| self.held_back.get(id).is_some_and(|held| held.until > now);
        let given = record.given.as_ref();
        given.is_some_and(|id| self.trainers.contains(id) && !held_back(id))
    }

    /// Why a pilot serves no trainer that could use it: its trainer is over, or the node has another.
    pub(super) fn is_of_no_use(
        trainers: &BTreeSet<TrainerId>,
        given: Option<&TrainerId>,
        pilot: &Pilot,
    ) -> Option<&'static str> {
        let serves = pilot.serves.as_ref()?;
        if matches!(pilot.phase, Phase::Ending) {
            return None;
        }
        if given.is_some_and(|given| given != serves) {
            return Some("other trainer");
        }
        (!trainers.contains(serves)).then_some("over")
    }

    /// The owner of a trainer may have no pilot. Returns how long its submissions are held back.
    pub(super) fn hold_back(&mut self, trainer: &TrainerId, now: Timestamp) -> Span {
        let pace = &self.settings.pace;
        let held = self.held_back.entry(trainer.clone()).or_insert(HeldBack {
            until: now,
            times: 0,
        });
        if held.until > now {
            // Submissions made before the refusal add no information.
            return held.until.since(now);
        }
        let wait = doubled(pace.backoff, held.times, pace.backoff_max);
        *held = HeldBack {
            until: now + wait,
            times: held.times.saturating_add(1),
        };
        wait
    }

    /// The owner of a trainer has a pilot: refusals before it count no longer.
    pub(super) fn let_go(&mut self, trainer: Option<&TrainerId>) {
        if let Some(trainer) = trainer {
            self.held_back.remove(trainer);
        }
    }
}
