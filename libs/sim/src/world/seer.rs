//! What a forecasting policy knows of the present holes: it watches every step, learns from it,
//! and says in which order nodes are expected to leave, and when.
//!
//! Nothing of the future comes in here but what the look-ahead reveals by decree, and what the
//! recorded or simulated scheduler itself expected at the time. Even which nodes there are is
//! learnt as they turn up, and they are numbered as they do: a recording's own numbers may tell
//! which of the nodes that were seen before its start will be seen after it.

use lacuna_forecast::{GRID_S, HazardCore, HazardSettings, Nodes, Oddities};
use lacuna_planner::joint::{Curves, Outlook, Promise, Scenarios};

use super::promises::Promises;
use super::run::World;
use crate::{Forecasting, Lookahead, OrderFound, Recording, SimError, StepRef};

/// A hole whose end is not known.
const UNKNOWN: f64 = f64::INFINITY;

/// A node that has not been seen.
const UNSEEN: u32 = u32::MAX;

/// Who is at least so likely to be taken by the moment that the scheduler says is before all
/// others in the order.
const LIKELY: f64 = 0.5;

/// Watches a recording.
pub(crate) struct Seer<'a> {
    recording: &'a dyn Recording,
    core: HazardCore,
    settings: Forecasting,
    lookahead: Lookahead,
    seed: u64,
    decisions: u64,
    start_ms: i64,
    /// By the recording's numbers, the numbers here: in the order of first sight.
    number: Vec<u32>,
    /// By the numbers here, those of the recording, and names.
    node: Vec<u32>,
    names: Vec<String>,
    /// What the past left behind has been compared with what the start tells.
    begun: bool,
    closed: Vec<u32>,
    opened: Vec<(u32, f64)>,
    /// What the scheduler itself says of when nodes are wanted, by the numbers here.
    promises: Promises,
    /// Nodes that the recording does not know itself.
    strangers: u64,
    /// Present nodes, as the recording numbers them, in the order in which they are expected to
    /// leave.
    pub(crate) order: Vec<u32>,
    /// The place in the core's list of each node of the order.
    places: Vec<u32>,
    known: Vec<f64>,
    promised: Vec<Promise>,
}

impl<'a> Seer<'a> {
    /// Knows what a recording's past taught.
    pub(crate) fn new(
        recording: &'a dyn Recording,
        settings: &Forecasting,
        lookahead: Lookahead,
        seed: u64,
    ) -> Result<Self, SimError> {
        let core = HazardCore::new(
            Nodes::default(),
            HazardSettings {
                order: settings.order.clone(),
                seed,
                ..HazardSettings::default()
            },
        );
        let known = recording.known_nodes();
        let mut seer = Self {
            recording,
            core,
            settings: settings.clone(),
            lookahead,
            seed,
            decisions: 0,
            start_ms: recording.start().unix_ms(),
            number: vec![UNSEEN; known as usize],
            node: Vec::new(),
            names: Vec::new(),
            begun: false,
            closed: Vec::new(),
            opened: Vec::new(),
            promises: Promises::new(known),
            strangers: 0,
            order: Vec::new(),
            places: Vec::new(),
            known: Vec::new(),
            promised: Vec::new(),
        };
        if lookahead == Lookahead::All {
            // Who knows the future need not learn from the past but how long holes last.
            seer.core.freeze();
        }
        if let Some(mut past) = recording.past()? {
            while let Some(step) = past.next()? {
                seer.watch(&step);
            }
        }
        Ok(seer)
    }

    /// Something happened; the first step tells of all holes that are present at the start.
    pub(crate) fn step(&mut self, step: &StepRef<'_>) {
        if !std::mem::replace(&mut self.begun, true) {
            self.begin(step);
        }
        self.watch(step);
    }

