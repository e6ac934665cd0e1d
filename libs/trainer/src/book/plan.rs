//! Plans: accepted or refused, then followed.
//!
//! - A plan is applied only if its generation is newer.
//! - A plan waits while the bus is away, the pool is unknown, or the events that it knows of have
//!   not come. In lock step `trainers_version` must be the present one, and a step has one plan.
//! - A plan names the incarnation (`runs`) of each trainer that it was made from. A trainer that
//!   has changed since is left as it is, with its nodes, and the rest of the plan is followed.
//!   `TrainersState.version` grows only with what a plan depends on, not with figures.
//! - Leases are written before any command goes out, and all members of a changed trainer get a new
//!   incarnation.
//!
//! **Re-placement.** `TrainerRecord.hit_at` says that a departure has hit a trainer and that no
//! plan has been followed for it since. While its stall lasts, a plan may give it any nodes and
//! names it in `Plan.repooled`, the one exception from "no migration" (I6, I12). The nodes that it
//! leaves are taken back first, and the others are joined when their agents have given them up, so
//! no trainer waits in a circle. Until then the trainer counts as hit, so plans made in between
//! come to the same. Its stall begins again, which costs what was paid of it: nothing, in lock
//! step. The same holds for any plan while the stall lasts, be it more nodes, fewer, or a start
//! after the loss of all. A re-placement onto as many nodes is no rescale.

use std::collections::{BTreeMap, BTreeSet};

use lacuna_model::{NodeId, Plan, RunId, TrainerId};

use crate::Now;
use crate::account::Change;
use crate::book::quota::user_of;
use crate::book::state::{Out, Planned, Target};
use crate::book::trial::{InTrial, aside};
use crate::book::{Book, Note};

/// What a plan has for one trainer.
struct Step {
    /// How many nodes.
    planned: usize,
    /// Those of them that can be had.
    want: BTreeSet<NodeId>,
    /// Whether it restarts on other nodes, having been hit.
    repools: bool,
}

impl Book {
    /// Lays a plan ready; [`Book::try_plan`] applies it when its time has come.
    pub(crate) fn planned(
        &mut self,
        plan: Plan,
        version: u64,
        runs: Vec<(TrainerId, RunId)>,
        out: &mut Out,
    ) {
        let generation = plan.generation;
        let waiting = self.plan.as_ref().map(|p| p.plan.generation);
        let newest = waiting.map_or(self.generation, |g| g.max(self.generation));
        if generation < newest {
            let cause = "older";
            out.note(Note::PlanRefused { generation, cause });
        } else if generation > newest {
            self.plan = Some(Planned {
                plan,
                version,
                runs: runs.into_iter().collect(),
            });
        }
    }

    /// Applies the waiting plan once the pool is known, the events that the plan knows of are
    /// in, and the bus is there; in lock step once it was made for the tick's events, and one
    /// plan a step.
    pub(crate) fn try_plan(&mut self, now: Now, out: &mut Out) {
        let Some(seq) = self.seq.filter(|_| self.hit.is_empty()) else {
            return;
        };
        if self.lock_step() {
            self.try_plan_in_step(seq, now, out);
            return;
        }
        let ready = |p: &Planned| self.connected && seq >= p.plan.seq;
        let Some(planned) = self.plan.take_if(|p| ready(p)) else {
            return;
        };
        // Who changed while the plan was made is left as it is; a plan that does not say what
        // it was made from must be for what is now.
        let told = !planned.runs.is_empty();
        let fits = |id: &TrainerId| {
            let run = self.trainers.get(id).map(|t| t.record.run);
            if told {
                run.as_ref() == planned.runs.get(id)
            } else {
                planned.version == self.version && !self.changed
            }
        };
        let skipped: BTreeSet<TrainerId> =
            self.active.iter().filter(|id| !fits(id)).cloned().collect();
        self.apply(&planned.plan, &skipped, now, out);
    }

