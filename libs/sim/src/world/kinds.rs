//! The kinds of a list of trainers. Trainers that are alike share one kind. Nodes may be of several
//! kinds, which a kind of trainers then tells apart.

use std::borrow::Cow;
use std::sync::Arc;

use lacuna_model::{KindName, ScalingCurve, Span, TrainerSpec, Work};
use lacuna_planner::objective::Objective;
use lacuna_planner::worth::{Costs, Worth, most_in_tables};
use lacuna_planner::{Mix, NO_NODES};

use crate::{PoolTrace, Settings, SimError};

/// All kinds of a list of trainers.
#[derive(Debug, Clone)]
pub(crate) struct Kinds {
    kinds: Vec<Arc<Worth>>,
    /// The index of the kind of each trainer.
    of: Vec<usize>,
    /// For each trainer, the samples from which it is of another kind, with its index.
    stages: Vec<Vec<(f64, usize)>>,
    /// The kinds of nodes, if trainers tell them apart.
    nodes: Option<Vec<KindName>>,
}

/// The trainers where all nodes are of one kind: their curves are those of that kind.
pub(crate) fn of_one_kind<'a>(
    trace: &dyn PoolTrace,
    trainers: &'a [TrainerSpec],
) -> Cow<'a, [TrainerSpec]> {
    let ([kind], true) = (
        trace.kinds(),
        trainers.iter().any(|spec| !spec.kinds.is_any()),
    ) else {
        return Cow::Borrowed(trainers);
    };
    trainers.iter().map(|spec| spec.on_kind(kind)).collect()
}

impl Kinds {
    /// The kinds of a list of trainers on the nodes of a trace.
    ///
    /// # Errors
    /// As [`Kinds::new`].
    pub(crate) fn on(
        trace: &dyn PoolTrace,
        trainers: &[TrainerSpec],
        settings: &Settings,
    ) -> Result<Self, SimError> {
        let any = trainers.iter().all(|spec| spec.kinds.is_any());
        let nodes = match trace.kinds() {
            names if names.len() > 1 && !any => Some(names.to_vec()),
            _ => None,
        };
        let mut counts = NO_NODES;
        for node in 0..trace.nodes() {
            if let Some(count) = counts.get_mut(usize::from(trace.kind(node))) {
                *count += 1;
            }
        }
        Self::sorted(trainers, settings, nodes, most_in_tables(counts))
    }

    /// The kinds of nodes, if trainers tell them apart.
    pub(crate) fn nodes(&self) -> Option<&[KindName]> {
        self.nodes.as_deref()
    }

    /// Sorts a list of trainers into kinds.
    ///
    /// # Errors
    /// [`SimError::Objective`] if an objective is invalid for a trainer.
    pub(crate) fn new(trainers: &[TrainerSpec], settings: &Settings) -> Result<Self, SimError> {
        Self::sorted(trainers, settings, None, NO_NODES)
    }

    fn sorted(
        trainers: &[TrainerSpec],
        settings: &Settings,
        nodes: Option<Vec<KindName>>,
        counts: Mix,
    ) -> Result<Self, SimError> {
        let mut kinds: Vec<Arc<Worth>> = Vec::new();
        let mut index = |spec: &TrainerSpec, goodput: Option<&ScalingCurve>| {
            let kind = kind(spec, goodput, settings)?;
            let kind = match &nodes {
                Some(names) => kind.with_kinds(spec, names, counts),
                None => kind,
            };
            let known = kinds.iter().position(|known| known.is_like(&kind));
            Ok(known.unwrap_or_else(|| {
                kinds.push(Arc::new(kind));
                kinds.len() - 1
            }))
        };
        let of = trainers.iter().map(|spec| {
            let staged = settings.stages.get(&spec.id);
            index(spec, staged.and_then(|staged| staged.goodput.as_ref()))
        });
        let of = of.collect::<Result<_, SimError>>()?;
        let stages = trainers.iter().map(|spec| {
            let staged = settings.stages.get(&spec.id);
            let stages = staged.into_iter().flat_map(|staged| &staged.later);
            let staged = stages.map(|stage| {
                let later = TrainerSpec {
                    throughput: stage.throughput.clone(),
                    objective: stage.objective.clone(),
                    ..spec.clone()
                };
                Ok((stage.from, index(&later, stage.goodput.as_ref())?))
            });
            staged.collect()
        });
        let stages = stages.collect::<Result<_, SimError>>()?;
        Ok(Self {
            kinds,
            of,
            stages,
            nodes,
        })
    }

    /// The kind of a trainer of the list.
    pub(crate) fn of(&self, trainer: usize) -> Option<&Arc<Worth>> {
        self.kinds.get(*self.of.get(trainer)?)
    }

    /// The kind of a trainer from its stage with this number on, and the samples where that begins.
    pub(crate) fn stage(&self, trainer: usize, number: usize) -> Option<(f64, &Arc<Worth>)> {
        let (from, kind) = self.stages.get(trainer)?.get(number)?;
        Some((*from, self.kinds.get(*kind)?))
    }

    /// The only kind, if all do the same work on the same nodes.
    pub(crate) fn only(&self) -> Option<&Arc<Worth>> {
        let (first, others) = self.kinds.split_first()?;
        let alike = others.iter().all(|kind| kind.trains_like(first));
        alike.then_some(first)
    }
}

/// The kind of a trainer under the settings of a replay. `goodput` is how fast it learns, if that is
/// known.
fn kind(
    spec: &TrainerSpec,
    goodput: Option<&ScalingCurve>,
    settings: &Settings,
) -> Result<Worth, SimError> {
    let named = settings.objectives.of(&spec.id);
    let objective = named.unwrap_or(&settings.objective);
    let mut costs = Costs::of(spec);
    if settings.charge_starts && costs.start_s == 0.0 {
        costs.start_s = costs.rescale.up_s;
    }
    let pilot = settings.pilot_start.filter(|_| spec.owner.is_some());
    let pilot_s = pilot.map_or(0.0, Span::as_secs_f64);
    let costs = costs.scaled(settings.cost_scale).with_pilots(pilot_s);
    let horizon_s = settings.horizon.as_secs_f64();
    let kind = Worth::new(spec, costs, objective, horizon_s)?;
    Ok(match (objective, goodput) {
        (Objective::Goodput, Some(curve)) => kind.with_goodput(spec, curve),
        _ => kind,
    })
}

/// Samples of work; infinite for a trainer that ends by itself.
pub(crate) fn work(spec: &TrainerSpec) -> f64 {
    match spec.work {
        Work::Samples(samples) => samples,
        Work::UntilExit => f64::INFINITY,
    }
}
