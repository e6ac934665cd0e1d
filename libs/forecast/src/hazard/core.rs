//! The hazard on numbered nodes: what it keeps, how it learns, what it forecasts.

use super::curves::{GRID, Grouping};
use super::drift::Drift;
use super::features::FeatureRow;
use super::fit::{Fits, Trees};
use super::model::{Model, PerInterval};
use super::present::{By, Present};
use super::samples::{Fate, Samples};
use super::settings::{HazardSettings, Anomalies, OrderReport, OrderState};
use crate::co_departure::CoDeparture;
use crate::order::Taken;
use crate::{Evidence, Learning, Nodes, OrderBy, Typical};

/// A clock that goes back by more than this tells of another time, not of a disorder.
const ANOTHER_TIME_S: f64 = 3600.0;

/// So many half-lives are remembered.
const REMEMBERED: f64 = 4.0;

/// Without a half-life, so much is remembered, seconds: ten years.
const FOR_EVER_S: f64 = 3.2e8;

/// Time constant of the nodes taken of late, seconds.
const RECENT_S: f64 = 900.0;

/// An event's size counts for so much in the mean of late ones.
const EVENT_WEIGHT: f32 = 0.1;

/// The order is reconsidered once in so many leave events.
const RECONSIDERED: u64 = 16;

/// The present holes in the order in which the scheduler takes them, with their curves.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct View<'a> {
    /// Present nodes, first taken first.
    pub nodes: &'a [u32],
    /// For each of them, the place of its curve in `curves`.
    pub curve: &'a [u32],
    /// Probabilities of being open at each of [`GRID_S`](super::GRID_S), non-increasing.
    pub curves: &'a [[f32; GRID]],
    /// For each of `nodes` but the last, the probability that it and the next one end in the
    /// same event.
    pub link: &'a [f32],
}

/// What it is like on the machine of late.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct RecentEvents {
    taken: f64,
    pub(super) event_size: f32,
    last_event_s: Option<f64>,
    as_of_s: f64,
}

impl RecentEvents {
    fn fade(&mut self, now_s: f64) {
        self.taken *= (-(now_s - self.as_of_s).max(0.0) / RECENT_S).exp();
        self.as_of_s = now_s;
    }

    fn event(&mut self, now_s: f64, nodes: usize) {
        self.fade(now_s);
        self.taken += nodes as f64;
        let size = nodes as f32;
        self.event_size += if self.last_event_s.is_none() {
            size
        } else {
            EVENT_WEIGHT * (size - self.event_size)
        };
        self.last_event_s = Some(now_s);
    }

    /// Nodes a minute, and seconds since the last event.
    pub(super) fn seen(&self, now_s: f64) -> (f32, f32) {
        let fade = (-(now_s - self.as_of_s).max(0.0) / RECENT_S).exp();
        let rate = self.taken * fade / (RECENT_S / 60.0);
        let quiet = self
            .last_event_s
            .map_or(0.0, |last| (now_s - last).max(0.0));
        (rate as f32, quiet as f32)
    }
}

/// Learns from every step of a machine and forecasts its present holes. Times are seconds from
/// any fixed moment.
#[derive(Debug, Clone)]
pub struct HazardCore {
    pub(super) settings: HazardSettings,
    pub(super) present: Present,
    pub(super) samples: Samples,
    pub(super) links: CoDeparture,
    pub(super) typical: Typical,
    pub(super) given: Evidence,
    pub(super) by_taken: Evidence,
    pub(super) taken: Taken,
    pub(super) has_ranks: bool,
    pub(super) state: OrderState,
    pub(super) model: Option<Model>,
    pub(super) trees: Option<Trees>,
    pub(super) ended: u64,
    pub(super) ended_at_fit: u64,
    pub(super) fitted_s: f64,
    pub(super) fits: u64,
    pub(super) now_s: f64,
    pub(super) has_begun: bool,
    pub(super) learns: bool,
    pub(super) fitting: Fits,
    pub(super) is_fitting: bool,
    pub(super) recent: RecentEvents,
    pub(super) drift: Drift,
    pub(super) anomalies: Anomalies,
    // Room that is used again and again.
    pub(super) places: Vec<usize>,
    pub(super) rows: Vec<(u32, FeatureRow)>,
    pub(super) open: Vec<PerInterval>,
    pub(super) grouping: Grouping,
    pub(super) link: Vec<f32>,
}

