//! The observer: the forecast service's predictor watches every step, learns from it, and
//! forecasts the pool for decisions.
//!
//! It sees two things of the future: the ends that oracle lookahead reveals, up to its bound, and
//! the planned starts that the recorded or simulated scheduler had at the time. The time before
//! the replay's start is history, from which it learns (`PoolTrace::past`).
//!
//! Learning does not depend on decisions. So a second observer, the scout, goes ahead on its own
//! thread and fits the models (`forecast::Fits::scouted`). The first observer takes each model in
//! at the step at which it is due.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use lacuna_forecast::{
    AnnouncedEnd, Anomalies, EndKind, Fits, Hazard, HazardSettings, Predictor, RefreshTimer,
    WithPlannedStarts,
};
use lacuna_model::{Hole, NodeId, PlannedStart, Pool, Span, Timestamp};

use crate::taught::taught;
use crate::{Forecasting, Lookahead, OrderFound, PoolStep, PoolTrace, Settings, SimError};

/// The end of a hole that is not revealed, seconds.
const UNKNOWN: f64 = f64::INFINITY;

/// Watches a trace and forecasts its pool.
pub(crate) struct Observer<'a> {
    trace: &'a dyn PoolTrace,
    predictor: WithPlannedStarts,
    settings: Forecasting,
    lookahead: Lookahead,
    /// Names of the nodes so far, by the trace's numbers.
    names: Vec<Option<NodeId>>,
    /// The present holes, each with the trace's number of its node.
    present: BTreeMap<NodeId, (u32, Timestamp)>,
    /// Planned starts on present holes, by the trace's numbers.
    planned: BTreeMap<u32, Timestamp>,
    announced: RefreshTimer,
    /// The end of what a given model has learnt, until the trace is past it.
    upto: Option<Timestamp>,
    /// Whether the holes of the past are compared with those of the first step.
    begun: bool,
    /// Impossible changes, beside those that the predictor counts.
    odd: Anomalies,
    seen: Seen,
}

/// The forecast of the present pool.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// The pool.
    pub(crate) pool: Pool,
    /// The place of a node's hole in the pool's list, by the trace's numbers.
    pub(crate) places: Vec<u32>,
    /// Remaining seconds of each hole of the pool, infinite if its end is not revealed.
    pub(crate) known: Vec<f64>,
}

impl<'a> Observer<'a> {
    /// An observer that has learnt from the trace's past. `fits` says where models are fitted.
    pub(crate) fn new(
        trace: &'a dyn PoolTrace,
        settings: &Settings,
        fits: Fits,
    ) -> Result<Self, SimError> {
        let mut observer = Self::untaught(trace, settings, fits)?;
        if settings.lookahead == Lookahead::All {
            // With all ends revealed, the predictor needs only the typical length of holes.
            observer.predictor.freeze();
        }
        if settings.forecast.past
            && let Some(mut past) = trace.past()?
        {
            while let Some(step) = past.next()? {
                observer.watch(&step);
            }
        }
        Ok(observer)
    }

    /// An observer that knows nothing of the trace, but starts with the model of the settings.
    pub(crate) fn untaught(
        trace: &'a dyn PoolTrace,
        settings: &Settings,
        fits: Fits,
    ) -> Result<Self, SimError> {
        let (lookahead, seed) = (settings.lookahead, settings.seed);
        let settings = &settings.forecast;
        let hazard = HazardSettings {
            order: settings.order.clone(),
            seed,
            prior: settings.prior.clone(),
            ..HazardSettings::default()
        };
        let mut predictor = match &settings.model {
            None => WithPlannedStarts::new(Box::new(Hazard::new(hazard))),
            Some(model) => taught(model, hazard, trace)?,
        };
        predictor.set_fits(fits);
        let nodes = trace.known_nodes() as usize;
        Ok(Self {
            trace,
            predictor,
            settings: settings.clone(),
            lookahead,
            names: vec![None; nodes],
            present: BTreeMap::new(),
            planned: BTreeMap::new(),
            announced: RefreshTimer::default(),
            upto: settings.model.as_ref().map(|model| model.from().until),
            begun: false,
            odd: Anomalies::default(),
            seen: Seen {
                places: vec![u32::MAX; nodes],
                ..Seen::default()
            },
        })
    }

    /// Learns from the trace alone. Calls `each` after every step with its time.
    pub(crate) fn learn(&mut self, each: &mut dyn FnMut(f64)) -> Result<(), SimError> {
        let (mut walk, length_s) = (self.trace.steps()?, self.trace.length_s());
        while let Some(step) = walk.next()? {
            if step.at_s >= length_s {
                break;
            }
            self.step(&step);
            self.announce(self.at(step.at_s));
            self.predictor.take_in();
            each(step.at_s);
        }
        Ok(())
    }

    /// The predictor with what it has learnt.
    pub(crate) const fn predictor(&self) -> &WithPlannedStarts {
        &self.predictor
    }

    /// Learns from the trace ahead of the other observer, until `is_over`.
    pub(crate) fn go_ahead(mut self, is_over: &AtomicBool) -> Result<(), SimError> {
        let mut walk = self.trace.steps()?;
        while let Some(step) = walk.next()?
            && !is_over.load(Ordering::Relaxed)
        {
            self.step(&step);
            // The other observer forecasts after each step.
            self.predictor.take_in();
        }
        Ok(())
    }

