//! Nodes whose agents come on demand: as pilots of the owner of the trainer that has the lease.
//!
//! - A node without an agent may be used, unless an agent has just left it, has become silent at its
//!   work, or has not come in time.
//! - An agent that serves another trainer than the lease's is none of this lease: it may leave or
//!   become silent, and the node only waits for the next.

use lacuna_model::{AgentStatus, NodeId, Span, TrainerId};

use super::{Node, Nodes};
use crate::Now;
use crate::controller::OnDemand;

/// What the silence of a node's agent means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Silence {
    /// Nothing.
    Nothing,
    /// The node was unusable for it, and may be used again.
    Over,
    /// The lease's trainer loses the node.
    Lost,
}

impl Node {
    pub(super) fn silence_on_demand(
        &mut self,
        on_demand: &OnDemand,
        silent_after: Span,
        now: Now,
    ) -> Silence {
        if self.agent.is_silent() {
            if self.agent.is_usable_again(now) {
                self.agent.await_next();
                return Silence::Over;
            }
            self.agent.unusable_from(now.wall + on_demand.agent_wait);
            return Silence::Nothing;
        }
        if !self.agent.is_unheard(now, silent_after) {
            return Silence::Nothing;
        }
        let is_its_own = |owner: &TrainerId| {
            let status = self.agent.status();
            status.is_none_or(|status| super::agent::serves(status, owner))
        };
        if self.lease.is_used() && self.lease.owner().is_some_and(is_its_own) {
            self.agent.unusable_until(now.wall + on_demand.agent_wait);
            return Silence::Lost;
        }
        self.agent.await_next();
        Silence::Nothing
    }
}

impl Nodes {
    /// Whether a status is of an agent that was on its node before the present one: it serves
    /// another trainer, and leaves, or the present one is that of the lease.
    pub(crate) fn is_of_earlier_agent(&self, status: &AgentStatus) -> bool {
        let Some(node) = self.get(&status.node) else {
            return false;
        };
        let present = node
            .agent
            .status()
            .and_then(|present| present.serves.as_ref());
        let (Some(present), Some(of)) = (present, &status.serves) else {
            return false;
        };
        present != of && (status.leaving || node.lease.holder() == Some(present))
    }

    /// Whether the agent of a node serves another trainer than the one that has the lease or is
    /// about to get it.
    pub(crate) fn serves_another(&self, status: &AgentStatus) -> bool {
        let holder = self.get(&status.node).and_then(|node| node.lease.holder());
        holder.is_some_and(|holder| !super::agent::serves(status, holder))
    }

    /// A node waits for the agent of its lease.
    pub(crate) fn await_agent(&mut self, id: &NodeId) {
        self.node(id).agent.await_next();
        self.unacknowledged.remove(id);
    }

    /// The agent of a node has left. The node is unusable for a while, unless it is busy meanwhile.
    pub(crate) fn rest(&mut self, id: &NodeId, on_demand: &OnDemand, now: Now) {
        let at = now.wall + on_demand.rest;
        self.node(id).agent.unusable_until(at);
    }

    /// No agent has come to a node in time.
    pub(crate) fn miss_agent(&mut self, id: &NodeId, on_demand: &OnDemand, now: Now) {
        let agent = &mut self.node(id).agent;
        let length = on_demand.unusable_for(agent.miss());
        agent.unusable_until(now.wall + length);
    }
}
