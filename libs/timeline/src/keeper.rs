//! The pool as the event stream tells it.
//!
//! Events carry the numbers 1, 2, 3, ... without gaps; a snapshot carries the number of the
//! last event that it includes. Rules:
//!
//! - K1 An event whose number was seen or is included in a snapshot is a duplicate.
//! - K2 An event behind a gap is held back. The pool is then stale and can only shrink: a held
//!   event that ends a hole ends it at once, one that opens a hole waits.
//! - K3 The missing events or a snapshot that includes them end the staleness; held events
//!   follow in their order.
//! - K4 An event older than its node's newest change is late and refused.
//! - K5 A snapshot replaces the pool; the differences are its changes.
//! - K6 A snapshot with a smaller number is refused, unless it is newer in time than all that
//!   is known or the third such in a row: then the numbering has begun anew, and it is believed.
//!   Where it is known when the bus took each message ([`PoolKeeper::step_kept`]), one that was
//!   taken before the newest event is never believed: it was only overtaken by events.
//! - K7 For each node, openings and closings alternate.
//! - K8 A snapshot that is far ahead ([`RESTART_JUMP`]) comes from a publisher that has
//!   started anew. If it is older in time than what is known, time has begun anew with it
//!   (another recording is played): nothing dated before counts.

use std::collections::{BTreeMap, BTreeSet};

use lacuna_model::{EventKind, Hole, NodeEvent, NodeId, NodeState, Span, Timestamp};

use crate::changes::{Change, Changes, Counts, HoleEnd, Outcome};
use crate::hints::{Hints, Reserved};

/// How many events behind a gap are held back at most; what goes beyond is left to the next
/// snapshot.
const HELD_MAX: usize = 4096;

/// How far the numbers jump when the publisher starts anew, so that none is used twice even if
/// the newest were lost with it.
pub const RESTART_JUMP: u64 = 1_000_000;

/// Events and snapshots are taken by the bus in two streams, one of which may be this much behind
/// the other: a snapshot must be newer by more to count as taken after an event.
pub const ASTRIDE: Span = Span::from_secs(2);

/// After how many older snapshots in a row the numbering is taken to have begun anew.
const OLD_IN_A_ROW: u32 = 3;

/// Whether the pool is what the scheduler says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sync {
    /// Nothing is known yet: neither the first event nor a snapshot has come.
    Waiting,
    /// Every event up to the newest is included.
    Fresh,
    /// Events are missing; the pool can only shrink until they or a snapshot come.
    Stale {
        /// The first missing number.
        missing: u64,
    },
}

/// What to do with names that are not on the list of nodes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum UnknownNodes {
    /// There is no list: every name is a node.
    #[default]
    Accept,
    /// Names that are not on this list are counted and refused.
    Refuse(BTreeSet<NodeId>),
}

/// What is known of one node.
#[derive(Debug, Clone, Copy)]
struct Known {
    state: NodeState,
    changed: Timestamp,
}

