//! The next try of a trainer whose programs failed.
//!
//! 1. `control.max_failures` in a row are too many; a minute of progress ends the row. A program that
//!    dies just before its node is taken has not failed, so a failure waits for
//!    `control.broken_wait`, and the node's departure explains it for `control.retry_after`.
//!    Of a group that ends together the member that failed first counts (`first_failure.rs`).
//! 2. Then the trainer gives its nodes back and rests: for `control.retry_after`, twice as long each
//!    further time. A trainer that rests has no place, and no plan has it.
//! 3. The next try avoids a node on which its programs failed, for `control.quarantine`, or for
//!    `control.retry_after` if the incarnation had trained there; twice as long each time. Other nodes
//!    of the plan or of the pool are taken instead, and the node only if the trainer's least cannot be
//!    had without it.
//! 4. After failures on one node alone, the node may be the cause: the rest is over as soon as other
//!    nodes are free. After failures on several, the program is the cause.
//! 5. A trainer with too many failures is given up, unless all were on one node and the pool has
//!    others: then it waits for these.
//!
//! What its failures say against nodes is the concern of `quarantine.rs`.

use std::collections::{BTreeMap, BTreeSet};

use lacuna_model::{NodeId, Phase, Plan, Span, TrainerId};

use crate::Now;
use crate::controller::kinds::can_use;
use crate::controller::nodes::Node;
use crate::controller::out::Out;
use crate::controller::trainers::Trainer;
use crate::controller::{Controller, Note};

/// Failures and rests.
impl Controller {
    /// Counts a failure of a trainer's programs: on a node with an exit code, or of its whole group.
    /// Returns the wait before the next start.
    pub(super) fn count_failure(
        &mut self,
        id: &TrainerId,
        exit: Option<(&NodeId, i32)>,
        reason: String,
        now: Now,
        out: &mut Out,
    ) -> Option<Span> {
        let control = &self.config.control;
        let trainer = self.trainers.get_mut(id)?;
        let failures = trainer.count_failure(reason.clone());
        let wait = self.config.wait_after(failures);
        let at_once = !trainer.is_sound(self.config.healthy_after);
        let record = trainer.record();
        // Members that regroup have met before they train.
        let has_met =
            |node| trainer.regroups() && record.samples() > 0.0 && trainer.is_member(node);
        let has_trained = record.samples_run > 0.0 || exit.is_some_and(|(node, _)| has_met(node));
        let tries = trainer.tries_mut();
        // Exit code 0 is no failure of the node: perhaps the work is done.
        if let Some((node, _)) = exit.filter(|(_, code)| *code != 0) {
            let first = match has_trained {
                true => control.retry_after,
                false => control.quarantine,
            };
            tries.fail_on(node, &reason, at_once, first, now.wall);
            self.nodes.count_failure(node);
        }
        let until = (failures < control.max_failures).then(|| now.wall + wait);
        tries.rest_until(until, now.wall);
        self.publication.change();
        out.record(id);
        out.note(Note::Failure {
            trainer: id.clone(),
            node: exit.map(|(node, _)| node.clone()),
            failures,
            reason,
            again_in: wait,
        });
        Some(wait)
    }

    /// A trainer avoids a node from now on, without a failure of its program.
    pub(super) fn avoid(&mut self, node: &NodeId, id: &TrainerId, reason: &str, now: Now) {
        let first = self.config.control.retry_after;
        if let Some(trainer) = self.trainers.get_mut(id) {
            let at_once = !trainer.is_sound(self.config.healthy_after);
            let tries = trainer.tries_mut();
            tries.avoid(node, reason, at_once, first, now.wall);
        }
    }

    /// The main scheduler has taken a node, or its agent leaves: failures there just before were none.
    pub(super) fn forgive_on(&mut self, node: &NodeId, now: Now) {
        let within = self.config.control.retry_after;
        let failed = |trainer: &Trainer| trainer.tries().row().any(|of| of == node);
        for id in self.trainers.admitted_where(failed) {
            let trainer = self.trainers.get_mut(&id);
            let forgiven = trainer.is_some_and(|t| t.forgive_on(node, within, now));
            self.publication.change_if(forgiven);
        }
    }

