//! What the service knows: the pool, the predictor, and how good the forecasts were.

use lacuna_forecast::{RefreshTimer, FitTask, Fits, Fitted};
use lacuna_model::{EventKind, NodeEvent, Span, Timestamp};
use lacuna_pool::{
    ASTRIDE, Change, Changes, Counts, HoleEnd, PoolKeeper, RESTART_JUMP, Sync, UnknownNodes,
};
use lacuna_wire::msg::PoolState;

use crate::Models;
use crate::announced_ends::announced_ends;
use crate::learner::{ANEW, Upto};

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

/// What came in that should not have, whichever predictor there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StreamAnomalies {
    /// Holes that begin after the moment at which they are told of.
    pub negative_holes: u64,
    /// Times that the cluster's time went back between two forecasts.
    pub clock_back: u64,
    /// Events older than one that had come before.
    pub disorder: u64,
}

/// The pool and its predictors.
///
/// The predictor learns from events: a snapshot tells neither the end of a hole exactly nor a
/// planned start. So a snapshot is put aside until the events that it includes have come. At a
/// start, these are the past of the stream ([`Forecaster::catch_up`]); later, those that the
/// snapshot has overtaken.
pub struct Forecaster {
    keeper: PoolKeeper,
    models: Models,
    refresh: RefreshTimer,
    anomalies: StreamAnomalies,
    /// The moment of the newest forecast.
    as_of: Timestamp,
    /// The snapshot that is put aside.
    present: Option<(NodeEvent, Option<Timestamp>)>,
    /// Whether the past of the stream is being read.
    catching_up: bool,
    correlation: String,
}

impl std::fmt::Debug for Forecaster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Forecaster")
            .field("seq", &self.keeper.seq())
            .field("holes", &self.keeper.len())
            .field("predictor", &self.models.label())
            .finish_non_exhaustive()
    }
}

impl Forecaster {
    /// Knows nothing yet.
    #[must_use]
    pub fn new(models: Models) -> Self {
        Self {
            keeper: PoolKeeper::new(UnknownNodes::Accept),
            models,
            refresh: RefreshTimer::default(),
            anomalies: StreamAnomalies::default(),
            as_of: Timestamp::default(),
            present: None,
            catching_up: false,
            correlation: String::new(),
        }
    }

    /// Puts the newest snapshot aside until the events before it have been read: until an event
    /// comes that it does not include, or [`Forecaster::caught_up`] is called because the stream
    /// holds no more.
    pub fn catch_up(&mut self, present: NodeEvent, kept: Option<Timestamp>) {
        self.present = Some((present, kept));
        self.catching_up = true;
    }

    /// The events that the snapshot put aside includes have come, or are lost: the present is
    /// what the snapshot says.
    pub fn caught_up(&mut self) {
        self.catching_up = false;
        if let Some((present, kept)) = self.present.take() {
            self.step_kept(&present, kept);
        }
    }

    /// Takes an event with its correlation id; gives the lengths in seconds of the holes that
    /// it ended.
    pub fn event(&mut self, event: &NodeEvent, correlation: &str) -> Vec<f64> {
        self.event_kept(event, None, correlation)
    }

