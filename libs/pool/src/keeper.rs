//! The pool of present holes, kept from events and snapshots.
//!
//! Events carry the numbers 1, 2, 3, ... without gaps. A snapshot carries the number of the last
//! event that it includes. Rules:
//!
//! - K1 An event is a duplicate if its number was seen or a snapshot includes it.
//! - K2 An event behind a gap is held back. The pool is then stale and can only shrink. A
//!   held event that ends a hole ends it at once; one that opens a hole waits.
//! - K3 The missing events, or a snapshot that includes them, end the staleness. Held events are
//!   then applied in their order.
//! - K4 An event older than its node's newest change is late and refused.
//! - K5 A snapshot replaces the pool. The differences are its changes.
//! - K6 A snapshot with a smaller number is refused. It is accepted if it is newer in time than
//!   all events so far, or the third such snapshot in a row: the numbering has then restarted.
//!   With the times at which the bus took messages ([`PoolKeeper::step_kept`]), a snapshot taken
//!   before the newest event is always refused: events have overtaken it.
//! - K7 For each node, openings and closings alternate.
//! - K8 A snapshot that is far ahead ([`RESTART_JUMP`]) comes from a publisher that has restarted.
//!   If it is also older in time than the newest event, time has restarted (another trace is
//!   played). Earlier states of nodes and announcements are then dropped.

use std::collections::{BTreeMap, BTreeSet};

use lacuna_model::{EventKind, Hole, NodeEvent, NodeId, NodeState, Span, Timestamp};

use crate::announcements::{Announcements, Reservation};
use crate::changes::{Change, Changes, Counts, HoleEnd, Outcome};

/// The most events that are held back behind a gap. The next snapshot makes up for further ones.
const HELD_MAX: usize = 4096;

/// How far the numbers jump when the publisher restarts. No number is used twice, even if the
/// newest events were lost with the publisher.
pub const RESTART_JUMP: u64 = 1_000_000;

/// How far the bus's stream of snapshots and its stream of events may be apart. A snapshot counts
/// as taken after an event only if it is newer by more.
pub const ASTRIDE: Span = Span::from_secs(2);

/// The number of older snapshots in a row after which the numbering counts as restarted (K6).
const OLD_IN_A_ROW: u32 = 3;

/// Whether the pool includes every event that is known to exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sync {
    /// Neither the first event nor a snapshot has come.
    Waiting,
    /// Every event up to the newest is included.
    Fresh,
    /// Events are missing. The pool can only shrink until they or a snapshot come.
    Stale {
        /// The first missing number.
        missing: u64,
    },
}

/// The treatment of names that are not on the list of nodes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum UnknownNodes {
    /// Every name is a node; there is no list.
    #[default]
    Accept,
    /// Names that are not on this list are counted and refused.
    Refuse(BTreeSet<NodeId>),
}

/// The newest state of one node and the time of its change.
#[derive(Debug, Clone, Copy)]
struct Known {
    state: NodeState,
    changed: Timestamp,
}

/// The pool of present holes, kept from events and snapshots by the rules of this module.
#[derive(Debug, Clone)]
pub struct PoolKeeper {
    holes: BTreeMap<NodeId, Timestamp>,
    nodes: BTreeMap<NodeId, Known>,
    unknown: UnknownNodes,
    /// Every event up to here is included.
    upto: u64,
    /// The newest number of any event or snapshot.
    newest: u64,
    /// Events behind a gap.
    held: BTreeMap<u64, NodeEvent>,
    begun: bool,
    /// The newest moment of any event or snapshot.
    at: Timestamp,
    /// The newest moment at which the pool was known in full.
    sure_at: Timestamp,
    old_in_row: u32,
    /// The time at which the bus took the newest event that was no duplicate.
    kept: Option<Timestamp>,
    announcements: Announcements,
    counts: Counts,
}

impl PoolKeeper {
    /// An empty pool that waits for event 1 or a snapshot.
    #[must_use]
    pub fn new(unknown: UnknownNodes) -> Self {
        Self {
            holes: BTreeMap::new(),
            nodes: BTreeMap::new(),
            unknown,
            upto: 0,
            newest: 0,
            held: BTreeMap::new(),
            begun: false,
            at: Timestamp::default(),
            sure_at: Timestamp::default(),
            old_in_row: 0,
            kept: None,
            announcements: Announcements::default(),
            counts: Counts::default(),
        }
    }

