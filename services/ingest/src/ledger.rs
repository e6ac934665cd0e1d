//! The ledger: refuses impossible events, and numbers the others without gaps.
//!
//! - An external event with a known `ce-id` is a duplicate. An event older than the newest known
//!   change of its node is late. Both are only counted.
//! - A start that finds earlier state jumps 1,000,000 numbers ahead, since the newest events may be
//!   lost, and no number is used twice. A snapshot with the new number is stored before any event,
//!   so consumers take the jump for a gap that this snapshot ends.
//! - After a restart, a `node.idle` of a node that was not idle in the restored snapshot is judged
//!   by the last change of the node in the newest 4,096 events. If none of them names the node, a
//!   `node.idle` older than the snapshot is late.
//! - A snapshot has the time of the newest event while external events wait unread, or events of
//!   the trace are due. Otherwise it has the time of the clock. A snapshot must not have a time
//!   whose events are still to come.

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::{BuildHasher, RandomState};

use lacuna_model::{EventKind, Hole, NodeEvent, NodeId, NodeState, Span, Timestamp};
use lacuna_pool::{PoolKeeper, RESTART_JUMP, UnknownNodes};
use lacuna_wire::External;

/// Prefix of the job id of a planned start in a trace; the name of the node follows.
const PLANNED: &str = "planned-";

/// Why an external event is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// An event with this id has been taken.
    #[error("event {id} was seen before")]
    Duplicate {
        /// Id of the event.
        id: String,
    },
    /// The node already has this state.
    #[error("node {node} is already in this state")]
    Unchanged {
        /// The node.
        node: NodeId,
    },
    /// The event is older than the newest change of its node.
    #[error("the event is older than the newest change of node {node}")]
    Late {
        /// The node.
        node: NodeId,
    },
    /// The time of the event is too far ahead of the cluster's time.
    #[error("the event is stamped {ahead} ahead of the cluster's time: check the sender's clock")]
    Ahead {
        /// Time by which the event is ahead.
        ahead: Span,
    },
    /// The event names a node that the cluster does not have.
    #[error("node {node} is not on the list of nodes (ingest.nodes_file, or the scheduler's own)")]
    UnknownNode {
        /// The node.
        node: NodeId,
    },
}

impl Refusal {
    /// Label of the refusal in metrics.
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

    /// Whether the event shows a fault, so that the operator should see it.
    #[must_use]
    pub const fn is_fault(&self) -> bool {
        matches!(self, Self::Ahead { .. } | Self::UnknownNode { .. })
    }
}

/// Numbers events, and keeps the state after them.
#[derive(Debug, Clone)]
pub struct Ledger {
    pub(crate) keeper: PoolKeeper,
    nodes: UnknownNodes,
    /// Observed nodes, if external events may name only observed nodes.
    observed: Option<HashSet<NodeId>>,
    /// Ids of events with their sources, hashed with a key of this process, since an id may have
    /// any length.
    seen: HashSet<u64>,
    order: VecDeque<u64>,
    key: RandomState,
    window: usize,
    max_ahead: Span,
    /// Time of the restored snapshot, if any event preceded it.
    restored: Option<Timestamp>,
    /// Last changes of nodes before that snapshot, by the events that the stream still has.
    past: HashMap<NodeId, Timestamp>,
    /// Requests for nodes that the process before has published: the node and the deadline.
    wanted: HashSet<(NodeId, Timestamp)>,
    /// Newest planned start of each node of the trace; `None` once it is withdrawn.
    planned: HashMap<NodeId, Option<Timestamp>>,
}

