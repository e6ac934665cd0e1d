//! Trainers that have ended leave the books for the archive; their sums stay.

use std::collections::{BTreeMap, BTreeSet};

use lacuna_model::{Attained, Past, Span, Timestamp, TrainerId, TrainerRecord};

use crate::Now;
use crate::book::Book;
use crate::measure;

/// A trainer stays at least so long after its last words, whatever the room.
const LEAST: Span = Span::from_secs(60);
/// Owners whose service is remembered: those with the most.
const MOST_OWNERS: usize = 10_000;
/// Service that is forgotten, in seconds of one node.
const FORGOTTEN_S: f64 = 1.0;
/// Bytes of an owner's name, beyond which nobody is it.
const LONGEST_OWNER: usize = 256;

impl Book {
    /// Takes up what an earlier control moved to the archive.
    pub(crate) fn remember(&mut self, past: Past) {
        self.next_order = self.next_order.max(past.order.saturating_add(1));
        self.past = past;
    }

    /// The sums of those that have left.
    #[must_use]
    pub const fn past(&self) -> &Past {
        &self.past
    }

    /// Takes out of the books the trainers that ended longer than `keep` ago, `most` of them at
    /// most, those that ended first. Nothing is left to be done for them, and their sums stay:
    /// [`Past::moved`] names them.
    pub fn retire(&mut self, keep: Span, most: usize, now: Now) -> Vec<TrainerRecord> {
        let cluster = self.sums.upto.map_or(now.cluster, |at| at.max(now.cluster));
        let keep = keep.max(self.config.last_words + LEAST);
        let over = |at: Timestamp| cluster.since(at) > keep;
        let held: BTreeSet<&TrainerId> = self
            .nodes
            .values()
            .filter_map(|node| node.owner.as_ref())
            .collect();
        let mut ended: Vec<(Timestamp, &TrainerId)> = self
            .trainers
            .iter()
            .filter(|(id, t)| t.record.phase.is_final() && !t.dirty && !held.contains(id))
            .filter_map(|(id, t)| Some((t.record.ended?, id)))
            .filter(|(at, _)| over(*at))
            .collect();
        ended.sort_unstable();
        ended.truncate(most);
        let ids: Vec<TrainerId> = ended.into_iter().map(|(_, id)| id.clone()).collect();
        let mut retired = Vec::with_capacity(ids.len());
        for id in &ids {
            let Some(trainer) = self.trainers.remove(id) else {
                continue;
            };
            measure::add_past(&mut self.past, &trainer.record);
            attain(&mut self.past.attained, &trainer.record, cluster);
            retired.push(trainer.record);
        }
        if !retired.is_empty() {
            self.past.moved = ids;
            bound(&mut self.past.attained, cluster);
        }
        retired
    }
}

/// Adds what a trainer's owner attained by it. Who is nobody else's has no owner to remember.
fn attain(owners: &mut BTreeMap<String, Attained>, record: &TrainerRecord, now: Timestamp) {
    let owner = record.spec.owner.as_deref();
    if let Some(owner) = owner.filter(|owner| owner.len() <= LONGEST_OWNER) {
        let own = owners.entry(owner.to_owned()).or_default();
        own.add(record.attained.by(now), now);
    }
}

fn bound(owners: &mut BTreeMap<String, Attained>, now: Timestamp) {
    owners.retain(|_, attained| attained.by(now) >= FORGOTTEN_S);
    let beyond = owners.len().saturating_sub(MOST_OWNERS);
    if beyond > 0 {
        let mut by_service: Vec<(f64, String)> = owners
            .iter()
            .map(|(owner, attained)| (attained.by(now), owner.clone()))
            .collect();
        by_service.sort_by(|a, b| a.0.total_cmp(&b.0));
        for (_, owner) in by_service.into_iter().take(beyond) {
            owners.remove(&owner);
        }
    }
}
