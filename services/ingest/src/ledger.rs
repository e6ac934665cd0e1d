//! The ledger: takes what happened, refuses what cannot be, numbers the rest without gaps.

use std::collections::{HashSet, VecDeque};

use lacuna_model::{EventKind, Hole, NodeEvent, NodeId, NodeState, Span, Timestamp};
use lacuna_timeline::{PoolKeeper, RESTART_JUMP, UnknownNodes};
use lacuna_wire::External;

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
    #[error("node {node} is not on the list of nodes")]
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
    seen: HashSet<String>,
    order: VecDeque<String>,
    window: usize,
    max_ahead: Span,
    /// The moment of the snapshot that a restart took back in, if any event had come before it.
    restored: Option<Timestamp>,
}

impl Ledger {
    /// An empty ledger that goes on after number `seq`. It remembers `window` ids.
    #[must_use]
    pub fn new(seq: u64, nodes: UnknownNodes, window: usize, max_ahead: Span) -> Self {
        let mut ledger = Self {
            keeper: PoolKeeper::new(nodes.clone()),
            nodes,
            seen: HashSet::new(),
            order: VecDeque::new(),
            window,
            max_ahead,
            restored: None,
        };
        ledger.reset(seq, Timestamp::default());
        ledger
    }

    /// Forgets all nodes; numbers go on after `seq`.
    pub fn reset(&mut self, seq: u64, at: Timestamp) {
        self.restored = None;
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
        self.keeper.step(event);
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
            format!("{source}\u{0}{id}")
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
        if self.keeper.knows(node) {
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

    /// Whether it is older than the restored snapshot, of a node that was not idle then: when
    /// that node was taken is no longer known, and an old word must not bring it back.
    pub(crate) fn is_before_restart(&self, node: &NodeId, at: Timestamp) -> bool {
        self.keeper.state(node).is_none() && self.restored.is_some_and(|restored| at < restored)
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

    fn remember(&mut self, key: String) {
        if self.order.len() >= self.window
            && let Some(oldest) = self.order.pop_front()
        {
            self.seen.remove(&oldest);
        }
        self.order.push_back(key.clone());
        self.seen.insert(key);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn ledger() -> Ledger {
        Ledger::new(0, UnknownNodes::Accept, 3, Span::from_secs(60))
    }

    fn node(name: &str) -> NodeId {
        NodeId::new(name).unwrap()
    }

    fn said(id: &str, what: &str, name: &str, at: i64) -> External {
        let node = node(name);
        External {
            kind: match what {
                "idle" => EventKind::NodeIdle { node },
                "busy" => EventKind::NodeBusy { node },
                _ => EventKind::NodeDown {
                    node,
                    reason: what.to_owned(),
                },
            },
            at: Some(Timestamp::from_unix(at)),
            id: Some(id.to_owned()),
            source: None,
        }
    }

    fn take(ledger: &mut Ledger, event: &External) -> Result<Vec<u64>, &'static str> {
        let now = Timestamp::from_unix(1000);
        match ledger.external(event, now) {
            Ok(events) => Ok(events.iter().map(|e| e.seq).collect()),
            Err(refusal) => Err(refusal.label()),
        }
    }

    #[test]
    fn numbers_have_no_gaps_whatever_is_refused() {
        let mut l = ledger();
        assert_eq!(take(&mut l, &said("1", "idle", "a", 10)), Ok(vec![1]));
        assert_eq!(take(&mut l, &said("1", "idle", "a", 10)), Err("duplicate"));
        assert_eq!(take(&mut l, &said("2", "idle", "a", 11)), Err("unchanged"));
        assert_eq!(take(&mut l, &said("3", "busy", "a", 5)), Err("late"));
        assert_eq!(take(&mut l, &said("4", "busy", "a", 2000)), Err("ahead"));
        assert_eq!(take(&mut l, &said("5", "busy", "a", 20)), Ok(vec![2]));
        assert_eq!(take(&mut l, &said("6", "broken", "a", 30)), Ok(vec![3]));
        assert_eq!(take(&mut l, &said("7", "idle", "b", 1)), Ok(vec![4]));
        assert_eq!((l.seq(), l.idle()), (4, 1));
    }

    #[test]
    fn ids_are_remembered_within_the_window_and_by_source() {
        let mut l = ledger();
        for (n, id) in ["1", "2", "3", "4"].iter().enumerate() {
            let at = 10 + i64::try_from(n).unwrap();
            take(
                &mut l,
                &said(id, if n % 2 == 0 { "idle" } else { "busy" }, "a", at),
            )
            .unwrap();
        }
        // "1" has left the window; its state is refused all the same.
        assert_eq!(take(&mut l, &said("1", "idle", "a", 10)), Err("late"));
        let mut other = said("4", "idle", "a", 50);
        other.source = Some("pbs".to_owned());
        assert_eq!(take(&mut l, &other), Ok(vec![5]));
    }

    #[test]
    fn nodes_off_the_list_are_refused() {
        let nodes = UnknownNodes::Refuse(BTreeSet::from([node("a")]));
        let mut l = Ledger::new(0, nodes, 10, Span::from_secs(60));
        assert_eq!(
            take(&mut l, &said("1", "idle", "ghost", 1)),
            Err("unknown_node")
        );
        assert_eq!(take(&mut l, &said("2", "idle", "a", 1)), Ok(vec![1]));
    }

    #[test]
    fn an_external_snapshot_becomes_its_differences() {
        let mut l = ledger();
        take(&mut l, &said("1", "idle", "a", 10)).unwrap();
        take(&mut l, &said("2", "idle", "b", 20)).unwrap();
        let hole = |name: &str, since| Hole {
            node: node(name),
            since: Timestamp::from_unix(since),
        };
        let snapshot = External {
            kind: EventKind::Snapshot {
                idle: vec![hole("b", 15), hole("c", 25)],
            },
            at: Some(Timestamp::from_unix(30)),
            id: None,
            source: None,
        };
        let events = l.external(&snapshot, Timestamp::from_unix(30)).unwrap();
        let told: Vec<String> = events
            .iter()
            .map(|e| format!("{} {} {:?}", e.seq, e.at.unix_seconds(), e.kind))
            .collect();
        assert_eq!(
            told,
            [
                "3 30 NodeBusy { node: \"a\" }",
                "4 25 NodeIdle { node: \"c\" }"
            ]
        );
        assert!(
            l.external(&snapshot, Timestamp::from_unix(31))
                .unwrap()
                .is_empty()
        );
    }

    #[test]
    fn after_a_restart_an_old_word_brings_no_node_back() {
        let mut first = ledger();
        take(&mut first, &said("1", "idle", "a", 10)).unwrap();
        take(&mut first, &said("2", "idle", "b", 20)).unwrap();
        take(&mut first, &said("3", "busy", "a", 30)).unwrap();
        let snapshot = first.snapshot(Timestamp::from_unix(50));
        let mut second = ledger();
        second.recall(&snapshot);
        second.restart();
        let jumped = 3 + RESTART_JUMP;
        assert_eq!(
            (second.seq(), second.snapshot(Timestamp::default()).seq),
            (jumped, jumped)
        );
        assert_eq!(take(&mut second, &said("1", "idle", "a", 10)), Err("late"));
        assert_eq!(
            take(&mut second, &said("4", "busy", "b", 40)),
            Ok(vec![jumped + 1])
        );
        assert_eq!(
            take(&mut second, &said("5", "idle", "a", 60)),
            Ok(vec![jumped + 2])
        );
        // A snapshot of the sender's is believed from then on, not before.
        let of = |at| External {
            kind: EventKind::Snapshot {
                idle: ["a", "c"]
                    .map(|name| Hole {
                        node: node(name),
                        since: Timestamp::from_unix(5),
                    })
                    .into(),
            },
            at: Some(Timestamp::from_unix(at)),
            id: None,
            source: None,
        };
        let now = Timestamp::from_unix(1000);
        assert_eq!(second.external(&of(45), now), Ok(vec![]));
        assert_eq!(second.external(&of(70), now).unwrap().len(), 1);
    }

    #[test]
    fn a_recalled_ledger_goes_on_where_the_other_was() {
        let mut first = ledger();
        take(&mut first, &said("1", "idle", "a", 10)).unwrap();
        let snapshot = first.snapshot(Timestamp::from_unix(12));
        let later = first.external(&said("2", "idle", "b", 20), Timestamp::from_unix(20));
        let mut second = ledger();
        second.recall(&snapshot);
        second.recall(&later.unwrap()[0]);
        assert_eq!((second.seq(), second.idle()), (2, 2));
        assert_eq!(
            take(&mut second, &said("2", "idle", "b", 20)),
            Err("unchanged")
        );
        assert_eq!(take(&mut second, &said("3", "busy", "b", 30)), Ok(vec![3]));
    }
}