    fn try_plan_in_step(&mut self, seq: u64, now: Now, out: &mut Out) {
        let Some(tick) = self.tick.filter(|tick| tick.complete) else {
            return;
        };
        if self.planned_step == Some(tick.step)
            || seq < tick.events_upto
            || self.changed
            || !out.writes.is_empty()
        {
            return;
        }
        let version = self.version;
        let fits = |p: &mut Planned| {
            p.version == version && p.plan.seq >= tick.events_upto && p.plan.as_of >= tick.now
        };
        if let Some(planned) = self.plan.take_if(fits) {
            self.planned_step = Some(tick.step);
            self.apply(&planned.plan, &BTreeSet::new(), now, out);
        }
    }

    /// Follows a plan for all trainers but those to be skipped, and without the nodes that
    /// these have or wait for.
    fn apply(&mut self, plan: &Plan, skipped: &BTreeSet<TrainerId>, now: Now, out: &mut Out) {
        let generation = plan.generation;
        self.generation = generation;
        if !skipped.is_empty() && skipped.len() == self.active.len() {
            let cause = "stale";
            out.note(Note::PlanRefused { generation, cause });
            return;
        }
        let mut kept: BTreeSet<NodeId> = BTreeSet::new();
        for trainer in skipped.iter().filter_map(|id| self.trainers.get(id)) {
            let target = trainer.target.iter().flat_map(|target| &target.nodes);
            let held = trainer.record.nodes.iter().chain(aside(&trainer.record));
            kept.extend(held.chain(target).cloned());
        }
        let mut planned: BTreeMap<&TrainerId, &[NodeId]> = plan
            .allocations
            .iter()
            .map(|a| (&a.trainer, a.nodes.as_slice()))
            .collect();
        let mut spare = self.spare(plan, &kept);
        let mut changed = 0;
        let mut grow = Vec::new();
        for id in self.active.clone() {
            if skipped.contains(&id) {
                continue;
            }
            let want = planned.remove(&id).unwrap_or_default();
            let free = want.iter().filter(|n| !kept.contains(*n)).cloned();
            let mut free = free.collect();
            self.replace_closed(&id, &mut free, &mut spare);
            let step = Step {
                planned: want.len(),
                want: free,
                repools: plan.repooled.contains(&id),
            };
            if self.follow(&id, step, now, out, &mut grow) {
                changed += 1;
            }
            self.placed(&id, out);
        }
        for id in grow {
            self.pursue(&id, now, out);
        }
        out.note(Note::PlanApplied {
            generation,
            changed,
            skipped: skipped.len() as u32,
        });
    }

    /// A plan has been followed for this trainer. If it waits for no node, it has its nodes now:
    /// a departure before is settled, and its re-placement is complete. One that still waits
    /// counts as hit, so that the plans that its first step leads to see nothing else in it.
    fn placed(&mut self, id: &TrainerId, out: &mut Out) {
        let Some(trainer) = self.trainers.get_mut(id).filter(|t| t.target.is_none()) else {
            return;
        };
        trainer.replaced();
        if trainer.record.hit_at.take().is_some() {
            self.changed = true;
            out.records.insert(id.clone());
        }
    }

