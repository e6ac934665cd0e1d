//! Nodes on which programs keep failing, or that keep trainers waiting (`nodes/failures.rs`), and
//! their substitutes.
//!
//! The published view names nodes in quarantine, but not nodes closed to single owners. If a plan
//! gives a trainer a node that is closed to its owner, control takes one that the plan leaves
//! unallocated, or leaves it out.

use std::collections::BTreeSet;

use lacuna_model::{NodeId, Plan, Progress, TrainerId};

use crate::Now;
use crate::controller::nodes::SlowNode;
use crate::controller::out::Out;
use crate::controller::trainers::Trainer;
use crate::controller::{Controller, Note};

impl Controller {
    /// A program of this trainer has failed on a node.
    pub(super) fn failed_on(&mut self, node: &NodeId, id: &TrainerId) {
        if let Some(trainer) = self.trainers.get(id) {
            self.nodes.count_failure(node, trainer.owner());
        }
    }

    /// Closes those of a trainer's nodes on which its owner's programs have failed too often in a
    /// row, and takes them from it. Returns whether there were any.
    pub(super) fn quarantine(
        &mut self,
        id: &TrainerId,
        nodes: &[NodeId],
        now: Now,
        out: &mut Out,
    ) -> bool {
        let Some(owner) = self
            .trainers
            .get(id)
            .map(|trainer| trainer.owner().to_owned())
        else {
            return false;
        };
        let closed = self.nodes.close_failing(nodes, &owner, &self.config, now);
        if closed.is_empty() {
            return false;
        }
        for (node, length) in &closed {
            out.note(Note::Closed {
                node: node.clone(),
                owner: owner.clone(),
                length: *length,
            });
        }
        self.publication.change();
        self.review_closed(now, out);
        let nodes = closed.into_iter().map(|(node, _)| node).collect();
        let reason = "programs of its owner keep failing there";
        self.take(nodes, reason, now.cluster, now, out);
        true
    }

    /// Judges nodes by a report on the steps of its trainer, if it names the member that the others
    /// wait for. Where members rank themselves, no node is known by its rank. What rank 0 does beside
    /// its steps, as saving, is slow on any node.
    pub(super) fn judge_slow(&mut self, report: &Progress, now: Now, out: &mut Out) {
        let (Some(costs), Some(trainer)) = (&report.step_costs, self.trainers.get(&report.trainer))
        else {
            return;
        };
        let record = trainer.record();
        if report.run != record.run || record.spec.launch.ranks_itself() || !costs.trusted {
            return;
        }
        let workers = record.spec.launch.workers_per_node().max(1);
        let place = costs.slow.map(|slow| (slow.rank / workers) as usize);
        let slow = place.and_then(|place| record.nodes.get(place));
        let is_rank_0 = costs.slow.is_some_and(|slow| slow.rank == 0);
        let slow = slow.map(|node| (node, is_rank_0));
        let (owner, first) = (trainer.owner(), self.config.control.quarantine);
        let found = self
            .nodes
            .count_waits(trainer.id(), owner, &record.nodes, slow, first, now);
        let Some(SlowNode {
            node,
            trainers,
            closed,
        }) = found
        else {
            return;
        };
        for (owner, length) in closed {
            let node = node.clone();
            out.note(Note::Closed {
                node,
                owner,
                length,
            });
        }
        out.note(Note::Slow {
            node: node.clone(),
            trainers,
        });
        self.publication.change();
        self.review_closed(now, out);
        self.take(
            vec![node],
            "it keeps trainers waiting",
            now.cluster,
            now,
            out,
        );
    }

    /// Opens nodes whose closure is over, and brings quarantine up to date.
    pub(super) fn review_closed(&mut self, now: Now, out: &mut Out) {
        if !self.nodes.any_closed() {
            return;
        }
        let owners = self.trainers.waiting_or_admitted(now).map(Trainer::owner);
        let (any_opened, moved) = self.nodes.review_closed(&owners.collect(), now);
        self.publication.change_if(any_opened || !moved.is_empty());
        for (node, is_in_quarantine) in moved {
            out.note(if is_in_quarantine {
                let cause = "quarantine";
                Note::Unusable { node, cause }
            } else {
                Note::Usable { node }
            });
        }
    }

    /// Usable nodes that a plan leaves unallocated, to take the place of closed ones.
    pub(super) fn spare(&self, plan: &Plan, kept: &BTreeSet<NodeId>) -> BTreeSet<NodeId> {
        if !self.nodes.any_closed() {
            return BTreeSet::new();
        }
        let given = plan.allocations.iter().flat_map(|a| &a.nodes);
        let given: BTreeSet<&NodeId> = given.chain(kept).collect();
        let nodes = self.nodes.iter();
        nodes
            .filter(|(id, node)| node.is_idle() && node.is_usable() && !given.contains(id))
            .map(|(id, _)| id.clone())
            .collect()
    }

    /// Puts spare nodes, its own first, in the place of those that are closed to a trainer's owner.
    pub(super) fn replace_closed(
        &self,
        id: &TrainerId,
        want: &mut BTreeSet<NodeId>,
        spare: &mut BTreeSet<NodeId>,
    ) {
        let Some(trainer) = self.trainers.get(id).filter(|_| self.nodes.any_closed()) else {
            return;
        };
        let open = |node: &NodeId| {
            let node = self.nodes.get(node);
            node.is_none_or(|node| !node.failures().is_closed_to(trainer.owner()))
        };
        let planned = want.len();
        want.retain(open);
        while want.len() < planned {
            let fitting = spare.iter().filter(|node| open(node));
            let best = fitting.min_by_key(|node| !trainer.is_member(node));
            let Some(node) = best.cloned() else {
                return;
            };
            spare.remove(&node);
            want.insert(node);
        }
    }
}
