//! A new start from what the buckets hold. Running trainers are not touched.

use std::cmp::Reverse;

use lacuna_model::{Epoch, NodeId, Past, Phase, TrainerId, TrainerRecord};

use crate::Now;
use crate::account::Change;
use crate::book::runs::is_named;
use crate::book::state::{Out, Release};
use crate::book::{Book, BookConfig, Effect, Tally};

impl Book {
    /// The books as the buckets have them; `past` is what has left them, and `version` the last one
    /// that was published.
    ///
    /// Agents are taken to be where the records say until they say otherwise; the pool is
    /// unknown until the first snapshot, and until then nothing is taken or given.
    #[must_use = "effects must be carried out"]
    pub fn recover(
        config: BookConfig,
        records: Vec<TrainerRecord>,
        past: Past,
        leases: Vec<(NodeId, Option<TrainerId>, Epoch)>,
        tally: Option<&Tally>,
        version: u64,
        now: Now,
    ) -> (Self, Vec<Effect>) {
        let mut book = Self::new(config);
        let mut out = Out::default();
        book.version = version;
        book.remember(past);
        if let Some(tally) = tally {
            book.sums.since = tally.since;
            book.sums.upto = tally.upto;
            book.sums.idle_node_s = tally.idle_node_s;
            book.sums.harvested_node_s = tally.harvested_node_s;
        }
        for (id, owner, epoch) in leases {
            let free = owner.is_none();
            book.set_owner(&id, owner, epoch);
            let safe_at = now.wall + book.config.dead_man + book.config.safety;
            let node = book.node(&id);
            node.heard = Some(now.wall);
            if free {
                "released before control started".clone_into(&mut node.reason);
                node.release = Some(Release {
                    since: now.wall,
                    safe_at,
                });
                book.releasing.insert(id);
            }
        }
        let mut active = Vec::new();
        for record in records {
            book.next_order = book.next_order.max(record.order + 1);
            let spec = &record.spec;
            if record.phase == Phase::Active {
                active.push((
                    Reverse(spec.priority),
                    spec.submit,
                    record.order,
                    spec.id.clone(),
                ));
            }
            book.enter(record, now);
        }
        active.sort();
        book.active = active.into_iter().map(|(_, _, _, id)| id).collect();
        for id in book.active.clone() {
            book.readopt(&id, now, &mut out);
        }
        book.release_strays(&mut out);
        book.resume_releases(now);
        let effects = book.gather(out, now);
        (book, effects)
    }

    /// Takes a trainer's run up again, or what is left of it.
    fn readopt(&mut self, id: &TrainerId, now: Now, out: &mut Out) {
        let Some(trainer) = self.trainers.get_mut(id) else {
            return;
        };
        trainer.account.resume(&mut trainer.record);
        let mut held = trainer.record.nodes.clone();
        held.retain(|node| {
            self.nodes
                .get(node)
                .is_some_and(|n| n.owner.as_ref() == Some(id))
        });
        if held.len() != trainer.record.nodes.len() {
            if held.len() < trainer.record.spec.min_nodes as usize {
                held.clear();
            }
            self.change_run(id, held, Change::Lost { at: now.cluster }, now, out);
            return;
        }
        // The commands may never have gone out. Whoever has obeyed ignores the repetition.
        if is_named(&trainer.record) && !trainer.record.nodes.is_empty() {
            out.members.insert(id.clone());
        }
        self.command_run(id, now, out);
    }

    /// Leases without a use: control died between writing them and starting the run.
    fn release_strays(&mut self, out: &mut Out) {
        let strays: Vec<NodeId> = self
            .nodes
            .iter()
            .filter(|(id, node)| {
                node.owner.as_ref().is_some_and(|owner| {
                    self.trainers
                        .get(owner)
                        .is_none_or(|t| t.record.nodes.binary_search(id).is_err())
                })
            })
            .map(|(id, _)| id.clone())
            .collect();
        for id in strays {
            self.release(&id, "its run never began", out);
        }
    }

    /// Releases that may not have been heard are prepared for sending again by the timer.
    fn resume_releases(&mut self, now: Now) {
        let mut quiet = Out::default();
        for id in self.releasing.clone() {
            let action = lacuna_model::Action::Release {
                reason: self.node(&id).reason.clone(),
                at: Some(now.cluster),
            };
            self.send(&id, 1, action, now, &mut quiet);
        }
    }
}
