//! Statuses of agents.
//!
//! - A pilot that gets SIGTERM reports it (`AgentStatus.leaving`). Its node is out of use from then
//!   on, before any event of the scheduler, until an agent reports there again.
//! - With `control.require_agents` a node is usable only after a report of its agent. This is the
//!   only coupling of the controller with the starter of agents.
//! - Agents that come on demand (`on_demand.rs`) are the other way round: a node gets its agent once
//!   a trainer has its lease.

use lacuna_model::{Activity, AgentStatus, TrainerId};

use crate::Now;
use crate::agent::Exit;
use crate::controller::out::Out;
use crate::controller::{Controller, Note};

impl Controller {
    pub(super) fn heard(&mut self, status: &AgentStatus, now: Now, out: &mut Out) {
        if self.config.on_demand.is_some() && self.nodes.is_of_earlier_agent(status) {
            return;
        }
        if status.leaving {
            self.agent_leaves(status, now, out);
            return;
        }
        let id = &status.node;
        let heard = self.nodes.hear(status, &self.config, now);
        if let Some(of) = &heard.not_held {
            let away = self.usage.not_held(self.nodes.kind(id));
            self.trainers.skip_node(of, away);
        }
        if heard.was_silent {
            out.note(Note::Usable { node: id.clone() });
            self.publication.change();
        }
        if let Some(terms) = heard.longer_terms {
            let node = id.clone();
            out.note(Note::OtherTerms { node, terms });
        }
        if heard.is_new && self.config.on_demand.is_some() {
            self.measure_start(status, now);
            self.pursue_all(now, out);
        }
        if !heard.has_acknowledged {
            // The command is on its way, or the status is older, or the agent has lost its memory:
            // sending the command again does no harm.
            return;
        }
        let Some(owner) = self.nodes.owner(id).cloned() else {
            if self.nodes.is_confirmed_by(status) {
                self.confirmed(id, now, out);
            }
            return;
        };
        let Some(trainer) = self.trainers.get(&owner) else {
            return;
        };
        if trainer.regroups() {
            self.heard_of_member(&owner, status, now, out);
        } else {
            self.heard_of_program(&owner, status, now, out);
        }
    }

    /// An agent that has the owner's lease reports on a program that regroups.
    fn heard_of_member(
        &mut self,
        owner: &TrainerId,
        status: &AgentStatus,
        now: Now,
        out: &mut Out,
    ) {
        let id = &status.node;
        let (Some(node), Some(trainer)) = (self.nodes.get(id), self.trainers.get(owner)) else {
            return;
        };
        if status.epoch != node.lease().epoch() {
            return;
        }
        let is_expected = trainer.is_member(id) || node.is_preparing();
        self.hear_ending(owner, status, now, out);
        match &status.activity {
            Activity::Prepared { ready: true, .. } => self.pursue(owner, now, out),
            Activity::Exited { trainer, .. } if trainer == owner => {
                if let Some(exit) = exit_of(&status.activity) {
                    self.member_ended(owner, id, &exit, now, out);
                }
            }
            // It gave up its part by itself, and is there; or the program that it was commanded to
            // start is gone, with an agent that started again.
            Activity::Free if is_expected => {
                self.restarted(owner, stopped_by_itself(status), now, out);
                self.go_on_without(owner, id, now, out);
            }
            _ => {}
        }
        let trainer = self.trainers.get(owner);
        let is_broken = trainer.is_some_and(|trainer| trainer.health().is_broken());
        if is_broken || status.broken.is_some() {
            for node in self.gone_too_early(owner) {
                let status = self.nodes.get(&node).and_then(|node| node.agent().status());
                if let Some(exit) = status.and_then(|status| exit_of(&status.activity)) {
                    self.member_ended(owner, &node, &exit, now, out);
                }
            }
            self.look_at_group(owner, now, out);
        }
    }

    /// An agent that has the owner's lease reports on a program that is started for each
    /// incarnation.
    fn heard_of_program(
        &mut self,
        owner: &TrainerId,
        status: &AgentStatus,
        now: Now,
        out: &mut Out,
    ) {
        let id = &status.node;
        let (Some(node), Some(trainer)) = (self.nodes.get(id), self.trainers.get(owner)) else {
            return;
        };
        let present = trainer.record().run;
        let is_present = status.epoch == node.lease().epoch() && status.seq == present.0;
        if !trainer.is_member(id) || !is_present {
            return;
        }
        self.hear_ending(owner, status, now, out);
        match &status.activity {
            Activity::Running { .. } | Activity::Prepared { .. } => {}
            Activity::Exited { run, .. } => {
                if let Some(exit) = exit_of(&status.activity).filter(|_| *run == present) {
                    self.exited(owner, id, &exit, now, out);
                }
            }
            // It gave up its part by itself, and is there: the incarnation starts again.
            Activity::Free => self.restart_all(owner, stopped_by_itself(status), now, out),
        }
    }

    /// The whole incarnation starts again, unless a restart waits already, or its work is finished.
    fn restart_all(&mut self, id: &TrainerId, reason: String, now: Now, out: &mut Out) {
        let trainer = self.trainers.get(id);
        if trainer.is_none_or(|trainer| trainer.health().is_restarting()) {
            return;
        }
        if self.over(id, true, now, out) {
            return;
        }
        let counts = self.restarted(id, reason, now, out);
        let wait = self.config.control.broken_wait;
        if let Some(trainer) = self.trainers.get_mut(id) {
            if counts {
                trainer.restart_after_failure(wait, false, now);
            } else {
                trainer.restart_at_once(now);
            }
        }
    }
}

/// How the program has ended, if it has by itself.
pub(super) fn exit_of(activity: &Activity) -> Option<Exit> {
    let Activity::Exited {
        code,
        reason,
        killed,
        at,
        lost_peer,
        ..
    } = activity
    else {
        return None;
    };
    Some(Exit {
        code: *code,
        reason: reason.clone(),
        killed: *killed,
        at: *at,
        lost_peer: *lost_peer,
    })
}

/// The reason in a record for a node that was given back by its agent.
fn stopped_by_itself(status: &AgentStatus) -> String {
    let why = status.released.as_deref().unwrap_or("no reason given");
    format!("node {} stopped by itself: {why}", status.node)
}
