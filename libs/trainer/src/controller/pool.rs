//! The pool: holes open, and close under a trainer.
//!
//! A node that leaves the pool under a lease is a preemption, handled without waiting for a plan.
//! Its release goes out at once, at a wanted node (`node.wanted`) whatever deadline it names. The
//! others' new incarnation begins when all available events have been read, so nodes that leave in
//! one batch are one change.

use std::collections::BTreeSet;

use lacuna_model::{Hole, NodeId, Timestamp};

use crate::Now;
use crate::controller::out::Out;
use crate::controller::{Controller, Effect, Taken};

impl Controller {
    pub(super) fn pool_changed(
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
        self.usage.begin(at);
        // A node that came back at once was away all the same.
        let mut held = Vec::new();
        for (node, taken) in closed {
            let Some(closed) = self.nodes.close(&node, taken, now) else {
                continue;
            };
            if closed.is_free {
                out.push(Effect::AnswerReleased { node: node.clone() });
            }
            self.forgive_on(&node, now);
            if closed.was_held {
                held.push(node);
            }
        }
        self.lose(held, "the scheduler took the node", at, now, out);
        for hole in opened {
            self.publication.change_if(self.plans.takes(&hole.node));
            self.nodes.open(hole, &self.config);
        }
        self.review_rests(now, out);
        self.pursue_all(now, out);
    }

    pub(super) fn snapshot(
        &mut self,
        seq: u64,
        at: Timestamp,
        idle: Vec<Hole>,
        now: Now,
        out: &mut Out,
    ) {
        let holes: BTreeSet<NodeId> = idle.iter().map(|hole| hole.node.clone()).collect();
        if self.seq.is_none() {
            self.usage.catch_up(now, &self.nodes.counts_with(&holes));
            for node in self.nodes.owe_answers(&holes) {
                out.push(Effect::AnswerReleased { node });
            }
        }
        // Before the first snapshot a lease may stand on a node that has left the pool.
        let gone = self.nodes.beside(&holes).into_iter();
        let closed = gone.map(|node| (node, Taken::Busy)).collect();
        self.seq = Some(self.seq.map_or(seq, |known| known.max(seq)));
        self.pool_changed(seq, at, idle, closed, now, out);
        self.settle_losses(now, out);
    }

    /// Takes nodes from the trainers that hold them, at once: the others of each incarnation go on
    /// without.
    pub(super) fn take(
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

    /// Releases nodes at once. The next incarnations wait for [`Controller::settle_losses`], since
    /// more losses may follow; work counts up to the first.
    fn lose(&mut self, nodes: Vec<NodeId>, reason: &str, at: Timestamp, now: Now, out: &mut Out) {
        for id in nodes {
            let Some(owner) = self.nodes.owner(&id).cloned() else {
                continue;
            };
            let changed = self.trainers.lose(&owner, &id, at, now);
            self.publication.change_if(changed);
            self.release(&id, reason, out);
        }
    }

    /// Begins the next incarnation of every trainer that has lost nodes.
    pub(super) fn settle_losses(&mut self, now: Now, out: &mut Out) {
        for (id, after) in self.trainers.settle_losses() {
            let is_over = after.nodes.is_empty();
            self.after_loss(&id, after, now, out);
            if is_over {
                self.release_unneeded(&id, "fewer nodes are left than it needs", out);
            }
        }
    }
}
