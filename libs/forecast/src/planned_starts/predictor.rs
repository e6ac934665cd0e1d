//! A predictor whose curves include planned starts and reservations.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use lacuna_model::{Announced, Forecast, ForecastPoint, Hole, NodeId, Timestamp};
use serde::{Deserialize, Serialize};

use super::announced_end::{AnnouncedEnd, EndKind};
use super::outcomes::TrackRecord;
use super::tracker::{self, EndOdds, EndTracker};
use crate::saved::{ModelError, open, seal};
use crate::{Choice, FitTask, Fits, Fitted, Forecasts, LearningStage, Predictor, Report, Saver};

/// An announced time that has passed by more than this, in seconds, yields to a later one.
const PAST_S: f64 = 60.0;

/// The drop at the announced time takes this many seconds, because a forecast's times strictly
/// increase.
const STEP_S: f64 = 0.001;

/// The rounding error that a sum of probabilities may have.
const ROUNDING: f64 = 1e-9;

/// The name in saved models.
const NAME: &str = "planned starts";

/// The version of the saved format.
const VERSION: u16 = 1;

/// Adds planned starts and reservations to the curves of another predictor.
///
/// The odds of announced ends are learnt from their outcomes ([`EndTracker`]). Let `e` be the
/// probability that a hole ends before the announced time `τ` (from now), `r` the probability
/// that it ends at that time, and `S` the curve of the other predictor. The curve is then
///
/// ```text
/// 1 - e (1 - S(t)) / (1 - S(τ))    before τ
/// (1 - e - r) S(t) / S(τ)          after it
/// ```
///
/// A reservation has `e = 1 - S(τ)` and `r = S(τ)`, so the hole lasts no longer than `τ`. If more
/// reservations prove false than true, both are multiplied by the share that came true.
/// [`Forecasts::announced`] lists the announced ends as well: nodes that are wanted for the same
/// time are wanted together.
pub struct WithPlannedStarts {
    inner: Box<dyn Predictor>,
    numbers: HashMap<NodeId, u32>,
    tracker: EndTracker,
    /// The nodes with an announced end.
    announced: BTreeSet<u32>,
}

impl std::fmt::Debug for WithPlannedStarts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WithPlannedStarts")
            .field("inner", &self.inner.label())
            .field("announced", &self.announced.len())
            .field("tracker", &self.tracker.memory())
            .finish_non_exhaustive()
    }
}

#[derive(Serialize, Deserialize)]
struct Memory {
    /// Absent in older files, which counted otherwise.
    #[serde(default, rename = "promises")]
    tracker: Option<tracker::Memory>,
    inner: Option<Vec<u8>>,
}

impl WithPlannedStarts {
    /// Wraps a predictor; no end is announced yet.
    #[must_use]
    pub fn new(inner: Box<dyn Predictor>) -> Self {
        Self {
            inner,
            numbers: HashMap::new(),
            tracker: EndTracker::default(),
            announced: BTreeSet::new(),
        }
    }

    /// Restores a predictor of this choice, with the outcomes of announced ends, from the bytes of
    /// [`save`](Predictor::save).
    ///
    /// # Errors
    /// [`ModelError`] if the bytes are damaged, or of another predictor or version.
    pub fn restore(choice: &Choice, bytes: &[u8]) -> Result<Self, ModelError> {
        Self::restore_with(bytes, |inner| match inner {
            Some(inner) => choice.restore(inner),
            None => Ok(choice.build()),
        })
    }

    /// [`restore`](Self::restore) of a predictor that `inner` makes of its bytes, if it has any.
    ///
    /// # Errors
    /// As [`restore`](Self::restore).
    pub fn restore_with(
        bytes: &[u8],
        inner: impl FnOnce(Option<&[u8]>) -> Result<Box<dyn Predictor>, ModelError>,
    ) -> Result<Self, ModelError> {
        let memory: Memory = open(NAME, VERSION, bytes)?;
        let inner = inner(memory.inner.as_deref())?;
        let mut restored = Self::new(inner);
        if let Some(tracker) = &memory.tracker {
            let damaged = |what: &str| ModelError::Damaged {
                what: what.to_owned(),
            };
            restored.tracker = EndTracker::restore(tracker).map_err(damaged)?;
        }
        Ok(restored)
    }

    /// The track record of announced ends of a kind.
    #[must_use]
    pub fn record(&self, kind: EndKind) -> TrackRecord {
        self.tracker.record(kind)
    }

    /// The number of holes with an announced end.
    #[must_use]
    pub fn announced_ends(&self) -> usize {
        self.announced.len()
    }

    /// Whether an end is announced, or the outcome of an earlier one is known.
    fn has_announcements(&self) -> bool {
        let judged = |kind| {
            let record = self.record(kind);
            record.came_true > 0 || record.proved_false > 0
        };
        !self.announced.is_empty() || judged(EndKind::Reservation) || judged(EndKind::PlannedStart)
    }

    fn number(&mut self, node: &NodeId) -> u32 {
        if let Some(&number) = self.numbers.get(node) {
            return number;
        }
        let number = self.numbers.len() as u32;
        self.numbers.insert(node.clone(), number);
        self.tracker.grow(self.numbers.len());
        number
    }

    /// Records that the hole of a node is over. `at` is its end, if that was seen.
    fn over(&mut self, node: &NodeId, at: Option<Timestamp>) {
        let Some(&number) = self.numbers.get(node) else {
            return;
        };
        match at {
            Some(at) => self.tracker.ended(number, at.unix_seconds()),
            None => self.tracker.lost(number),
        }
        self.announced.remove(&number);
    }
}

