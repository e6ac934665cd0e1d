//! Plans: followed for each trainer (`plan_gate.rs` says which and when).
//!
//! - Leases are written before any command goes out, and all members of a changed trainer get a new
//!   incarnation.
//! - `TrainersState.version` grows only with changes that a plan depends on, not with figures.
//!
//! **Re-placement.** `TrainerRecord.hit_at` says that a departure has hit a trainer and that no
//! plan has been followed for it since. While its stall lasts, a plan may give it any nodes and
//! names it in `Plan.replaced`, the one exception from "no migration" (I6, I12). The nodes that it
//! leaves are taken back first, and the others are joined when their agents have given them up, so
//! no trainer waits in a circle. Until then the trainer counts as hit, so plans made in between
//! have the same result. Its stall begins again, and the part already paid is lost; in lock step
//! nothing has been paid. This holds for every plan during the stall: more nodes, fewer nodes, or
//! a start after all were lost. A re-placement onto as many nodes is no rescale.

use std::collections::{BTreeMap, BTreeSet};

use lacuna_model::{NodeId, Plan, RunId, TrainerId};

use crate::Now;
use crate::account::Change;
use crate::controller::kinds::can_use;
use crate::controller::measuring::DuringProbe;
use crate::controller::nodes::Node;
use crate::controller::out::Out;
use crate::controller::plan_gate::Offer;
use crate::controller::trainers::{Target, Trainer};
use crate::controller::{Controller, Note, Tick};

/// The part of a plan for one trainer.
struct Step {
    /// Number of nodes that it gives.
    planned: usize,
    /// Those of them that can be had.
    want: BTreeSet<NodeId>,
    /// Whether the trainer restarts on other nodes, having been hit.
    is_replaced: bool,
}

/// When a plan passes.
impl Controller {
    /// Lays a plan ready. [`Controller::try_plan`] follows it when its time has come.
    pub(super) fn offer_plan(
        &mut self,
        plan: Plan,
        version: u64,
        runs: Vec<(TrainerId, RunId)>,
        out: &mut Out,
    ) {
        let generation = plan.generation;
        if self.plans.offer(plan, version, runs) {
            let cause = "older";
            out.note(Note::PlanRefused { generation, cause });
        }
    }

    /// Follows the waiting plan once the pool is known, the events that the plan knows of are in,
    /// and the bus is there; in lock step once it was made for the tick's events, and one plan a
    /// step.
    pub(super) fn try_plan(&mut self, now: Now, out: &mut Out) {
        let Some(seq) = self.seq.filter(|_| !self.trainers.any_hit()) else {
            return;
        };
        let offer = match self.lock_step.tick().filter(|tick| tick.lock_step) {
            Some(tick) => self.pass_in_step(tick, seq, out),
            None => {
                let connected = self.connected;
                self.plans.pass(|o| connected && seq >= o.plan().seq)
            }
        };
        let Some(offer) = offer else {
            return;
        };
        // A trainer that has changed while the plan was made, or whose work is done, is left as it
        // is.
        let is_current = self.publication.is_current(offer.version());
        let fits = |t: &Trainer| offer.fits(t.id(), Some(t.record().run), is_current);
        let skipped = self.trainers.admitted_where(|t| t.ends() || !fits(t));
        self.follow(offer.plan(), &skipped.into_iter().collect(), now, out);
    }

    fn pass_in_step(&mut self, tick: Tick, seq: u64, out: &Out) -> Option<Offer> {
        if !tick.complete || seq < tick.events_upto || self.publication.is_due() || out.has_writes()
        {
            return None;
        }
        let version = self.publication.version();
        self.plans.pass_in_step(tick.step, |offer| {
            let plan = offer.plan();
            offer.version() == version && plan.seq >= tick.events_upto && plan.as_of >= tick.now
        })
    }
}

