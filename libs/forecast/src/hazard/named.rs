//! The hazard on named nodes.

use std::collections::HashMap;

use lacuna_model::{Forecast, ForecastPoint, Hole, NodeId, OrderSource, Timestamp};

use super::core::HazardCore;
use super::curves::{GRID, GRID_S};
use super::settings::{Anomalies, HazardSettings, OrderReport};
use crate::{
    FitTask, Fits, Fitted, Forecasts, Joint, LearningStage, Nodes, Predictor, Report, Saver,
};

/// Changes within this many seconds are one event: some schedulers report a job node by node.
const ONE_EVENT_S: f64 = 1.0;

/// Learns a discrete-time hazard and the order of the scheduler while it runs; see [`HazardCore`].
#[derive(Debug, Clone)]
pub struct Hazard {
    pub(super) core: HazardCore,
    numbers: HashMap<NodeId, u32>,
    pub(super) names: Vec<NodeId>,
    /// The number of names with ranks.
    pub(super) ranked: usize,
    /// The time of the newest event, whose changes are pending.
    at_s: f64,
    closed: Vec<u32>,
    opened: Vec<(u32, f64)>,
}

impl Hazard {
    /// A hazard that has learnt nothing yet.
    #[must_use]
    pub fn new(settings: HazardSettings) -> Self {
        Self {
            core: HazardCore::new(Nodes::default(), settings),
            numbers: HashMap::new(),
            names: Vec::new(),
            ranked: 0,
            at_s: 0.0,
            closed: Vec::new(),
            opened: Vec::new(),
        }
    }

    /// The order, and the evidence for it.
    #[must_use]
    pub fn order(&self) -> OrderReport {
        self.core.order()
    }

    /// Inputs that contradict each other, counted.
    #[must_use]
    pub fn anomalies(&self) -> Anomalies {
        self.core.anomalies()
    }

    pub(super) fn number(&mut self, node: &NodeId) -> u32 {
        if let Some(&number) = self.numbers.get(node) {
            return number;
        }
        let number = self.names.len() as u32;
        self.names.push(node.clone());
        self.numbers.insert(node.clone(), number);
        number
    }

    /// Applies the pending changes if the next change is of another event.
    fn turn_to(&mut self, at: Timestamp) {
        let at_s = at.unix_seconds();
        if (at_s - self.at_s).abs() > ONE_EVENT_S {
            self.flush();
            self.at_s = at_s;
        }
    }

    fn flush(&mut self) {
        if self.closed.is_empty() && self.opened.is_empty() {
            return;
        }
        if self.ranked < self.names.len() {
            let names = self.names.iter().map(NodeId::as_str);
            let nodes = Nodes::from_names(names, &self.core.settings.order);
            self.core.renumber(nodes);
            self.ranked = self.names.len();
        }
        self.core.step(self.at_s, &self.closed, &self.opened);
        self.closed.clear();
        self.opened.clear();
    }
}