/// Keeps the pool of present holes from events and snapshots.
#[derive(Debug, Clone)]
pub struct PoolKeeper {
    holes: BTreeMap<NodeId, Timestamp>,
    nodes: BTreeMap<NodeId, Known>,
    unknown: UnknownNodes,
    /// Every event up to here is included.
    upto: u64,
    /// The newest number heard of.
    newest: u64,
    /// Events behind a gap.
    held: BTreeMap<u64, NodeEvent>,
    begun: bool,
    /// The newest moment of any event or snapshot.
    at: Timestamp,
    /// The newest moment at which the pool was known in full.
    sure_at: Timestamp,
    old_in_row: u32,
    /// When the bus took the newest event that was no duplicate.
    kept: Option<Timestamp>,
    hints: Hints,
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
            hints: Hints::default(),
            counts: Counts::default(),
        }
    }

    /// Takes one event and says what it changed.
    pub fn step(&mut self, event: &NodeEvent) -> Changes {
        self.step_kept(event, None)
    }

    /// The same with the moment at which the bus took the event, by the bus's clock.
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
            self.kept = kept.or(self.kept);
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

    /// How many holes are present.
    #[must_use]
    pub fn len(&self) -> usize {
        self.holes.len()
    }

    /// Whether no hole is present.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.holes.is_empty()
    }

    /// Since when a node is idle, if it is.
    #[must_use]
    pub fn idle_since(&self, node: &NodeId) -> Option<Timestamp> {
        self.holes.get(node).copied()
    }

    /// What is known of a node, if it was ever named.
    #[must_use]
    pub fn state(&self, node: &NodeId) -> Option<NodeState> {
        self.nodes.get(node).map(|known| known.state)
    }

    /// Whether an event of this node at this moment would be late (K4).
    #[must_use]
    pub fn is_late(&self, node: &NodeId, at: Timestamp) -> bool {
        self.nodes.get(node).is_some_and(|known| at < known.changed)
    }

    /// Whether a name is on the list of nodes (or there is no list).
    #[must_use]
    pub fn knows(&self, node: &NodeId) -> bool {
        match &self.unknown {
            UnknownNodes::Accept => true,
            UnknownNodes::Refuse(listed) => listed.contains(node),
        }
    }

    /// Whether the pool can be trusted.
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

    /// The last event that is included, with all before it.
    #[must_use]
    pub fn seq(&self) -> u64 {
        self.upto
    }

    /// The newest moment of any event or snapshot.
    #[must_use]
    pub fn newest_at(&self) -> Timestamp {
        self.at
    }

    /// Whether a number comes from a publisher that has started anew (K8). It may not know the
    /// newest that is known here, so half of the jump is enough.
    #[must_use]
    pub fn has_jumped(&self, seq: u64) -> bool {
        self.begun && seq >= self.upto.saturating_add(RESTART_JUMP / 2)
    }

    /// What the scheduler says of the future.
    #[must_use]
    pub fn hints(&self) -> &Hints {
        &self.hints
    }

    /// Totals since the beginning.
    #[must_use]
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// The full state as an event, for those who join later.
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
            self.hints.expire(event.at);
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
                self.hints.plan(job, nodes, *start);
                Outcome::Applied
            }
            EventKind::Reservation {
                name,
                nodes,
                start,
                end,
            } => {
                let (nodes, start, end) = (nodes.clone(), *start, *end);
                self.hints.reserve(name, Reserved { nodes, start, end });
                Outcome::Applied
            }
            // Our own answer: the node had left the pool when it was wanted.
            EventKind::NodeReleased { .. } => Outcome::Applied,
            // Snapshots take another way and are never held back.
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
            // A second word that the node is idle does not make the hole younger.
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

    /// Whether a snapshot was made before events that are known already: it tells nothing new,
    /// however new its moment is (events may be dated when they happened, before it was made).
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
            // The publisher counts anew (K6): nothing held or dated before is of use.
            self.counts.renumbered += 1;
            self.held.clear();
            self.nodes.clear();
            self.newest = seq;
            self.at = at;
        }
        let jumped = self.has_jumped(seq);
        let anew = jumped && at < self.at;
        self.old_in_row = 0;
        self.counts.snapshots += 1;
        let began_fresh = self.sync() == Sync::Fresh && seq == self.upto;
        // The holes of another recording end when that was last heard of.
        let ended = if anew { self.at } else { at };
        self.replace(ended, at, idle, list);
        if anew {
            self.counts.renumbered += 1;
            self.nodes.retain(|node, _| self.holes.contains_key(node));
            self.hints = Hints::default();
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

    /// Makes the pool what a snapshot of `at` says (K5); other holes end at `ended`.
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

/// The node whose hole an event ends, if it ends one.
fn closes(kind: &EventKind) -> Option<&NodeId> {
    match kind {
        EventKind::NodeBusy { node }
        | EventKind::NodeWanted { node, .. }
        | EventKind::NodeDown { node, .. } => Some(node),
        _ => None,
    }
}