    /// Ends rests that are over, and gives up trainers that failed too often.
    pub(super) fn review_rests(&mut self, now: Now, out: &mut Out) {
        let rests = |trainer: &Trainer| trainer.tries().rest().is_some();
        let resting = self.trainers.admitted_where(rests);
        if resting.is_empty() {
            return;
        }
        let is_free = |node: &Node| node.is_idle() && node.is_usable() && node.lease().is_free();
        let any_free = self.nodes.iter().any(|(_, node)| is_free(node));
        for id in resting {
            let Some(trainer) = self.trainers.get(&id) else {
                continue;
            };
            let may_have = any_free || trainer.target().is_some();
            let elsewhere = may_have && self.can_go_elsewhere(trainer, now, true);
            if !elsewhere && let Some(reason) = self.given_up(trainer, now) {
                self.end(&id, Phase::Failed, &reason, now, out);
                continue;
            }
            let mut tries = trainer.tries().clone();
            if tries.review(elsewhere, now.wall)
                && let Some(trainer) = self.trainers.get_mut(&id)
            {
                *trainer.tries_mut() = tries;
                self.publication.change();
            }
        }
    }

    /// Why a trainer is given up, if it failed too often, has no nodes, and no other node can be
    /// waited for.
    fn given_up(&self, trainer: &Trainer, now: Now) -> Option<String> {
        let control = &self.config.control;
        let rest = trainer.tries().rest()?;
        let may_be_explained = now.wall < rest.since + control.retry_after;
        if may_be_explained
            || !trainer.nodes().is_empty()
            || self.can_go_elsewhere(trainer, now, false)
        {
            return None;
        }
        trainer.given_up(control.max_failures)
    }

    /// Whether all failures of a trainer in a row were on one node, and the pool has enough others
    /// for it; if `free`, at once.
    fn can_go_elsewhere(&self, trainer: &Trainer, now: Now, free: bool) -> bool {
        if trainer.tries().row().count() != 1 {
            return false;
        }
        let spec = &trainer.record().spec;
        let others = self.nodes.iter().filter(|(id, node)| {
            let is_there = node.is_idle() && node.is_usable();
            let is_free = !free || node.lease().is_free() || trainer.needs(id);
            is_there
                && is_free
                && !trainer.is_member(id)
                && !self.shuns(trainer, id, node, now)
                && can_use(spec, [*id], &self.kinds)
        });
        let least = trainer.min_nodes().saturating_sub(trainer.nodes().len());
        let least = least.max(1);
        others.take(least).count() == least
    }

    /// Whether a trainer takes other nodes than this one, if it can.
    fn shuns(&self, trainer: &Trainer, id: &NodeId, node: &Node, now: Now) -> bool {
        let (failures, owner) = (node.failures(), trainer.owner());
        !trainer.is_member(id)
            && (failures.is_closed_to(owner)
                || failures.is_last_for(owner)
                || trainer.tries().avoids(id, now.wall))
    }

    /// The most nodes that a trainer can have without those that it shuns, of `usable` idle ones;
    /// nothing if it shuns none.
    pub(super) fn most_elsewhere(&self, trainer: &Trainer, usable: u32, now: Now) -> Option<u32> {
        let failed = trainer.tries().failed().map(|(id, _)| id);
        let suspects: BTreeSet<&NodeId> = self.nodes.closed().chain(failed).collect();
        let shunned = suspects.into_iter().filter(|id| {
            let node = self.nodes.get(id);
            node.is_some_and(|node| {
                node.is_idle() && node.is_usable() && self.shuns(trainer, id, node, now)
            })
        });
        let shunned = u32::try_from(shunned.count()).unwrap_or(u32::MAX);
        (shunned > 0).then(|| usable.saturating_sub(shunned))
    }
}

