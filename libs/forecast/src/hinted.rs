//! What the scheduler announces, on top of what a predictor believes.

use std::collections::{BTreeMap, HashMap};

use lacuna_model::{Forecast, ForecastPoint, Hole, Joint, NodeId, Timestamp};
use serde::{Deserialize, Serialize};

use crate::saved::{ModelError, open, seal};
use crate::{Choice, FitTask, Fits, Fitted, Forecasts, Learning, Predictor, Report, Saver};

/// A hole that ends within so many seconds of the moment announced ends as announced.
const TOLERANCE_S: f64 = 120.0;

/// A moment announced that is not further off than this, or past, is about to come.
const SOONEST_S: f64 = 30.0;

/// The step from before to after takes this many seconds, because a forecast's times strictly
/// increase.
const STEP_S: f64 = 0.001;

/// What an announcement weighs fades over about so many later ones of its kind.
const REMEMBERED: f64 = 500.0;

/// So many announcements must have been settled before hard ones are doubted.
const ENOUGH: f64 = 10.0;

/// An announcement that comes true at least so often says which nodes are taken next.
const LIKELY: f64 = 0.5;

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

/// How announcements of one kind turned out.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Record {
    kept: f64,
    broken: f64,
    /// Announcements that came true, ever.
    pub came_true: u64,
    /// Announcements that did not: withdrawn, moved, too early or too late.
    pub proved_false: u64,
}

impl Record {
    fn settle(&mut self, came_true: bool) {
        let fade = 1.0 - 1.0 / REMEMBERED;
        (self.kept, self.broken) = (self.kept * fade, self.broken * fade);
        if came_true {
            self.kept += 1.0;
            self.came_true = self.came_true.saturating_add(1);
        } else {
            self.broken += 1.0;
            self.proved_false = self.proved_false.saturating_add(1);
        }
    }

    /// Probability that the next one comes true: the mean of a Beta distribution that began as
    /// uniform.
    #[must_use]
    pub fn reliability(&self) -> f64 {
        (self.kept + 1.0) / (self.kept + self.broken + 2.0)
    }

    fn is_doubtful(&self) -> bool {
        self.kept + self.broken >= ENOUGH && self.reliability() < 0.5
    }
}

/// Adds what the scheduler announces to what another predictor believes.
///
/// With the believed curve `S` and an end announced `τ` from now: a hard announcement makes the
/// curve `S(t)` before `τ` and 0 after it. A soft one makes it `(1 - r) S(t) + r [t < τ]`, with
/// the share `r` of such announcements that came true so far. Hard ones that turn out false more
/// often than true make it `(1 - r) S(t)` after `τ`, with the share `r` of their own kind. Where an
/// order is known, holes with an end announced go to its front, if that is likely to come true.
pub struct Hinted {
    inner: Box<dyn Predictor>,
    present: HashMap<NodeId, (Timestamp, Certainty)>,
    records: [Record; 2],
    learns: bool,
}

impl std::fmt::Debug for Hinted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hinted")
            .field("inner", &self.inner.label())
            .field("present", &self.present.len())
            .field("records", &self.records)
            .finish_non_exhaustive()
    }
}

#[derive(Serialize, Deserialize)]
struct Memory {
    records: [Record; 2],
    inner: Option<Vec<u8>>,
}

