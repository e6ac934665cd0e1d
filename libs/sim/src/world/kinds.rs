//! Trainers by what they have in common: rates and bounds as tables, made once for all that
//! are alike.

use std::sync::Arc;

use lacuna_model::{RescaleCost, TrainerSpec, Work};
use lacuna_planner::Item;

use crate::Objective;

/// What trainers of one kind have in common.
#[derive(Debug, Clone)]
pub(crate) struct Kind {
    min: u32,
    max: u32,
    /// Samples/s at 0..=max nodes.
    rate: Arc<[f64]>,
    /// What is maximised, at 0..=max nodes.
    value: Arc<[f64]>,
    cost: RescaleCost,
}

impl Kind {
    fn of(spec: &TrainerSpec, objective: Objective, cost_scale: f64) -> Self {
        let max = spec.max_nodes;
        let rate: Arc<[f64]> = spec.throughput.table(max).into();
        let value = match objective {
            Objective::AsGiven => spec
                .objective
                .as_ref()
                .map_or_else(|| rate.clone(), |curve| curve.table(max).into()),
            Objective::Throughput => rate.clone(),
            Objective::ScalingEfficiency => spec.throughput.speedup().table(max).into(),
        };
        Self {
            min: spec.min_nodes,
            max,
            rate,
            value,
            cost: spec.rescale.scaled(cost_scale),
        }
    }

    fn is_like(&self, other: &Self) -> bool {
        self.min == other.min
            && self.max == other.max
            && self.cost == other.cost
            && self.rate == other.rate
            && self.value == other.value
    }

    /// Samples/s on so many nodes.
    pub(crate) fn rate(&self, nodes: u32) -> f64 {
        self.rate.get(nodes as usize).copied().unwrap_or(0.0)
    }

    /// Samples/s on 0, 1, 2, ... nodes.
    pub(crate) fn rates(&self) -> &[f64] {
        &self.rate
    }

    /// Fewest nodes.
    pub(crate) const fn min(&self) -> u32 {
        self.min
    }

    /// Seconds lost at the rate before a change.
    pub(crate) const fn cost(&self) -> RescaleCost {
        self.cost
    }

    /// A trainer of this kind in the allocation problem.
    pub(crate) fn item(&self, current: u32) -> Item {
        let value = self.value.get(current as usize).copied().unwrap_or(0.0);
        Item {
            current,
            min: self.min,
            max: self.max,
            value: self.value.clone(),
            rate_now: if current >= self.min { value } else { 0.0 },
            up_s: self.cost.up_s,
            down_s: self.cost.down_s,
        }
    }
}

/// All kinds of a list of trainers.
#[derive(Debug, Clone)]
pub(crate) struct Kinds {
    kinds: Vec<Arc<Kind>>,
    /// The kind of each trainer of the list.
    of: Vec<usize>,
}

impl Kinds {
    /// Sorts a list of trainers into kinds.
    pub(crate) fn new(trainers: &[TrainerSpec], objective: Objective, cost_scale: f64) -> Self {
        let mut kinds: Vec<Arc<Kind>> = Vec::new();
        let of = trainers
            .iter()
            .map(|spec| {
                let kind = Kind::of(spec, objective, cost_scale);
                kinds
                    .iter()
                    .position(|k| k.is_like(&kind))
                    .unwrap_or_else(|| {
                        kinds.push(Arc::new(kind));
                        kinds.len() - 1
                    })
            })
            .collect();
        Self { kinds, of }
    }

    /// The kind of a trainer of the list.
    pub(crate) fn of(&self, trainer: usize) -> Option<&Arc<Kind>> {
        self.kinds.get(*self.of.get(trainer)?)
    }

    /// The only kind, if there is but one.
    pub(crate) fn only(&self) -> Option<&Arc<Kind>> {
        match self.kinds.as_slice() {
            [only] => Some(only),
            _ => None,
        }
    }
}

/// Samples of work; infinite for a trainer that ends by itself.
pub(crate) fn work(spec: &TrainerSpec) -> f64 {
    match spec.work {
        Work::Samples(samples) => samples,
        Work::UntilExit => f64::INFINITY,
    }
}
