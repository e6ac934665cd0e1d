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
        match &status.activity {
            Activity::Prepared { ready: true, .. } => self.pursue(owner, now, out),
            Activity::Exited {
                trainer,
                code,
                reason,
                ..
            } if trainer == owner => {
                self.member_ended(owner, id, (*code, reason), now, out);
            }
            // It gave up its part by itself, and is there; or the program that it was commanded to
            // start is gone, with an agent that started again.
            Activity::Free if is_expected => self.go_on_without(owner, id, now, out),
            _ => {}
        }
        let trainer = self.trainers.get(owner);
        let is_broken = trainer.is_some_and(|trainer| trainer.health().is_broken());
        if is_broken || status.broken.is_some() {
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
        let (Some(node), Some(trainer)) = (self.nodes.get(id), self.trainers.get_mut(owner)) else {
            return;
        };
        let present = trainer.record().run;
        let is_present = status.epoch == node.lease().epoch() && status.seq == present.0;
        if !trainer.is_member(id) || !is_present {
            return;
        }
        match &status.activity {
            Activity::Running { .. } | Activity::Prepared { .. } => {}
            Activity::Exited {
                run, code, reason, ..
            } => {
                if *run == present {
                    self.exited(owner, id, (*code, reason), now, out);
                }
            }
            // It gave up its part by itself, and is there: the incarnation starts again.
            Activity::Free => {
                let why = status.released.as_deref().unwrap_or("no reason given");
                trainer.restart_at_once(format!("node {id} stopped by itself: {why}"), now);
            }
        }
    }
}
