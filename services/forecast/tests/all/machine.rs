//! A machine that takes idle nodes from the front, as events.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

use lacuna_model::{EventKind, Hole, NodeEvent, NodeId, Timestamp};
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// A machine that gives numbered events.
pub(crate) struct MachinePrior {
    rng: ChaCha8Rng,
    idle: Vec<usize>,
    busy: Vec<usize>,
    since: Vec<i64>,
    pub(crate) seq: u64,
    /// Seconds since 1970.
    pub(crate) now: i64,
    /// Mean seconds between two batch jobs.
    pub(crate) pace_s: i64,
}

pub(crate) fn node(number: usize) -> NodeId {
    NodeId::new(format!("n{number:04}")).unwrap()
}

impl MachinePrior {
    pub(crate) fn new(seed: u64, nodes: usize, now: i64) -> Self {
        println!("seed {seed}");
        Self {
            rng: ChaCha8Rng::seed_from_u64(seed),
            idle: Vec::new(),
            busy: (0..nodes).collect(),
            since: vec![0; nodes],
            seq: 0,
            now,
            pace_s: 60,
        }
    }

    pub(crate) fn at(&self) -> Timestamp {
        Timestamp::from_unix(self.now)
    }

    fn event(&mut self, kind: EventKind) -> NodeEvent {
        self.seq += 1;
        NodeEvent {
            seq: self.seq,
            at: self.at(),
            kind,
        }
    }

    /// A batch job takes nodes from the front, and another one frees some.
    pub(crate) fn step(&mut self) -> Vec<NodeEvent> {
        self.now += self.rng.random_range(1..=2 * self.pace_s);
        self.idle.sort_unstable();
        let most = (self.since.len() / 8).max(1);
        let taken = self.rng.random_range(0..=most).min(self.idle.len());
        let taken: Vec<usize> = self.idle.drain(..taken).collect();
        self.busy.shuffle(&mut self.rng);
        let back = self.rng.random_range(0..=most).min(self.busy.len());
        let back: Vec<usize> = self.busy.drain(..back).collect();
        let mut events = Vec::new();
        for &number in &taken {
            let node = node(number);
            events.push(self.event(EventKind::NodeBusy { node }));
        }
        for &number in &back {
            self.since[number] = self.now;
            let node = node(number);
            events.push(self.event(EventKind::NodeIdle { node }));
        }
        self.busy.extend(taken);
        self.idle.extend(back);
        events
    }

    pub(crate) fn steps(&mut self, count: usize) -> Vec<NodeEvent> {
        (0..count).flat_map(|_| self.step()).collect()
    }

    /// The present holes.
    pub(crate) fn snapshot(&self) -> NodeEvent {
        let mut idle: Vec<Hole> = self
            .idle
            .iter()
            .map(|&number| Hole {
                node: node(number),
                since: Timestamp::from_unix(self.since[number]),
            })
            .collect();
        idle.sort_by(|a, b| a.node.cmp(&b.node));
        NodeEvent {
            seq: self.seq,
            at: self.at(),
            kind: EventKind::Snapshot { idle },
        }
    }

    /// A planned start or reservation as an event.
    pub(crate) fn word(&mut self, kind: EventKind) -> NodeEvent {
        self.event(kind)
    }
}