impl Ledger {
    /// An empty ledger whose numbers follow `seq`. It remembers `window` ids.
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
            wanted: HashSet::new(),
            planned: HashMap::new(),
        };
        ledger.reset(seq, Timestamp::default());
        ledger
    }

    /// From now on, external events may name only observed nodes.
    pub fn restrict_to_observed(&mut self) {
        self.observed = Some(HashSet::new());
    }

    /// A scheduler has these nodes.
    pub(crate) fn observe<'a>(&mut self, nodes: impl Iterator<Item = &'a NodeId>) {
        if let Some(observed) = &mut self.observed {
            observed.extend(nodes.cloned());
        }
    }

    /// Forgets all nodes. Numbers go on after `seq`.
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

    /// Restores a published event or snapshot after a restart.
    pub fn recall(&mut self, event: &NodeEvent) {
        if matches!(event.kind, EventKind::Snapshot { .. }) && event.seq > 0 {
            self.restored = Some(event.at);
        }
        self.recall_wanted(&event.kind);
        self.learn_planned(&event.kind);
        self.observe_published(&event.kind);
        self.keeper.step(event);
    }

    /// Learns from an event before the restored snapshot. The snapshot contains the idle nodes, but
    /// neither the times at which others were taken, nor planned starts.
    pub fn recall_past(&mut self, event: &NodeEvent) {
        self.recall_wanted(&event.kind);
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

    /// Published events name existing nodes. So an event of such a node is not refused after a
    /// restart, before the first poll.
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

    /// A published request for a node may come again from the queue. By then the node may be idle.
    fn recall_wanted(&mut self, kind: &EventKind) {
        if let EventKind::NodeWanted { node, deadline } = kind {
            self.wanted.insert((node.clone(), *deadline));
        }
    }

    /// Restores a published planned start of the trace, which the stream may no longer contain. A
    /// planned start in the stream is newer.
    pub fn recall_planned(&mut self, node: &NodeId, start: Timestamp) {
        self.planned.entry(node.clone()).or_insert(Some(start));
    }

    /// Jumps ahead after the restoration: consumers may have seen more events than the streams have
    /// kept, and no number is used twice.
    pub fn restart(&mut self) {
        self.skip_to(self.keeper.seq().saturating_add(RESTART_JUMP));
    }

    /// Numbers go on after `seq`, if that is greater. Events up to it have been published; those
    /// unknown to this ledger are lost.
    pub fn skip_to(&mut self, seq: u64) {
        if seq > self.keeper.seq() {
            let mut snapshot = self.keeper.to_snapshot(self.keeper.newest_at());
            snapshot.seq = seq;
            self.keeper.step(&snapshot);
        }
    }

    /// Latest time of any event or snapshot.
    #[must_use]
    pub fn newest_at(&self) -> Timestamp {
        self.keeper.newest_at()
    }

    /// The newest number.
    #[must_use]
    pub fn seq(&self) -> u64 {
        self.keeper.seq()
    }

    /// Number of idle nodes.
    #[must_use]
    pub fn idle(&self) -> usize {
        self.keeper.len()
    }

    /// A snapshot of the full state, with time `at`.
    #[must_use]
    pub fn snapshot(&self, at: Timestamp) -> NodeEvent {
        self.keeper.to_snapshot(at)
    }

    /// A hole of the trace opens. `None` if this or a newer change of the node is known.
    pub fn open(&mut self, hole: &Hole) -> Option<NodeEvent> {
        let known = self.keeper.idle_since(&hole.node) == Some(hole.since);
        if known || self.keeper.is_late(&hole.node, hole.since) {
            return None;
        }
        let node = hole.node.clone();
        Some(self.number(hole.since, EventKind::NodeIdle { node }))
    }

    /// A hole of the trace ends at `at`. `None` if the node is not idle, or became idle again at
    /// the same time.
    pub fn close(&mut self, node: &NodeId, at: Timestamp) -> Option<NodeEvent> {
        self.keeper.idle_since(node).filter(|since| *since < at)?;
        let node = node.clone();
        Some(self.number(at, EventKind::NodeBusy { node }))
    }

    /// At `at`, the batch scheduler of the trace plans a start on an idle node, or withdraws it.
    /// `None` if this is known, or if the node is not idle.
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

    /// Takes an external event at cluster time `now`. An external snapshot may become several
    /// events or none.
    ///
    /// # Errors
    /// [`Refusal`]. The ledger is then unchanged.
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
            return Err(Refusal::Duplicate { id: id.to_string() });
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
                if self.wanted.contains(&(node.clone(), (*deadline).max(at))) {
                    return Err(Refusal::Unchanged { node: node.clone() });
                }
                // A request is no change of the past: it counts even if its clock is behind.
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

    /// Whether an event of a node that was not idle in the restored snapshot may precede the end of
    /// its hole. An old event must not reopen the hole.
    pub(crate) fn is_before_restart(&self, node: &NodeId, at: Timestamp) -> bool {
        let newest = self.past.get(node).copied().or(self.restored);
        self.keeper.state(node).is_none() && newest.is_some_and(|newest| at < newest)
    }

    /// Events that lead from the known state to a full state.
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
            // Only holes newer than the newest change of the node. A hole that the snapshot dates
            // before that change has the time of the snapshot.
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
