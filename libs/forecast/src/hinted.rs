//! What the scheduler announces, on top of what a predictor believes. `promises` learns what the
//! announcements are worth, and this puts them into curves.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use lacuna_model::{Announced, Forecast, ForecastPoint, Hole, NodeId, Timestamp};
use serde::{Deserialize, Serialize};

use crate::promises::{self, Promises, Record, Word};
use crate::saved::{ModelError, open, seal};
use crate::{Choice, FitTask, Fits, Fitted, Forecasts, Learning, Predictor, Report, Saver};

/// A moment that has passed by more than this hides no later one.
const PAST_S: f64 = 60.0;

/// The step from before to after takes this many seconds, because a forecast's times strictly
/// increase.
const STEP_S: f64 = 0.001;

/// What sums of probabilities may be off.
const ROUNDING: f64 = 1e-9;

/// Version of what is saved.
const VERSION: u16 = 1;

/// How firmly an end is announced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Certainty {
    /// The hole does not last beyond the moment: a reservation, a limit.
    Hard,
    /// The hole is planned to end at the moment: a waiting job's planned start. It may be
    /// withdrawn, or come earlier or later.
    Soft,
}

/// An end that the scheduler announces.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hint {
    /// Of which hole.
    pub node: NodeId,
    /// When.
    pub at: Timestamp,
    /// How firmly.
    pub certainty: Certainty,
}

/// Adds what the scheduler announces to what another predictor believes.
///
/// What such words are worth is learnt as they come out ([`Promises`]): with the probabilities `e`
/// that a hole ends before the moment announced, `τ` from now, and `r` that it ends then, and with
/// the believed curve `S`, the curve is
///
/// ```text
/// 1 - e (1 - S(t)) / (1 - S(τ))    before τ
/// (1 - e - r) S(t) / S(τ)          after it
/// ```
///
/// For a hard announcement `e = 1 - S(τ)` and `r = S(τ)`, so that the hole lasts no longer; both
/// times the share of hard ones that came true, if more turn out false than true. Who decides by
/// forecasts is told of announcements apart ([`Forecasts::announced`]): nodes that are wanted for
/// one moment are wanted together.
pub struct Hinted {
    inner: Box<dyn Predictor>,
    numbers: HashMap<NodeId, u32>,
    promises: Promises,
    /// The nodes of which something is announced now.
    told: BTreeSet<u32>,
}

impl std::fmt::Debug for Hinted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hinted")
            .field("inner", &self.inner.label())
            .field("told", &self.told.len())
            .field("promises", &self.promises.memory())
            .finish_non_exhaustive()
    }
}

#[derive(Serialize, Deserialize)]
struct Memory {
    /// Not known of older files, which counted otherwise.
    #[serde(default)]
    promises: Option<promises::Memory>,
    inner: Option<Vec<u8>>,
}

impl Hinted {
    /// Nothing announced yet.
    #[must_use]
    pub fn new(inner: Box<dyn Predictor>) -> Self {
        Self {
            inner,
            numbers: HashMap::new(),
            promises: Promises::default(),
            told: BTreeSet::new(),
        }
    }

    /// What was saved of a predictor of this choice with hints.
    ///
    /// # Errors
    /// [`ModelError`] says what is wrong with the bytes.
    pub fn restore(choice: &Choice, bytes: &[u8]) -> Result<Self, ModelError> {
        let memory: Memory = open("hinted", VERSION, bytes)?;
        let inner = match memory.inner {
            Some(inner) => choice.restore(&inner)?,
            None => choice.build(),
        };
        let mut hinted = Self::new(inner);
        if let Some(promises) = &memory.promises {
            let damaged = |what: &str| ModelError::Damaged {
                what: what.to_owned(),
            };
            hinted.promises = Promises::restore(promises).map_err(damaged)?;
        }
        Ok(hinted)
    }

    /// How announcements of a kind turned out.
    #[must_use]
    pub fn record(&self, certainty: Certainty) -> Record {
        self.promises.record(certainty)
    }

    /// How many ends are announced now.
    #[must_use]
    pub fn announced_ends(&self) -> usize {
        self.told.len()
    }

