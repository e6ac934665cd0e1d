//! Trainers that regroup (launcher `regroup`, `Program.elastic`): their programs live on
//! over their incarnations, each of which is exactly one process group of torch.distributed.
//!
//! - A newcomer's agent starts its program while the others train on (`Action::Prepare`): it
//!   imports, builds its model and says `ready`. The next incarnation begins when all newcomers are
//!   ready, or with those that are after `control.prepare_wait`.
//! - A loss (the agent said that its node is wanted, a program died, an agent is silent, the
//!   scheduler took the node) begins the next incarnation at once with the rest.
//! - A program that dies costs its incarnation that member alone. The member's node is released,
//!   and comes back by a later plan.
//! - Members meet in the store that control keeps (`control.store`), so every node can be spared.
//!   The worker's side is the Python package in `libs/lacuna-py`.
//! - A group with a silent member is the concern of `broken.rs`, the end of the work that of
//!   `ending.rs`.

use lacuna_model::{Action, NodeId, Span, TrainerId, Work};

use crate::Now;
use crate::account::Change;
use crate::agent::Exit;
use crate::controller::Controller;
use crate::controller::incarnations::exit_reason;
use crate::controller::nodes::Node;
use crate::controller::out::Out;
use crate::controller::trainers::{AfterLoss, Target};

/// Exit code of a program that left on demand (`EX_TEMPFAIL` of sysexits.h).
const LEFT: i32 = 75;

impl Controller {
    /// Has the programs started on the newcomers of a target, whose leases are all held. Returns
    /// whether any newcomer is still waited for. One that is not ready in time is left out.
    pub(super) fn prepare(
        &mut self,
        id: &TrainerId,
        target: &mut Target,
        now: Now,
        out: &mut Out,
    ) -> bool {
        let trainer = self.trainers.get(id);
        let Some(trainer) = trainer.filter(|trainer| trainer.regroups()) else {
            return false;
        };
        let agents = self.config.on_demand.map(|on_demand| on_demand.agent_wait);
        let wait = self.config.control.prepare_wait + agents.unwrap_or(Span::ZERO);
        let is_late = now.since(target.since()) >= wait;
        let mut to_start = Vec::new();
        let mut waits = false;
        target.retain(|id| {
            let node = self.nodes.get(id);
            let is_ready =
                trainer.is_member(id) || node.is_some_and(|node| node.is_ready_for(trainer.id()));
            if !is_ready && !is_late {
                waits = true;
                if !node.is_some_and(Node::is_preparing) {
                    to_start.push(id.clone());
                }
            }
            is_ready || !is_late
        });
        let seq = trainer.record().run.0;
        let part = trainer.assignment(&self.config.control);
        if to_start.len() == target.nodes().len()
            && let Some(trainer) = self.trainers.get_mut(id)
        {
            trainer.prepare(now);
        }
        for node in to_start {
            let action = Action::Prepare(Box::new(part.clone()));
            self.send(&node, seq, action, now, out);
        }
        waits
    }

    /// The program of a trainer that regroups has ended by itself, in an incarnation or before its
    /// first.
    pub(super) fn member_ended(
        &mut self,
        id: &TrainerId,
        node: &NodeId,
        exit: &Exit,
        now: Now,
        out: &mut Out,
    ) {
        let code = exit.code;
        if code == 0 && self.exited_well(id, node, now, out) {
            return;
        }
        let Some(trainer) = self.trainers.get(id) else {
            return;
        };
        let (was_done, is_first) = (trainer.ends(), trainer.nodes().first() == Some(node));
        // One that its group's break has ended says nothing of itself or its node.
        let has_lost_peer = exit.lost_peer && trainer.is_member(node) && trainer.nodes().len() > 1;
        let in_samples = trainer.record().spec.work != Work::UntilExit;
        let reason = exit_reason(node, exit);
        // All end together when the work is done, which the last report of samples may say later
        // than they: only one of them is counted if it was not.
        let has_failed = code != LEFT && (code != 0 || is_first || !in_samples);
        if has_failed && self.failed_after_done(id, (node, code), &reason, now, out) {
            return;
        }
        if has_failed && (was_done || !has_lost_peer) {
            self.count_failure(id, Some((node, code)), reason, now, out);
            if let Some(trainer) = self.trainers.get_mut(id) {
                trainer.forget_progress();
            }
        } else {
            self.restarted(id, reason, now, out);
        }
        if has_failed && was_done {
            // The others have no work to go on with.
            self.begin_incarnation(id, Vec::new(), Change::Restarted, now, out);
            self.release_unneeded(id, "its program begins again", out);
        } else {
            self.go_on_without(id, node, now, out);
        }
    }

    /// Takes one node out of a trainer's incarnation or of its target: the others go on at once.
    pub(super) fn go_on_without(&mut self, id: &TrainerId, node: &NodeId, now: Now, out: &mut Out) {
        let Some(trainer) = self.trainers.get_mut(id) else {
            return;
        };
        trainer.forget_node(node);
        if trainer.is_member(node) {
            // A group that could not be built lacked this one.
            let nodes = trainer.without(|other| other == node);
            let (change, at) = (Change::Restarted, now.cluster);
            self.after_loss(id, AfterLoss { nodes, change, at }, now, out);
        }
        self.release_unneeded(id, "its program has ended", out);
        self.publication.change();
    }
}
