//! Nodes that the main scheduler gets back, and its waits for them (`nodes/demand.rs`).

use lacuna_model::{AgentStatus, NodeId, Span};

use crate::Now;
use crate::controller::out::Out;
use crate::controller::{Controller, Note};

impl Controller {
    /// A node is given back, perhaps to the main scheduler. `is_heard` says whether its agent has
    /// confirmed it; otherwise the agent must have given up by now.
    pub(super) fn count_harm(&mut self, id: &NodeId, is_heard: bool, now: Now, out: &mut Out) {
        let is_pilots = self.config.control.submits_pilots();
        let given_back = self.nodes.given_back(id, is_heard, is_pilots, now);
        if let Some((cause, harm)) = given_back {
            self.note_harm(id, cause, harm, now, out);
        }
    }

    fn note_harm(&mut self, id: &NodeId, cause: &'static str, harm: Span, now: Now, out: &mut Out) {
        let (node, kind) = (id.clone(), self.nodes.kind(id).cloned());
        self.usage.give_back(cause, harm, now.cluster);
        if let Some(kind) = &kind {
            self.usage.of_kind(kind).give_back(harm);
        }
        out.note(Note::GivenBack {
            node,
            kind,
            cause,
            harm,
        });
    }

    /// The agent of a node leaves: its lease is given back, and the node goes to no trainer until
    /// an agent reports there again.
    ///
    /// The agent reports it at once, and once more when no program runs there any more, with the
    /// time that this took.
    pub(super) fn agent_leaves(&mut self, status: &AgentStatus, now: Now, out: &mut Out) {
        let id = &status.node;
        let on_demand = self.config.on_demand;
        let is_of_another = on_demand.is_some() && self.nodes.serves_another(status);
        let said = self.nodes.last_words(status);
        if let Some(harm) = status.gave_back_in {
            self.note_harm(id, said.cause, harm, now, out);
        }
        if !said.first {
            return;
        }
        if is_of_another {
            // The node waits for the agent of its lease.
            self.nodes.await_agent(id);
            return;
        }
        self.nodes.forget_agent(id);
        self.forgive_on(id, now);
        if let Some(on_demand) = &on_demand {
            self.nodes.rest(id, on_demand, now);
        }
        self.publication.change();
        let (node, cause) = (id.clone(), "left");
        out.note(Note::Unusable { node, cause });
        // Of a release that it has still to confirm, this is the confirmation. One that follows is
        // confirmed with it.
        self.confirmed(id, now, out);
        let why = status.released.as_deref().unwrap_or("no reason given");
        let reason = format!("its agent leaves: {why}");
        self.take(vec![id.clone()], &reason, now.cluster, now, out);
    }
}