    /// Applies one event or snapshot and returns the changes of the pool.
    pub fn step(&mut self, event: &NodeEvent) -> Changes {
        self.step_kept(event, None)
    }

    /// [`step`](Self::step) with the time at which the bus took the message, by the bus's clock.
    pub fn step_kept(&mut self, event: &NodeEvent, kept: Option<Timestamp>) -> Changes {
        self.counts.events += 1;
        let mut list = Vec::new();
        let outcome = match &event.kind {
            EventKind::Snapshot { .. } if self.overtaken(event.seq, kept) => {
                self.counts.old_snapshots += 1;
                Outcome::OldSnapshot
            }
            EventKind::Snapshot { idle } => self.snapshot(event.seq, event.at, idle, &mut list),
            _ => self.event(event, &mut list),
        };
        if !matches!(outcome, Outcome::Duplicate | Outcome::OldSnapshot) {
            // A snapshot may let events through that were held back, and came later than it.
            self.kept = match event.kind {
                EventKind::Snapshot { .. } => kept.max(self.kept),
                _ => kept.or(self.kept),
            };
        }
        for change in &list {
            match change {
                Change::Opened { .. } => self.counts.opened += 1,
                Change::Closed { .. } => self.counts.closed += 1,
            }
        }
        Changes { list, outcome }
    }

    /// The present holes, sorted by node.
    #[must_use]
    pub fn holes(&self) -> Vec<Hole> {
        self.holes
            .iter()
            .map(|(node, &since)| Hole {
                node: node.clone(),
                since,
            })
            .collect()
    }

