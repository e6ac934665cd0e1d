//! What nodes are worth to a trainer: bounds, rates and values as tables.
//!
//! A replay has one for all equal trainers, a planner one for each trainer. It makes the
//! [`Candidate`] of a decision.

use std::sync::Arc;

use lacuna_model::{KindName, RescaleCost, ScalingCurve, among};
use lacuna_rates::{Rates, Shape};

use super::allocation::{Far, Item, Lost};
use super::mixes::{Mix, MixTable, NO_NODES, OnKinds, count};
use super::objective::{Objective, ObjectiveError, State, ValueTable};
use super::situation::Candidate;

/// Nodes of a kind up to which tables reach in any pool.
const REACH: u32 = 64;

/// The most nodes of each kind in tables of mixes, where a pool, or a machine, has `nodes`. It is the
/// same for most pools, so tables are kept, and a replay has those of the services.
#[must_use]
pub fn most_in_tables(nodes: Mix) -> Mix {
    nodes.map(|nodes| nodes.next_power_of_two().max(REACH))
}

/// Least value of a start, as a part of the value of its size, so that a start beats no start.
const LEAST_VALUE_OF_A_START: f64 = 0.01;

/// The costs of changes of a [`Worth`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Costs {
    /// Cost of growing and of shrinking, seconds at the rate before.
    pub rescale: RescaleCost,
    /// Stall of a start from no nodes, seconds at the rate after.
    pub start_s: f64,
    /// Seconds until pilots of its owner run on further nodes; 0 where agents serve any trainer.
    pub pilot_s: f64,
}

impl Costs {
    /// The costs of a trainer.
    #[must_use]
    pub fn of<'a>(trainer: impl Into<Rates<'a>>) -> Self {
        let rates = trainer.into();
        Self {
            rescale: rates.rescale(),
            start_s: rates.start_s(),
            pilot_s: 0.0,
        }
    }

    /// The costs where each node waits `pilot_s` seconds for a pilot of the trainer's owner.
    #[must_use]
    pub fn with_pilots(self, pilot_s: f64) -> Self {
        Self {
            start_s: self.start_s + pilot_s,
            pilot_s,
            ..self
        }
    }

    /// All costs times `factor`.
    #[must_use]
    pub fn scaled(self, factor: f64) -> Self {
        Self {
            rescale: self.rescale.scaled(factor),
            start_s: self.start_s * factor,
            pilot_s: self.pilot_s * factor,
        }
    }
}

/// What nodes are worth to equal trainers.
#[derive(Debug, Clone)]
pub struct Worth {
    min: u32,
    max: u32,
    /// Samples/s at 0..=max nodes.
    rate: Arc<[f64]>,
    /// What is left of them where the nodes are apart.
    far: Far,
    /// Objective values at 0..=max nodes.
    table: ValueTable,
    values: Values,
    costs: Costs,
    /// Value of a start, as part of the value of its size over the horizon of a decision.
    start: f64,
    weight: f64,
    /// Rates over mixes, if nodes are of several kinds.
    mixes: Option<MixRates>,
}

/// The rates of a trainer over mixes.
#[derive(Debug, Clone, PartialEq)]
struct MixRates {
    /// Samples/s of each mix.
    rate: MixTable,
    /// Whether it has no rates by kind: then its curve holds on each kind alone.
    any: bool,
}

/// Objective values at 0..=max nodes, at one step of a [`ValueTable`].
#[derive(Debug, Clone)]
pub struct Values {
    step: i32,
    /// Values of a running trainer.
    running: Arc<[f64]>,
    /// Values of a start from no nodes.
    starting: Arc<[f64]>,
}

impl Values {
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

impl Worth {
    /// The kind of a trainer under an objective. Decisions without forecasts count gains over
    /// `horizon_s` seconds.
    ///
    /// # Errors
    /// [`ObjectiveError`] if the objective is invalid for the trainer.
    pub fn new<'a>(
        trainer: impl Into<Rates<'a>>,
        costs: Costs,
        objective: &Objective,
        horizon_s: f64,
    ) -> Result<Self, ObjectiveError> {
        let rates = trainer.into();
        let spec = rates.spec();
        let table = ValueTable::of(&rates, objective)?;
        let lost = costs.start_s / horizon_s;
        let start = if lost > 0.0 {
            (1.0 - lost).max(LEAST_VALUE_OF_A_START)
        } else {
            1.0
        };
        Ok(Self {
            min: spec.min_nodes,
            max: spec.max_nodes,
            rate: rates.curve().table(spec.max_nodes).into(),
            far: Far::new(rates.distance().table(rates.curve(), spec.max_nodes)),
            values: Values::new(0, table.initial().clone(), start),
            table,
            costs,
            start,
            weight: spec.effective_weight(),
            mixes: None,
        })
    }

