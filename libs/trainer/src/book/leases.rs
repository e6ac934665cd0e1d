//! Leases: asked for, written, released, confirmed.
//!
//! - The bucket entry of a node is written with the expected revision (compare-and-set); the new
//!   revision is the lease's epoch.
//! - A node goes from one trainer to another only through a release that its agent has confirmed. A
//!   release that is not confirmed within ten seconds makes the node unusable in `TrainersState`.
//!   After the lease timeout (`agent.dead_man`) and a margin control no longer waits for it, but
//!   the node goes to no trainer until an agent speaks there.
//! - A command that is not acknowledged is sent again after 2, 4, 8, 16 and then every 32 s.

use lacuna_model::{Action, Command, Launch, NodeId, TrainerId};

use crate::Now;
use crate::book::state::{Out, Pending, Release, Sent};
use crate::book::{Book, LeaseResult, LeaseWrite, Note};

impl Book {
    /// Asks for a node's lease for a trainer. The node must be ready.
    pub(crate) fn grant(&mut self, id: &NodeId, trainer: &TrainerId, out: &mut Out) {
        let node = self.node(id);
        node.pending = Some(Pending::Grant(trainer.clone()));
        out.writes.push(LeaseWrite {
            node: id.clone(),
            trainer: Some(trainer.clone()),
            expected: node.epoch,
        });
    }

    /// Takes a node's lease back, if anybody holds it.
    pub(crate) fn release(&mut self, id: &NodeId, reason: &str, out: &mut Out) {
        let node = self.nodes.entry(id.clone()).or_default();
        let Some(owner) = node.owner.as_ref().filter(|_| node.pending.is_none()) else {
            return;
        };
        // Its last report is for the moment at which the books of its run were closed.
        node.left = self.trainers.get(owner).map(|trainer| {
            trainer
                .loss
                .as_ref()
                .map_or(trainer.record.run_since, |loss| loss.since)
        });
        node.pending = Some(Pending::Release);
        reason.clone_into(&mut node.reason);
        out.writes.push(LeaseWrite {
            node: id.clone(),
            trainer: None,
            expected: node.epoch,
        });
    }

    pub(crate) fn leases_written(&mut self, results: Vec<LeaseResult>, now: Now, out: &mut Out) {
        for LeaseResult {
            node: id,
            entry,
            written,
        } in results
        {
            let Some((owner, epoch)) = entry else {
                self.unwritten.insert(id);
                continue;
            };
            self.unwritten.remove(&id);
            let pending = self.node(&id).pending.take();
            if !written {
                out.note(Note::LeaseConflict { node: id.clone() });
            }
            self.set_owner(&id, owner.clone(), epoch);
            match (pending, owner) {
                (Some(Pending::Release), Some(_)) => {
                    // The entry had moved on: try again against what it is now.
                    let reason = self.node(&id).reason.clone();
                    self.release(&id, &reason, out);
                }
                (Some(Pending::Release), None) => self.released(&id, now, out),
                (Some(Pending::Grant(wanted)), Some(owner)) if wanted == owner => {
                    if !self.wants(&owner, &id) {
                        self.release(&id, "not needed any more", out);
                    }
                }
                (Some(Pending::Grant(_)), _) | (None, _) => {}
            }
        }
        self.pursue_all(now, out);
    }

    /// The lease is nobody's now: the agent is told, and must confirm.
    fn released(&mut self, id: &NodeId, now: Now, out: &mut Out) {
        let node = self.nodes.entry(id.clone()).or_default();
        let safe_at = now.wall + node.safe_after(&self.config);
        node.release = Some(Release {
            since: now.wall,
            safe_at,
        });
        let action = Action::Release {
            reason: node.reason.clone(),
            at: Some(node.left.take().unwrap_or(now.cluster)),
        };
        let gone = node.gone.is_some();
        self.releasing.insert(id.clone());
        self.send(id, 1, action, now, out);
        if gone {
            // Nobody is there to hear it, and nothing runs there: it is kept for the next agent.
            self.unacked.remove(id);
            self.node(id).heard = None;
            self.confirmed(id, now, out);
        }
    }

    /// Whether the trainer has a use for the node's lease.
    fn wants(&self, trainer: &TrainerId, node: &NodeId) -> bool {
        self.trainers.get(trainer).is_some_and(|t| t.needs(node))
    }

    /// Sends a command under the node's present epoch.
    pub(crate) fn send(&mut self, id: &NodeId, seq: u64, action: Action, now: Now, out: &mut Out) {
        let node = self.nodes.entry(id.clone()).or_default();
        let command = Command {
            node: id.clone(),
            epoch: node.epoch,
            seq,
            action,
        };
        node.heard.get_or_insert(now.wall);
        node.sent = Some(Sent {
            command: command.clone(),
            first: now.wall,
            last: now.wall,
            again: 0,
        });
        self.unacked.insert(id.clone());
        out.sends.push(command);
    }

    /// Sends again what has not been acknowledged, and asks again for leases of which the
    /// outcome is unknown.
    pub(crate) fn resend(&mut self, now: Now, out: &mut Out) {
        for id in &self.unacked {
            let Some(sent) = self.nodes.get_mut(id).and_then(|n| n.sent.as_mut()) else {
                continue;
            };
            let wait = self.config.resend_after.as_ms() << sent.again.min(4);
            if now.since(sent.last).as_ms() >= wait {
                sent.last = now.wall;
                sent.again += 1;
                if let Action::Run(run) = &sent.command.action
                    && matches!(*run.launch, Launch::Command { .. })
                {
                    // A server that has lost the one has lost the other.
                    out.members.insert(run.trainer.clone());
                }
                out.sends.push(sent.command.clone());
                out.note(Note::Resent { node: id.clone() });
            }
        }
        for id in std::mem::take(&mut self.unwritten) {
            let Some(node) = self.nodes.get(&id) else {
                continue;
            };
            let trainer = match &node.pending {
                Some(Pending::Grant(trainer)) => Some(trainer.clone()),
                Some(Pending::Release) => None,
                None => continue,
            };
            out.writes.push(LeaseWrite {
                node: id,
                trainer,
                expected: node.epoch,
            });
        }
    }
}
