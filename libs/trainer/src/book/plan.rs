//! Plans: accepted or refused, then followed.

use std::collections::{BTreeMap, BTreeSet};

use lacuna_model::{NodeId, Plan, TrainerId};

use crate::Now;
use crate::account::Change;
use crate::book::state::{Out, Target};
use crate::book::{Book, Note};

impl Book {
    pub(crate) fn planned(&mut self, plan: Plan, version: u64, now: Now, out: &mut Out) {
        let generation = plan.generation;
        let refused = |cause| Note::PlanRefused { generation, cause };
        if generation == self.generation {
            return;
        }
        if generation < self.generation {
            out.note(refused("older"));
        } else if !self.connected {
            out.note(refused("disconnected"));
        } else if self.seq.is_none() {
            out.note(refused("pool unknown"));
        } else if version != self.version || self.changed {
            out.note(refused("stale"));
        } else if self.lock_step() || self.seq.is_none_or(|seq| seq < plan.seq) {
            // It has come before its tick, or before the events that it knows of.
            self.plan = Some((plan, version));
        } else {
            self.apply(&plan, now, out);
        }
    }

    /// Applies the waiting plan once the events that it knows of are in; in lock step once
    /// it was made for the tick's events, and one plan a step.
    pub(crate) fn try_plan(&mut self, now: Now, out: &mut Out) {
        if !self.lock_step() {
            if let Some((plan, version)) = &self.plan
                && self.seq.is_some_and(|seq| seq >= plan.seq)
            {
                let fits = *version == self.version && !self.changed && self.connected;
                if let Some((plan, _)) = self.plan.take() {
                    let generation = plan.generation;
                    if fits && generation > self.generation {
                        self.apply(&plan, now, out);
                    } else {
                        let cause = "stale";
                        out.note(Note::PlanRefused { generation, cause });
                    }
                }
            }
            return;
        }
        let Some(tick) = self.tick.filter(|tick| tick.lock_step && tick.complete) else {
            return;
        };
        if self.planned_step == Some(tick.step)
            || self.seq.is_none_or(|seq| seq < tick.events_upto)
            || self.changed
            || !out.writes.is_empty()
        {
            return;
        }
        let fits = self.plan.as_ref().is_some_and(|(plan, version)| {
            *version == self.version && plan.seq >= tick.events_upto && plan.as_of >= tick.now
        });
        if fits && let Some((plan, _)) = self.plan.take() {
            self.planned_step = Some(tick.step);
            self.apply(&plan, now, out);
        }
    }

    fn apply(&mut self, plan: &Plan, now: Now, out: &mut Out) {
        self.generation = plan.generation;
        let mut planned: BTreeMap<&TrainerId, &[NodeId]> = plan
            .allocations
            .iter()
            .map(|a| (&a.trainer, a.nodes.as_slice()))
            .collect();
        let mut changed = 0;
        let mut grow = Vec::new();
        for id in self.active.clone() {
            let want = planned.remove(&id).unwrap_or_default();
            if self.follow(&id, want, now, out, &mut grow) {
                changed += 1;
            }
        }
        for id in grow {
            self.pursue(&id, now, out);
        }
        out.note(Note::PlanApplied {
            generation: plan.generation,
            changed,
        });
    }

    /// Moves one trainer towards its nodes in the plan; returns whether anything changes.
    fn follow(
        &mut self,
        id: &TrainerId,
        want: &[NodeId],
        now: Now,
        out: &mut Out,
        grow: &mut Vec<TrainerId>,
    ) -> bool {
        let Some(trainer) = self.trainers.get_mut(id) else {
            return false;
        };
        let had_target = trainer.target.take().is_some();
        let min = trainer.record.spec.min_nodes as usize;
        let have: BTreeSet<NodeId> = trainer.record.nodes.iter().cloned().collect();
        let mut want: BTreeSet<NodeId> = want
            .iter()
            .filter(|node| {
                self.nodes
                    .get(*node)
                    .is_some_and(|n| n.idle_since.is_some() && n.usable())
            })
            .cloned()
            .collect();
        if !want.is_empty() && want.len() < min {
            // What the plan gave has left the pool meanwhile. On doubt nothing grows.
            want.clone_from(&have);
        }
        let keep: BTreeSet<NodeId> = have.intersection(&want).cloned().collect();
        let grows = want.len() > keep.len();
        let shrinks = keep.len() < have.len();
        if shrinks {
            let rest: Vec<NodeId> = if keep.len() >= min {
                keep.iter().cloned().collect()
            } else {
                Vec::new()
            };
            self.change_run(id, rest, Change::Shrunk, now, out);
        }
        if grows && (!shrinks || keep.len() >= min || keep.is_empty()) {
            if let Some(trainer) = self.trainers.get_mut(id) {
                trainer.target = Some(Target {
                    nodes: want,
                    since: now.wall,
                });
            }
            grow.push(id.clone());
        }
        if shrinks || had_target {
            self.release_unwanted(id, "the plan gives it to others or to nobody", out);
        }
        shrinks || grows
    }

    /// Brings every trainer that waits for nodes a step further.
    pub(crate) fn pursue_all(&mut self, now: Now, out: &mut Out) {
        let waiting: Vec<TrainerId> = self
            .active
            .iter()
            .filter(|id| self.trainers.get(*id).is_some_and(|t| t.target.is_some()))
            .cloned()
            .collect();
        for id in waiting {
            self.pursue(&id, now, out);
        }
    }

    /// Takes the leases of a trainer's target as soon as all its nodes are ready, and begins
    /// the run as soon as all leases are held. After a while it goes without those that are
    /// still missing.
    pub(crate) fn pursue(&mut self, id: &TrainerId, now: Now, out: &mut Out) {
        let Some(trainer) = self.trainers.get_mut(id) else {
            return;
        };
        let Some(mut target) = trainer.target.take() else {
            return;
        };
        let have: BTreeSet<NodeId> = trainer.record.nodes.iter().cloned().collect();
        let min = trainer.record.spec.min_nodes as usize;
        let late = now.since(target.since) >= self.config.transfer_wait;
        let mut missing = Vec::new();
        let mut waiting = false;
        target.nodes.retain(|node| {
            let Some(n) = self.nodes.get(node) else {
                return false;
            };
            if have.contains(node) {
                return true;
            }
            if n.idle_since.is_none() || !n.usable() {
                return false;
            }
            if n.owner.as_ref() == Some(id) && n.pending.is_none() {
                return true;
            }
            if n.ready() {
                missing.push(node.clone());
                return true;
            }
            waiting |= !late;
            !late
        });
        let sound = have.is_subset(&target.nodes)
            && target.nodes.len() > have.len()
            && target.nodes.len() >= min;
        if !sound || !self.connected {
            self.release_unwanted(id, "it could not be used", out);
            return;
        }
        if !waiting && missing.is_empty() {
            let nodes = target.nodes.into_iter().collect();
            self.change_run(id, nodes, Change::Grown, now, out);
            return;
        }
        if !waiting {
            for node in missing {
                self.grant(&node, id, out);
            }
        }
        if let Some(trainer) = self.trainers.get_mut(id) {
            trainer.target = Some(target);
        }
    }
}
