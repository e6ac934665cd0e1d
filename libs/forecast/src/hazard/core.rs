//! The hazard on numbered nodes: what it keeps, how it learns, what it forecasts.

use super::boost::{Trial, fit};
use super::curves::{GRID, Grouping};
use super::features::{Place, Row, Sight};
use super::model::{Model, Stretches};
use super::present::{By, Present};
use super::samples::{Fate, Samples};
use super::settings::{HazardSettings, Oddities, OrderReport, OrderState};
use crate::joint::Links;
use crate::order::Taken;
use crate::{Evidence, Learning, Nodes, OrderBy};

/// A clock that goes back by more than this tells of another time, not of a disorder.
const ANOTHER_TIME_S: f64 = 3600.0;

/// So many half-lives are remembered.
const REMEMBERED: f64 = 4.0;

/// Without a half-life, so much is remembered, seconds: ten years.
const FOR_EVER_S: f64 = 3.2e8;

/// Time constant of the nodes taken of late, seconds.
const LATELY_S: f64 = 900.0;

/// An event's size counts for so much in the mean of late ones.
const LATE_EVENT: f32 = 0.1;

/// After so many events a given order that leaves no trace is given up.
const PATIENCE: u64 = 300;

/// The order is reconsidered once in so many leave events.
const RECONSIDERED: u64 = 16;

/// What was taken must show the order so much more plainly than the names do, in mean places.
const PLAINER: f64 = 0.04;

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
struct Lately {
    taken: f64,
    bite: f32,
    last_event_s: Option<f64>,
    as_of_s: f64,
}

impl Lately {
    fn fade(&mut self, now_s: f64) {
        self.taken *= (-(now_s - self.as_of_s).max(0.0) / LATELY_S).exp();
        self.as_of_s = now_s;
    }

    fn event(&mut self, now_s: f64, nodes: usize) {
        self.fade(now_s);
        self.taken += nodes as f64;
        let size = nodes as f32;
        self.bite += if self.last_event_s.is_none() {
            size
        } else {
            LATE_EVENT * (size - self.bite)
        };
        self.last_event_s = Some(now_s);
    }