/// How a plan is followed.
impl Controller {
    /// Follows a plan for all trainers but those to be skipped, and without the nodes that these
    /// have or wait for.
    fn follow(&mut self, plan: &Plan, skipped: &BTreeSet<TrainerId>, now: Now, out: &mut Out) {
        let generation = plan.generation;
        let all = self.trainers.admitted_where(|_| true);
        if !skipped.is_empty() && skipped.len() == all.len() {
            let cause = "stale";
            out.note(Note::PlanRefused { generation, cause });
            return;
        }
        let kept = self.kept_by(skipped);
        let followed = all.iter().filter(|id| !skipped.contains(*id));
        let planned: BTreeMap<&TrainerId, &[NodeId]> = plan
            .allocations
            .iter()
            .map(|a| (&a.trainer, a.nodes.as_slice()))
            .collect();
        let given = |id: &TrainerId| planned.get(id).copied().unwrap_or_default();
        let mut wants: BTreeMap<TrainerId, BTreeSet<NodeId>> = followed
            .clone()
            .map(|id| {
                let free = given(id).iter().filter(|node| !kept.contains(*node));
                (id.clone(), free.cloned().collect())
            })
            .collect();
        self.go_elsewhere(&mut wants, plan, &kept, now);
        let mut changed = 0;
        let mut grow = Vec::new();
        for id in followed {
            let step = Step {
                planned: given(id).len(),
                want: wants.remove(id).unwrap_or_default(),
                is_replaced: plan.replaced.contains(id),
            };
            if self.follow_for(id, step, now, out, &mut grow) {
                changed += 1;
            }
            self.settle_trainer(id, out);
        }
        self.look_at_uplinks();
        for id in grow {
            self.pursue(&id, now, out);
        }
        self.pace(now, out);
        out.note(Note::PlanApplied {
            generation,
            changed,
            skipped: skipped.len() as u32,
        });
    }

    /// Nodes that these trainers have or wait for.
    fn kept_by(&self, trainers: &BTreeSet<TrainerId>) -> BTreeSet<NodeId> {
        let mut kept = BTreeSet::new();
        for trainer in trainers.iter().filter_map(|id| self.trainers.get(id)) {
            let target = trainer.target().into_iter().flat_map(Target::nodes);
            let held = trainer.nodes().iter().chain(trainer.parked());
            kept.extend(held.chain(target).cloned());
        }
        kept
    }

    /// A plan has been followed for this trainer. If it waits for no node, it has its nodes now: a
    /// departure before is settled, and its re-placement is complete. A trainer that still waits
    /// counts as hit, so the plans that its first step leads to see nothing else in it.
    fn settle_trainer(&mut self, id: &TrainerId, out: &mut Out) {
        let trainer = self.trainers.get_mut(id);
        let Some(trainer) = trainer.filter(|trainer| trainer.target().is_none()) else {
            return;
        };
        if trainer.settle() {
            self.publication.change();
            out.record(id);
        }
    }

    /// Moves one trainer towards the nodes of a plan that it can have. Returns whether anything
    /// changes. A trainer that restarts on other nodes leaves first and joins then, so no trainer
    /// waits for a node that waits for its own.
    fn follow_for(
        &mut self,
        id: &TrainerId,
        step: Step,
        now: Now,
        out: &mut Out,
        grow: &mut Vec<TrainerId>,
    ) -> bool {
        let probed = match self.plan_during_probe(id, &step.want, now, out) {
            DuringProbe::None => false,
            DuringProbe::Over => true,
            DuringProbe::GoesOn => return false,
        };
        let Step {
            planned,
            mut want,
            is_replaced,
        } = step;
        self.fit_quota(id, &mut want);
        let Some(trainer) = self.trainers.get_mut(id) else {
            return false;
        };
        let before = trainer.take_target();
        // A restart that the trainer has to pay for anyhow covers the changes of the plan.
        let restarts = trainer.is_hit() && is_replaced;
        let min = trainer.min_nodes();
        let have: BTreeSet<NodeId> = trainer.nodes().iter().cloned().collect();
        want.retain(|id| {
            let node = self.nodes.get(id);
            let is_idle = node.is_some_and(Node::is_idle);
            if !is_idle {
                self.plans.miss(id);
            }
            is_idle && node.is_some_and(Node::is_usable)
        });
        let is_stale = is_replaced && !trainer.is_hit();
        let spec = &trainer.record().spec;
        let is_broken = !can_use(spec, &want, &self.kinds);
        if is_stale || is_broken || (want.len() < planned && want.len() < min) {
            // It has chosen its nodes already, after another plan, or nodes of the plan have left
            // the pool meanwhile. In doubt nothing grows.
            want.clone_from(&have);
        }
        let keep: BTreeSet<NodeId> = have.intersection(&want).cloned().collect();
        let grows = want.len() > keep.len();
        let shrinks = keep.len() < have.len();
        let (had, kept, gets) = (have.len() as u32, keep.len() as u32, want.len() as u32);
        let leave = Change::planned(had, kept, restarts);
        let join = Change::planned(kept, gets, restarts);
        // Too few to train on meanwhile: they come back with the others.
        let starts = shrinks && grows && keep.len() < min;
        if shrinks {
            let rest: Vec<NodeId> = if keep.len() >= min {
                keep.iter().cloned().collect()
            } else {
                Vec::new()
            };
            self.begin_incarnation(id, rest, leave, now, out);
        }
        if starts {
            self.release_unneeded(id, "its trainer restarts on other nodes", out);
        }
        if grows {
            if let Some(trainer) = self.trainers.get_mut(id) {
                // An unchanged target has waited since it was first given.
                let on_demand = self.config.on_demand.is_some();
                let newcomer = |node: &&NodeId| !trainer.is_member(node);
                let goes_on = |target: &Target| {
                    // Agents are on their way to some of its nodes.
                    on_demand
                        && target
                            .nodes()
                            .intersection(&want)
                            .any(|node| newcomer(&node))
                };
                let same = before
                    .as_ref()
                    .filter(|target| *target.nodes() == want || goes_on(target));
                let since = same.map_or(now.wall, Target::since);
                let target = Target::new(want, since, join);
                trainer.set_target(target.after(before.as_ref()));
            }
            grow.push(id.clone());
        }
        if shrinks || before.is_some() || probed {
            self.release_unneeded(id, "the plan no longer gives it to its trainer", out);
        }
        shrinks || grows
    }
}