    /// Takes a step. The first step has all holes that are present at the start.
    pub(crate) fn step(&mut self, step: &PoolStep<'_>) {
        if !std::mem::replace(&mut self.begun, true) {
            self.begin(step);
        }
        self.watch(step);
    }

    /// The moment of a step.
    fn at(&self, at_s: f64) -> Timestamp {
        self.trace.start() + Span::from_secs_f64(at_s)
    }

    /// Ends the holes that are open in the past and absent from the first step.
    fn begin(&mut self, step: &PoolStep<'_>) {
        let at = self.at(step.at_s);
        let mut gone = self.present.clone();
        for &(node, since_ms) in step.opened {
            let since = Timestamp::from_unix_ms(since_ms);
            let Some(name) = self.name(node) else {
                continue;
            };
            let is_new = |&(_, before): &(u32, Timestamp)| since >= at && before < since;
            if !gone.get(&name).is_some_and(is_new) {
                gone.remove(&name);
            }
        }
        for (name, (node, since)) in gone {
            self.close(node, &Hole { node: name, since }, at);
        }
    }

    fn name(&mut self, node: u32) -> Option<NodeId> {
        let name = self.names.get_mut(node as usize)?;
        if name.is_none() {
            *name = NodeId::new(self.trace.node_name(node)).ok();
        }
        name.clone()
    }

    fn close(&mut self, node: u32, hole: &Hole, at: Timestamp) {
        if self.upto.is_none() {
            self.predictor.closed(hole, at);
        }
        self.present.remove(&hole.node);
        self.planned.remove(&node);
    }

    fn watch(&mut self, step: &PoolStep<'_>) {
        let at = self.at(step.at_s);
        if let Some(upto) = self.upto.take_if(|upto| at >= *upto) {
            for (name, &(_, since)) in &self.present {
                let node = name.clone();
                // The age of the hole counts only from here on.
                self.predictor
                    .opened(&Hole { node, since }, upto.max(since));
            }
        }
        for &node in step.closed {
            let hole = self.name(node).and_then(|name| {
                let &(_, since) = self.present.get(&name)?;
                Some(Hole { node: name, since })
            });
            match hole {
                Some(hole) => self.close(node, &hole, at),
                None => self.odd.unknown_end += 1,
            }
        }
        for &(node, since_ms) in step.opened {
            let Some(name) = self.name(node) else {
                self.odd.unordered += 1;
                continue;
            };
            // The first step repeats holes of the past. A hole within a hole does not count.
            if !self.present.contains_key(&name) {
                let since = Timestamp::from_unix_ms(since_ms);
                let hole = Hole {
                    node: name.clone(),
                    since,
                };
                if self.upto.is_none() {
                    self.predictor.opened(&hole, at);
                }
                self.present.insert(name, (node, since));
            }
        }
        for update in step.planned {
            if update.at_s.is_finite() {
                self.planned.insert(update.node, self.at(update.at_s));
            } else {
                self.planned.remove(&update.node);
            }
        }
        let changes = step.closed.len() + step.opened.len() + step.planned.len();
        if changes > 0 {
            self.announced.touch();
        }
    }

    /// Gives all planned starts to the predictor, when that is due.
    fn announce(&mut self, now: Timestamp) {
        if !self.announced.is_due(now) {
            return;
        }
        self.planned
            .retain(|_, start| *start + PlannedStart::LAPSE >= now);
        let hint = |(&node, &at): (&u32, &Timestamp)| {
            Some(AnnouncedEnd {
                node: self.names.get(node as usize)?.clone()?,
                at,
                kind: EndKind::PlannedStart,
            })
        };
        let planned_starts: Vec<AnnouncedEnd> = self.planned.iter().filter_map(hint).collect();
        self.predictor.announce(now, &planned_starts);
        self.announced.done(now);
    }

    /// Forecasts the present pool. `ends` are the ends that oracle lookahead reveals, by node,
    /// seconds since the start.
    pub(crate) fn look(&mut self, now_s: f64, ends: &[f64]) -> &Seen {
        let now = self.at(now_s);
        self.announce(now);
        let holes = self.present.iter().map(|(node, &(_, since))| Hole {
            node: node.clone(),
            since,
        });
        let holes: Vec<Hole> = holes.collect();
        let forecasts = self.predictor.forecast(now, &holes);
        let seen = &mut self.seen;
        seen.pool = forecasts.into_pool(now, 0, holes);
        if let Some(joint) = &mut seen.pool.joint
            && !self.settings.together
        {
            joint.link.fill(0.0);
        }
        seen.known.clear();
        for (place, &(node, _)) in (0_u32..).zip(self.present.values()) {
            if let Some(slot) = seen.places.get_mut(node as usize) {
                *slot = place;
            }
            if self.lookahead != Lookahead::Seconds(0.0) {
                let end = ends.get(node as usize).copied().unwrap_or(UNKNOWN);
                seen.known.push((end - now_s).max(0.0));
            }
        }
        seen
    }

    /// Whether the scheduler takes nodes in an order, by all steps so far.
    pub(crate) fn order(&self) -> Option<OrderFound> {
        let report = self.predictor.report();
        report.order.as_ref().map(OrderFound::of)
    }

    /// Impossible changes of the trace so far, by kind.
    pub(super) fn anomalies(&self) -> Anomalies {
        let mut anomalies = self.predictor.report().anomalies;
        anomalies.unknown_end += self.odd.unknown_end;
        anomalies.unordered += self.odd.unordered;
        anomalies
    }
}