    /// The same with the moment at which the bus took it: see [`PoolKeeper::step_kept`].
    pub fn event_kept(
        &mut self,
        event: &NodeEvent,
        kept: Option<Timestamp>,
        correlation: &str,
    ) -> Vec<f64> {
        if let Some((present, told)) = &self.present {
            // An event may be dated long before the bus took it.
            let (by, than) = match (kept, told) {
                (Some(kept), Some(told)) => (kept + ASTRIDE, *told),
                _ => (event.at, present.at),
            };
            if self.catching_up && event.seq > present.seq && by < than {
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
        let changes = self.step_kept(event, kept);
        if !changes.is_empty() && !correlation.is_empty() {
            correlation.clone_into(&mut self.correlation);
        }
        let all_came = |present: &NodeEvent| self.keeper.seq() >= present.seq;
        if !self.catching_up && self.present.as_ref().is_some_and(|(p, _)| all_came(p)) {
            self.caught_up();
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

    /// Takes a snapshot, unless the past is still being read. One that has overtaken events is
    /// put aside until they have come.
    pub fn snapshot(
        &mut self,
        snapshot: &NodeEvent,
        kept: Option<Timestamp>,
        correlation: &str,
    ) -> Vec<f64> {
        if self.catching_up {
            return Vec::new();
        }
        if self.has_overtaken(snapshot) {
            self.present = Some((snapshot.clone(), kept));
            return Vec::new();
        }
        self.event_kept(snapshot, kept, correlation)
    }

    /// Whether events that a snapshot includes are still to come. Those of a gap are lost, and
    /// those of a publisher before this one do not count.
    fn has_overtaken(&self, snapshot: &NodeEvent) -> bool {
        let is_ahead = snapshot.seq > self.keeper.seq() && !self.keeper.has_jumped(snapshot.seq);
        is_ahead && self.keeper.sync() == Sync::Fresh
    }

    /// Whether a snapshot is put aside until the events that it includes have come.
    #[must_use]
    pub fn awaits_events(&self) -> bool {
        self.present.is_some()
    }

    fn step(&mut self, event: &NodeEvent) -> Changes {
        self.step_kept(event, None)
    }

    fn step_kept(&mut self, event: &NodeEvent, kept: Option<Timestamp>) -> Changes {
        let keeper = &self.keeper;
        self.models.turn_to(event, || keeper.holes());
        let (newest, renumbered) = (keeper.newest_at(), keeper.counts().renumbered);
        let changes = self.keeper.step_kept(event, kept);
        let went_back = self.keeper.counts().renumbered > renumbered && event.at + ANEW < newest;
        let is_early = !self.catching_up && self.models.is_ahead_of(event.at);
        if went_back || is_early {
            // Another recording, or the same from its beginning.
            self.models.begin_anew();
            self.refresh.touch();
        }
        for change in &changes.list {
            match change {
                Change::Opened { hole, .. } if hole.since > event.at => {
                    self.anomalies.negative_holes += 1;
                }
                // What ended with the old time is not known to those who begin anew.
                Change::Closed { .. } if went_back => continue,
                _ => {}
            }
            self.models.take(change);
        }
        let is_word = matches!(
            event.kind,
            EventKind::JobPlanned { .. } | EventKind::Reservation { .. }
        );
        if is_word || !changes.is_empty() {
            self.refresh.touch();
        }
        changes
    }

    /// The pool as of `now`, with forecasts.
    pub fn pool(&mut self, now: Timestamp) -> PoolState {
        if now + Span::from_secs(1) < self.as_of {
            self.anomalies.clock_back += 1;
        }
        self.as_of = now;
        if self.models.uses_announced_ends() && self.refresh.is_due(now) {
            self.models.announce(now, &announced_ends(&self.keeper));
            self.refresh.done(now);
        }
        let holes = self.keeper.holes();
        let told = self.keeper.newest_at();
        let forecasts = self.models.forecast(now, told, &holes);
        PoolState {
            pool: forecasts.into_pool(now, self.keeper.seq(), holes),
            predictor: self.models.label(),
        }
    }

    /// In lock step nothing may depend on how long anything takes: models are fitted within the
    /// step, and nobody takes over from the predictor that is wanted. So it is while the past is
    /// read, when nobody waits.
    pub fn set_lock_step(&mut self, is_lock_step: bool) {
        self.models.set_lock_step(is_lock_step);
        let is_live = self.ready() == Ready::Live;
        self.models.set_fits(if is_live && !is_lock_step {
            Fits::Outside
        } else {
            Fits::Inside
        });
    }

    /// A fit that is due and is to be made elsewhere, so that no forecast waits for it.
    pub fn fit_task(&mut self) -> Option<FitTask> {
        self.models.fit_task()
    }

    /// Puts in what was fitted, between two events; nothing if the fit came to grief.
    pub fn install(&mut self, fitted: Option<Fitted>) {
        self.models.install(fitted);
    }

    /// Up to which event has been learnt, once the present has been reached.
    #[must_use]
    pub fn upto(&self) -> Option<Upto> {
        (self.ready() == Ready::Live).then(|| Upto {
            at: self.keeper.newest_at(),
            seq: self.keeper.seq(),
        })
    }

    /// The predictors, and how good they are.
    #[must_use]
    pub fn models(&self) -> &Models {
        &self.models
    }

    /// What has happened to the predictors since this was last asked.
    pub fn take_events(&mut self) -> Vec<crate::ModelEvent> {
        self.models.take_events()
    }

    /// What came in that should not have.
    #[must_use]
    pub fn anomalies(&self) -> StreamAnomalies {
        StreamAnomalies {
            disorder: self.keeper.counts().backwards,
            ..self.anomalies
        }
    }

    /// Whether there is a pool to speak of.
    #[must_use]
    pub fn ready(&self) -> Ready {
        if self.catching_up {
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
