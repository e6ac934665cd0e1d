//! The ledger: takes what happened, refuses what cannot be, numbers the rest without gaps.
//!
//! - An external event with a known `ce-id` is a duplicate. An event older than its node's newest
//!   known change is late. Both are only counted.
//! - A start that finds earlier state jumps 1,000,000 numbers ahead, since the newest events may
//!   have been lost, and no number is given twice. A snapshot with the new number is kept before
//!   any event, so consumers take the jump as a gap that this snapshot ends.
//! - After a restart a `node.idle` of a node that was not idle in the restored snapshot is judged
//!   by the node's last change, as far back as the newest 4,096 events tell. Of a node in none of
//!   these events it is late if it is older than the snapshot.
//! - The moment of a snapshot is that of the newest event while external events wait unread or
//!   recorded ones are due, and the clock's otherwise: a snapshot must not claim a time whose
//!   events are still to come.

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::{BuildHasher, RandomState};

use lacuna_model::{EventKind, Hole, NodeEvent, NodeId, NodeState, Span, Timestamp};
use lacuna_timeline::{PoolKeeper, RESTART_JUMP, UnknownNodes};
use lacuna_wire::External;

/// The planned start of a recorded node is that of a job of this name, followed by the node's.
const PLANNED: &str = "planned-";

/// Why an external event was not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Its id has been seen.
    #[error("event {id} was seen before")]
    Duplicate {
        /// Its id.
        id: String,
    },
    /// It says what is known already.
    #[error("node {node} is already in this state")]
    Unchanged {
        /// The node.
        node: NodeId,
    },
    /// It is older than the newest change of its node.
    #[error("the event is older than the newest change of node {node}")]
    Late {
        /// The node.
        node: NodeId,
    },
    /// It is stamped with a time that is still far ahead.
    #[error("the event is stamped {ahead} ahead of the cluster's time: check the sender's clock")]
    Ahead {
        /// How far.
        ahead: Span,
    },
    /// It names a node that the cluster does not have.
    #[error("node {node} is not on the list of nodes (ingest.nodes_file, or the scheduler's own)")]
    UnknownNode {
        /// The node.
        node: NodeId,
    },
}

impl Refusal {
    /// As a label.
    #[must_use]
    pub const fn label(&self) -> &'static str {
        match self {
            Self::Duplicate { .. } => "duplicate",
            Self::Unchanged { .. } => "unchanged",
            Self::Late { .. } => "late",
            Self::Ahead { .. } => "ahead",
            Self::UnknownNode { .. } => "unknown_node",
        }
    }

    /// Whether the operator should see the event itself: it shows something that is wrong.
    #[must_use]
    pub const fn is_fault(&self) -> bool {
        matches!(self, Self::Ahead { .. } | Self::UnknownNode { .. })
    }
}

/// Numbers events, and knows the state that they add up to.
#[derive(Debug, Clone)]
pub struct Ledger {
    pub(crate) keeper: PoolKeeper,
    nodes: UnknownNodes,
    /// The nodes that a scheduler was seen to have, where external events may name no others.
    observed: Option<HashSet<NodeId>>,
    /// Ids of events with their sources, as a hash with a key of this process: an id may be as long
    /// as its sender likes.
    seen: HashSet<u64>,
    order: VecDeque<u64>,
    key: RandomState,
    window: usize,
    max_ahead: Span,
    /// The moment of the snapshot that a restart took back in, if any event had come before it.
    restored: Option<Timestamp>,
    /// When nodes changed last before that snapshot, of those of which the stream still tells.
    past: HashMap<NodeId, Timestamp>,
    /// The newest planned start of each recorded node; `None` once it is withdrawn.
    planned: HashMap<NodeId, Option<Timestamp>>,
}