    /// Holes that the past left open and the start does not know have ended in between, unseen.
    fn begin(&mut self, step: &StepRef<'_>) {
        let mut gone: Vec<bool> = (0..self.node.len() as u32)
            .map(|number| self.core.present_since(number).is_some())
            .collect();
        for &(node, since_ms) in step.opened {
            let number = self.number_of(node);
            let since_s = self.since_s(since_ms);
            let before = self.core.present_since(number);
            let is_new = since_s >= step.at_s && before.is_some_and(|before| before < since_s);
            if let Some(gone) = gone.get_mut(number as usize) {
                *gone &= is_new;
            }
        }
        let left = (0_u32..).zip(gone).filter(|&(_, gone)| gone);
        let left: Vec<u32> = left.map(|(number, _)| number).collect();
        for &number in &left {
            self.promises.ends(number, step.at_s);
        }
        self.core.step(step.at_s, &left, &[]);
    }

    fn since_s(&self, since_ms: i64) -> f64 {
        since_ms.saturating_sub(self.start_ms) as f64 / 1000.0
    }

    /// The number here of a node of the recording.
    fn number_of(&self, node: u32) -> u32 {
        self.number.get(node as usize).copied().unwrap_or(UNSEEN)
    }

    fn watch(&mut self, step: &StepRef<'_>) {
        self.closed.clear();
        for &node in step.closed {
            let number = self.number_of(node);
            self.closed.push(number);
            self.promises.ends(number, step.at_s);
        }
        self.meet(step.opened);
        self.opened.clear();
        for &(node, since_ms) in step.opened {
            let number = self.number_of(node);
            if number == UNSEEN {
                self.strangers = self.strangers.saturating_add(1);
                continue;
            }
            // The first step tells of holes that the past has told of, too; and a hole in a
            // hole is none.
            if self.core.present_since(number).is_none() || self.closed.contains(&number) {
                let since_s = self.since_s(since_ms);
                self.opened.push((number, since_s));
            }
        }
        self.core.step(step.at_s, &self.closed, &self.opened);
        if self.settings.hints {
            for hint in step.hints {
                self.promises.says(self.number_of(hint.node), hint.at_s);
            }
            self.promises.step(step.at_s);
        }
    }

    /// Numbers the nodes that are seen for the first time, and finds their places in the order.
    fn meet(&mut self, opened: &[(u32, i64)]) {
        let before = self.node.len();
        for &(node, _) in opened {
            if let Some(number) = self.number.get_mut(node as usize)
                && *number == UNSEEN
            {
                *number = self.node.len() as u32;
                self.node.push(node);
                self.names.push(self.recording.node_name(node).into_owned());
            }
        }
        if self.node.len() > before {
            let names = self.names.iter().map(String::as_str);
            self.core
                .renumber(Nodes::from_names(names, &self.settings.order));
        }
    }

    /// What came in that should not have.
    fn oddities(&self) -> Oddities {
        let mut oddities = self.core.oddities();
        oddities.unordered = oddities.unordered.saturating_add(self.strangers);
        oddities
    }

    /// Median length of the holes that ended of late, seconds, once enough have.
    pub(crate) fn typical_s(&self) -> Option<f64> {
        self.core.typical_s()
    }

