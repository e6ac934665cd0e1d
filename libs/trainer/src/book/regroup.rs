//! Trainers that regroup (launcher `regroup`, `Launch::Command.elastic`): their programs live on
//! over their incarnations, each of which is exactly one process group of torch.distributed.
//!
//! - A newcomer's agent starts its program while the others train on (`Action::Prepare`): it
//!   imports, builds its model and says `ready`. The next incarnation begins when all newcomers are
//!   ready, or with those that are after `control.prepare_wait`.
//! - A loss (the agent said that its node is wanted, a program died, an agent is silent, the
//!   scheduler took the node) begins the next incarnation at once with the rest.
//! - A program that dies costs its incarnation that member alone. The member's node is released,
//!   and comes back by a later plan.
//! - Members meet in a `TCPStore` beside control (`control.store`), so every node can be spared.
//!   The worker's side is the Python package in `libs/lacuna-py`.
//! - A group whose member says nothing at all is `broken`'s business.

use std::collections::BTreeSet;

use lacuna_model::{Action, Activity, AgentStatus, NodeId, Phase, Span, TrainerId, Work};

use crate::Now;
use crate::account::Change;
use crate::book::runs::assignment;
use crate::book::state::{Node, Out, Target};
use crate::book::trial::{drop_aside, or_all};
use crate::book::{Book, Note};

/// Exit code of a program that left because it was told to (`EX_TEMPFAIL` of sysexits.h).
const LEFT: i32 = 75;

/// Whether the node's program has said, under the present lease, that it waits to be taken
/// into a run of the trainer.
fn is_ready(node: &Node, id: &TrainerId) -> bool {
    node.status.as_ref().is_some_and(|status| {
        status.epoch == node.epoch
            && matches!(&status.activity,
                Activity::Prepared { trainer, ready: true } if trainer == id)
    })
}

/// Whether the node's agent was told, under the present lease, to start the program.
pub(crate) fn is_told(node: &Node) -> bool {
    node.sent.as_ref().is_some_and(|sent| {
        sent.command.epoch == node.epoch && matches!(sent.command.action, Action::Prepare(_))
    })
}

impl Book {
    /// Has the programs started on the newcomers of a target, whose leases are all held.
    /// Returns whether somebody is still waited for. Who is not ready in time is left out.
    pub(crate) fn prepare(
        &mut self,
        id: &TrainerId,
        target: &mut Target,
        now: Now,
        out: &mut Out,
    ) -> bool {
        let Some(trainer) = self.trainers.get(id) else {
            return false;
        };
        if !trainer.record.spec.launch.regroups() {
            return false;
        }
        let have: BTreeSet<NodeId> = trainer.record.nodes.iter().cloned().collect();
        let late = now.since(target.since) >= self.config.control.prepare_wait;
        let mut untold = Vec::new();
        let mut waiting = false;
        target.nodes.retain(|node| {
            let ready =
                have.contains(node) || self.nodes.get(node).is_some_and(|n| is_ready(n, id));
            if !ready && !late {
                waiting = true;
                if !self.nodes.get(node).is_some_and(is_told) {
                    untold.push(node.clone());
                }
            }
            ready || !late
        });
        if let Some(trainer) = self.trainers.get(id) {
            let record = &trainer.record;
            let seq = record.run.0;
            let part = assignment(record, self.config.control.store.clone());
            for node in untold {
                let action = Action::Prepare(Box::new(part.clone()));
                self.send(&node, seq, action, now, out);
            }
        }
        waiting
    }