impl HazardCore {
    /// Nothing learnt yet. `nodes` may be empty: nodes that turn up later are last in the order.
    #[must_use]
    pub fn new(nodes: Nodes, settings: HazardSettings) -> Self {
        let remembered = settings
            .half_life
            .map_or(FOR_EVER_S, |half| half.as_secs_f64() * REMEMBERED);
        let mut taken = Taken::default();
        taken.grow(nodes.count());
        Self {
            present: Present::new(nodes),
            samples: Samples::new(settings.samples, remembered, settings.seed),
            links: CoDeparture::default(),
            typical: Typical::default(),
            given: Evidence::default(),
            by_taken: Evidence::default(),
            taken,
            has_ranks: false,
            state: match settings.order {
                OrderBy::Learnt | OrderBy::None => OrderState::Released,
                OrderBy::Names | OrderBy::List(_) | OrderBy::Weights(_) => OrderState::Given,
            },
            model: None,
            trees: None,
            ended: 0,
            ended_at_fit: 0,
            fitted_s: f64::NEG_INFINITY,
            fits: 0,
            now_s: 0.0,
            has_begun: false,
            learns: true,
            fitting: Fits::Inside,
            is_fitting: false,
            recent: RecentEvents::default(),
            drift: Drift::default(),
            anomalies: Anomalies::default(),
            places: Vec::new(),
            rows: Vec::new(),
            open: Vec::new(),
            grouping: Grouping::default(),
            link: Vec::new(),
            settings,
        }
    }

    /// Takes other ranks or blocks, or more nodes; numbers stay what they are.
    pub fn renumber(&mut self, nodes: Nodes) {
        self.taken.grow(nodes.count());
        self.present.renumber(nodes);
    }

    /// Nodes leave the pool, then others join it, each with the start of its hole. All of one
    /// call is one event.
    pub fn step(&mut self, now_s: f64, closed: &[u32], opened: &[(u32, f64)]) {
        let now_s = self.clock(now_s);
        for &node in closed {
            if self.present.mark(node) {
                let began = self.present.slot(node).since_s;
                self.anomalies.negative += u64::from(now_s < began);
            } else {
                self.anomalies.unknown_end += 1;
            }
        }
        if !self.present.leaving.is_empty() {
            self.leave(now_s);
        }
        self.join(now_s, opened);
        if self.learns {
            self.sample(now_s);
            self.follow(now_s);
            if !matches!(self.fitting, Fits::Outside) && self.is_fit_due(now_s) {
                self.refit(now_s);
            }
        }
    }

    /// From now on it watches and learns no more.
    pub fn freeze(&mut self) {
        self.learns = false;
    }

    /// A node's hole ended unseen, some time after `last_seen_s`. Nothing is learnt from its end.
    pub fn lose(&mut self, node: u32, last_seen_s: f64) {
        if self.present.mark(node) {
            self.samples.settle(node, last_seen_s, Fate::Censored);
            self.present.remove_marked();
        } else {
            self.anomalies.unknown_end += 1;
        }
    }

