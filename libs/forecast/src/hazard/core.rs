//! The hazard on numbered nodes: its state, its steps and its forecasts.

use super::curves::{GRID, Grouping};
use super::drift::Drift;
use super::features::FeatureRow;
use super::fit::{Fits, Trees};
use super::model::{EDGES_S, Model, PerInterval};
use super::present::{By, Present};
use super::samples::{Fate, Samples};
use super::settings::{Anomalies, HazardSettings, OrderReport, OrderState};
use super::trust::{Trust, mixed};
use crate::co_departure::{CoDeparture, STRATA};
use crate::lengths::{Lengths, Mixture};
use crate::order::Taken;
use crate::{Evidence, LearningStage, MachinePrior, Nodes, OrderBy, Typical};

/// A clock that goes back by more than this, in seconds, has restarted; less is a disorder.
const RESTART_S: f64 = 3600.0;

/// Samples are kept for this many half-lives.
const REMEMBERED: f64 = 4.0;

/// Samples are kept for this time without a half-life, seconds: ten years.
const NO_DECAY_S: f64 = 3.2e8;

/// The time constant of the recent rate, seconds.
const RECENT_S: f64 = 900.0;

/// The weight of the newest event in the mean event size.
const EVENT_WEIGHT: f32 = 0.1;

/// The order is reconsidered after this many leave events.
const RECONSIDERED: u64 = 16;

/// The present holes in the order in which the scheduler takes them, with their curves.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct View<'a> {
    /// The present nodes, first taken first.
    pub nodes: &'a [u32],
    /// The place in `curves` of the curve of each node.
    pub curve: &'a [u32],
    /// Probabilities of being open at each of [`GRID_S`](super::GRID_S), non-increasing.
    pub curves: &'a [[f32; GRID]],
    /// The probability that a node and the next one end in the same event, for each of `nodes` but
    /// the last.
    pub link: &'a [f32],
}

/// The recent leave events of the machine: their rate and mean size.
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

    /// The recent rate (nodes a minute), and the seconds since the last event.
    pub(super) fn rate_and_quiet(&self, now_s: f64) -> (f32, f32) {
        let fade = (-(now_s - self.as_of_s).max(0.0) / RECENT_S).exp();
        let rate = self.taken * fade / (RECENT_S / 60.0);
        let quiet = self
            .last_event_s
            .map_or(0.0, |last| (now_s - last).max(0.0));
        (rate as f32, quiet as f32)
    }
}

/// Learns from every step of a machine and forecasts its present holes. Times are seconds from any
/// fixed origin.
#[derive(Debug, Clone)]
pub struct HazardCore {
    pub(super) settings: HazardSettings,
    pub(super) present: Present,
    pub(super) samples: Samples,
    pub(super) links: CoDeparture,
    pub(super) typical: Typical,
    pub(super) lengths: Lengths,
    /// The shares of neighbours that end together, as expected by age.
    pub(super) expected: [f32; STRATA],
    pub(super) given: Evidence,
    pub(super) by_taken: Evidence,
    pub(super) taken: Taken,
    pub(super) has_ranks: bool,
    pub(super) state: OrderState,
    pub(super) model: Option<Model>,
    pub(super) trust: Trust,
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
    // Buffers that are used again.
    pub(super) places: Vec<usize>,
    pub(super) rows: Vec<(u32, FeatureRow)>,
    pub(super) open: Vec<PerInterval>,
    pub(super) grouping: Grouping,
    pub(super) link: Vec<f32>,
}