    /// The program of a trainer that regroups has ended by itself, in a run or before its first.
    pub(crate) fn member_ended(
        &mut self,
        id: &TrainerId,
        node: &NodeId,
        (code, words): (i32, &str),
        now: Now,
        out: &mut Out,
    ) {
        let Some(trainer) = self.trainers.get_mut(id) else {
            return;
        };
        let first = trainer.record.nodes.first() == Some(node);
        if code == 0 && first && trainer.record.spec.work == Work::UntilExit {
            let reason = "its program ended with exit code 0";
            self.end(id, Phase::Done, reason, now, out);
            return;
        }
        // All end together when the work is done, which the last report may say later than
        // they: only one of them is counted if it was not.
        if code != LEFT && (code != 0 || first) {
            let said = if words.is_empty() {
                String::new()
            } else {
                format!(": {words}")
            };
            let record = &mut trainer.record;
            record.failures += 1;
            trainer.healthy = Span::ZERO;
            record.reason = format!("exit code {code} on node {node}{said}");
            let again_in = self.config.wait_after(record.failures);
            trainer.not_before = now.wall + again_in;
            out.records.insert(id.clone());
            out.note(Note::Failure {
                trainer: id.clone(),
                node: Some(node.clone()),
                failures: trainer.record.failures,
                reason: trainer.record.reason.clone(),
                again_in,
            });
            if code != 0 {
                self.failed_on(node, id);
            }
        }
        self.go_on_without(id, node, now, out);
        self.quarantine(id, std::slice::from_ref(node), now, out);
        let Some(trainer) = self.trainers.get(id) else {
            return;
        };
        let record = &trainer.record;
        if record.nodes.is_empty() && record.failures >= self.config.control.max_failures {
            let reason = format!(
                "given up after {} failures in a row; the last: {}",
                record.failures, record.reason
            );
            self.end(id, Phase::Failed, &reason, now, out);
        }
    }

    /// Takes one node out of a trainer's run or of what it waits for: the others go on at once.
    pub(crate) fn go_on_without(&mut self, id: &TrainerId, node: &NodeId, now: Now, out: &mut Out) {
        let Some(trainer) = self.trainers.get_mut(id) else {
            return;
        };
        if let Some(target) = &mut trainer.target {
            target.nodes.remove(node);
        }
        drop_aside(&mut trainer.record, node);
        if trainer.record.nodes.binary_search(node).is_ok() {
            // A group that could not be built lacked this one.
            trainer.forgive();
            let mut rest = trainer.record.nodes.clone();
            rest.retain(|other| other != node);
            let mut rest = or_all(&trainer.record, rest);
            if rest.len() < trainer.record.spec.min_nodes as usize {
                rest.clear();
            }
            self.change_run(id, rest, Change::Restarted, now, out);
        }
        self.release_unwanted(id, "its program has ended", out);
        self.changed = true;
    }

    /// The agent of a node has said its last words: whatever it had is given back, and the node
    /// is nobody's until an agent speaks there again.
    ///
    /// It says so at once, and once more when nothing runs there any more, with how long that
    /// took.
    pub(crate) fn left(&mut self, status: &AgentStatus, now: Now, out: &mut Out) {
        let id = &status.node;
        if !self.last_words(status, out) {
            return;
        }
        let node = self.node(id);
        node.heard = None;
        node.status = None;
        node.silent = true;
        self.unacked.remove(id);
        self.changed = true;
        out.note(Note::Unusable {
            node: id.clone(),
            cause: "left",
        });
        // Of a release that it has still to confirm, this is the confirmation; one that follows
        // is confirmed with it.
        self.confirmed(id, now, out);
        let why = status.released.as_deref().unwrap_or("no reason given");
        let reason = format!("its agent leaves: {why}");
        self.take(vec![id.clone()], &reason, now.cluster, now, out);
    }
}

impl crate::book::BookConfig {
    /// How long to wait after so many failures in a row.
    pub(crate) fn wait_after(&self, failures: u32) -> Span {
        let doublings = failures.saturating_sub(1).min(16);
        let wait = self
            .control
            .retry_after
            .as_ms()
            .saturating_mul(1 << doublings);
        Span::from_ms(wait.min(self.backoff_max.as_ms()))
    }
}