    /// The present holes with their curves as of `now_s`, first taken first.
    pub fn forecast(&mut self, now_s: f64) -> View<'_> {
        let now_s = self.clock(now_s);
        let by = self.by();
        let holes = self.present.list(by).len();
        if let Some(model) = self.model.take() {
            self.look(now_s, |_| true);
            self.open.clear();
            let mut last: Option<(FeatureRow, PerInterval)> = None;
            for &(_, row) in &self.rows {
                // Neighbours often look alike to the last level.
                let open = match last {
                    Some((known, open)) if known == row => open,
                    _ => model.open(&row, &self.drift.shift),
                };
                last = Some((row, open));
                self.open.push(open);
            }
            self.grouping.group(&self.open);
            self.model = Some(model);
        } else {
            let mean_s = self.settings.fallback.as_secs_f64();
            self.grouping.alike(holes, mean_s);
        }
        self.link.clear();
        let list = self.present.list(by);
        for (&a, &b) in list.iter().zip(list.iter().skip(1)) {
            self.link.push(self.links.of(self.present.pair_features(a, b)));
        }
        View {
            nodes: self.present.list(by),
            curve: &self.grouping.index,
            curves: &self.grouping.curves,
            link: &self.link,
        }
    }

    /// Probability that two present nodes, neighbours in the order, end in the same event.
    #[must_use]
    pub fn link(&self, node: u32, next: u32) -> f32 {
        self.links.of(self.present.pair_features(node, next))
    }

    /// Whether a node's hole is present, and since when.
    #[must_use]
    pub fn present_since(&self, node: u32) -> Option<f64> {
        let slot = self.present.slot(node);
        slot.is_present.then_some(slot.since_s)
    }

    /// Median length of the holes that ended of late, seconds, once enough have.
    #[must_use]
    pub fn typical_s(&self) -> Option<f64> {
        self.typical.median_s()
    }

    /// How much has been learnt.
    #[must_use]
    pub fn learning(&self) -> Learning {
        if self.model.is_some() {
            Learning::Learnt { ended: self.ended }
        } else {
            Learning::Young {
                ended: self.ended,
                needed: self.settings.needed,
            }
        }
    }

    /// The order, and the evidence for it.
    #[must_use]
    pub fn order(&self) -> OrderReport {
        OrderReport {
            state: self.state,
            given: self.given,
            taken: self.by_taken,
        }
    }

    /// What came in that should not have.
    #[must_use]
    pub fn anomalies(&self) -> Anomalies {
        self.anomalies
    }

    /// How often a model was fitted.
    #[must_use]
    pub fn fits(&self) -> u64 {
        self.fits
    }

    pub(super) fn by(&self) -> By {
        match self.state {
            OrderState::Given | OrderState::Reversed => By::Rank,
            OrderState::Taken => By::Taken,
            OrderState::Released => By::Release,
        }
    }

    /// Time goes on, whatever the clock says.
    fn clock(&mut self, now_s: f64) -> f64 {
        if !now_s.is_finite() {
            self.anomalies.clock_back += 1;
        } else if !std::mem::replace(&mut self.has_begun, true) {
            // What was saved may have been of a later time.
            self.turn_back(now_s);
        } else if now_s >= self.now_s {
            self.now_s = now_s;
        } else {
            self.anomalies.clock_back += 1;
            if now_s < self.now_s - ANOTHER_TIME_S {
                self.turn_back(now_s);
            }
        }
        self.now_s
    }

    /// The clock was wrong, or is now: what it said of later than now tells nothing. Holes that
    /// are there began by now.
    fn turn_back(&mut self, now_s: f64) {
        self.samples.turn_back(now_s);
        self.present.turn_back(now_s);
        self.recent = RecentEvents::default();
        self.drift.restart();
        if self.fitted_s > now_s {
            // By lengths across the jump: the next end makes another model due.
            self.fitted_s = f64::NEG_INFINITY;
        }
        self.now_s = now_s;
    }

    /// The marked nodes leave.
    fn leave(&mut self, now_s: f64) {
        let by = self.by();
        if self.learns {
            self.witness(by);
        }
        if self.state.is_order() {
            self.present.pass_over(by);
        }
        self.recent.event(now_s, self.present.leaving.len());
        self.ended += self.present.leaving.len() as u64;
        for &node in &self.present.leaving {
            self.samples.settle(node, now_s, Fate::Ended);
            self.typical.add(now_s - self.present.slot(node).since_s);
        }
        self.present.remove_marked();
        if self.learns && self.given.events().is_multiple_of(RECONSIDERED) {
            self.reconsider();
        }
    }

    fn join(&mut self, now_s: f64, opened: &[(u32, f64)]) {
        if opened.is_empty() {
            return;
        }
        let mut joining = Vec::with_capacity(opened.len());
        for &(node, since_s) in opened {
            if !self.present.make_room(node) {
                self.anomalies.unordered += 1;
                self.taken.grow(node as usize + 1);
            }
            let began = if since_s <= now_s {
                since_s
            } else {
                self.anomalies.negative += 1;
                now_s
            };
            if self.present.mark(node) {
                // Its old hole ended unseen.
                self.anomalies.reopened += 1;
                self.samples.settle(node, now_s, Fate::Censored);
            }
            joining.push((node, began));
        }
        self.present.remove_marked();
        // A node that is told twice begins once.
        joining.sort_by(|a, b| a.0.cmp(&b.0).then(b.1.total_cmp(&a.1)));
        let told = joining.len();
        joining.dedup_by_key(|hole| hole.0);
        self.anomalies.reopened += (told - joining.len()) as u64;
        self.present.open(&joining);
    }
}