/// Plans.
impl Controller {
    /// Changes what a plan gives to trainers (`wants`): in the place of nodes that a trainer shuns it
    /// gets nodes that the plan leaves unallocated, its own first, or changes with a trainer that has
    /// nothing against the node. Nodes of `kept` go to none of these trainers.
    pub(super) fn go_elsewhere(
        &self,
        wants: &mut BTreeMap<TrainerId, BTreeSet<NodeId>>,
        plan: &Plan,
        kept: &BTreeSet<NodeId>,
        now: Now,
    ) {
        let shuns = |trainer: &Trainer, id: &NodeId| {
            let node = self.nodes.get(id);
            node.is_some_and(|node| self.shuns(trainer, id, node, now))
        };
        let mut spare: Option<BTreeSet<NodeId>> = None;
        for trainer in self.trainers.admitted() {
            let Some(want) = wants.get(trainer.id()) else {
                continue;
            };
            let is_shunned = |id: &NodeId| shuns(trainer, id);
            let (shunned, mut good): (BTreeSet<NodeId>, BTreeSet<NodeId>) =
                want.iter().cloned().partition(is_shunned);
            if shunned.is_empty() {
                continue;
            }
            let spare = spare.get_or_insert_with(|| self.spare(plan, kept));
            let mut left = Vec::new();
            for node in shunned {
                let suits = |id: &NodeId| can_use(&trainer.record().spec, [id], &self.kinds);
                let fitting = spare.iter().filter(|id| !shuns(trainer, id) && suits(id));
                let kind = self.nodes.kind(&node);
                let order = |id: &&NodeId| (!trainer.is_member(id), self.nodes.kind(id) != kind);
                let best = fitting.min_by_key(order).cloned();
                if let Some(best) = best {
                    spare.remove(&best);
                    spare.insert(node);
                    good.insert(best);
                } else if let Some(other) = self.change_with(trainer, &node, wants, now) {
                    good.insert(other);
                } else {
                    left.push(node);
                }
            }
            for node in left {
                let is_closed = self
                    .nodes
                    .get(&node)
                    .is_some_and(|found| found.failures().is_closed_to(trainer.owner()));
                let may = !is_closed && !trainer.tries().refuses(&node, now.wall);
                if may && good.len() < trainer.min_nodes() {
                    good.insert(node);
                }
            }
            wants.insert(trainer.id().clone(), good);
        }
    }

    /// Gives a node that a trainer shuns to another one, which is to get a node of the same kind
    /// that this one can have. Returns that node.
    fn change_with(
        &self,
        trainer: &Trainer,
        shunned: &NodeId,
        wants: &mut BTreeMap<TrainerId, BTreeSet<NodeId>>,
        now: Now,
    ) -> Option<NodeId> {
        let node = self.nodes.get(shunned)?;
        for (id, want) in wants.iter_mut().filter(|(id, _)| *id != trainer.id()) {
            let Some(other) = self.trainers.get(id) else {
                continue;
            };
            if self.shuns(other, shunned, node, now) {
                continue;
            }
            let suits = |id: &&NodeId| {
                let found = self.nodes.get(id);
                !other.needs(id)
                    && self.nodes.kind(id) == self.nodes.kind(shunned)
                    && found.is_some_and(|node| !self.shuns(trainer, id, node, now))
            };
            if let Some(found) = want.iter().find(suits).cloned() {
                want.remove(&found);
                want.insert(shunned.clone());
                return Some(found);
            }
        }
        None
    }

    /// Usable nodes that a plan leaves unallocated.
    fn spare(&self, plan: &Plan, kept: &BTreeSet<NodeId>) -> BTreeSet<NodeId> {
        let given = plan.allocations.iter().flat_map(|a| &a.nodes);
        let given: BTreeSet<&NodeId> = given.chain(kept).collect();
        let nodes = self.nodes.iter();
        nodes
            .filter(|(id, node)| node.is_idle() && node.is_usable() && !given.contains(id))
            .map(|(id, _)| id.clone())
            .collect()
    }
}