    /// Nodes a minute, and seconds since the last event.
    fn seen(&self, now_s: f64) -> (f32, f32) {
        let fade = (-(now_s - self.as_of_s).max(0.0) / LATELY_S).exp();
        let rate = self.taken * fade / (LATELY_S / 60.0);
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
    present: Present,
    pub(super) samples: Samples,
    pub(super) links: Links,
    pub(super) given: Evidence,
    pub(super) by_taken: Evidence,
    pub(super) taken: Taken,
    has_ranks: bool,
    pub(super) state: OrderState,
    pub(super) model: Option<Model>,
    pub(super) ended: u64,
    ended_at_fit: u64,
    fitted_s: f64,
    fits: u64,
    now_s: f64,
    has_begun: bool,
    learns: bool,
    lately: Lately,
    oddities: Oddities,
    // Room that is used again and again.
    places: Vec<usize>,
    rows: Vec<(u32, Row)>,
    open: Vec<Stretches>,
    grouping: Grouping,
    link: Vec<f32>,
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
            links: Links::default(),
            given: Evidence::default(),
            by_taken: Evidence::default(),
            taken,
            has_ranks: false,
            state: match settings.order {
                OrderBy::Learnt | OrderBy::None => OrderState::Released,
                OrderBy::Names | OrderBy::List(_) | OrderBy::Weights(_) => OrderState::Given,
            },
            model: None,
            ended: 0,
            ended_at_fit: 0,
            fitted_s: 0.0,
            fits: 0,
            now_s: 0.0,
            has_begun: false,
            learns: true,
            lately: Lately::default(),
            oddities: Oddities::default(),
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

    /// The nodes as they are known now.
    #[must_use]
    pub fn nodes(&self) -> &Nodes {
        &self.present.nodes
    }

    /// Nodes leave the pool, then others join it, each with the start of its hole. All of one
    /// call is one event.
    pub fn step(&mut self, now_s: f64, closed: &[u32], opened: &[(u32, f64)]) {
        let now_s = self.clock(now_s);
        for &node in closed {
            if self.present.mark(node) {
                let began = self.present.slot(node).since_s;
                self.oddities.negative += u64::from(now_s < began);
            } else {
                self.oddities.unknown_end += 1;
            }
        }
        if !self.present.leaving.is_empty() {
            self.leave(now_s);
        }
        self.join(now_s, opened);
        if self.learns {
            self.sample(now_s);
            if self.is_fit_due(now_s) {
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
            self.oddities.unknown_end += 1;
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
            let mut last: Option<(Row, Stretches)> = None;
            for &(_, row) in &self.rows {
                // Neighbours often look alike to the last level.
                let open = match last {
                    Some((known, open)) if known == row => open,
                    _ => model.open(&row),
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
            self.link.push(self.links.of(self.present.kinship(a, b)));
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
        self.links.of(self.present.kinship(node, next))
    }

    /// Whether a node's hole is present, and since when.
    #[must_use]
    pub fn present_since(&self, node: u32) -> Option<f64> {
        let slot = self.present.slot(node);
        slot.is_present.then_some(slot.since_s)
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
    pub fn oddities(&self) -> Oddities {
        self.oddities
    }

    /// How often a model was fitted.
    #[must_use]
    pub fn fits(&self) -> u64 {
        self.fits
    }

    fn by(&self) -> By {
        match self.state {
            OrderState::Given | OrderState::Reversed => By::Rank,
            OrderState::Taken => By::Taken,
            OrderState::Released => By::Release,
        }
    }

    /// Time goes on, whatever the clock says.
    fn clock(&mut self, now_s: f64) -> f64 {
        if !now_s.is_finite() {
            self.oddities.clock_back += 1;
        } else if !self.has_begun || now_s >= self.now_s {
            self.now_s = now_s;
            self.has_begun = true;
        } else {
            self.oddities.clock_back += 1;
            if now_s < self.now_s - ANOTHER_TIME_S {
                // Lengths across such a jump would mean nothing.
                self.samples.settle_all(self.now_s);
                self.lately = Lately::default();
                self.fitted_s = now_s;
                self.now_s = now_s;
            }
        }
        self.now_s
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
        self.lately.event(now_s, self.present.leaving.len());
        self.ended += self.present.leaving.len() as u64;
        for &node in &self.present.leaving {
            self.samples.settle(node, now_s, Fate::Ended);
        }
        self.present.remove_marked();
        if self.learns && self.given.events().is_multiple_of(RECONSIDERED) {
            self.reconsider();
        }
    }

    /// Learns from where the leaving nodes stand.
    fn witness(&mut self, by: By) {
        if let Some(place) = self.present.mean_place(By::Rank) {
            let nodes = self.present.leaving.len();
            let is_reversed = self.state == OrderState::Reversed;
            self.given
                .event(if is_reversed { 1.0 - place } else { place }, nodes);
            if self.has_ranks
                && let Some(place) = self.present.mean_place(By::Taken)
            {
                self.by_taken.event(place, nodes);
            }
            let list = self.present.list(By::Rank);
            self.taken.event(list, &self.present.leaving);
        }
        let list = self.present.list(by);
        for (&a, &b) in list.iter().zip(list.iter().skip(1)) {
            let leaves = |node| self.present.slot(node).is_leaving;
            if leaves(a) || leaves(b) {
                self.links
                    .pair(self.present.kinship(a, b), leaves(a) && leaves(b));
            }
        }
        self.links.event();
    }

    fn join(&mut self, now_s: f64, opened: &[(u32, f64)]) {
        if opened.is_empty() {
            return;
        }
        let mut joining = Vec::with_capacity(opened.len());
        for &(node, since_s) in opened {
            if !self.present.make_room(node) {
                self.oddities.unordered += 1;
                self.taken.grow(node as usize + 1);
            }
            let began = if since_s <= now_s {
                since_s
            } else {
                self.oddities.negative += 1;
                now_s
            };
            if self.present.mark(node) {
                // Its old hole ended unseen.
                self.oddities.reopened += 1;
                self.samples.settle(node, now_s, Fate::Censored);
            }
            joining.push((node, began));
        }
        self.present.remove_marked();
        // A node that is told twice begins once.
        joining.sort_by(|a, b| a.0.cmp(&b.0).then(b.1.total_cmp(&a.1)));
        let told = joining.len();
        joining.dedup_by_key(|hole| hole.0);
        self.oddities.reopened += (told - joining.len()) as u64;
        self.present.open(&joining);
    }

    /// Whether the order still holds, or another does.
    fn reconsider(&mut self) {
        let events = self.given.events();
        let state = match self.settings.order {
            OrderBy::None => OrderState::Released,
            OrderBy::Learnt => {
                let names = self.given.mean().unwrap_or(0.5);
                let (by_names, place) = if self.given.holds() {
                    (OrderState::Given, names)
                } else if self.given.is_reversed() {
                    (OrderState::Reversed, 1.0 - names)
                } else {
                    (OrderState::Released, 0.5)
                };
                let taken = self.by_taken.mean().unwrap_or(0.5);
                // Two orders about as plain would change places for ever.
                let plainer = match self.state {
                    OrderState::Taken => -PLAINER,
                    _ => PLAINER,
                };
                if self.by_taken.holds() && taken + plainer < place {
                    OrderState::Taken
                } else {
                    by_names
                }
            }
            OrderBy::Names | OrderBy::List(_) | OrderBy::Weights(_) => {
                let is_traceless = events >= PATIENCE && self.given.z().is_some_and(|z| z < 2.0);
                if self.given.is_reversed() || is_traceless {
                    OrderState::Released
                } else if self.given.holds() {
                    OrderState::Given
                } else {
                    self.state
                }
            }
        };
        if state != self.state {
            let was_given = self.settings.order != OrderBy::Learnt;
            if was_given && state == OrderState::Released {
                self.oddities.contradicted += 1;
            }
            self.state = state;
            self.present.reverse(state == OrderState::Reversed);
        }
    }

    /// Fills `rows` with the holes at the places that are wanted.
    fn look(&mut self, now_s: f64, wanted: impl Fn(usize) -> bool) {
        let by = self.by();
        let is_order = self.state.is_order();
        let (demand, quiet_s) = self.lately.seen(now_s);
        let bite = self.lately.bite;
        let taken = &self.taken;
        let rows = &mut self.rows;
        rows.clear();
        let pool = self.present.list(by).len() as u32;
        self.present.walk(by, |present, place, node, fresh, front| {
            if !wanted(place as usize) {
                return;
            }
            let slot = present.slot(node);
            let group = present.group(slot.group);
            let sight = Sight {
                age_s: (now_s - slot.since_s) as f32,
                place: is_order.then_some(Place {
                    front: place,
                    fresh,
                    group_front: front,
                    passed: u32::from(slot.passed),
                    rank: present.rank_share(by, node),
                }),
                group: group.size,
                group_left: group.left,
                block: present.in_block(node),
                pool,
                demand,
                bite,
                quiet_s,
                eagerness: taken.eagerness(node),
            };
            rows.push((node, sight.row()));
        });
    }

    fn sample(&mut self, now_s: f64) {
        let holes = self.present.list(self.by()).len();
        if holes == 0 || !self.samples.is_due(now_s) {
            return;
        }
        self.samples.make_room(now_s);
        let mut places = std::mem::take(&mut self.places);
        self.samples.choose(holes, &mut places);
        self.look(now_s, |place| places.binary_search(&place).is_ok());
        for &(node, row) in &self.rows {
            self.samples.push(node, row, now_s);
        }
        self.places = places;
    }

    fn is_fit_due(&self, now_s: f64) -> bool {
        let is_grown = self.ended >= self.ended_at_fit.saturating_mul(2);
        let is_old = now_s >= self.fitted_s + self.settings.refit_every.as_secs_f64();
        self.ended >= self.settings.needed
            && self.ended > self.ended_at_fit
            && (self.ended_at_fit == 0 || is_grown || is_old)
    }

    /// Fits the model to what has been seen up to now.
    fn refit(&mut self, now_s: f64) {
        let half_life = self.settings.half_life.map(|half| half.as_secs_f64());
        let weight = |at_s: f64| match half_life {
            Some(half) if half > 0.0 => (-(now_s - at_s).max(0.0) / half).exp2() as f32,
            _ => 1.0,
        };
        let trials: Vec<Trial> = self
            .samples
            .list
            .iter()
            .filter_map(|sample| {
                let (length_s, ended) = match sample.fate {
                    Fate::Open => ((now_s - sample.at_s) as f32, false),
                    Fate::Ended => (sample.length_s, true),
                    Fate::Censored => (sample.length_s, false),
                };
                let trial = Trial::new(sample.row, length_s, ended, weight(sample.at_s));
                (trial.survived > 0 || trial.ended).then_some(trial)
            })
            .collect();
        if let Some(model) = fit(&trials, self.settings.seed.wrapping_add(self.fits)) {
            self.model = Some(model);
        }
        self.fits += 1;
        self.ended_at_fit = self.ended;
        self.fitted_s = now_s;
        let nodes = &self.present.nodes;
        let ranks = self.taken.ranks(
            nodes.blocks() as usize,
            |node| nodes.block(node),
            |node| nodes.rank(node),
        );
        self.present.learn(&ranks);
        self.has_ranks = true;
    }
}
