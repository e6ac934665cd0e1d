//! What a forecasting policy knows of the present holes: it watches every step, learns from it,
//! and says in which order nodes are expected to leave, and when.
//!
//! Nothing of the future comes in here but what the look-ahead reveals by decree, and what the
//! recorded or simulated scheduler itself expected at the time. Even which nodes there are is
//! learnt as they turn up, and they are numbered as they do: a recording's own numbers may tell
//! which of the nodes that were seen before its start will be seen after it.

use lacuna_forecast::{
    Certainty, GRID_S, HazardCore, HazardSettings, Nodes, Oddities, Promises, Word,
};
use lacuna_model::OrderSource;
use lacuna_planner::joint::{Curves, Lineup, Listed, Promise, Scenarios};

use super::run::World;
use crate::{Forecasting, Lookahead, OrderFound, Recording, SimError, StepRef};

/// A hole whose end is not known.
const UNKNOWN: f64 = f64::INFINITY;

/// A node that has not been seen.
const UNSEEN: u32 = u32::MAX;

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
            promises: Promises::default(),
            strangers: 0,
            order: Vec::new(),
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
            self.promises.lose(number);
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
        // What the scheduler merely says teaches nothing of holes.
        if !(step.closed.is_empty() && step.opened.is_empty()) {
            self.core.step(step.at_s, &self.closed, &self.opened);
        }
        if self.settings.hints {
            for hint in step.hints {
                let number = self.number_of(hint.node);
                self.promises.says(number, hint.at_s, Certainty::Soft);
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
            self.promises.grow(self.node.len());
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
        let node = |number: u32| {
            let node = self.node.get(number as usize);
            node.copied().unwrap_or(UNSEEN)
        };
        self.known.clear();
        if self.lookahead != Lookahead::Seconds(0.0) {
            self.known.extend(view.nodes.iter().map(|&number| {
                let end = ends.get(node(number) as usize).copied();
                (end.unwrap_or(UNKNOWN) - now_s).max(0.0)
            }));
        }
        self.promised.clear();
        if self.settings.hints {
            let holes = view.nodes.iter().zip(view.curve);
            self.promised.extend(holes.map(|(&number, &curve)| {
                let open_after = |after_s: f64| curves.open_after(curve, after_s);
                let word = self.promises.of(number, now_s, open_after);
                word.map_or(Promise::NONE, promise)
            }));
        }
        let listed = Listed {
            source: if is_order {
                OrderSource::Scheduler
            } else {
                OrderSource::Expectation
            },
            curves: &curves,
            curve: view.curve,
            link: if self.settings.together {
                view.link
            } else {
                &[]
            },
            promised: &self.promised,
            known: &self.known,
        };
        let lineup = Lineup::new(&listed, horizon_s);
        self.order.clear();
        self.order.extend(lineup.places.iter().map(|&place| {
            let number = view.nodes.get(place as usize).copied();
            node(number.unwrap_or(UNSEEN))
        }));
        if self.lookahead == Lookahead::All {
            return Scenarios::known(lineup.known);
        }
        lineup.draw(
            &curves,
            self.lookahead.seconds(),
            self.settings.scenarios,
            self.seed ^ self.decisions,
        )
    }
}

fn promise(word: Word) -> Promise {
    Promise {
        at_s: word.after_s,
        early: word.early,
        kept: word.kept,
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
                // Operation by operation as `Forecast` does, so that both say the same.
                return before.1 + (after - before.1) * (after_s - before.0) / (at - before.0);
            }
            before = (at, after);
        }
        before.1
    }
}
