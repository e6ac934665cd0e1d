//! Broken groups, and the members with which training continues.
//!
//! Members find that their group is broken when the connection of a peer ends, or when it has been
//! silent for too long. Each reports it and waits for the next incarnation. Any other member may be
//! dead or hang, or it computes and detects the break when its step ends. So control asks it: its
//! newest command is sent once more. An agent does not answer for a silent program. After
//! `control.broken_wait`, in which messages may explain the break (an agent leaves, a program has
//! ended), the next incarnation begins with the members that have reported or answered. A silent
//! member's node is taken from the trainer, and is unused until an agent reports there. If all
//! members report, none is missing, and all continue at once: a timeout that was too short costs a
//! step and no member.
//!
//! If the incarnation has brought no sample, its group could not be built, although all members are
//! present. That is a failure of the trainer like the end of a program, with the same wait before
//! the next incarnation and the same limit. If a member is lost meanwhile, its loss is the cause,
//! and there is no failure. If the members meet after all, the incarnation continues.

use lacuna_model::{NodeId, RunId, Span, Timestamp, TrainerId};

use crate::Now;
use crate::account::Change;
use crate::controller::nodes::Node;
use crate::controller::out::Out;
use crate::controller::{Controller, Note};

/// Whether the node's program has reported, under the present lease, that its group is broken.
fn has_said(node: &Node, run: RunId) -> bool {
    let status = node.agent().status();
    status.is_some_and(|s| s.epoch == node.lease().epoch() && s.broken == Some(run))
}

impl Controller {
    /// The next moment of real time at which [`crate::controller::Input::Timer`] is worth more
    /// than its usual beat.
    #[must_use]
    pub fn due(&self) -> Option<Timestamp> {
        let wait = self.config.control.broken_wait;
        let admitted = self.trainers.admitted();
        admitted
            .flat_map(|trainer| {
                let health = trainer.health();
                [health.judged_at(wait), health.gives_back_at()]
            })
            .flatten()
            .min()
    }

    /// Looks at every group that members have called broken.
    pub(super) fn look_at_groups(&mut self, now: Now, out: &mut Out) {
        for id in self.trainers.admitted_where(|t| t.health().is_broken()) {
            self.look_at_group(&id, now, out);
        }
    }

    /// Goes on in another incarnation if the group of the present one is broken, and it is known
    /// with which members.
    pub(super) fn look_at_group(&mut self, id: &TrainerId, now: Now, out: &mut Out) {
        self.look_at_end(id, now, out);
        let trainer = self.trainers.get_mut(id);
        let Some(trainer) = trainer.filter(|trainer| !trainer.ends()) else {
            return;
        };
        let run = trainer.record().run;
        let nodes = trainer.nodes().to_vec();
        let says = |id: &NodeId| self.nodes.get(id).is_some_and(|node| has_said(node, run));
        let (said, others): (Vec<NodeId>, Vec<NodeId>) = nodes.iter().cloned().partition(says);
        if trainer.health().is_restarting() {
            if others.is_empty() {
                return;
            }
            // They meet after all: the others are judged afresh.
            trainer.meet_again();
        }
        if said.is_empty() {
            trainer.mend_group();
            return;
        }
        let (first, since) = trainer.break_group(now);
        let wait = if others.is_empty() {
            Span::ZERO
        } else {
            self.config.control.broken_wait
        };
        let is_due = trainer
            .health()
            .judged_at(wait)
            .is_some_and(|at| at <= now.wall);
        if first {
            self.ask(&others, out);
        }
        if !is_due {
            return;
        }
        let answered = |id: &NodeId| {
            let heard = self.nodes.get(id).and_then(|node| node.agent().heard());
            heard.is_some_and(|heard| heard >= since)
        };
        let silent: Vec<NodeId> = others.into_iter().filter(|id| !answered(id)).collect();
        if silent.len() > said.len() {
            // Perhaps control does not hear most of them. Silence of agents takes longer to tell.
            return;
        }
        if said.len() == nodes.len() && self.could_not_be_built(id, now, out) {
            return;
        }
        out.note(Note::Broke {
            trainer: id.clone(),
            run,
            said: said.len() as u32,
            silent: silent.len() as u32,
        });
        if silent.is_empty() {
            self.begin_incarnation(id, nodes, Change::Restarted, now, out);
        } else {
            self.drop_silent(id, silent, now, out);
        }
    }

    /// Counts a failure if the incarnation, which all members call broken, has brought no sample.
    /// Returns whether it has not: then the next incarnation waits.
    fn could_not_be_built(&mut self, id: &TrainerId, now: Now, out: &mut Out) -> bool {
        let record = self.trainers.record(id);
        let Some(record) = record.filter(|record| record.samples_run <= 0.0) else {
            return false;
        };
        let reason = format!(
            "its group could not be built: all {} members of run {} have tried; their nodes must \
             reach each other, not only the store (addresses, network interface, firewall)",
            record.nodes.len(),
            record.run.0
        );
        let wait = self.count_failure(id, None, reason, now, out);
        if let (Some(wait), Some(trainer)) = (wait, self.trainers.get_mut(id)) {
            trainer.restart_after_failure(wait, true, now);
        }
        true
    }

    /// A living agent answers its newest command with a status.
    fn ask(&self, nodes: &[NodeId], out: &mut Out) {
        for id in nodes {
            let node = self.nodes.get(id);
            if let Some(command) = node.and_then(|node| node.agent().command()) {
                out.send(command.clone());
                out.note(Note::Resent { node: id.clone() });
            }
        }
    }

    fn drop_silent(&mut self, id: &TrainerId, silent: Vec<NodeId>, now: Now, out: &mut Out) {
        let reason = "its group broke, and it does not answer";
        for node in &silent {
            self.nodes.silence(node);
            self.avoid(node, id, reason, now);
            out.note(Note::Unusable {
                node: node.clone(),
                cause: "silent",
            });
        }
        self.publication.change();
        self.take(silent, reason, now.cluster, now, out);
    }
}