impl Hinted {
    /// Nothing announced yet.
    #[must_use]
    pub fn new(inner: Box<dyn Predictor>) -> Self {
        Self {
            inner,
            present: HashMap::new(),
            records: [Record::default(); 2],
            learns: true,
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
        Ok(Self {
            records: memory.records,
            ..Self::new(inner)
        })
    }

    /// How announcements of a kind turned out.
    #[must_use]
    pub fn record(&self, certainty: Certainty) -> &Record {
        let [hard, soft] = &self.records;
        match certainty {
            Certainty::Hard => hard,
            Certainty::Soft => soft,
        }
    }

    /// How many ends are announced now.
    #[must_use]
    pub fn announced_ends(&self) -> usize {
        self.present.len()
    }

    /// Whether any end was ever announced.
    fn has_heard(&self) -> bool {
        let told = |record: &Record| record.came_true > 0 || record.proved_false > 0;
        !self.present.is_empty() || self.records.iter().any(told)
    }

    fn settle(&mut self, certainty: Certainty, came_true: bool) {
        if self.learns {
            let [hard, soft] = &mut self.records;
            match certainty {
                Certainty::Hard => hard.settle(came_true),
                Certainty::Soft => soft.settle(came_true),
            }
        }
    }

    /// What is announced for a node: seconds from now, of what kind, and how far that kind has
    /// earned to be believed.
    fn announced(&self, node: &NodeId, now: Timestamp) -> Option<Announced> {
        let &(at, certainty) = self.present.get(node)?;
        let record = self.record(certainty);
        let trust = match certainty {
            Certainty::Hard if !record.is_doubtful() => 1.0,
            Certainty::Hard | Certainty::Soft => record.reliability(),
        };
        Some(Announced {
            after_s: at.since(now).as_secs_f64().max(SOONEST_S),
            certainty,
            trust,
        })
    }

    fn adjusted(believed: &Forecast, announced: Announced) -> Forecast {
        let Announced {
            after_s,
            certainty,
            trust,
        } = announced;
        let open = |at_s: f64, is_before: bool| {
            let believed = believed.open_after(at_s);
            match (certainty, is_before) {
                // A hard end is the latest that there can be.
                (Certainty::Hard, true) => believed,
                (Certainty::Soft, true) => (1.0 - trust) * believed + trust,
                (_, false) => (1.0 - trust) * believed,
            }
        };
        let point = |after_s, is_before| ForecastPoint {
            after_s,
            open: open(after_s, is_before),
        };
        let times = || believed.points.iter().map(|point| point.after_s);
        let mut points: Vec<ForecastPoint> = times()
            .filter(|&at| at < after_s)
            .map(|at| point(at, true))
            .collect();
        points.push(point(after_s, true));
        points.push(point(after_s + STEP_S, false));
        points.extend(
            times()
                .filter(|&at| at > after_s + STEP_S)
                .map(|at| point(at, false)),
        );
        Forecast { points }
    }

    /// The hole ended at a moment: whether that was as announced.
    fn ended(&mut self, node: &NodeId, at: Timestamp) {
        if let Some((announced, certainty)) = self.present.remove(node) {
            let late_s = at.since(announced).as_secs_f64();
            let came_true = match certainty {
                Certainty::Hard => late_s <= TOLERANCE_S,
                Certainty::Soft => late_s.abs() <= TOLERANCE_S,
            };
            self.settle(certainty, came_true);
        }
    }
}

/// What is announced for a hole.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Announced {
    /// Its end, seconds from now.
    after_s: f64,
    /// Of what kind.
    certainty: Certainty,
    /// Probability that it comes true.
    trust: f64,
}

