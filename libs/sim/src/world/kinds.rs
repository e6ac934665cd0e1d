//! The kinds of a list of trainers. Trainers that are alike share one kind.

use std::sync::Arc;

use lacuna_model::{Span, TrainerSpec, Work};
use lacuna_planner::kind::{Costs, Kind};

use crate::{Settings, SimError};

/// All kinds of a list of trainers.
#[derive(Debug, Clone)]
pub(crate) struct Kinds {
    kinds: Vec<Arc<Kind>>,
    /// The index of the kind of each trainer.
    of: Vec<usize>,
}

impl Kinds {
    /// Sorts a list of trainers into kinds.
    ///
    /// # Errors
    /// [`SimError::Objective`] if an objective is invalid for a trainer.
    pub(crate) fn new(trainers: &[TrainerSpec], settings: &Settings) -> Result<Self, SimError> {
        let horizon_s = settings.horizon.as_secs_f64();
        let mut kinds: Vec<Arc<Kind>> = Vec::new();
        let of = trainers
            .iter()
            .map(|spec| {
                let named = settings.objectives.of(&spec.id);
                let objective = named.unwrap_or(&settings.objective);
                let mut costs = Costs::of(spec);
                if settings.charge_starts && costs.start_s == 0.0 {
                    costs.start_s = costs.rescale.up_s;
                }
                let pilot = settings.pilot_start.filter(|_| spec.owner.is_some());
                let pilot_s = pilot.map_or(0.0, Span::as_secs_f64);
                let costs = costs.scaled(settings.cost_scale).with_pilots(pilot_s);
                let kind = Kind::new(spec, costs, objective, horizon_s)?;
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
