//! Placements: what is found.

use std::ops::Range;

use serde::Serialize;

use crate::model::{Plan, Terms, share_out, whole};
use crate::profile::LayerProfile;

/// What decides the number of a stage's units.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// Its computation.
    Computation,
    /// What it receives, and the sums of its weights.
    Communication,
    /// The memory for its tables.
    Memory,
    /// One unit does all of it.
    OneUnit,
}

/// A run of layers on one kind.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LayerStage {
    /// Its layers, as places in [`LayerProfile::layers`].
    pub layers: Range<usize>,
    /// Its kind, as a place in [`LayerProfile::kinds`].
    pub kind: usize,
    /// Its units.
    pub units: u32,
    /// Computation, seconds a sample with these units.
    pub compute_s: f64,
    /// Communication, seconds a sample with these units.
    pub communication_s: f64,
    /// What decides the units.
    pub bound: Bound,
}

impl LayerStage {
    /// Samples/s of the stage by itself.
    #[must_use]
    pub fn rate(&self) -> f64 {
        1.0 / self.compute_s.max(self.communication_s)
    }
}

/// Stages with units, and what they bring and cost.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Placement {
    /// The stages in the order of the layers.
    pub stages: Vec<LayerStage>,
    /// Samples/s.
    pub rate: f64,
    /// The price of all units for a second.
    pub spend_per_s: f64,
    /// The price of the whole work.
    pub cost: f64,
    /// No placement of the same question costs less; for [`crate::provision`], none with the same
    /// choice of kinds.
    pub cost_at_least: f64,
    /// Units of each kind, in the order of the kinds.
    pub used: Vec<u32>,
    /// Rates that were solved.
    pub solved: usize,
}

impl Placement {
    /// The share of the cost that is not proven to be needed, in [0, 1].
    #[must_use]
    pub fn gap(&self) -> f64 {
        if self.cost > 0.0 {
            (1.0 - self.cost_at_least / self.cost).clamp(0.0, 1.0)
        } else {
            0.0
        }
    }

    /// The stage that sets the rate, as a place in the stages.
    #[must_use]
    pub fn slowest(&self) -> usize {
        let rates = self.stages.iter().map(LayerStage::rate).enumerate();
        let least = rates.min_by(|a, b| a.1.total_cmp(&b.1));
        least.map_or(0, |(place, _)| place)
    }

    /// The kind of each layer.
    #[must_use]
    pub fn choice(&self) -> Vec<usize> {
        let kinds = self.stages.iter();
        kinds
            .flat_map(|stage| stage.layers.clone().map(|_| stage.kind))
            .collect()
    }

    /// A plan with its proven bound, a sample.
    pub(crate) fn new(
        profile: &LayerProfile,
        terms: &Terms,
        plan: &Plan,
        at_least: f64,
        solved: usize,
    ) -> Self {
        let y = 1.0 / plan.rate;
        let mut before = None;
        let mut stages = Vec::with_capacity(plan.steps.len());
        for step in &plan.steps {
            let load = terms.stage(step.from, step.until, step.kind, before);
            let (compute_s, communication_s) = load.seconds(step.units);
            let compute = whole(share_out(load.parallel, load.serial, y));
            let sent = whole(share_out(load.sent_parallel, load.sent_serial, y));
            let memory = whole(terms.kind(step.kind).units_of_memory(&load));
            let bound = if compute.max(sent).max(memory) <= 1.0 {
                Bound::OneUnit
            } else if memory >= compute.max(sent) {
                Bound::Memory
            } else if sent > compute {
                Bound::Communication
            } else {
                Bound::Computation
            };
            stages.push(LayerStage {
                layers: step.from..step.until,
                kind: step.kind,
                units: step.units,
                compute_s,
                communication_s,
                bound,
            });
            before = Some(step.kind);
        }
        let cost = profile.samples() * plan.spend / plan.rate;
        Self {
            stages,
            rate: plan.rate,
            spend_per_s: plan.spend,
            cost,
            cost_at_least: (profile.samples() * at_least).min(cost),
            used: plan.used(terms.kinds().len()),
            solved,
        }
    }

    /// Its stages with units.
    pub(crate) fn plan(&self, terms: &Terms) -> Plan {
        let step = |stage: &LayerStage| crate::model::Step {
            from: stage.layers.start,
            until: stage.layers.end,
            kind: stage.kind,
            units: stage.units,
        };
        terms.plan(self.stages.iter().map(step).collect())
    }
}
