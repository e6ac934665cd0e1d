//! Trainers by what they have in common: rates and bounds as tables, made once for all that
//! are alike.

use std::sync::Arc;

use lacuna_model::{RescaleCost, TrainerSpec, Work};
use lacuna_planner::Item;
use lacuna_planner::objective::{State, Worth, weight};

use crate::{Settings, SimError};

/// A start is worth at least this part of its rate, so that it is worth more than none.
const LEAST_WORTH_OF_A_START: f64 = 0.01;

/// What trainers of one kind have in common.
#[derive(Debug, Clone)]
pub(crate) struct Kind {
    min: u32,
    max: u32,
    /// Samples/s at 0..=max nodes.
    rate: Arc<[f64]>,
    /// What is maximised, at 0..=max nodes.
    worth: Worth,
    tables: Tables,
    cost: RescaleCost,
    /// What a start from nothing is worth, as part of the worth over the horizon.
    start: f64,
    /// Samples/s on one node for weight 1: what service is counted in.
    unit: f64,
    weight: f64,
}

/// What is maximised at 0..=max nodes, at one step of a [`Worth`].
#[derive(Debug, Clone)]
pub(crate) struct Tables {
    step: i32,
    /// Of a trainer that runs.
    running: Arc<[f64]>,
    /// Of one that would start from nothing.
    starting: Arc<[f64]>,
}

impl Tables {
    fn new(step: i32, running: Arc<[f64]>, start: f64) -> Self {
        let starting = if start < 1.0 {
            running.iter().map(|value| value * start).collect()
        } else {
            running.clone()
        };
        Self {
            step,
            running,
            starting,
        }
    }
}

impl Kind {
    fn of(spec: &TrainerSpec, settings: &Settings) -> Result<Self, SimError> {
        let max = spec.max_nodes;
        let named = settings.objectives.of(&spec.id);
        let worth = Worth::new(spec, named.unwrap_or(&settings.objective))?;
        let cost = spec.rescale.scaled(settings.cost_scale);
        let lost = cost.up_s / settings.horizon.as_secs_f64();
        let start = if settings.charge_starts && lost > 0.0 {
            (1.0 - lost).max(LEAST_WORTH_OF_A_START)
        } else {
            1.0
        };
        let weight = weight(spec);
        Ok(Self {
            min: spec.min_nodes,
            max,
            rate: spec.throughput.table(max).into(),
            tables: Tables::new(0, worth.table().clone(), start),
            worth,
            cost,
            start,
            unit: spec.throughput.at(1) * weight,
            weight,
        })
    }

    fn is_like(&self, other: &Self) -> bool {
        self.trains_like(other) && self.weight == other.weight && self.worth == other.worth
    }

    /// Whether two kinds do the same work on the same nodes, whatever it is worth.
    fn trains_like(&self, other: &Self) -> bool {
        self.min == other.min
            && self.max == other.max
            && self.cost == other.cost
            && self.rate == other.rate
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

    /// How much its work counts.
    pub(crate) const fn weight(&self) -> f64 {
        self.weight
    }

    /// Service in one sample.
    pub(crate) fn service(&self, samples: f64) -> f64 {
        if self.unit > 0.0 {
            samples / self.unit
        } else {
            0.0
        }
    }

    /// Whether what is maximised never changes.
    pub(crate) const fn is_fixed(&self) -> bool {
        self.worth.is_fixed()
    }

    /// Brings a trainer's own tables up to its state.
    pub(crate) fn update(&self, own: &mut Option<Tables>, state: &State) -> Result<(), SimError> {
        let step = self.worth.step(state);
        if own.as_ref().is_none_or(|own| own.step != step) {
            *own = Some(Tables::new(step, self.worth.at(step)?, self.start));
        }
        Ok(())
    }

    /// The same for those who charge starts by themselves.
    pub(crate) fn running_item(&self, current: u32, own: Option<&Tables>) -> Item {
        Item {
            value: own.unwrap_or(&self.tables).running.clone(),
            ..self.item(current, own)
        }
    }

    /// A trainer of this kind in the allocation problem, with its own tables if it has any.
    pub(crate) fn item(&self, current: u32, own: Option<&Tables>) -> Item {
        let tables = own.unwrap_or(&self.tables);
        let runs = current >= self.min;
        let rate_now = || tables.running.get(current as usize).copied().unwrap_or(0.0);
        Item {
            current,
            min: self.min,
            max: self.max,
            value: if runs {
                &tables.running
            } else {
                &tables.starting
            }
            .clone(),
            rate_now: if runs { rate_now() } else { 0.0 },
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
    ///
    /// # Errors
    /// [`SimError::Objective`] if what is maximised makes no sense for a trainer.
    pub(crate) fn new(trainers: &[TrainerSpec], settings: &Settings) -> Result<Self, SimError> {
        let mut kinds: Vec<Arc<Kind>> = Vec::new();
        let of = trainers
            .iter()
            .map(|spec| {
                let kind = Kind::of(spec, settings)?;
                let known = kinds.iter().position(|known| known.is_like(&kind));
                Ok(known.unwrap_or_else(|| {
                    kinds.push(Arc::new(kind));
                    kinds.len() - 1
                }))
            })
            .collect::<Result<_, SimError>>()?;
        Ok(Self { kinds, of })
    }

    /// The kind of a trainer of the list.
    pub(crate) fn of(&self, trainer: usize) -> Option<&Arc<Kind>> {
        self.kinds.get(*self.of.get(trainer)?)
    }

    /// The only kind, if all do the same work on the same nodes.
    pub(crate) fn only(&self) -> Option<&Arc<Kind>> {
        let (first, others) = self.kinds.split_first()?;
        let alike = others.iter().all(|kind| kind.trains_like(first));
        alike.then_some(first)
    }
}

/// Samples of work; infinite for a trainer that ends by itself.
pub(crate) fn work(spec: &TrainerSpec) -> f64 {
    match spec.work {
        Work::Samples(samples) => samples,
        Work::UntilExit => f64::INFINITY,
    }
}