    /// Whether any end was ever announced.
    fn has_heard(&self) -> bool {
        let judged = |certainty| {
            let record = self.record(certainty);
            record.came_true > 0 || record.proved_false > 0
        };
        !self.told.is_empty() || judged(Certainty::Hard) || judged(Certainty::Soft)
    }

    fn number(&mut self, node: &NodeId) -> u32 {
        if let Some(&number) = self.numbers.get(node) {
            return number;
        }
        let number = self.numbers.len() as u32;
        self.numbers.insert(node.clone(), number);
        self.promises.grow(self.numbers.len());
        number
    }

    /// The hole of a node is over; it ended at `at`, if that was seen.
    fn over(&mut self, node: &NodeId, at: Option<Timestamp>) {
        let Some(&number) = self.numbers.get(node) else {
            return;
        };
        match at {
            Some(at) => self.promises.ends(number, at.unix_seconds()),
            None => self.promises.lose(number),
        }
        self.told.remove(&number);
    }
}

/// The believed curve with what is announced in it.
fn adjusted(believed: &Forecast, word: Word) -> Forecast {
    let Word {
        after_s,
        early,
        kept,
    } = word;
    let then = believed.open_after(after_s);
    let before = |at_s: f64| {
        let ended = 1.0 - believed.open_after(at_s);
        // Who believes that none ends before has no opinion on when: any time is as good.
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
            believed.open_after(at_s) / then
        } else {
            0.0
        };
        late * share.min(1.0)
    };
    let point = |after_s, open| ForecastPoint { after_s, open };
    let times = || believed.points.iter().map(|point| point.after_s);
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

impl Predictor for Hinted {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn label(&self) -> String {
        if self.has_heard() {
            format!("{} with announced ends", self.inner.label())
        } else {
            self.inner.label()
        }
    }

    fn learning(&self) -> Learning {
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
        self.promises.freeze();
        self.inner.freeze();
    }

    fn hint(&mut self, now: Timestamp, hints: &[Hint]) {
        let mut told: BTreeMap<u32, (bool, Timestamp, Certainty)> = BTreeMap::new();
        for hint in hints {
            let is_past = now.since(hint.at).as_secs_f64() > PAST_S;
            let word = (is_past, hint.at, hint.certainty);
            // The earliest end to come counts; of two at one moment, the firmer.
            let entry = told.entry(self.number(&hint.node)).or_insert(word);
            *entry = (*entry).min(word);
        }
        for number in std::mem::take(&mut self.told) {
            if !told.contains_key(&number) {
                self.promises.says(number, f64::INFINITY, Certainty::Soft);
            }
        }
        for (&number, &(_, at, certainty)) in &told {
            self.promises.says(number, at.unix_seconds(), certainty);
        }
        self.promises.step(now.unix_seconds());
        self.told = told.into_keys().collect();
    }

    fn forecast(&mut self, now: Timestamp, holes: &[Hole]) -> Forecasts {
        let mut given = self.inner.forecast(now, holes);
        if self.told.is_empty() {
            return given;
        }
        let mut known: BTreeMap<(u32, [u64; 3]), u32> = BTreeMap::new();
        for (place, (hole, slot)) in (0u32..).zip(holes.iter().zip(&mut given.index)) {
            let Some(&number) = self.numbers.get(&hole.node) else {
                continue;
            };
            let otherwise = *slot;
            let nothing = Forecast::default();
            let believed = given.forecasts.get(otherwise as usize);
            let believed = believed.unwrap_or(&nothing);
            let open_after = |after_s: f64| believed.open_after(after_s);
            let word = self.promises.of(number, now.unix_seconds(), open_after);
            let Some(word) = word else {
                continue;
            };
            let Word {
                after_s,
                early,
                kept,
            } = word;
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
                    let adjusted = adjusted(believed, word);
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
            promises: Some(self.promises.memory()),
            inner: self.inner.save(),
        };
        seal("hinted", VERSION, &memory)
    }

    fn saver(&self) -> Option<Saver> {
        let (promises, inner) = (self.promises.memory(), self.inner.saver());
        Some(Box::new(move || {
            let memory = Memory {
                promises: Some(promises),
                inner: inner.and_then(|inner| inner()),
            };
            seal("hinted", VERSION, &memory)
        }))
    }
}