impl Ledger {
    /// An empty ledger that goes on after number `seq`. It remembers `window` ids.
    #[must_use]
    pub fn new(seq: u64, nodes: UnknownNodes, window: usize, max_ahead: Span) -> Self {
        let mut ledger = Self {
            keeper: PoolKeeper::new(nodes.clone()),
            nodes,
            observed: None,
            seen: HashSet::new(),
            order: VecDeque::new(),
            key: RandomState::new(),
            window,
            max_ahead,
            restored: None,
            past: HashMap::new(),
            planned: HashMap::new(),
        };
        ledger.reset(seq, Timestamp::default());
        ledger
    }

    /// External events may name no nodes from now on but those that a scheduler was seen to have.
    pub fn restrict_to_observed(&mut self) {
        self.observed = Some(HashSet::new());
    }

    /// A scheduler was seen to have these nodes.
    pub(crate) fn observe<'a>(&mut self, nodes: impl Iterator<Item = &'a NodeId>) {
        if let Some(observed) = &mut self.observed {
            observed.extend(nodes.cloned());
        }
    }

    /// Forgets all nodes; numbers go on after `seq`.
    pub fn reset(&mut self, seq: u64, at: Timestamp) {
        self.restored = None;
        self.past.clear();
        self.planned.clear();
        self.keeper = PoolKeeper::new(self.nodes.clone());
        let idle = Vec::new();
        self.keeper.step(&NodeEvent {
            seq,
            at,
            kind: EventKind::Snapshot { idle },
        });
    }

    /// Takes a published event or snapshot back in, after a restart.
    pub fn recall(&mut self, event: &NodeEvent) {
        if matches!(event.kind, EventKind::Snapshot { .. }) && event.seq > 0 {
            self.restored = Some(event.at);
        }
        self.learn_planned(&event.kind);
        self.observe_published(&event.kind);
        self.keeper.step(event);
    }

    /// Learns from an event of before the snapshot that was taken back in. The snapshot tells
    /// which nodes are idle, not when the others were taken, and no planned start.
    pub fn recall_past(&mut self, event: &NodeEvent) {
        self.learn_planned(&event.kind);
        self.observe_published(&event.kind);
        if let EventKind::NodeIdle { node }
        | EventKind::NodeBusy { node }
        | EventKind::NodeDown { node, .. }
        | EventKind::NodeWanted { node, .. } = &event.kind
        {
            let newest = self.past.entry(node.clone()).or_insert(event.at);
            *newest = event.at.max(*newest);
        }
    }

    /// What was published named nodes that there are: an event of one is not refused after a restart
    /// because its scheduler was not yet asked.
    fn observe_published(&mut self, kind: &EventKind) {
        match kind {
            EventKind::Snapshot { idle } => self.observe(idle.iter().map(|hole| &hole.node)),
            EventKind::NodeIdle { node }
            | EventKind::NodeBusy { node }
            | EventKind::NodeDown { node, .. }
            | EventKind::NodeWanted { node, .. } => self.observe(std::iter::once(node)),
            _ => {}
        }
    }

    fn learn_planned(&mut self, kind: &EventKind) {
        if let EventKind::JobPlanned { job, nodes, start } = kind
            && let Some(node) = job.strip_prefix(PLANNED)
            && let Ok(node) = NodeId::new(node)
        {
            let start = (!nodes.is_empty()).then_some(*start);
            self.planned.insert(node, start);
        }
    }

    /// A planned start of the recording that was published, even if the stream tells no more of
    /// it. What the stream tells is newer.
    pub fn recall_planned(&mut self, node: &NodeId, start: Timestamp) {
        self.planned.entry(node.clone()).or_insert(Some(start));
    }

    /// Jumps ahead, once all that is known of before has been recalled: consumers may have seen
    /// more events than the streams have kept, and no number is used twice.
    pub fn restart(&mut self) {
        self.skip_to(self.keeper.seq().saturating_add(RESTART_JUMP));
    }

    /// Numbers go on after `seq`, if that is further: events up to it have been published, and
    /// those that are missing here are lost.
    pub fn skip_to(&mut self, seq: u64) {
        if seq > self.keeper.seq() {
            let mut snapshot = self.keeper.to_snapshot(self.keeper.newest_at());
            snapshot.seq = seq;
            self.keeper.step(&snapshot);
        }
    }

    /// The newest moment of any event or snapshot.
    #[must_use]
    pub fn newest_at(&self) -> Timestamp {
        self.keeper.newest_at()
    }

    /// The newest number given.
    #[must_use]
    pub fn seq(&self) -> u64 {
        self.keeper.seq()
    }

    /// How many nodes are idle.
    #[must_use]
    pub fn idle(&self) -> usize {
        self.keeper.len()
    }

    /// The full state, at `at`.
    #[must_use]
    pub fn snapshot(&self, at: Timestamp) -> NodeEvent {
        self.keeper.to_snapshot(at)
    }

    /// A hole of the recording opens. Nothing if that, or something newer, is known already.
    pub fn open(&mut self, hole: &Hole) -> Option<NodeEvent> {
        let said = self.keeper.idle_since(&hole.node) == Some(hole.since);
        if said || self.keeper.is_late(&hole.node, hole.since) {
            return None;
        }
        let node = hole.node.clone();
        Some(self.number(hole.since, EventKind::NodeIdle { node }))
    }

    /// A hole of the recording ends at `at`. Nothing if the node is not idle, or has become
    /// idle at that very moment again.
    pub fn close(&mut self, node: &NodeId, at: Timestamp) -> Option<NodeEvent> {
        self.keeper.idle_since(node).filter(|since| *since < at)?;
        let node = node.clone();
        Some(self.number(at, EventKind::NodeBusy { node }))
    }

    /// The batch scheduler of the recording plans a start on an idle node at `at`, or withdraws
    /// the plan. Nothing if that is known already, or the node is not idle.
    pub fn plan(
        &mut self,
        node: &NodeId,
        start: Option<Timestamp>,
        at: Timestamp,
    ) -> Option<NodeEvent> {
        let known = self.planned.get(node).copied().flatten();
        if known == start || (start.is_some() && !self.is_idle(node)) {
            return None;
        }
        self.planned.insert(node.clone(), start);
        let job = format!("{PLANNED}{node}");
        let nodes = start.iter().map(|_| node.clone()).collect();
        let start = start.unwrap_or(at);
        Some(self.number(at, EventKind::JobPlanned { job, nodes, start }))
    }

    /// Whether a node is idle.
    #[must_use]
    pub fn is_idle(&self, node: &NodeId) -> bool {
        self.keeper.idle_since(node).is_some()
    }

    /// Takes what an external program said; `now` is the cluster's time. One statement can be
    /// several events (a snapshot), or none.
    ///
    /// # Errors
    /// [`Refusal`]; nothing was changed.
    pub fn external(
        &mut self,
        event: &External,
        now: Timestamp,
    ) -> Result<Vec<NodeEvent>, Refusal> {
        let id = event.id.as_ref().map(|id| {
            let source = event.source.as_deref().unwrap_or_default();
            self.key.hash_one((source, id))
        });
        if let (Some(key), Some(id)) = (&id, &event.id)
            && self.seen.contains(key)
        {
            return Err(Refusal::Duplicate { id: id.clone() });
        }
        let at = event.at.unwrap_or(now);
        let ahead = at.since(now);
        if ahead > self.max_ahead {
            return Err(Refusal::Ahead { ahead });
        }
        let taken = match &event.kind {
            EventKind::NodeIdle { node } => vec![self.change(node, NodeState::Idle, at, event)?],
            EventKind::NodeBusy { node } => vec![self.change(node, NodeState::Busy, at, event)?],
            EventKind::NodeDown { node, .. } => {
                vec![self.change(node, NodeState::Down, at, event)?]
            }
            EventKind::NodeWanted { node, deadline } => {
                self.known(node)?;
                // A wish is no history: one from a clock that is behind is heeded all the same.
                let late = self.keeper.is_late(node, at);
                let at = if late { self.keeper.newest_at() } else { at };
                let (node, deadline) = (node.clone(), (*deadline).max(at));
                vec![self.number(at, EventKind::NodeWanted { node, deadline })]
            }
            EventKind::NodeReleased { node } => {
                self.known(node)?;
                vec![self.number(at, event.kind.clone())]
            }
            EventKind::JobPlanned { .. } | EventKind::Reservation { .. } => {
                vec![self.number(at, event.kind.clone())]
            }
            EventKind::Snapshot { idle } => self.differences(idle, at)?,
        };
        if let Some(key) = id {
            self.remember(key);
        }
        Ok(taken)
    }

    fn known(&self, node: &NodeId) -> Result<(), Refusal> {
        let observed = self.observed.as_ref();
        if self.keeper.knows(node) && observed.is_none_or(|observed| observed.contains(node)) {
            Ok(())
        } else {
            Err(Refusal::UnknownNode { node: node.clone() })
        }
    }

    fn change(
        &mut self,
        node: &NodeId,
        state: NodeState,
        at: Timestamp,
        event: &External,
    ) -> Result<NodeEvent, Refusal> {
        self.known(node)?;
        if self.keeper.is_late(node, at)
            || (state == NodeState::Idle && self.is_before_restart(node, at))
        {
            return Err(Refusal::Late { node: node.clone() });
        }
        if self.keeper.state(node) == Some(state) {
            return Err(Refusal::Unchanged { node: node.clone() });
        }
        Ok(self.number(at, event.kind.clone()))
    }

    /// Whether it is older than the restored snapshot, of a node that was not idle then, and perhaps
    /// older than the taking of that node: an old word must not bring it back.
    pub(crate) fn is_before_restart(&self, node: &NodeId, at: Timestamp) -> bool {
        let newest = self.past.get(node).copied().or(self.restored);
        self.keeper.state(node).is_none() && newest.is_some_and(|newest| at < newest)
    }

    /// The events that lead from what is known to a full state.
    fn differences(&mut self, idle: &[Hole], at: Timestamp) -> Result<Vec<NodeEvent>, Refusal> {
        for hole in idle {
            self.known(&hole.node)?;
        }
        let listed: HashSet<&NodeId> = idle.iter().map(|hole| &hole.node).collect();
        let gone: Vec<NodeId> = self
            .keeper
            .holes()
            .into_iter()
            .map(|hole| hole.node)
            .filter(|node| !listed.contains(node) && !self.keeper.is_late(node, at))
            .collect();
        let mut events: Vec<NodeEvent> = gone
            .into_iter()
            .map(|node| self.number(at, EventKind::NodeBusy { node }))
            .collect();
        for hole in idle {
            // Only what is newer than the newest change of the node; a hole that the snapshot
            // dates earlier than we do has begun when we last saw it taken.
            let known_idle = self.keeper.idle_since(&hole.node).is_some();
            if known_idle
                || self.keeper.is_late(&hole.node, at)
                || self.is_before_restart(&hole.node, at)
            {
                continue;
            }
            let late = self.keeper.is_late(&hole.node, hole.since);
            let since = if late { at } else { hole.since };
            let node = hole.node.clone();
            events.push(self.number(since, EventKind::NodeIdle { node }));
        }
        Ok(events)
    }

    pub(crate) fn number(&mut self, at: Timestamp, kind: EventKind) -> NodeEvent {
        let event = NodeEvent {
            seq: self.keeper.seq() + 1,
            at,
            kind,
        };
        self.keeper.step(&event);
        event
    }

    fn remember(&mut self, key: u64) {
        if self.order.len() >= self.window
            && let Some(oldest) = self.order.pop_front()
        {
            self.seen.remove(&oldest);
        }
        self.order.push_back(key);
        self.seen.insert(key);
    }
}

#[cfg(test)]
mod tests;
