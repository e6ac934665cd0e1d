//! What the service knows: the pool, the predictor, and how good the forecasts were.

use lacuna_forecast::{Calibration, Learning, Predictor, Score};
use lacuna_model::{EventKind, Hole, NodeEvent, Span, Timestamp};
use lacuna_timeline::{
    Change, Changes, Counts, HoleEnd, PoolKeeper, RESTART_JUMP, Sync, UnknownNodes,
};
use lacuna_wire::msg::PoolState;

/// Whether there is a pool to speak of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ready {
    /// Neither the first event nor a snapshot has come.
    Waiting,
    /// Events of the past are being read, to learn from them.
    CatchingUp,
    /// The pool is what the scheduler says, or less.
    Live,
}

/// The pool and its predictor.
///
/// At a start, the stream may hold a long past, and the newest snapshot tells the present. The
/// past is worth reading: it is what the predictor learns from. So the snapshot is put aside
/// until the events that it includes have been read ([`Forecaster::catch_up`]).
pub struct Forecaster {
    keeper: PoolKeeper,
    predictor: Box<dyn Predictor>,
    calibration: Calibration,
    /// The snapshot that ends the catching up.
    present: Option<NodeEvent>,
    correlation: String,
}

impl std::fmt::Debug for Forecaster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Forecaster")
            .field("seq", &self.keeper.seq())
            .field("holes", &self.keeper.len())
            .field("predictor", &self.predictor.label())
            .finish_non_exhaustive()
    }
}

impl Forecaster {
    /// Knows nothing yet.
    #[must_use]
    pub fn new(predictor: Box<dyn Predictor>) -> Self {
        Self {
            keeper: PoolKeeper::new(UnknownNodes::Accept),
            predictor,
            calibration: Calibration::new(),
            present: None,
            correlation: String::new(),
        }
    }

    /// Puts the newest snapshot aside until the events before it have been read: until an event
    /// comes that it does not include, or [`Forecaster::caught_up`] is called because the stream
    /// holds no more.
    pub fn catch_up(&mut self, present: NodeEvent) {
        self.present = Some(present);
    }

    /// Ends the catching up: the present is what the snapshot said.
    pub fn caught_up(&mut self) {
        if let Some(present) = self.present.take() {
            self.step(&present);
        }
    }

    /// Takes an event with its correlation id; gives the lengths in seconds of the holes that
    /// it ended.
    pub fn event(&mut self, event: &NodeEvent, correlation: &str) -> Vec<f64> {
        if let Some(present) = &self.present {
            if event.seq > present.seq && event.at < present.at {
                // Later by its number, but older: from before the numbering began anew.
                return Vec::new();
            } else if event.seq > present.seq {
                self.caught_up();
            } else if self.keeper.sync() == Sync::Waiting && event.seq > 1 {
                // The stream has lost its beginning. What was idle before is not known, and
                // need not be: the snapshot will tell.
                self.step(&NodeEvent {
                    seq: event.seq - 1,
                    at: event.at,
                    kind: EventKind::Snapshot { idle: Vec::new() },
                });
            } else if event.seq > self.keeper.seq().saturating_add(RESTART_JUMP) {
                self.past_restart(event);
            }
        }
        let changes = self.step(event);
        if !changes.is_empty() && !correlation.is_empty() {
            correlation.clone_into(&mut self.correlation);
        }
        lengths(&changes)
    }

    /// The publisher had started anew before this event of the past. Its snapshot of then is
    /// gone; holes stand as they were, unless another recording began.
    fn past_restart(&mut self, event: &NodeEvent) {
        let newest = self.keeper.newest_at();
        let goes_on = event.at + Span::from_secs(3600) >= newest;
        let idle = if goes_on {
            self.keeper.holes()
        } else {
            Vec::new()
        };
        self.step(&NodeEvent {
            seq: event.seq - 1,
            at: if goes_on { newest } else { event.at },
            kind: EventKind::Snapshot { idle },
        });
    }

    /// Takes a snapshot, unless the past is still being read.
    pub fn snapshot(&mut self, snapshot: &NodeEvent, correlation: &str) -> Vec<f64> {
        if self.present.is_some() {
            return Vec::new();
        }
        self.event(snapshot, correlation)
    }

    fn step(&mut self, event: &NodeEvent) -> Changes {
        let changes = self.keeper.step(event);
        for change in &changes.list {
            match change {
                Change::Opened { hole, seen } => self.predictor.opened(hole, *seen),
                Change::Closed { hole, at, end } => self.close(hole, *at, *end),
            }
        }
        changes
    }

    fn close(&mut self, hole: &Hole, at: Timestamp, end: HoleEnd) {
        match end {
            HoleEnd::Seen => {
                self.predictor.closed(hole, at);
                self.calibration.closed(&hole.node, at);
            }
            HoleEnd::Unseen { last_seen } => {
                self.predictor.lost(hole, last_seen);
                self.calibration.lost(&hole.node, last_seen);
            }
        }
    }

    /// The pool as of `now`, with forecasts.
    pub fn pool(&mut self, now: Timestamp) -> PoolState {
        let holes = self.keeper.holes();
        let forecasts = self.predictor.forecast(now, &holes);
        let told = self.keeper.newest_at();
        self.calibration.observe(now, told, &holes, &forecasts);
        PoolState {
            pool: forecasts.into_pool(now, self.keeper.seq(), holes),
            predictor: self.predictor.label(),
        }
    }

    /// Whether there is a pool to speak of.
    #[must_use]
    pub fn ready(&self) -> Ready {
        if self.present.is_some() {
            Ready::CatchingUp
        } else if self.keeper.sync() == Sync::Waiting {
            Ready::Waiting
        } else {
            Ready::Live
        }
    }

    /// Whether events are missing.
    #[must_use]
    pub fn is_stale(&self) -> bool {
        matches!(self.keeper.sync(), Sync::Stale { .. })
    }

    /// The last event that is included.
    #[must_use]
    pub fn seq(&self) -> u64 {
        self.keeper.seq()
    }

    /// How many holes are present.
    #[must_use]
    pub fn holes(&self) -> usize {
        self.keeper.len()
    }

    /// Totals of the events.
    #[must_use]
    pub fn counts(&self) -> &Counts {
        self.keeper.counts()
    }

    /// How much the predictor has learnt.
    #[must_use]
    pub fn learning(&self) -> Learning {
        self.predictor.learning()
    }

    /// How good the forecasts were.
    #[must_use]
    pub fn scores(&self) -> &[Score] {
        self.calibration.scores()
    }

    /// Correlation id of the newest event that changed the pool.
    #[must_use]
    pub fn correlation(&self) -> &str {
        &self.correlation
    }
}

/// Lengths of the holes whose end was seen, seconds.
fn lengths(changes: &Changes) -> Vec<f64> {
    changes
        .list
        .iter()
        .filter_map(|change| match change {
            Change::Closed {
                hole,
                at,
                end: HoleEnd::Seen,
            } => Some(at.since(hole.since).as_secs_f64()),
            _ => None,
        })
        .collect()
}
