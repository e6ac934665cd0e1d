//! Trainers that have ended leave the controller for the archive; their sums stay.

use std::collections::{BTreeMap, BTreeSet};

use lacuna_model::{Attained, Past, Span, Timestamp, TrainerId, TrainerRecord};

use crate::Now;
use crate::controller::Controller;
use crate::measure;

/// After its last report a trainer stays at least this long, whatever the room.
const LEAST: Span = Span::from_secs(60);
/// Owners whose service is remembered, at most: those with the most.
const MOST_OWNERS: usize = 10_000;
/// Below this many node-seconds, attained service is dropped.
const FORGOTTEN_S: f64 = 1.0;
/// Bytes of the longest name of an owner that is remembered.
const LONGEST_OWNER: usize = 256;

impl Controller {
    /// The sums of those that have left.
    #[must_use]
    pub const fn past(&self) -> &Past {
        self.trainers.past()
    }

    /// Takes out the trainers that ended longer than `keep` ago, `most` of them at most, those that
    /// ended first. Nothing is left to be done for them, and their sums stay: [`Past::moved`] names
    /// them.
    pub fn retire(&mut self, keep: Span, most: usize, now: Now) -> Vec<TrainerRecord> {
        let cluster = self.usage.end_by(now.cluster);
        let keep = keep.max(self.config.report_grace + LEAST);
        let nodes = self.nodes.iter();
        let held: BTreeSet<&TrainerId> =
            nodes.filter_map(|(_, node)| node.lease().owner()).collect();
        let idle = self.trainers.iter().filter(|trainer| {
            let is_over = trainer.record().phase.is_final();
            is_over && !trainer.is_dirty() && !held.contains(trainer.id())
        });
        let ended = idle.filter_map(|trainer| Some((trainer.record().ended?, trainer.id())));
        let mut ended: Vec<(Timestamp, &TrainerId)> =
            ended.filter(|(at, _)| cluster.since(*at) > keep).collect();
        ended.sort_unstable();
        ended.truncate(most);
        let ids: Vec<TrainerId> = ended.into_iter().map(|(_, id)| id.clone()).collect();
        let retired: Vec<TrainerRecord> = ids
            .iter()
            .filter_map(|id| self.trainers.remove(id))
            .collect();
        let past = self.trainers.past_mut();
        for record in &retired {
            measure::add_past(past, record);
            attain(&mut past.attained, record, cluster);
        }
        if !retired.is_empty() {
            past.moved = ids;
            bound(&mut past.attained, cluster);
        }
        retired
    }
}

/// Adds the service that a trainer's owner attained by it. A trainer without an owner is its own.
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