/// The curve of the other predictor with the odds of an announced end in it.
fn adjusted(curve: &Forecast, odds: EndOdds) -> Forecast {
    let EndOdds {
        after_s,
        early,
        kept,
    } = odds;
    let then = curve.open_after(after_s);
    let before = |at_s: f64| {
        let ended = 1.0 - curve.open_after(at_s);
        // A curve that has no end before the announced time gives no times: they are uniform.
        let share = if then < 1.0 {
            ended / (1.0 - then)
        } else {
            at_s / after_s
        };
        1.0 - early * share.min(1.0)
    };
    let late = 1.0 - early - kept;
    let late = if late > ROUNDING { late } else { 0.0 };
    let after = |at_s: f64| {
        let share = if then > 0.0 {
            curve.open_after(at_s) / then
        } else {
            0.0
        };
        late * share.min(1.0)
    };
    let point = |after_s, open| ForecastPoint { after_s, open };
    let times = || curve.points.iter().map(|point| point.after_s);
    let mut points: Vec<ForecastPoint> = times()
        .filter(|&at| at < after_s)
        .map(|at| point(at, before(at)))
        .collect();
    points.push(point(after_s, before(after_s)));
    let step_s = after_s + STEP_S;
    points.push(point(step_s, after(step_s).min(before(after_s))));
    points.extend(
        times()
            .filter(|&at| at > step_s)
            .map(|at| point(at, after(at))),
    );
    Forecast { points }
}

impl Predictor for WithPlannedStarts {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn label(&self) -> String {
        if self.has_announcements() {
            format!("{} with announced ends", self.inner.label())
        } else {
            self.inner.label()
        }
    }

    fn learning(&self) -> LearningStage {
        self.inner.learning()
    }

    fn opened(&mut self, hole: &Hole, seen: Timestamp) {
        self.inner.opened(hole, seen);
    }

    fn closed(&mut self, hole: &Hole, at: Timestamp) {
        self.over(&hole.node, Some(at));
        self.inner.closed(hole, at);
    }

    fn lost(&mut self, hole: &Hole, last_seen: Timestamp) {
        self.over(&hole.node, None);
        self.inner.lost(hole, last_seen);
    }

    fn freeze(&mut self) {
        self.tracker.freeze();
        self.inner.freeze();
    }

    fn announce(&mut self, now: Timestamp, ends: &[AnnouncedEnd]) {
        let mut announced: BTreeMap<u32, (bool, Timestamp, EndKind)> = BTreeMap::new();
        for end in ends {
            let is_past = now.since(end.at).as_secs_f64() > PAST_S;
            let candidate = (is_past, end.at, end.kind);
            // The earliest end to come counts; at equal times, a reservation.
            let entry = announced.entry(self.number(&end.node)).or_insert(candidate);
            *entry = (*entry).min(candidate);
        }
        for number in std::mem::take(&mut self.announced) {
            if !announced.contains_key(&number) {
                self.tracker
                    .announce(number, f64::INFINITY, EndKind::PlannedStart);
            }
        }
        for (&number, &(_, at, kind)) in &announced {
            self.tracker.announce(number, at.unix_seconds(), kind);
        }
        self.tracker.step(now.unix_seconds());
        self.announced = announced.into_keys().collect();
    }

    fn forecast(&mut self, now: Timestamp, holes: &[Hole]) -> Forecasts {
        let mut given = self.inner.forecast(now, holes);
        if self.announced.is_empty() {
            return given;
        }
        let mut known: BTreeMap<(u32, [u64; 3]), u32> = BTreeMap::new();
        for (place, (hole, slot)) in (0u32..).zip(holes.iter().zip(&mut given.index)) {
            let Some(&number) = self.numbers.get(&hole.node) else {
                continue;
            };
            let otherwise = *slot;
            let nothing = Forecast::default();
            let curve = given.forecasts.get(otherwise as usize);
            let curve = curve.unwrap_or(&nothing);
            let open_after = |after_s: f64| curve.open_after(after_s);
            let odds = self.tracker.odds(number, now.unix_seconds(), open_after);
            let Some(odds) = odds else {
                continue;
            };
            let EndOdds {
                after_s,
                early,
                kept,
            } = odds;
            given.announced.push(Announced {
                hole: place,
                after_s,
                early,
                kept,
                otherwise,
            });
            let key = (otherwise, [after_s, early, kept].map(f64::to_bits));
            *slot = match known.get(&key) {
                Some(&known) => known,
                None => {
                    let number = given.forecasts.len() as u32;
                    let adjusted = adjusted(curve, odds);
                    given.forecasts.push(adjusted);
                    known.insert(key, number);
                    number
                }
            };
        }
        given
    }

    fn take_in(&mut self) {
        self.inner.take_in();
    }

    fn report(&self) -> Report {
        self.inner.report()
    }

    fn set_fits(&mut self, fits: Fits) {
        self.inner.set_fits(fits);
    }

    fn fit_task(&mut self) -> Option<FitTask> {
        self.inner.fit_task()
    }

    fn install(&mut self, fitted: Option<Fitted>) {
        self.inner.install(fitted);
    }

    fn save(&self) -> Option<Vec<u8>> {
        let memory = Memory {
            tracker: Some(self.tracker.memory()),
            inner: self.inner.save(),
        };
        seal(NAME, VERSION, &memory)
    }

    fn saver(&self) -> Option<Saver> {
        let (tracker, inner) = (self.tracker.memory(), self.inner.saver());
        Some(Box::new(move || {
            let memory = Memory {
                tracker: Some(tracker),
                inner: inner.and_then(|inner| inner()),
            };
            seal(NAME, VERSION, &memory)
        }))
    }
}