/// The order with those first whose end is likely as announced, the soonest foremost: the
/// scheduler has said that it takes them. Links follow: two ends announced for one moment come
/// together, one announced for one hole alone tears it from the other, and holes that were not
/// neighbours are tied by nothing.
fn announced_first(joint: &Joint, announced: &[Option<Announced>]) -> Joint {
    let of = |place: u32| announced.get(place as usize).copied().flatten();
    let mut before: Vec<Option<(u32, f32)>> = vec![None; announced.len()];
    let pairs = joint.order.iter().zip(joint.order.iter().skip(1));
    for ((place, next), link) in pairs.zip(&joint.link) {
        if let Some(slot) = before.get_mut(*next as usize) {
            *slot = Some((*place, *link));
        }
    }
    let mut order = joint.order.clone();
    // A stable sort: among the others, and among equals, the order stands.
    order.sort_by(|a, b| {
        let end = |place: &u32| match of(*place) {
            Some(told) if told.trust >= LIKELY => told.after_s,
            _ => f64::INFINITY,
        };
        end(a).total_cmp(&end(b))
    });
    let link = order
        .iter()
        .zip(order.iter().skip(1))
        .map(|(&place, &next)| {
            let known = before.get(next as usize).copied().flatten();
            let known = known.map_or(0.0, |(was, link)| if was == place { link } else { 0.0 });
            match (of(place), of(next)) {
                (None, None) => known,
                (Some(a), Some(b)) if (a.after_s - b.after_s).abs() <= TOLERANCE_S => {
                    known.max((a.trust * b.trust) as f32)
                }
                // What is announced for one alone tears it from the other.
                (a, b) => {
                    let torn = a.into_iter().chain(b).map(|told| told.trust as f32);
                    known * (1.0 - torn.fold(0.0, f32::max))
                }
            }
        })
        .collect();
    Joint {
        source: joint.source,
        order,
        link,
        typical_s: joint.typical_s,
    }
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
        self.ended(&hole.node, at);
        self.inner.closed(hole, at);
    }

    fn lost(&mut self, hole: &Hole, last_seen: Timestamp) {
        self.present.remove(&hole.node);
        self.inner.lost(hole, last_seen);
    }

    fn freeze(&mut self) {
        self.learns = false;
        self.inner.freeze();
    }

    fn hint(&mut self, now: Timestamp, hints: &[Hint]) {
        let mut told: HashMap<NodeId, (Timestamp, Certainty)> = HashMap::new();
        for hint in hints {
            let entry = told
                .entry(hint.node.clone())
                .or_insert((hint.at, hint.certainty));
            // The earliest end counts; of two at one moment, the firmer.
            *entry = (*entry).min((hint.at, hint.certainty));
        }
        let mut settled = Vec::new();
        for (node, &(at, certainty)) in &self.present {
            let is_over = now.since(at).as_secs_f64() > TOLERANCE_S;
            let stands = told.get(node).is_some_and(|&(newer, kind)| {
                kind == certainty && newer.since(at).as_secs_f64().abs() <= TOLERANCE_S
            });
            if is_over || !stands {
                settled.push(certainty);
            }
        }
        // All of these are false: withdrawn, moved, or past while the hole is still there.
        for certainty in settled {
            self.settle(certainty, false);
        }
        told.retain(|_, (at, _)| now.since(*at).as_secs_f64() <= TOLERANCE_S);
        self.present = told;
    }

    fn forecast(&mut self, now: Timestamp, holes: &[Hole]) -> Forecasts {
        let mut given = self.inner.forecast(now, holes);
        let announced: Vec<Option<Announced>> = holes
            .iter()
            .map(|hole| self.announced(&hole.node, now))
            .collect();
        let mut known: BTreeMap<(u32, u64, Certainty), u32> = BTreeMap::new();
        for (slot, announced) in given.index.iter_mut().zip(&announced) {
            let Some(announced) = *announced else {
                continue;
            };
            let key = (*slot, announced.after_s.to_bits(), announced.certainty);
            *slot = match known.get(&key) {
                Some(&known) => known,
                None => {
                    let believed = given.forecasts.get(*slot as usize);
                    let adjusted =
                        Self::adjusted(believed.unwrap_or(&Forecast::default()), announced);
                    let number = given.forecasts.len() as u32;
                    given.forecasts.push(adjusted);
                    known.insert(key, number);
                    number
                }
            };
        }
        if let Some(joint) = &mut given.joint {
            *joint = announced_first(joint, &announced);
        }
        given
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
            records: self.records,
            inner: self.inner.save(),
        };
        seal("hinted", VERSION, &memory)
    }

    fn saver(&self) -> Option<Saver> {
        let (records, inner) = (self.records, self.inner.saver());
        Some(Box::new(move || {
            let memory = Memory {
                records,
                inner: inner.and_then(|inner| inner()),
            };
            seal("hinted", VERSION, &memory)
        }))
    }
}
