//! The core of the service: the pool, the predictors, and the scores of their forecasts.

use lacuna_forecast::{FitTask, Fits, Fitted, RefreshTimer};
use lacuna_model::{EventKind, NodeEvent, Span, Timestamp};
use lacuna_pool::{
    ASTRIDE, Change, Changes, Counts, HoleEnd, PoolKeeper, RESTART_JUMP, Sync, UnknownNodes,
};
use lacuna_wire::msg::PoolState;

use crate::Models;
use crate::announced_ends::announced_ends;
use crate::learner::{RESTART, Upto};

/// The readiness of the pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ready {
    /// Neither the first event nor a snapshot has come.
    Waiting,
    /// Past events are read, to learn from them.
    CatchingUp,
    /// The pool is that of the scheduler, or a part of it while events are missing.
    Live,
}

/// Anomalies of the event stream, counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StreamAnomalies {
    /// Holes that begin after the event that reports them.
    pub negative_holes: u64,
    /// Times that the cluster's time went back between two forecasts.
    pub clock_back: u64,
    /// Events older than an earlier one.
    pub disorder: u64,
}

/// The pool and its predictors.
///
/// The predictor learns from events, since a snapshot has neither exact ends of holes nor planned
/// starts. So a snapshot waits until the events that it includes have come. At the start, these are
/// the past of the stream ([`Forecaster::catch_up`]). Later, they are those that the snapshot has
/// overtaken.
pub struct Forecaster {
    keeper: PoolKeeper,
    models: Models,
    refresh: RefreshTimer,
    anomalies: StreamAnomalies,
    /// The time of the newest forecast.
    as_of: Timestamp,
    /// The snapshot that waits for its events.
    waiting: Option<(NodeEvent, Option<Timestamp>)>,
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
    /// A forecaster without a pool.
    #[must_use]
    pub fn new(models: Models) -> Self {
        Self {
            keeper: PoolKeeper::new(UnknownNodes::Accept),
            models,
            refresh: RefreshTimer::default(),
            anomalies: StreamAnomalies::default(),
            as_of: Timestamp::default(),
            waiting: None,
            catching_up: false,
            correlation: String::new(),
        }
    }

    /// Holds back the newest snapshot while the past of the stream is read. It is applied when an
    /// event comes that it does not include, or by [`Forecaster::caught_up`] at the end of the
    /// stream.
    pub fn catch_up(&mut self, snapshot: NodeEvent, kept: Option<Timestamp>) {
        self.waiting = Some((snapshot, kept));
        self.catching_up = true;
    }

    /// Applies the waiting snapshot, since the events that it includes have come or are lost.
    pub fn caught_up(&mut self) {
        self.catching_up = false;
        if let Some((snapshot, kept)) = self.waiting.take() {
            self.step_kept(&snapshot, kept);
        }
    }

    /// Applies an event with its correlation id. Returns the lengths in seconds of the holes that
    /// it ended.
    pub fn event(&mut self, event: &NodeEvent, correlation: &str) -> Vec<f64> {
        self.event_kept(event, None, correlation)
    }

    /// [`event`](Self::event) with the time at which the bus took it, as
    /// [`PoolKeeper::step_kept`] uses it.
    pub fn event_kept(
        &mut self,
        event: &NodeEvent,
        kept: Option<Timestamp>,
        correlation: &str,
    ) -> Vec<f64> {
        if let Some((snapshot, snapshot_kept)) = &self.waiting {
            // An event may be dated long before the bus took it.
            let (taken, before) = match (kept, snapshot_kept) {
                (Some(kept), Some(snapshot_kept)) => (kept + ASTRIDE, *snapshot_kept),
                _ => (event.at, snapshot.at),
            };
            if self.catching_up && event.seq > snapshot.seq && taken < before {
                // The event has a later number, but is older: it is of an earlier numbering.
                return Vec::new();
            } else if event.seq > snapshot.seq {
                self.caught_up();
            } else if self.keeper.sync() == Sync::Waiting && event.seq > 1 {
                // The stream has lost its beginning. The holes of that time are unknown, and the
                // snapshot will set the present ones.
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
        let all_came = |snapshot: &NodeEvent| self.keeper.seq() >= snapshot.seq;
        if !self.catching_up && self.waiting.as_ref().is_some_and(|(s, _)| all_came(s)) {
            self.caught_up();
        }
        lengths(&changes)
    }

    /// Handles a past restart of the publisher before this event. The snapshot of that time is
    /// lost. The holes stay as they were, unless another trace began.
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

    /// Applies a snapshot, unless the past is still read. A snapshot that has overtaken events
    /// waits until they have come.
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
            self.waiting = Some((snapshot.clone(), kept));
            return Vec::new();
        }
        self.event_kept(snapshot, kept, correlation)
    }