/// How a trainer gets the nodes that it waits for.
impl Controller {
    /// Brings every trainer that waits for nodes a step further.
    pub(super) fn pursue_all(&mut self, now: Now, out: &mut Out) {
        let waits = |trainer: &Trainer| trainer.target().is_some() && !trainer.has_loss();
        for id in self.trainers.admitted_where(waits) {
            self.pursue(&id, now, out);
        }
    }

    /// Takes the leases of a trainer's target as soon as all its nodes are ready, and begins the
    /// incarnation as soon as all leases are held. After a while it goes without those that are
    /// still missing.
    pub(super) fn pursue(&mut self, id: &TrainerId, now: Now, out: &mut Out) {
        let Some(trainer) = self.trainers.get_mut(id) else {
            return;
        };
        if !self.connected || trainer.tries().rests() || trainer.lacks_pilots() {
            return;
        }
        let Some(mut target) = trainer.take_target() else {
            return;
        };
        let have = trainer.nodes().len();
        if trainer.gathers(&target, self.config.gather_wait, now) {
            self.wait_for(id, target);
            return;
        }
        let is_late = now.since(target.since()) >= self.config.transfer_wait;
        let mut missing = Vec::new();
        let mut waits = false;
        target.retain(|id| {
            let Some(node) = self.nodes.get(id) else {
                return false;
            };
            if trainer.is_member(id) {
                return true;
            }
            let is_closed = node.failures().is_closed_to(trainer.owner())
                || trainer.tries().refuses(id, now.wall);
            if !node.is_idle() || !node.is_usable() || is_closed {
                return false;
            }
            if node.lease().is_kept_by(trainer.id()) {
                return true;
            }
            if node.is_ready() {
                missing.push(id.clone());
                return true;
            }
            waits |= !is_late;
            !is_late
        });
        let keeps_all = trainer.nodes().iter().all(|id| target.nodes().contains(id));
        if !keeps_all || !self.can_grow(id, have, target.nodes()) {
            self.release_unneeded(id, "it could not be used", out);
            return;
        }
        if waits || !missing.is_empty() {
            if !waits {
                for node in missing {
                    self.grant(&node, id, out);
                }
            }
            self.wait_for(id, target);
            return;
        }
        let lacks_agents = self.await_agents(id, &mut target, now, out);
        if lacks_agents || self.prepare(id, &mut target, now, out) {
            self.wait_for(id, target);
            return;
        }
        let late = "its program was not ready in time";
        if !self.can_grow(id, have, target.nodes()) {
            self.release_unneeded(id, late, out);
            return;
        }
        let trainer = self.trainers.get(id);
        // The stall may have ended while it waited for nodes.
        let restarts = trainer.is_some_and(|trainer| trainer.restarts(now));
        let change = if restarts {
            target.change()
        } else {
            Change::Grown
        };
        if let Some(trainer) = self.trainers.get_mut(id) {
            trainer.tries_mut().end_rest();
        }
        self.begin_incarnation(id, target.into_nodes(), change, now, out);
        self.release_unneeded(id, late, out);
        self.settle_trainer(id, out);
    }

    fn wait_for(&mut self, id: &TrainerId, target: Target) {
        if let Some(trainer) = self.trainers.get_mut(id) {
            trainer.set_target(target);
        }
    }
}
