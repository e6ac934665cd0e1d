//! Pending changes of a trainer's nodes: those that it waits for, and those that it has just lost.

use std::collections::BTreeSet;

use lacuna_model::{NodeId, Timestamp};

use crate::account::Change;

/// The set of nodes that a trainer is to get.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Target {
    nodes: BTreeSet<NodeId>,
    since: Timestamp,
    /// When the trainer began to wait, for whatever nodes.
    begun: Timestamp,
    change: Change,
}

impl Target {
    /// These nodes are waited for since this moment of real time. Their incarnation is charged as
    /// this change.
    pub(crate) const fn new(nodes: BTreeSet<NodeId>, since: Timestamp, change: Change) -> Self {
        Self {
            nodes,
            since,
            begun: since,
            change,
        }
    }

    /// The target of a trainer that has waited for other nodes before.
    pub(crate) fn after(self, before: Option<&Self>) -> Self {
        let begun = before.map_or(self.begun, |before| before.begun);
        Self { begun, ..self }
    }

    pub(crate) const fn nodes(&self) -> &BTreeSet<NodeId> {
        &self.nodes
    }

    pub(crate) fn into_nodes(self) -> Vec<NodeId> {
        self.nodes.into_iter().collect()
    }

    pub(crate) const fn since(&self) -> Timestamp {
        self.since
    }

    /// When its trainer began to wait, for whatever nodes (real time).
    pub(crate) const fn begun(&self) -> Timestamp {
        self.begun
    }

    pub(crate) const fn change(&self) -> Change {
        self.change
    }

    pub(crate) fn remove(&mut self, node: &NodeId) {
        self.nodes.remove(node);
    }

    /// Goes on without the nodes that are not to stay.
    pub(crate) fn retain(&mut self, stays: impl FnMut(&NodeId) -> bool) {
        self.nodes.retain(stays);
    }
}

/// Nodes that a trainer has lost and that its incarnation still lists, until the next one begins.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Loss {
    nodes: BTreeSet<NodeId>,
    /// The moment of the newest event.
    at: Timestamp,
    /// When the incarnation ended: with the first of them (cluster time).
    since: Timestamp,
}

impl Loss {
    /// The first node is lost.
    pub(super) fn new(node: &NodeId, at: Timestamp, now: Timestamp) -> Self {
        Self {
            nodes: BTreeSet::from([node.clone()]),
            at,
            since: now,
        }
    }

    /// A further one is.
    pub(super) fn add(&mut self, node: &NodeId, at: Timestamp) {
        self.nodes.insert(node.clone());
        self.at = at;
    }

    pub(super) fn has(&self, node: &NodeId) -> bool {
        self.nodes.contains(node)
    }

    pub(super) const fn change(&self) -> Change {
        Change::Lost { at: self.at }
    }

    pub(super) const fn since(&self) -> Timestamp {
        self.since
    }
}