    /// Puts the present nodes into the order in which they are expected to leave, and draws
    /// scenarios. `ends` are the ends that the look-ahead reveals, seconds since the start;
    /// decisions look `horizon_s` ahead.
    pub(crate) fn look(&mut self, now_s: f64, ends: &[f64], horizon_s: f64) -> Scenarios {
        self.decisions += 1;
        let is_order = self.core.order().state.is_order();
        let view = self.core.forecast(now_s);
        let curves = Grid(view.curves);
        self.places.clear();
        self.places.extend(0..view.nodes.len() as u32);
        let number = |place: u32| view.nodes.get(place as usize).copied().unwrap_or(UNSEEN);
        let node = |place: u32| {
            let node = self.node.get(number(place) as usize);
            node.copied().unwrap_or(UNSEEN)
        };
        let end = |place: u32| {
            let end = ends.get(node(place) as usize).copied();
            (end.unwrap_or(UNKNOWN) - now_s).max(0.0)
        };
        if !is_order {
            // Without an order of the scheduler's, by what is forecast; then as released.
            let stay = |place: u32| {
                let curve = view.curve.get(place as usize).copied().unwrap_or(0);
                curves.open_after(curve, horizon_s)
            };
            self.places
                .sort_by(|&a, &b| stay(a).total_cmp(&stay(b)).then(a.cmp(&b)));
        }
        // What the scheduler is likely to take before long it takes before the others. Stable, so
        // that equals keep their order.
        let promise = |place: u32| self.promises.of(number(place), now_s);
        if self.settings.hints {
            let soon = |place: u32| {
                let Promise { at_s, early, kept } = promise(place);
                let is_likely = at_s < horizon_s && early + kept > LIKELY;
                if is_likely { at_s } else { UNKNOWN }
            };
            self.places.sort_by(|&a, &b| soon(a).total_cmp(&soon(b)));
        }
        // What is known to leave leaves before what is not.
        self.places.sort_by(|&a, &b| end(a).total_cmp(&end(b)));
        self.promised.clear();
        if self.settings.hints {
            self.promised
                .extend(self.places.iter().map(|&place| promise(place)));
        }
        self.known.clear();
        self.known
            .extend(self.places.iter().map(|&place| end(place)));
        self.order.clear();
        self.order
            .extend(self.places.iter().map(|&place| node(place)));
        if self.lookahead == Lookahead::All {
            return Scenarios::known(self.known.clone());
        }
        let curve: Vec<u32> = self
            .places
            .iter()
            .map(|&place| view.curve.get(place as usize).copied().unwrap_or(0))
            .collect();
        let neighbours = self.places.iter().zip(self.places.iter().skip(1));
        let link: Vec<f32> = neighbours
            .map(|(&a, &b)| match view.link.get(a as usize) {
                Some(&link) if self.settings.together && b == a + 1 => link,
                _ => 0.0,
            })
            .collect();
        Outlook {
            curves: &curves,
            curve: &curve,
            link: &link,
            known: &self.known,
            complete_s: self.lookahead.seconds(),
        }
        .draw_promised(
            &self.promised,
            self.settings.scenarios,
            self.seed ^ self.decisions,
        )
    }
}

impl World<'_> {
    /// What forecasting showed of the order in which nodes are taken; nothing if nobody forecast.
    pub(crate) fn order(&self) -> Option<OrderFound> {
        let seer = self.seer.as_ref()?;
        Some(OrderFound::of(&seer.core.order()))
    }

    /// What came in that should not have; nothing if nobody forecast.
    pub(crate) fn oddities(&self) -> Option<Oddities> {
        self.seer.as_ref().map(Seer::oddities)
    }
}

/// Survival curves on the grid of the hazard.
struct Grid<'a, const POINTS: usize>(&'a [[f32; POINTS]]);

impl<const POINTS: usize> Grid<'_, POINTS> {
    fn points(&self, curve: u32) -> impl Iterator<Item = (f64, f64)> + '_ {
        let open = self.0.get(curve as usize).map_or(&[][..], |open| open);
        GRID_S
            .iter()
            .copied()
            .zip(open.iter().map(|&open| f64::from(open)))
    }
}

impl<const POINTS: usize> Curves for Grid<'_, POINTS> {
    fn quantile(&self, curve: u32, open: f64) -> f64 {
        let mut before = (0.0, 1.0);
        for (at, after) in self.points(curve) {
            if after <= open {
                let drop = before.1 - after;
                let share = if drop > 0.0 {
                    (before.1 - open) / drop
                } else {
                    1.0
                };
                return before.0 + (at - before.0) * share;
            }
            before = (at, after);
        }
        UNKNOWN
    }

    fn open_after(&self, curve: u32, after_s: f64) -> f64 {
        let mut before = (0.0, 1.0);
        for (at, after) in self.points(curve) {
            if after_s <= at {
                let share = (after_s - before.0) / (at - before.0);
                return before.1 + (after - before.1) * share;
            }
            before = (at, after);
        }
        before.1
    }
}
