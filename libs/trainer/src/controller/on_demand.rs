//! Agents that come on demand: as pilots of the owner of the trainer that has a node's lease
//! (`control.pilots.helper`).
//!
//! - A trainer gets the lease first. The executor then submits a pilot, and the node is taken into an
//!   incarnation once an agent that serves the trainer has spoken there. The others train on
//!   meanwhile, and no other owner's agent is sent a command of the trainer.
//! - A node on which no agent has come in time is given back, and is unusable for a while.
//! - What an owner may not have (the helper refuses the ticket, the scheduler the owner's account)
//!   holds back this owner's trainer alone: it gets no further nodes until it is tried again.
//!
//! `nodes/on_demand.rs` says what leaving and silence of such agents mean.

use std::collections::BTreeMap;

use lacuna_model::{AgentStatus, NodeId, Span, TrainerId, TrainerRecord};

use crate::Now;
use crate::controller::nodes::Node;
use crate::controller::out::Out;
use crate::controller::trainers::{Target, Trainer};
use crate::controller::{Controller, Note};

/// How the reason in the record of a trainer begins whose owner may have no pilots.
pub const NO_PILOT: &str = "no pilot under its owner's account";

impl Controller {
    /// Waits for the agents of a target whose leases are all held. Returns whether any is still
    /// waited for. Nodes on which none has come in time are left out.
    pub(super) fn await_agents(
        &mut self,
        id: &TrainerId,
        target: &mut Target,
        now: Now,
        out: &mut Out,
    ) -> bool {
        let Some(on_demand) = self.config.on_demand else {
            return false;
        };
        let Some(trainer) = self.trainers.get(id) else {
            return false;
        };
        let is_late = now.since(target.since()) >= on_demand.agent_wait;
        let mut missing = Vec::new();
        target.retain(|node| {
            let here = |found: &Node| found.agent().is_for(id);
            let is_there = trainer.is_member(node) || self.nodes.get(node).is_some_and(here);
            if !is_there {
                missing.push(node.clone());
            }
            is_there || !is_late
        });
        if !is_late {
            return !missing.is_empty();
        }
        self.publication.change_if(!missing.is_empty());
        for node in missing {
            self.nodes.miss_agent(&node, &on_demand, now);
            let cause = "no agent";
            out.note(Note::Unusable { node, cause });
        }
        false
    }

    /// An agent has come to a node: notes how long the node has waited for it.
    pub(super) fn measure_start(&mut self, status: &AgentStatus, now: Now) {
        let served = status.serves.as_ref().and_then(|id| self.trainers.get(id));
        let target = served.and_then(Trainer::target);
        let target = target.filter(|target| target.nodes().contains(&status.node));
        if let Some((target, on_demand)) = target.zip(self.config.on_demand) {
            let wait = now.since(target.since());
            let changed = self.pilot_starts.add(wait, on_demand.start);
            self.publication.change_if(changed);
        }
    }

    /// Seconds for which plans expect a node to wait for its agent; 0 where agents serve any
    /// trainer.
    #[must_use]
    pub fn pilot_s(&self) -> f64 {
        let on_demand = self.config.on_demand;
        on_demand.map_or(0.0, |agents| self.pilot_starts.planned_s(agents.start))
    }

    /// The owner of a trainer may have no pilots: it gets no further nodes for a while.
    pub(super) fn no_pilots(
        &mut self,
        id: &TrainerId,
        reason: String,
        again_in: Span,
        now: Now,
        out: &mut Out,
    ) {
        let trainer = self.trainers.get_mut(id);
        let Some(trainer) = trainer.filter(|trainer| !trainer.record().phase.is_final()) else {
            return;
        };
        trainer.hold_pilots(now.wall + again_in, format!("{NO_PILOT}: {reason}"));
        let _ = trainer.take_target();
        out.record(id);
        self.publication.change();
        self.release_unneeded(id, "its owner may have no pilot there", out);
    }

    /// Another ticket of a trainer's owner: pilots are tried again at once.
    pub(super) fn renew(&mut self, id: &TrainerId, ticket: String, now: Now, out: &mut Out) {
        if let Some(refusal) = self.not_live(id, "renew") {
            out.reply(Err(refusal));
            return;
        }
        let trainer = self.trainers.get_mut(id);
        let again = trainer.is_some_and(|trainer| trainer.renew(ticket, now));
        self.publication.change_if(again);
        out.record(id);
        out.reply(Ok(vec![id.clone()]));
    }

    /// Trainers whose owners had no pilots may be given nodes again.
    pub(super) fn look_for_pilots_again(&mut self, now: Now) {
        for id in self.trainers.admitted_where(Trainer::lacks_pilots) {
            let trainer = self.trainers.get_mut(&id);
            let again = trainer.is_some_and(|trainer| trainer.tries_pilots_again(now));
            self.publication.change_if(again);
        }
    }

    /// Which trainer has each node, or is about to get it.
    #[must_use]
    pub fn given(&self) -> BTreeMap<NodeId, TrainerId> {
        let mut given = BTreeMap::new();
        for trainer in self.trainers.admitted() {
            let target = trainer.target().into_iter().flat_map(Target::nodes);
            let ready = target.filter(|id| self.nodes.get(id).is_some_and(Node::is_ready));
            given.extend(ready.map(|node| (node.clone(), trainer.id().clone())));
        }
        for (id, node) in self.nodes.iter() {
            if let Some(holder) = node.lease().holder() {
                given.insert(id.clone(), holder.clone());
            }
        }
        given
    }

    /// Records of trainers for which their owners have signed.
    pub fn signed(&self) -> impl Iterator<Item = &TrainerRecord> {
        self.trainers
            .records()
            .filter(|record| record.ticket.is_some())
    }
}
