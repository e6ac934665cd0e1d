//! Leases: asked for, written, released, confirmed.
//!
//! - The bucket entry of a node is written with the expected revision (compare-and-set); the new
//!   revision is the lease's epoch. A lease that the server has lost is written again with the epoch
//!   that it had (`services/control/src/effects.rs`), so its agent goes on.
//! - A node goes from one trainer to another only through a release that its agent has confirmed. A
//!   release that is not confirmed within ten seconds makes the node unusable in `TrainersState`.
//!   After the lease timeout (`agent.lease_timeout`) and a margin control no longer waits for it, but
//!   the node goes to no trainer until an agent reports there.

use lacuna_model::{Action, Launch, NodeId, TrainerId};

use crate::Now;
use crate::controller::nodes::Written;
use crate::controller::out::Out;
use crate::controller::trainers::Trainer;
use crate::controller::{Controller, Effect, LeaseResult, Note};

impl Controller {
    /// Asks for the lease of a node, which must be ready, for a trainer.
    pub(super) fn grant(&mut self, node: &NodeId, trainer: &TrainerId, out: &mut Out) {
        out.write(self.nodes.grant(node, trainer));
    }

    /// Takes the lease of a node back, if a trainer holds it.
    pub(super) fn release(&mut self, node: &NodeId, reason: &str, out: &mut Out) {
        let trainers = &self.trainers;
        let ended = |owner: &TrainerId| trainers.get(owner).map(Trainer::counts_until);
        if let Some(write) = self.nodes.release(node, reason, ended) {
            out.write(write);
        }
    }

    /// Releases every node that a trainer holds without needing it.
    pub(super) fn release_unneeded(&mut self, id: &TrainerId, reason: &str, out: &mut Out) {
        let trainer = self.trainers.get(id);
        let is_needed = |node: &NodeId| trainer.is_some_and(|trainer| trainer.needs(node));
        let held = self.nodes.iter();
        let held = held.filter(|(_, node)| node.lease().owner() == Some(id));
        let unneeded = held.map(|(node, _)| node).filter(|node| !is_needed(node));
        let unneeded: Vec<NodeId> = unneeded.cloned().collect();
        for node in unneeded {
            self.release(&node, reason, out);
        }
    }

    pub(super) fn leases_written(&mut self, results: &[LeaseResult], now: Now, out: &mut Out) {
        for result in results {
            let id = &result.node;
            let written = self.nodes.written(result);
            if result.entry.is_some() && !result.written {
                out.note(Note::LeaseConflict { node: id.clone() });
            }
            match written {
                Written::StillHeld => {
                    let reason = self.nodes.release_reason(id);
                    self.release(id, &reason, out);
                }
                Written::Released => self.released(id, now, out),
                Written::Granted(trainer) => {
                    let trainer = self.trainers.get(&trainer);
                    if !trainer.is_some_and(|trainer| trainer.needs(id)) {
                        self.release(id, "not needed any more", out);
                    }
                }
                Written::Other => {}
            }
        }
        self.pursue_all(now, out);
    }

    /// A node has no owner any more: its agent gets a release, and must confirm it.
    fn released(&mut self, id: &NodeId, now: Now, out: &mut Out) {
        let action = self.nodes.open_release(id, &self.config, now);
        let node = self.nodes.get(id);
        let has_left = node.is_some_and(|node| node.agent().has_left());
        // An agent that comes on demand may never have come.
        let is_unused = node.is_some_and(|node| !node.lease().is_used());
        self.send(id, 1, action, now, out);
        if has_left || (is_unused && self.config.on_demand.is_some()) {
            // Nothing runs there. The command is kept for the next agent.
            self.nodes.expect_no_answer(id);
            self.confirmed(id, now, out);
        }
    }

    /// An agent has given its node back.
    pub(super) fn confirmed(&mut self, id: &NodeId, now: Now, out: &mut Out) {
        let Some(freed) = self.nodes.confirm(id, now) else {
            return;
        };
        self.count_harm(id, true, now, out);
        if freed.was_overdue {
            self.publication.change();
            out.note(Note::Usable { node: id.clone() });
        }
        out.note(Note::Released {
            node: id.clone(),
            after: freed.after,
        });
        if freed.is_wanted {
            out.push(Effect::AnswerReleased { node: id.clone() });
        } else if self.seq.is_none() {
            self.nodes.returned_early(id);
        }
        self.review_rests(now, out);
        self.pursue_all(now, out);
    }

    /// Sends a command under the node's present epoch.
    pub(super) fn send(&mut self, id: &NodeId, seq: u64, action: Action, now: Now, out: &mut Out) {
        out.send(self.nodes.command(id, seq, action, now));
    }

    /// Sends again what has not been acknowledged, and asks again for leases of which the outcome
    /// is unknown.
    pub(super) fn resend(&mut self, now: Now, out: &mut Out) {
        for command in self.nodes.resend(self.config.resend_after, now) {
            if let Action::Run(run) = &command.action
                && matches!(*run.launch, Launch::Command(_))
            {
                // A server that has lost the command has lost the members too.
                out.members(&run.trainer);
            }
            let node = command.node.clone();
            out.send(command);
            out.note(Note::Resent { node });
        }
        for write in self.nodes.write_again() {
            out.write(write);
        }
    }
}