    /// Moves one trainer towards what it can have of the nodes of a plan; returns whether
    /// anything changes. One that restarts on other nodes leaves first and joins then: nobody
    /// waits for a node that waits for his.
    fn follow(
        &mut self,
        id: &TrainerId,
        step: Step,
        now: Now,
        out: &mut Out,
        grow: &mut Vec<TrainerId>,
    ) -> bool {
        let tried = match self.plan_in_trial(id, &step.want, now, out) {
            InTrial::No => false,
            InTrial::Over => true,
            InTrial::GoesOn => return false,
        };
        let Step {
            planned,
            mut want,
            repools,
        } = step;
        self.fit_quota(id, &mut want);
        let Some(trainer) = self.trainers.get_mut(id) else {
            return false;
        };
        let before = trainer.target.take();
        let hit = trainer.record.hit_at.is_some();
        // What the plan does with it comes with the restart that it has paid for.
        let restarts = hit && repools;
        let min = trainer.record.spec.min_nodes as usize;
        let have: BTreeSet<NodeId> = trainer.record.nodes.iter().cloned().collect();
        want.retain(|node| {
            self.nodes
                .get(node)
                .is_some_and(|n| n.idle_since.is_some() && n.usable())
        });
        let stale = repools && !hit;
        if stale || (want.len() < planned && want.len() < min) {
            // It has chosen its nodes already, after another plan, or what the plan gave has
            // left the pool meanwhile. On doubt nothing grows.
            want.clone_from(&have);
        }
        let keep: BTreeSet<NodeId> = have.intersection(&want).cloned().collect();
        let grows = want.len() > keep.len();
        let shrinks = keep.len() < have.len();
        let (had, kept, gets) = (have.len() as u32, keep.len() as u32, want.len() as u32);
        let leave = Change::planned(had, kept, restarts);
        let join = Change::planned(kept, gets, restarts);
        let moves = shrinks && grows && repools;
        if shrinks {
            let rest: Vec<NodeId> = if keep.len() >= min {
                keep.iter().cloned().collect()
            } else {
                Vec::new()
            };
            self.change_run(id, rest, leave, now, out);
        }
        if moves && keep.len() < min {
            // Too few to run on meanwhile: they come back with the others.
            self.release_unwanted(id, "its trainer restarts on other nodes", out);
        }
        if grows && (!shrinks || moves || keep.len() >= min || keep.is_empty()) {
            if let Some(trainer) = self.trainers.get_mut(id) {
                // A target that stands has waited since it was first given.
                let since = before.as_ref().filter(|target| target.nodes == want);
                trainer.target = Some(Target {
                    since: since.map_or(now.wall, |target| target.since),
                    nodes: want,
                    change: join,
                });
            }
            grow.push(id.clone());
        }
        if shrinks || before.is_some() || tried {
            self.release_unwanted(id, "the plan gives it to others or to nobody", out);
        }
        shrinks || grows
    }

    /// Brings every trainer that waits for nodes a step further.
    pub(crate) fn pursue_all(&mut self, now: Now, out: &mut Out) {
        let waiting: Vec<TrainerId> = self
            .active
            .iter()
            .filter(|id| {
                self.trainers
                    .get(*id)
                    .is_some_and(|t| t.target.is_some() && t.loss.is_none())
            })
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
        if !self.connected || now.wall < trainer.not_before {
            return;
        }
        let Some(mut target) = trainer.target.take() else {
            return;
        };
        let have: BTreeSet<NodeId> = trainer.record.nodes.iter().cloned().collect();
        let min = trainer.record.spec.min_nodes as usize;
        let restarts = trainer.replaced_from.is_some() || trainer.record.is_hit(now.cluster);
        let late = now.since(target.since) >= self.config.transfer_wait;
        let owner = user_of(&trainer.record);
        let mut missing = Vec::new();
        let mut waiting = false;
        target.nodes.retain(|node| {
            let Some(n) = self.nodes.get(node) else {
                return false;
            };
            if have.contains(node) {
                return true;
            }
            if n.idle_since.is_none() || !n.usable() || n.is_closed_to(owner) {
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
        if !sound {
            self.release_unwanted(id, "it could not be used", out);
            return;
        }
        if !waiting && missing.is_empty() {
            if self.prepare(id, &mut target, now, out) {
                self.wait_for(id, target);
                return;
            }
            if target.nodes.len() <= have.len() || target.nodes.len() < min {
                self.release_unwanted(id, "its program was not ready in time", out);
                return;
            }
            let nodes = target.nodes.into_iter().collect();
            // The pause may have ended while it waited for nodes.
            let change = if restarts {
                target.change
            } else {
                Change::Grown
            };
            self.change_run(id, nodes, change, now, out);
            self.release_unwanted(id, "its program was not ready in time", out);
            self.placed(id, out);
            return;
        }
        if !waiting {
            for node in missing {
                self.grant(&node, id, out);
            }
        }
        self.wait_for(id, target);
    }

    fn wait_for(&mut self, id: &TrainerId, target: Target) {
        if let Some(trainer) = self.trainers.get_mut(id) {
            trainer.target = Some(target);
        }
    }
}
