//! Groups that broke.
//!
//! Members find that their group is broken when the connection of a peer ends, or when it has been
//! silent for too long. Each says so and waits for the next incarnation. A member that has not said
//! so may be dead or hang; or it computes, and finds out when its step ends. So those are asked:
//! their newest command is sent once more. An agent does not answer for a program that is silent.
//! After a while, in which news may come that explain all (an agent leaves, a program has ended),
//! the next incarnation begins with all that have said so or have answered. A silent member's node
//! is taken from the trainer, and is unused until an agent speaks there. When all say that the
//! group is broken, nobody is missing, and all go on together at once: a timeout that was too short
//! costs a step and no member.
//!
//! If the incarnation has brought no sample, its group could not be built, although all are there.
//! That is a failure of the trainer like the end of a program, with the same wait before the next
//! incarnation, and the same end. If a member is lost meanwhile, that explains it, and there was no
//! failure; if they meet after all, the incarnation goes on.

use lacuna_model::{NodeId, RunId, Span, Timestamp, TrainerId};

use crate::Now;
use crate::account::Change;
use crate::book::state::{Node, Out, Restart, Trainer};
use crate::book::{Book, Note};

/// A run is not given up for a broken group before it is so old: what breaks at once may break
/// again and again.
const BETWEEN: Span = Span::from_secs(2);

/// Whether the node's program has said, under the present lease, that its group is broken.
fn has_said(node: &Node, run: RunId) -> bool {
    node.status
        .as_ref()
        .is_some_and(|status| status.epoch == node.epoch && status.broken == Some(run))
}

impl Trainer {
    /// When those who say nothing have had the time to answer, or when the next run is due.
    fn judged_at(&self, wait: Span) -> Option<Timestamp> {
        let since = self.broken?;
        let restart = self.restart.as_ref().map(|restart| restart.at);
        Some(restart.unwrap_or((since + wait).max(self.up + BETWEEN)))
    }
}

impl Book {
    /// The next moment of real time at which [`crate::book::Input::Timer`] is worth more than
    /// its usual beat.
    #[must_use]
    pub fn due(&self) -> Option<Timestamp> {
        self.active
            .iter()
            .filter_map(|id| self.trainers.get(id))
            .filter_map(|trainer| trainer.judged_at(self.config.control.broken_wait))
            .min()
    }

    /// Looks at every group that members have called broken.
    pub(crate) fn look_at_groups(&mut self, now: Now, out: &mut Out) {
        let is_broken =
            |id: &&TrainerId| self.trainers.get(*id).is_some_and(|t| t.broken.is_some());
        let broken: Vec<TrainerId> = self.active.iter().filter(is_broken).cloned().collect();
        for id in broken {
            self.look_at_group(&id, now, out);
        }
    }

    /// Goes on in another run if the group of the present one is broken, and it is known with
    /// whom.
    pub(crate) fn look_at_group(&mut self, id: &TrainerId, now: Now, out: &mut Out) {
        let Some(trainer) = self.trainers.get_mut(id) else {
            return;
        };
        let run = trainer.record.run;
        let nodes = trainer.record.nodes.clone();
        let (said, others): (Vec<_>, Vec<_>) = nodes
            .iter()
            .partition(|id| self.nodes.get(*id).is_some_and(|node| has_said(node, run)));
        if trainer.restart.is_some() {
            if others.is_empty() {
                return;
            }
            // They meet after all: whoever does not is judged anew.
            trainer.restart = None;
            trainer.broken = None;
        }
        if said.is_empty() {
            trainer.broken = None;
            return;
        }
        let first = trainer.broken.is_none();
        let since = *trainer.broken.get_or_insert(now.wall);
        let wait = if others.is_empty() {
            Span::ZERO
        } else {
            self.config.control.broken_wait
        };
        let due = trainer.judged_at(wait).is_some_and(|at| at <= now.wall);
        if first {
            self.ask(&others, out);
        }
        if !due {
            return;
        }
        let answered = |id: &NodeId| {
            let heard = self.nodes.get(id).and_then(|node| node.heard);
            heard.is_some_and(|heard| heard >= since)
        };
        let silent: Vec<NodeId> = others
            .into_iter()
            .filter(|id| !answered(id))
            .cloned()
            .collect();
        if silent.len() > said.len() {
            // Perhaps it is control that most do not hear. Silence of agents takes longer to tell.
            return;
        }
        let all = said.len() == nodes.len();
        if all && self.could_not_be_built(id, now, out) {
            return;
        }
        out.note(Note::Broke {
            trainer: id.clone(),
            run,
            said: said.len() as u32,
            silent: silent.len() as u32,
        });
        if silent.is_empty() {
            self.change_run(id, nodes, Change::Restarted, now, out);
        } else {
            self.drop_silent(id, silent, now, out);
        }
    }

    /// Counts a failure if the run, which all members call broken, has brought no sample.
    /// Returns whether it has not: then the next run waits.
    fn could_not_be_built(&mut self, id: &TrainerId, now: Now, out: &mut Out) -> bool {
        let Some(trainer) = self.trainers.get_mut(id) else {
            return false;
        };
        let record = &mut trainer.record;
        if record.samples_run > 0.0 {
            return false;
        }
        record.failures += 1;
        record.reason = format!(
            "its group could not be built: all {} members of run {} have tried; their nodes must \
             reach each other, not only the store (addresses, network interface, firewall)",
            record.nodes.len(),
            record.run.0
        );
        let again_in = self.config.wait_after(record.failures);
        trainer.not_before = now.wall + again_in;
        trainer.restart = Some(Restart {
            at: now.wall + again_in,
            healthy: std::mem::take(&mut trainer.healthy),
            failed: true,
            clean: true,
        });
        out.records.insert(id.clone());
        out.note(Note::Failure {
            trainer: id.clone(),
            node: None,
            failures: record.failures,
            reason: record.reason.clone(),
            again_in,
        });
        true
    }

    /// Whoever lives answers its newest command with a status.
    fn ask(&self, nodes: &[&NodeId], out: &mut Out) {
        for id in nodes {
            if let Some(sent) = self.nodes.get(*id).and_then(|node| node.sent.as_ref()) {
                out.sends.push(sent.command.clone());
                out.note(Note::Resent {
                    node: (*id).clone(),
                });
            }
        }
    }

    fn drop_silent(&mut self, id: &TrainerId, silent: Vec<NodeId>, now: Now, out: &mut Out) {
        for node in &silent {
            self.node(node).silent = true;
            self.failed_on(node, id);
            out.note(Note::Unusable {
                node: node.clone(),
                cause: "silent",
            });
        }
        self.changed = true;
        let reason = "its group broke, and it does not answer";
        self.take(silent.clone(), reason, now.cluster, now, out);
        self.quarantine(id, &silent, now, out);
    }
}