    /// The kind whose values are learning a second by a curve, under the objective `goodput`.
    #[must_use]
    pub fn with_goodput<'a>(mut self, trainer: impl Into<Rates<'a>>, curve: &ScalingCurve) -> Self {
        self.table = ValueTable::of_goodput(trainer.into().spec(), curve);
        self.values = Values::new(0, self.table.initial().clone(), self.start);
        self
    }

    /// The kind where nodes are of these kinds, of which there are at most `nodes`. A trainer without
    /// rates by kind has its curve on each kind, one kind at a time.
    #[must_use]
    pub fn with_kinds<'a>(
        mut self,
        trainer: impl Into<Rates<'a>>,
        names: &[KindName],
        nodes: Mix,
    ) -> Self {
        let rates = trainer.into();
        let (kinds, max) = (&rates.spec().kinds, self.max);
        let any = kinds.is_any();
        let most = |kind, nodes: u32| {
            let measured = if any { max } else { kinds.most(kind) };
            measured.min(max).min(nodes)
        };
        let mut mosts = NO_NODES;
        for ((kind, name), place) in names.iter().enumerate().zip(&mut mosts) {
            *place = most(name, count(&nodes, kind));
        }
        let rate = MixTable::new(mosts, |mix| rates.on_mix(names, mix));
        self.mixes = Some(MixRates { rate, any });
        self
    }

    /// What mixes are worth by some values of sizes. A mix has the value of its number of nodes, times
    /// its rate over that of the curve on this number.
    fn over_kinds(&self, values: &[f64]) -> Option<OnKinds> {
        let MixRates { rate, any } = self.mixes.as_ref()?;
        let of = |nodes: usize| values.get(nodes).copied().unwrap_or_default();
        let factor = |nodes: usize| {
            let curve = self.rate.get(nodes).copied().unwrap_or_default();
            (curve > 0.0).then(|| of(nodes) / curve)
        };
        let all = |mix: Mix| mix.iter().sum::<u32>() as usize;
        let value = if *any {
            rate.map(|mix, _| of(all(mix)))
        } else {
            let sizes = self.min as usize..self.rate.len();
            let mut factors = sizes.filter_map(factor);
            let first = factors.next().unwrap_or_default();
            // Most objectives are the rate times one factor.
            if factors.all(|other| (other - first).abs() <= 1e-12 * first.abs()) {
                rate.times(first)
            } else {
                rate.map(|mix, rate| rate * factor(all(mix)).unwrap_or(first))
            }
        };
        Some(OnKinds {
            current: NO_NODES,
            value,
            start_s: self.costs.start_s,
        })
    }

    /// Whether two kinds are equal.
    #[must_use]
    pub fn is_like(&self, other: &Self) -> bool {
        self.trains_like(other) && self.weight == other.weight && self.table == other.table
    }

    /// Whether two kinds have equal rates, bounds and costs; values may differ.
    #[must_use]
    pub fn trains_like(&self, other: &Self) -> bool {
        self.min == other.min
            && self.max == other.max
            && self.costs == other.costs
            && self.rate == other.rate
            && self.far == other.far
            && self.mixes == other.mixes
    }

    /// Samples/s on `nodes` nodes; beyond the maximum, those of the maximum.
    #[must_use]
    pub fn rate(&self, nodes: u32) -> f64 {
        let most = self.rate.last().copied().unwrap_or_default();
        self.rate.get(nodes as usize).copied().unwrap_or(most)
    }

    /// Samples/s on a shape; 0 where it cannot run.
    #[must_use]
    pub fn rate_on(&self, shape: &Shape) -> f64 {
        let nodes = shape.nodes();
        let near = match &self.mixes {
            Some(mixes) => mixes.rate.at(shape.mix).max(0.0),
            None => self.rate(nodes),
        };
        near * among(self.far.share(nodes, shape.tier), shape.crowd)
    }

    /// Whether it can run on the kinds of a mix, whatever its bounds.
    #[must_use]
    pub fn runs_on(&self, mix: Mix) -> bool {
        let over = self.mixes.as_ref();
        over.is_none_or(|mixes| mixes.rate.at(mix) > 0.0)
    }

    /// What is left of the rates where the nodes are apart.
    #[must_use]
    pub const fn far(&self) -> &Far {
        &self.far
    }

    /// Samples/s on 0, 1, 2, ... nodes of one leaf.
    #[must_use]
    pub fn rates(&self) -> &[f64] {
        &self.rate
    }

    /// What a sample/s more is worth on `nodes` nodes, objective units.
    pub(crate) fn value_of_rate(&self, nodes: u32, own: Option<&Values>) -> f64 {
        let values = &own.unwrap_or(&self.values).running;
        let value = values.get(nodes as usize).copied().unwrap_or_default();
        let rate = self.rate(nodes);
        if rate > 0.0 { value / rate } else { 0.0 }
    }

    /// The fewest nodes of a running trainer.
    #[must_use]
    pub const fn min(&self) -> u32 {
        self.min
    }

    /// The costs of changes.
    #[must_use]
    pub const fn costs(&self) -> &Costs {
        &self.costs
    }

    /// Whether the values never change.
    #[must_use]
    pub const fn is_fixed(&self) -> bool {
        self.table.is_fixed()
    }

    /// Updates a trainer's own values to its state.
    ///
    /// # Errors
    /// [`ObjectiveError`] if an expression gives an invalid value.
    pub fn update(&self, own: &mut Option<Values>, state: &State) -> Result<(), ObjectiveError> {
        let step = self.table.step(state);
        if own.as_ref().is_none_or(|own| own.step != step) {
            *own = Some(Values::new(step, self.table.at(step)?, self.start));
        }
        Ok(())
    }

    /// The candidate for a trainer of this kind on `current` nodes at a tier, with its own values
    /// if it has any. `hit` says whether a departure has hit it at this event. Where nodes are of
    /// several kinds it holds none yet: [`Candidate::holding`].
    #[must_use]
    pub fn candidate(
        &self,
        current: u32,
        tier: usize,
        hit: bool,
        own: Option<&Values>,
    ) -> Candidate {
        let values = own.unwrap_or(&self.values);
        let item = Item {
            current,
            min: self.min,
            max: self.max,
            value: values.running.clone(),
            rate_now: 0.0,
            up_s: self.costs.rescale.up_s,
            pilot_s: self.costs.pilot_s,
            far: self.far.clone(),
            down_s: self.costs.rescale.down_s,
            lost: Lost::default(),
            kinds: self.over_kinds(&values.running),
        };
        Candidate {
            item: item.at_its_rate(tier),
            starting: values.starting.clone(),
            start_s: self.costs.start_s,
            hit,
        }
    }
}
