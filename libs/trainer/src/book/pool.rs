//! The pool: holes open, and close under a trainer.
//!
//! A node that leaves the pool under a lease is a preemption, handled without waiting for a plan.
//! Its release goes out at once, at a wanted node (`node.wanted`) whatever deadline it names. The
//! others' new incarnation begins when all events at hand have been read, so many nodes that leave
//! are one change.

use std::collections::BTreeSet;

use lacuna_model::{Hole, NodeId, Timestamp};

use crate::Now;
use crate::account::Change;
use crate::book::state::{Loss, Out};
use crate::book::trial::{drop_aside, or_all};
use crate::book::{Book, Effect, Taken};

impl Book {
    pub(crate) fn pool_changed(
        &mut self,
        seq: u64,
        at: Timestamp,
        opened: Vec<Hole>,
        closed: Vec<(NodeId, Taken)>,
        now: Now,
        out: &mut Out,
    ) {
        if let Some(known) = self.seq {
            self.seq = Some(known.max(seq));
        }
        // A state before the first event is of no time.
        if at > Timestamp::default() {
            self.sums.since.get_or_insert(at);
        }
        // A node that came back at once was away all the same.
        let mut held = Vec::new();
        for (node, taken) in closed {
            if self.close(&node, taken, now, out) {
                held.push(node);
            }
        }
        self.lose(held, "the scheduler took the node", at, now, out);
        for hole in opened {
            self.open(hole);
        }
        self.pursue_all(now, out);
    }

    pub(crate) fn snapshot(
        &mut self,
        seq: u64,
        at: Timestamp,
        idle: Vec<Hole>,
        now: Now,
        out: &mut Out,
    ) {
        let listed: BTreeSet<NodeId> = idle.iter().map(|hole| hole.node.clone()).collect();
        if self.seq.is_none() {
            self.answer_again(&listed, out);
        }
        // Before the first snapshot a lease may stand on a node that has left the pool.
        let closed = self
            .nodes
            .iter()
            .filter(|(id, node)| {
                !listed.contains(*id) && (node.idle_since.is_some() || node.owner.is_some())
            })
            .map(|(id, _)| (id.clone(), Taken::Busy))
            .collect();
        self.seq = Some(self.seq.map_or(seq, |known| known.max(seq)));
        self.pool_changed(seq, at, idle, closed, now, out);
        self.settle_losses(now, out);
    }

    /// What was released before control started may have been wanted: the scheduler is told of
    /// each node that it has, perhaps a second time. Nobody knows since when it has waited, so
    /// that is not counted.
    fn answer_again(&mut self, listed: &BTreeSet<NodeId>, out: &mut Out) {
        let mut returned = std::mem::take(&mut self.returned);
        for (id, node) in &mut self.nodes {
            if node.release.is_some() && !listed.contains(id) {
                if self.releasing.contains(id) {
                    node.wanted = true;
                } else {
                    returned.insert(id.clone());
                }
            }
        }
        for node in returned.into_iter().filter(|id| !listed.contains(id)) {
            out.rest.push(Effect::AnswerReleased { node });
        }
    }

    fn open(&mut self, hole: Hole) {
        let node = self.nodes.entry(hole.node).or_default();
        // Nobody is there who could obey, as far as is known.
        node.silent |= self.config.control.require_agents && node.heard.is_none();
        if node.idle_since.replace(hole.since).is_none() {
            self.pool_nodes += 1;
        }
        node.wanted = false;
        node.asked = None;
    }

    /// Returns whether somebody held it.
    fn close(&mut self, id: &NodeId, taken: Taken, now: Now, out: &mut Out) -> bool {
        let Some(node) = self.nodes.get_mut(id) else {
            return false;
        };
        if node.idle_since.take().is_some() {
            self.pool_nodes = self.pool_nodes.saturating_sub(1);
        }
        let held = node.owner.is_some();
        node.wanted = held || self.releasing.contains(id);
        if node.wanted {
            self.asked(id, taken, now);
        } else if node.release.is_some() || matches!(taken, Taken::Wanted { .. }) {
            // Nothing of ours runs there, which whoever asks cannot know.
            out.rest.push(Effect::AnswerReleased { node: id.clone() });
        }
        held
    }

    /// Takes nodes from whoever holds them, at once: the others of each run go on without.
    pub(crate) fn take(
        &mut self,
        nodes: Vec<NodeId>,
        reason: &str,
        at: Timestamp,
        now: Now,
        out: &mut Out,
    ) {
        self.lose(nodes, reason, at, now, out);
        self.settle_losses(now, out);
    }

    /// Releases nodes at once. The next runs of those who lost them wait for
    /// [`Book::settle_losses`], since more losses may follow; work counts up to the first.
    fn lose(&mut self, nodes: Vec<NodeId>, reason: &str, at: Timestamp, now: Now, out: &mut Out) {
        for id in nodes {
            let Some(owner) = self.nodes.get(&id).and_then(|node| node.owner.clone()) else {
                continue;
            };
            if let Some(trainer) = self.trainers.get_mut(&owner) {
                if let Some(target) = &mut trainer.target {
                    target.nodes.remove(&id);
                }
                self.changed |= drop_aside(&mut trainer.record, &id);
                if trainer.record.nodes.binary_search(&id).is_ok() {
                    let loss = trainer.loss.get_or_insert_with(|| Loss {
                        nodes: BTreeSet::new(),
                        at,
                        since: now.cluster,
                    });
                    loss.nodes.insert(id.clone());
                    loss.at = at;
                    self.hit.insert(owner);
                }
            }
            self.release(&id, reason, out);
        }
    }

    /// Begins the next run of everybody who has lost nodes.
    pub(crate) fn settle_losses(&mut self, now: Now, out: &mut Out) {
        for id in std::mem::take(&mut self.hit) {
            let Some(trainer) = self.trainers.get_mut(&id) else {
                continue;
            };
            let Some(loss) = trainer.loss.take() else {
                continue;
            };
            let mut rest = trainer.record.nodes.clone();
            rest.retain(|node| !loss.nodes.contains(node));
            // A program that died just before its node was taken has not failed.
            trainer.forgive();
            let mut rest = or_all(&trainer.record, rest);
            if rest.len() < trainer.record.spec.min_nodes as usize {
                rest.clear();
            }
            let stays = !rest.is_empty();
            let change = Change::Lost { at: loss.at };
            self.change_run_at(&id, rest, change, loss.since, now, out);
            if !stays {
                self.release_unwanted(&id, "fewer nodes are left than it needs", out);
            }
        }
    }
}