impl HazardCore {
    /// A hazard that has learnt nothing yet. `nodes` may be empty: later nodes come last in the
    /// order.
    #[must_use]
    pub fn new(nodes: Nodes, settings: HazardSettings) -> Self {
        let remembered = settings
            .half_life
            .map_or(NO_DECAY_S, |half| half.as_secs_f64() * REMEMBERED);
        let mut taken = Taken::default();
        taken.grow(nodes.count());
        Self {
            present: Present::new(nodes),
            samples: Samples::new(settings.samples, remembered, settings.seed),
            links: CoDeparture::default(),
            typical: Typical::default(),
            lengths: Lengths::new(settings.prior.clone(), settings.half_life.is_some()),
            expected: [0.5; STRATA],
            given: Evidence::default(),
            by_taken: Evidence::default(),
            taken,
            has_ranks: false,
            state: match settings.order {
                OrderBy::Learnt | OrderBy::None => OrderState::Released,
                OrderBy::Names | OrderBy::List(_) | OrderBy::Weights(_) => OrderState::Given,
            },
            model: None,
            trust: Trust::default(),
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

    /// Sets new ranks and blocks, or adds nodes. The numbers of nodes stay the same.
    pub fn renumber(&mut self, nodes: Nodes) {
        self.taken.grow(nodes.count());
        self.present.renumber(nodes);
    }

    /// Closes the holes of some nodes, then opens others, each with its start. All changes of one
    /// call are one event.
    pub fn step(&mut self, now_s: f64, closed: &[u32], opened: &[(u32, f64)]) {
        let now_s = self.clock(now_s);
        self.judge(now_s);
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
            self.compare(now_s);
            self.follow(now_s);
            if !matches!(self.fitting, Fits::Outside) && self.is_fit_due(now_s) {
                self.refit(now_s);
            }
        }
    }

    /// Stops learning; holes are still followed.
    pub fn freeze(&mut self) {
        self.learns = false;
    }

    /// Records that the hole of a node ended unseen, some time after `last_seen_s`. Its samples are
    /// censored.
    pub fn lose(&mut self, node: u32, last_seen_s: f64) {
        if self.present.mark(node) {
            self.lengths.watch(self.present.watched(node, last_seen_s));
            self.trust.forget(node);
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
        self.open.clear();
        let shares = self.model.as_ref().map(|_| self.trust.shares(self.ended));
        if let Some(model) = self.model.take() {
            self.look(now_s, |_| true);
            let mut last: Option<(FeatureRow, PerInterval)> = None;
            for &(_, row) in &self.rows {
                // Neighbours often have equal features.
                let open = match last {
                    Some((known, open)) if known == row => open,
                    _ => model.open(&row, &self.drift.shift),
                };
                last = Some((row, open));
                self.open.push(open);
            }
            self.model = Some(model);
        }
        if shares.is_none_or(|shares| shares.iter().any(|&share| share < 1.0)) {
            let mut open = std::mem::take(&mut self.open);
            let lengths = self.mixture(now_s);
            let expected = lengths.together();
            let mut last: Option<(f64, PerInterval)> = None;
            for (place, &node) in self.present.list(by).iter().enumerate() {
                let age_s = now_s - self.present.slot(node).since_s;
                let by_age = match last {
                    Some((known, open)) if known == age_s => open,
                    _ => by_age(&lengths, age_s),
                };
                last = Some((age_s, by_age));
                match (open.get_mut(place), &shares) {
                    (Some(open), Some(shares)) => *open = mixed(open, &by_age, shares),
                    _ => open.push(by_age),
                }
            }
            self.open = open;
            self.expected = expected;
        }
        self.grouping.group(&self.open);
        self.link.clear();
        let list = self.present.list(by);
        for (&a, &b) in list.iter().zip(list.iter().skip(1)) {
            self.link.push(
                self.links
                    .of(self.present.pair_features(a, b), &self.expected),
            );
        }
        View {
            nodes: self.present.list(by),
            curve: &self.grouping.index,
            curves: &self.grouping.curves,
            link: &self.link,
        }
    }

    /// The probability that two present nodes, neighbours in the order, end in the same event.
    #[must_use]
    pub fn link(&self, node: u32, next: u32) -> f32 {
        self.links
            .of(self.present.pair_features(node, next), &self.expected)
    }

    /// The start of the present hole of a node, seconds; `None` without one.
    #[must_use]
    pub fn present_since(&self, node: u32) -> Option<f64> {
        let slot = self.present.slot(node);
        slot.is_present.then_some(slot.since_s)
    }

    /// The median length of recently ended holes, seconds; `None` while too few have ended.
    #[must_use]
    pub fn typical_s(&self) -> Option<f64> {
        self.typical.median_s()
    }

    /// How far the hazard has learnt.
    #[must_use]
    pub fn learning(&self) -> LearningStage {
        if self.model.is_some() {
            LearningStage::Learnt { ended: self.ended }
        } else {
            LearningStage::Young {
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

    /// Inputs that contradict each other, counted.
    #[must_use]
    pub fn anomalies(&self) -> Anomalies {
        self.anomalies
    }

    /// What is known of the holes of this machine, by the likeliest scale of its prior.
    #[must_use]
    pub fn machine(&self, name: &str) -> Option<MachinePrior> {
        let lengths = self.mixture(self.now_s);
        let (law, shape, _) = lengths.most_like()?;
        Some(MachinePrior {
            name: name.to_owned().into(),
            scale_s: law.scale_s,
            shape,
            together: self.links.shares(),
        })
    }

    /// The number of fits.
    #[must_use]
    pub fn fits(&self) -> u64 {
        self.fits
    }

    /// The share of the fitted hazard in the forecast of each interval.
    pub(super) fn shares(&self) -> PerInterval {
        match self.model {
            Some(_) => self.trust.shares(self.ended),
            None => PerInterval::default(),
        }
    }

    /// The law of lengths with the largest share, and its share in percent; `None` if there is only
    /// one.
    pub(super) fn most_like(&self) -> Option<(String, f64)> {
        if self.settings.prior.is_cold() {
            return None;
        }
        let lengths = self.mixture(self.now_s);
        let (law, _, weight) = lengths.most_like()?;
        Some((law.name.to_string(), 100.0 * weight))
    }

    /// The lengths by age as of a time.
    pub(super) fn mixture(&self, now_s: f64) -> Mixture<'_> {
        let present = self.present.list(By::Release).iter();
        self.lengths
            .mixture(present.map(|&node| self.present.watched(node, now_s)))
    }

    pub(super) fn by(&self) -> By {
        match self.state {
            OrderState::Given | OrderState::Reversed => By::Rank,
            OrderState::Taken => By::Taken,
            OrderState::Released => By::Release,
        }
    }

    /// The time of a step. It does not go back, except after a restart of the clock.
    fn clock(&mut self, now_s: f64) -> f64 {
        if !now_s.is_finite() {
            self.anomalies.clock_back += 1;
        } else if !std::mem::replace(&mut self.has_begun, true) {
            // The saved state may be of a later time.
            self.turn_back(now_s);
        } else if now_s >= self.now_s {
            self.now_s = now_s;
        } else {
            self.anomalies.clock_back += 1;
            if now_s < self.now_s - RESTART_S {
                self.turn_back(now_s);
            }
        }
        self.now_s
    }

    /// Drops samples and times after `now_s`, since the clock was or is wrong. Present holes began
    /// by `now_s`.
    fn turn_back(&mut self, now_s: f64) {
        self.samples.turn_back(now_s);
        self.present.turn_back(now_s);
        self.recent = RecentEvents::default();
        self.drift.restart();
        self.trust.restart();
        if self.fitted_s > now_s {
            // The model is fitted to lengths across the jump, so the next end makes a fit due.
            self.fitted_s = f64::NEG_INFINITY;
        }
        self.now_s = now_s;
    }

    /// Closes the holes of the marked nodes.
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
            let hole = self.present.watched(node, now_s);
            self.typical.add(hole.until_s);
            if self.learns {
                self.lengths.end(hole);
            }
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
                // The old hole of the node ended unseen.
                self.anomalies.reopened += 1;
                self.samples.settle(node, now_s, Fate::Censored);
                self.trust.forget(node);
            }
            joining.push((node, began));
        }
        self.present.remove_marked();
        // A node that is listed twice opens one hole.
        joining.sort_by(|a, b| a.0.cmp(&b.0).then(b.1.total_cmp(&a.1)));
        let listed = joining.len();
        joining.dedup_by_key(|hole| hole.0);
        self.anomalies.reopened += (listed - joining.len()) as u64;
        self.present.open(now_s, &joining);
    }
}

/// The probabilities that a hole of an age is open at the ends of the intervals.
pub(super) fn by_age(lengths: &Mixture<'_>, age_s: f64) -> PerInterval {
    EDGES_S.map(|after_s| lengths.open_after(age_s, after_s.into()) as f32)
}
