//! Reconciliation: an observation of an adapter, compared with the ledger, becomes events.

use std::collections::BTreeSet;

use lacuna_model::{EventKind, NodeEvent, NodeId, NodeState, Timestamp};
use lacuna_scheduler::NodeStatus;
use lacuna_scheduler::live::PlannedJob;

use crate::ledger::Ledger;

impl Ledger {
    /// Events that lead from the known state to an observation of moment `at`. Later events of a
    /// node override the observation. Nodes outside the list of nodes are ignored.
    pub fn reconcile(
        &mut self,
        nodes: &[(NodeId, NodeStatus)],
        planned: &[PlannedJob],
        at: Timestamp,
    ) -> Vec<NodeEvent> {
        self.observe(nodes.iter().map(|(node, _)| node));
        let mut events = Vec::new();
        for (node, status) in nodes {
            if let Some(kind) = self.change_to(node, status, at) {
                events.push(self.number(at, kind));
            }
        }
        for planned in planned {
            let listed = |node: &&NodeId| self.keeper.knows(node);
            let nodes: Vec<NodeId> = planned.nodes.iter().filter(listed).cloned().collect();
            if nodes.is_empty() && !planned.nodes.is_empty() {
                continue;
            }
            let kind = EventKind::JobPlanned {
                job: planned.job.clone(),
                nodes,
                start: planned.start,
            };
            events.push(self.number(at, kind));
        }
        events
    }

    /// Idle nodes that an observation does not list.
    #[must_use]
    pub fn unseen(&self, nodes: &[(NodeId, NodeStatus)]) -> Vec<NodeId> {
        let listed: BTreeSet<&NodeId> = nodes.iter().map(|(node, _)| node).collect();
        let holes = self.keeper.holes().into_iter().map(|hole| hole.node);
        holes.filter(|node| !listed.contains(node)).collect()
    }

    fn change_to(&self, node: &NodeId, status: &NodeStatus, at: Timestamp) -> Option<EventKind> {
        if !self.keeper.knows(node) || self.keeper.is_late(node, at) {
            return None;
        }
        let known = self.keeper.state(node);
        let node = node.clone();
        match status {
            NodeStatus::Hole => {
                let is_new = known != Some(NodeState::Idle) && !self.is_before_restart(&node, at);
                is_new.then_some(EventKind::NodeIdle { node })
            }
            // The scheduler preempts already, so the deadline has passed.
            NodeStatus::Wanted { since } => {
                (known == Some(NodeState::Idle)).then_some(EventKind::NodeWanted {
                    node,
                    deadline: (*since).max(at),
                })
            }
            // A node that is not known yet matters only once it is idle.
            NodeStatus::Taken => {
                let was = matches!(known, Some(NodeState::Idle | NodeState::Down));
                was.then_some(EventKind::NodeBusy { node })
            }
            NodeStatus::Unusable { reason } => {
                let was = matches!(known, Some(NodeState::Idle | NodeState::Busy));
                let reason = reason.clone();
                was.then_some(EventKind::NodeDown { node, reason })
            }
        }
    }
}