impl Predictor for Hazard {
    fn name(&self) -> &'static str {
        "hazard"
    }

    fn label(&self) -> String {
        match self.core.learning() {
            LearningStage::Young { ended, needed } => {
                let like = self.core.most_like();
                let like = like.map_or_else(String::new, |(name, percent)| {
                    format!(", {percent:.0} % as {name}")
                });
                format!("by age alone{like} (hazard has seen {ended} of {needed} ends)")
            }
            LearningStage::Fixed | LearningStage::Learnt { .. } => {
                let shares = self.core.shares();
                let hazard = 100.0 * shares.iter().sum::<f32>() / shares.len() as f32;
                let order = self.core.order().state.words();
                if hazard > 99.9 {
                    format!("hazard, order {order}")
                } else {
                    let by_age = 100.0 - hazard;
                    format!("{hazard:.0} % hazard, {by_age:.0} % by age alone, order {order}")
                }
            }
        }
    }

    fn learning(&self) -> LearningStage {
        self.core.learning()
    }

    fn opened(&mut self, hole: &Hole, seen: Timestamp) {
        self.turn_to(seen);
        let number = self.number(&hole.node);
        self.opened.push((number, hole.since.unix_seconds()));
    }

    fn closed(&mut self, hole: &Hole, at: Timestamp) {
        self.turn_to(at);
        let number = self.number(&hole.node);
        if self.opened.iter().any(|&(node, _)| node == number) {
            // A hole that begins and ends within one event takes two steps.
            self.flush();
        }
        self.closed.push(number);
    }

    fn lost(&mut self, hole: &Hole, last_seen: Timestamp) {
        self.flush();
        let number = self.number(&hole.node);
        self.core.lose(number, last_seen.unix_seconds());
    }

    fn take_in(&mut self) {
        self.flush();
    }

    fn report(&self) -> Report {
        Report {
            order: Some(self.core.order()),
            anomalies: self.core.anomalies(),
            fits: self.core.fits(),
        }
    }

    fn set_fits(&mut self, fits: Fits) {
        self.core.set_fits(fits);
    }

    fn fit_task(&mut self) -> Option<FitTask> {
        self.core.fit_task()
    }

    fn install(&mut self, fitted: Option<Fitted>) {
        self.core.install(fitted);
    }

    fn save(&self) -> Option<Vec<u8>> {
        self.seal()
    }

    fn saver(&self) -> Option<Saver> {
        Some(self.sealer())
    }

    fn freeze(&mut self) {
        self.flush();
        self.core.freeze();
    }

    fn forecast(&mut self, now: Timestamp, holes: &[Hole]) -> Forecasts {
        self.flush();
        let mut places = vec![u32::MAX; self.names.len()];
        for (place, hole) in (0u32..).zip(holes) {
            let slot = self
                .numbers
                .get(&hole.node)
                .and_then(|&number| places.get_mut(number as usize));
            if let Some(slot) = slot {
                *slot = place;
            }
        }
        let core = &mut self.core;
        let view = core.forecast(now.unix_seconds());
        let mut forecasts: Vec<Forecast> = view.curves.iter().map(forecast).collect();
        let mut index = vec![u32::MAX; holes.len()];
        let mut order = Vec::with_capacity(holes.len());
        let mut nodes = Vec::with_capacity(holes.len());
        let mut link = Vec::with_capacity(holes.len());
        let mut is_gap = false;
        for ((&node, &curve), to_next) in view
            .nodes
            .iter()
            .zip(view.curve)
            .zip(view.link.iter().chain([&0.5]))
        {
            let place = places.get(node as usize).copied().unwrap_or(u32::MAX);
            let Some(slot) = index.get_mut(place as usize) else {
                // The hole is present, but not in the list.
                is_gap = true;
                continue;
            };
            *slot = curve;
            order.push(place);
            nodes.push((node, is_gap));
            link.push(*to_next);
            is_gap = false;
        }
        link.pop();
        if is_gap || nodes.iter().any(|&(_, is_gap)| is_gap) {
            for ((pair, link), next) in nodes.iter().zip(&mut link).zip(nodes.iter().skip(1)) {
                *link = core.link(pair.0, next.0);
            }
        }
        // Holes in the list that were never opened get the mean forecast of the others.
        let known = index.iter().filter(|&&curve| curve != u32::MAX).count();
        if known < holes.len() {
            let mean = mean(&forecasts, &index);
            for (place, slot) in (0u32..).zip(&mut index) {
                if *slot == u32::MAX {
                    *slot = forecasts.len() as u32;
                    if !order.is_empty() {
                        link.push(0.0);
                    }
                    order.push(place);
                }
            }
            forecasts.push(mean);
        }
        Forecasts {
            forecasts,
            index,
            joint: Some(Joint {
                // Without an order of the scheduler, only co-departures are meant.
                source: if core.order().state.is_order() {
                    OrderSource::Scheduler
                } else {
                    OrderSource::Expectation
                },
                order,
                link,
                typical_s: core.typical_s(),
                announced: Vec::new(),
            }),
            announced: Vec::new(),
        }
    }
}

fn forecast(curve: &[f32; GRID]) -> Forecast {
    let points = GRID_S
        .iter()
        .zip(curve)
        .map(|(&after_s, &open)| ForecastPoint {
            after_s,
            open: f64::from(open),
        })
        .collect();
    Forecast { points }
}

/// The mean curve of the holes that have one; without any, a half-life of an hour.
fn mean(forecasts: &[Forecast], index: &[u32]) -> Forecast {
    let mut sums = [0.0; GRID];
    let mut count = 0.0;
    for forecast in index.iter().filter_map(|&at| forecasts.get(at as usize)) {
        count += 1.0;
        for (sum, point) in sums.iter_mut().zip(&forecast.points) {
            *sum += point.open;
        }
    }
    let points = GRID_S
        .iter()
        .zip(sums)
        .map(|(&after_s, sum)| ForecastPoint {
            after_s,
            open: if count > 0.0 {
                sum / count
            } else {
                (-after_s / 3600.0f64).exp2()
            },
        })
        .collect();
    Forecast { points }
}