    /// Whether events that a snapshot includes are still to come. Events in a gap are lost, and
    /// those of an earlier publisher do not count.
    fn has_overtaken(&self, snapshot: &NodeEvent) -> bool {
        let is_ahead = snapshot.seq > self.keeper.seq() && !self.keeper.has_jumped(snapshot.seq);
        is_ahead && self.keeper.sync() == Sync::Fresh
    }

    /// Whether a snapshot waits for the events that it includes.
    #[must_use]
    pub fn awaits_events(&self) -> bool {
        self.waiting.is_some()
    }

    fn step(&mut self, event: &NodeEvent) -> Changes {
        self.step_kept(event, None)
    }

    fn step_kept(&mut self, event: &NodeEvent, kept: Option<Timestamp>) -> Changes {
        let keeper = &self.keeper;
        self.models.prepare(event, || keeper.holes());
        let (newest, renumbered) = (keeper.newest_at(), keeper.counts().renumbered);
        let changes = self.keeper.step_kept(event, kept);
        let went_back = self.keeper.counts().renumbered > renumbered && event.at + RESTART < newest;
        let is_early = !self.catching_up && self.models.is_ahead_of(event.at);
        if went_back || is_early {
            // Another trace, or the same one from its beginning.
            self.models.reset();
            self.refresh.touch();
        }
        for change in &changes.list {
            match change {
                Change::Opened { hole, .. } if hole.since > event.at => {
                    self.anomalies.negative_holes += 1;
                }
                // Predictors that were reset do not know the holes of the old time.
                Change::Closed { .. } if went_back => continue,
                _ => {}
            }
            self.models.apply(change);
        }
        let is_announcement = matches!(
            event.kind,
            EventKind::JobPlanned { .. } | EventKind::Reservation { .. }
        );
        if is_announcement || !changes.is_empty() {
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
        let known = self.keeper.newest_at();
        let forecasts = self.models.forecast(now, known, &holes);
        PoolState {
            pool: forecasts.into_pool(now, self.keeper.seq(), holes),
            predictor: self.models.label(),
        }
    }

    /// Sets lock step, in which no result may depend on the duration of any work. Models are then
    /// fitted within the step, and the rival does not take over. Models are fitted within the step
    /// also while the past is read.
    pub fn set_lock_step(&mut self, is_lock_step: bool) {
        self.models.set_lock_step(is_lock_step);
        let is_live = self.ready() == Ready::Live;
        self.models.set_fits(if is_live && !is_lock_step {
            Fits::Outside
        } else {
            Fits::Inside
        });
    }

    /// The fit that is due and that the caller makes, so that no forecast waits for it.
    pub fn fit_task(&mut self) -> Option<FitTask> {
        self.models.fit_task()
    }

    /// Installs a fitted model between two events; `None` if the fit failed.
    pub fn install(&mut self, fitted: Option<Fitted>) {
        self.models.install(fitted);
    }

    /// The newest event that has been learnt; `None` before the pool is live.
    #[must_use]
    pub fn upto(&self) -> Option<Upto> {
        (self.ready() == Ready::Live).then(|| Upto {
            at: self.keeper.newest_at(),
            seq: self.keeper.seq(),
        })
    }

    /// The predictors and their scores.
    #[must_use]
    pub fn models(&self) -> &Models {
        &self.models
    }

    pub(crate) fn models_mut(&mut self) -> &mut Models {
        &mut self.models
    }

    /// Removes and returns the events of the predictors since the last call.
    pub fn take_events(&mut self) -> Vec<crate::ModelEvent> {
        self.models.take_events()
    }

    /// Anomalies of the event stream, counted.
    #[must_use]
    pub fn anomalies(&self) -> StreamAnomalies {
        StreamAnomalies {
            disorder: self.keeper.counts().backwards,
            ..self.anomalies
        }
    }

    /// The readiness of the pool.
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

    /// The number of the last event that is included.
    #[must_use]
    pub fn seq(&self) -> u64 {
        self.keeper.seq()
    }

    /// The number of present holes.
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

/// The lengths of holes with a seen end, seconds.
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
