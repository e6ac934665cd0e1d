//! What a forecasting policy knows of the present holes: it watches every step, learns from it,
//! and says in which order nodes are expected to leave, and when.
//!
//! Nothing of the future comes in here but what the look-ahead reveals by decree, and what the
//! recorded or simulated scheduler itself expected at the time.

use lacuna_forecast::{GRID_S, HazardCore, HazardSettings, Nodes};
use lacuna_planner::joint::{Curves, Outlook, Scenarios};

use super::run::World;
use crate::{Forecasting, Lookahead, OrderFound, Recording, SimError, StepRef};

/// A hole whose end is not known.
const UNKNOWN: f64 = f64::INFINITY;

/// Watches a recording.
pub(crate) struct Seer {
    core: HazardCore,
    settings: Forecasting,
    lookahead: Lookahead,
    seed: u64,
    decisions: u64,
    start_ms: i64,
    opened: Vec<(u32, f64)>,
    /// When the scheduler itself expects each node to be wanted, seconds since the start.
    expected: Vec<f64>,
    /// Present nodes in the order in which they are expected to leave.
    pub(crate) order: Vec<u32>,
    /// The place in the core's list of each node of the order.
    places: Vec<u32>,
    known: Vec<f64>,
}

impl Seer {
    /// Knows the nodes of a recording, and what its past taught.
    pub(crate) fn new(
        recording: &dyn Recording,
        settings: &Forecasting,
        lookahead: Lookahead,
        seed: u64,
    ) -> Result<Self, SimError> {
        let names: Vec<_> = (0..recording.known_nodes())
            .map(|node| recording.node_name(node))
            .collect();
        let nodes = Nodes::from_names(names.iter().map(AsRef::as_ref), &settings.order);
        let core = HazardCore::new(
            nodes,
            HazardSettings {
                order: settings.order.clone(),
                seed,
                ..HazardSettings::default()
            },
        );
        let mut seer = Self {
            core,
            settings: settings.clone(),
            lookahead,
            seed,
            decisions: 0,
            start_ms: recording.start().unix_ms(),
            opened: Vec::new(),
            expected: vec![UNKNOWN; recording.known_nodes() as usize],
            order: Vec::new(),
            places: Vec::new(),
            known: Vec::new(),
        };
        // Who knows the future need not learn from the past.
        if lookahead != Lookahead::All
            && let Some(mut past) = recording.past()?
        {
            while let Some(step) = past.next()? {
                seer.step(&step);
            }
        }
        Ok(seer)
    }

    /// Something happened.
    pub(crate) fn step(&mut self, step: &StepRef<'_>) {
        self.opened.clear();
        for &(node, since_ms) in step.opened {
            // The first step tells of holes that the past has told of, too.
            if self.core.present_since(node).is_none() || step.closed.contains(&node) {
                let since_s = since_ms.saturating_sub(self.start_ms) as f64 / 1000.0;
                self.opened.push((node, since_s));
            }
        }
        self.core.step(step.at_s, step.closed, &self.opened);
        for &node in step.closed {
            if let Some(expected) = self.expected.get_mut(node as usize) {
                *expected = UNKNOWN;
            }
        }
        for hint in step.hints {
            if let Some(expected) = self.expected.get_mut(hint.node as usize) {
                *expected = hint.at_s;
            }
        }
    }

    /// Puts the present nodes into the order in which they are expected to leave, and draws
    /// scenarios. `ends` are the ends that the look-ahead reveals, seconds since the start.
    pub(crate) fn look(&mut self, now_s: f64, ends: &[f64]) -> Scenarios {
        self.decisions += 1;
        let is_order = self.core.order().state.is_order();
        let view = self.core.forecast(now_s);
        let curves = Grid(view.curves);
        let end = |node: u32| {
            let end = ends.get(node as usize).copied().unwrap_or(UNKNOWN);
            (end - now_s).max(0.0)
        };
        self.places.clear();
        self.places.extend(0..view.nodes.len() as u32);
        let node = |place: u32| view.nodes.get(place as usize).copied().unwrap_or(u32::MAX);
        if !is_order {
            // Without an order of the scheduler's, by what is forecast; then as released.
            let horizon_s = self.settings.joint.horizon_s;
            let stay = |place: u32| {
                let curve = view.curve.get(place as usize).copied().unwrap_or(0);
                curves.open_after(curve, horizon_s)
            };
            self.places
                .sort_by(|&a, &b| stay(a).total_cmp(&stay(b)).then(a.cmp(&b)));
        }
        // What is known to leave leaves before what is not: stable, so that equals keep their
        // order.
        self.places
            .sort_by(|&a, &b| end(node(a)).total_cmp(&end(node(b))));
        self.order.clear();
        self.order
            .extend(self.places.iter().map(|&place| node(place)));
        self.known.clear();
        self.known.extend(self.order.iter().map(|&node| end(node)));
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
        .draw(self.settings.scenarios, self.seed ^ self.decisions)
    }
}

impl World<'_> {
    /// What forecasting showed of the order in which nodes are taken; nothing if nobody forecast.
    pub(crate) fn order(&self) -> Option<OrderFound> {
        let seer = self.seer.as_ref()?;
        Some(OrderFound::of(&seer.core.order()))
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