    /// The number of present holes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.holes.len()
    }

    /// Whether no hole is present.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.holes.is_empty()
    }

    /// The start of a node's present hole; `None` if the node is not idle.
    #[must_use]
    pub fn idle_since(&self, node: &NodeId) -> Option<Timestamp> {
        self.holes.get(node).copied()
    }

    /// The state of a node; `None` if no event or snapshot has named it.
    #[must_use]
    pub fn state(&self, node: &NodeId) -> Option<NodeState> {
        self.nodes.get(node).map(|known| known.state)
    }

    /// Whether an event of this node at this moment would be late (K4).
    #[must_use]
    pub fn is_late(&self, node: &NodeId, at: Timestamp) -> bool {
        self.nodes.get(node).is_some_and(|known| at < known.changed)
    }

    /// Whether a name is on the list of nodes. Without a list, every name is.
    #[must_use]
    pub fn knows(&self, node: &NodeId) -> bool {
        match &self.unknown {
            UnknownNodes::Accept => true,
            UnknownNodes::Refuse(listed) => listed.contains(node),
        }
    }

    /// Whether the pool includes every event that is known to exist.
    #[must_use]
    pub fn sync(&self) -> Sync {
        if !self.begun {
            Sync::Waiting
        } else if self.newest > self.upto {
            Sync::Stale {
                missing: self.upto.saturating_add(1),
            }
        } else {
            Sync::Fresh
        }
    }

    /// The number of the last event that is included, with all before it.
    #[must_use]
    pub fn seq(&self) -> u64 {
        self.upto
    }

    /// The newest moment of any event or snapshot.
    #[must_use]
    pub fn newest_at(&self) -> Timestamp {
        self.at
    }

    /// Whether a number comes from a publisher that has restarted (K8). The publisher may have lost
    /// its newest numbers, so half of the jump is enough.
    #[must_use]
    pub fn has_jumped(&self, seq: u64) -> bool {
        self.begun && seq >= self.upto.saturating_add(RESTART_JUMP / 2)
    }

    /// The planned starts and reservations.
    #[must_use]
    pub fn announcements(&self) -> &Announcements {
        &self.announcements
    }

    /// Totals since the keeper was made.
    #[must_use]
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// The present holes as a snapshot, for receivers that join later.
    #[must_use]
    pub fn to_snapshot(&self, at: Timestamp) -> NodeEvent {
        NodeEvent {
            seq: self.upto,
            at,
            kind: EventKind::Snapshot { idle: self.holes() },
        }
    }

    fn event(&mut self, event: &NodeEvent, list: &mut Vec<Change>) -> Outcome {
        if event.seq <= self.upto || self.held.contains_key(&event.seq) {
            self.counts.duplicates += 1;
            return Outcome::Duplicate;
        }
        self.old_in_row = 0;
        if event.seq > self.upto.saturating_add(1) {
            if self.sync() == Sync::Fresh {
                self.counts.gaps += 1;
            }
            self.newest = self.newest.max(event.seq);
            if self.held.len() < HELD_MAX {
                self.held.insert(event.seq, event.clone());
            }
            if let Some(node) = closes(&event.kind)
                && self.knows(node)
                && !self.is_late(node, event.at)
            {
                self.close(node, event.at, self.unseen(), list);
            }
            return Outcome::HeldBack;
        }
        self.begun = true;
        self.upto = event.seq;
        self.newest = self.newest.max(event.seq);
        let outcome = self.apply(event, list);
        self.follow(list);
        outcome
    }

    /// Applies held events as far as their numbers go on without a gap (K3).
    fn follow(&mut self, list: &mut Vec<Change>) {
        while let Some(next) = self.held.remove(&self.upto.saturating_add(1)) {
            self.upto = next.seq;
            self.apply(&next, list);
        }
        if self.newest <= self.upto {
            self.sure_at = self.at;
        }
    }

    /// Applies an event whose turn it is.
    fn apply(&mut self, event: &NodeEvent, list: &mut Vec<Change>) -> Outcome {
        if event.at < self.at {
            self.counts.backwards += 1;
        } else {
            self.at = event.at;
            self.announcements.expire(event.at);
        }
        match &event.kind {
            EventKind::NodeIdle { node } => self.node_event(node, event.at, NodeState::Idle, list),
            EventKind::NodeBusy { node } | EventKind::NodeWanted { node, .. } => {
                self.node_event(node, event.at, NodeState::Busy, list)
            }
            EventKind::NodeDown { node, .. } => {
                self.node_event(node, event.at, NodeState::Down, list)
            }
            EventKind::JobPlanned { job, nodes, start } => {
                self.announcements.plan(job, nodes, *start);
                Outcome::Applied
            }
            EventKind::Reservation {
                name,
                nodes,
                start,
                end,
            } => {
                let (nodes, start, end) = (nodes.clone(), *start, *end);
                let reservation = Reservation { nodes, start, end };
                self.announcements.reserve(name, reservation);
                Outcome::Applied
            }
            // Lacuna's own answer: the node left the pool when the scheduler wanted it.
            EventKind::NodeReleased { .. } => Outcome::Applied,
            // `snapshot` handles snapshots, which are never held back.
            EventKind::Snapshot { .. } => Outcome::Applied,
        }
    }

    fn node_event(
        &mut self,
        node: &NodeId,
        at: Timestamp,
        state: NodeState,
        list: &mut Vec<Change>,
    ) -> Outcome {
        if !self.knows(node) {
            self.counts.unknown += 1;
            return Outcome::UnknownNode;
        }
        if self.is_late(node, at) {
            self.counts.late += 1;
            return Outcome::Late;
        }
        if state == NodeState::Idle {
            // A repeated event of an idle node keeps the start of its hole.
            if !self.holes.contains_key(node) {
                self.open(node, at, at, list);
            }
        } else {
            self.close(node, at, HoleEnd::Seen, list);
            let known = Known { state, changed: at };
            self.nodes.insert(node.clone(), known);
        }
        Outcome::Applied
    }

    fn open(&mut self, node: &NodeId, since: Timestamp, seen: Timestamp, list: &mut Vec<Change>) {
        let known = Known {
            state: NodeState::Idle,
            changed: since,
        };
        self.nodes.insert(node.clone(), known);
        self.holes.insert(node.clone(), since);
        let node = node.clone();
        list.push(Change::Opened {
            hole: Hole { node, since },
            seen: seen.max(since),
        });
    }

    fn close(&mut self, node: &NodeId, at: Timestamp, end: HoleEnd, list: &mut Vec<Change>) {
        let Some(since) = self.holes.remove(node) else {
            return;
        };
        let at = at.max(since);
        let known = Known {
            state: NodeState::Busy,
            changed: at,
        };
        self.nodes.insert(node.clone(), known);
        let end = match end {
            HoleEnd::Seen => HoleEnd::Seen,
            HoleEnd::Unseen { last_seen } => HoleEnd::Unseen {
                last_seen: last_seen.clamp(since, at),
            },
        };
        let node = node.clone();
        list.push(Change::Closed {
            hole: Hole { node, since },
            at,
            end,
        });
    }

    fn unseen(&self) -> HoleEnd {
        HoleEnd::Unseen {
            last_seen: self.sure_at,
        }
    }

    /// Whether a snapshot was made before events that are included already (K6). The bus's clock
    /// decides: an event may be dated earlier than a snapshot that was made before it.
    fn overtaken(&self, seq: u64, kept: Option<Timestamp>) -> bool {
        let (Some(newest), Some(kept)) = (self.kept, kept) else {
            return false;
        };
        self.begun && seq < self.upto && kept <= newest + ASTRIDE
    }

    fn snapshot(
        &mut self,
        seq: u64,
        at: Timestamp,
        idle: &[Hole],
        list: &mut Vec<Change>,
    ) -> Outcome {
        if self.begun && seq < self.upto {
            self.old_in_row += 1;
            if at <= self.at && self.old_in_row < OLD_IN_A_ROW {
                self.counts.old_snapshots += 1;
                return Outcome::OldSnapshot;
            }
            // The numbering has restarted (K6): held events and states of nodes are void.
            self.counts.renumbered += 1;
            self.held.clear();
            self.nodes.clear();
            self.newest = seq;
            self.at = at;
        }
        let jumped = self.has_jumped(seq);
        let restarted = jumped && at < self.at;
        self.old_in_row = 0;
        self.counts.snapshots += 1;
        let began_fresh = self.sync() == Sync::Fresh && seq == self.upto;
        // The holes of another trace end at the newest time of that trace.
        let ended = if restarted { self.at } else { at };
        self.replace(ended, at, idle, list);
        if restarted {
            self.counts.renumbered += 1;
            self.nodes.retain(|node, _| self.holes.contains_key(node));
            self.announcements = Announcements::default();
            self.at = at;
            self.sure_at = at;
        }
        if began_fresh && !list.is_empty() {
            self.counts.repairs += 1;
        }
        self.begun = true;
        self.at = self.at.max(at);
        self.upto = seq;
        self.newest = self.newest.max(seq);
        self.held = self.held.split_off(&seq.saturating_add(1));
        self.sure_at = self.sure_at.max(at);
        self.follow(list);
        Outcome::Applied
    }

    /// Makes the pool that of a snapshot at `at` (K5). Other holes end at `ended`.
    fn replace(&mut self, ended: Timestamp, at: Timestamp, idle: &[Hole], list: &mut Vec<Change>) {
        let mut target: BTreeMap<&NodeId, Timestamp> = BTreeMap::new();
        for hole in idle {
            if self.knows(&hole.node) {
                target.insert(&hole.node, hole.since);
            } else {
                self.counts.unknown += 1;
            }
        }
        let gone: Vec<(NodeId, Timestamp)> = self
            .holes
            .iter()
            .filter(|(node, since)| target.get(node) != Some(since))
            .map(|(node, _)| {
                let end = target.get(node).map_or(ended, |&since| since.min(ended));
                (node.clone(), end)
            })
            .collect();
        let unseen = self.unseen();
        for (node, end) in gone {
            self.close(&node, end, unseen, list);
        }
        for (node, since) in target {
            if !self.holes.contains_key(node) {
                self.open(node, since, at, list);
            }
        }
    }
}

/// The node whose hole an event of this kind ends; `None` for kinds that end none.
fn closes(kind: &EventKind) -> Option<&NodeId> {
    match kind {
        EventKind::NodeBusy { node }
        | EventKind::NodeWanted { node, .. }
        | EventKind::NodeDown { node, .. } => Some(node),
        _ => None,
    }
}
