//! What trainers gain on shapes, and the allocation problem over mixes.

use lacuna_model::{MOST_KINDS, among};

use super::allocation::{Far, Item, Lost};
use super::mixes::{Mix, MixTable, NO_NODES, OnKinds, count, with_count};
use lacuna_rates::Shape;

/// The allocation problem over mixes: maximise the sum of [`Item::gain_of`] while the nodes of each
/// kind are at most those of the pool.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MixProblem {
    /// Nodes of each kind in the pool that may be used.
    pub nodes: Mix,
    /// Forward-looking time, seconds.
    pub horizon_s: f64,
    /// The admitted trainers.
    pub trainers: Vec<Item>,
}

/// An answer to a [`MixProblem`].
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MixSizes {
    /// Nodes of each kind of each trainer.
    pub mixes: Vec<Mix>,
    /// Sum of the gains, objective units.
    pub objective: f64,
}

impl Item {
    /// A trainer on some nodes, with the values of mixes. Changes cost it nothing.
    #[must_use]
    pub fn over_kinds(current: Mix, value: MixTable) -> Self {
        let max = value.most().iter().sum();
        Self {
            current: current.iter().sum(),
            min: 1,
            max,
            value: vec![0.0; max as usize + 1].into(),
            rate_now: 0.0,
            up_s: 0.0,
            pilot_s: 0.0,
            down_s: 0.0,
            lost: Lost::default(),
            far: Far::default(),
            kinds: Some(OnKinds {
                current,
                value,
                start_s: 0.0,
            }),
        }
    }

    /// Objective rate on a mix of near nodes, objective units per second; minus infinity where the
    /// trainer cannot have it.
    #[must_use]
    pub fn value_of(&self, mix: Mix) -> f64 {
        match &self.kinds {
            Some(kinds) => kinds.value.at(mix),
            None => self.value_at(mix.iter().sum()),
        }
    }

    /// Objective rate on a shape, objective units per second: what crossing adds to the time of a
    /// sample grows with the crossing trainers on an uplink.
    #[must_use]
    pub fn rate_on(&self, shape: &Shape) -> f64 {
        let left = among(self.far.share(shape.nodes(), shape.tier), shape.crowd);
        self.value_of(shape.mix) * left
    }

    /// Its present nodes.
    #[must_use]
    pub fn present(&self) -> Mix {
        match &self.kinds {
            Some(kinds) => kinds.current,
            None => Shape::of(self.current, 0).mix,
        }
    }

    /// Whether it can run on its present nodes.
    #[must_use]
    pub fn runs(&self) -> bool {
        self.runs_on(self.present())
    }

    /// Whether it has enough nodes, of kinds that it can use together.
    #[must_use]
    pub fn runs_on(&self, mix: Mix) -> bool {
        match &self.kinds {
            Some(kinds) => kinds.value.at(mix) > 0.0,
            None => mix.iter().sum::<u32>() >= self.min,
        }
    }

    /// Whether it may have a mix: no nodes, or nodes on which it can run.
    #[must_use]
    pub fn is_mix(&self, mix: Mix) -> bool {
        match &self.kinds {
            Some(kinds) => mix == NO_NODES || kinds.value.at(mix) > 0.0,
            None => self.is_size(mix.iter().sum()),
        }
    }

    /// The trainer on other present nodes, with the rate that a change stalls.
    #[must_use]
    pub fn on(mut self, mix: Mix, tier: usize) -> Self {
        self.current = mix.iter().sum();
        if let Some(kinds) = &mut self.kinds {
            kinds.current = mix;
        }
        self.at_its_rate(tier)
    }

    /// Cost of a change from the present nodes to a mix, objective units. Nodes are given up before
    /// others are taken, so a change that does both costs both. If the trainer cannot run on what it
    /// keeps meanwhile, it stops and starts.
    #[must_use]
    pub fn cost_of(&self, mix: Mix) -> f64 {
        let Some(kinds) = &self.kinds else {
            return self.change_cost(mix.iter().sum());
        };
        let kept = std::array::from_fn(|kind| count(&mix, kind).min(count(&kinds.current, kind)));
        if kept == mix || kept == kinds.current {
            return match mix == kinds.current {
                true => 0.0,
                false if kept == mix => self.shrink_cost(mix.iter().sum()),
                false => self.grow_cost() + self.pilot_wait(self.value_of(mix)),
            };
        }
        let rate = self.value_of(mix).max(0.0);
        if !self.runs_on(kept) {
            // A stop counts the next start in advance where programs are stopped, and that is this one.
            let start_s = (kinds.start_s - self.pilot_s).max(0.0);
            let ahead = start_s.min(self.lost.stop_s);
            return self.shrink_cost(0) + kinds.start_s * rate - ahead * self.rate_now;
        }
        let between = self.value_of(kept).min(self.rate_now);
        let waits = self.pilot_s * (rate - between).max(0.0);
        self.shrink_cost(kept.iter().sum()) + between * self.up_s + waits
    }

    /// Gain of a mix over the horizon, less the cost of changing to it, objective units. Minus
    /// infinity if the trainer cannot have it.
    #[must_use]
    pub fn gain_of(&self, horizon_s: f64, mix: Mix) -> f64 {
        horizon_s * self.value_of(mix) - self.cost_of(mix)
    }

    /// The best objective rate per node at its largest sizes, objective units per second.
    #[must_use]
    pub(crate) fn largest_per_node(&self) -> f64 {
        if self.kinds.is_none() {
            return self.value_at(self.max) / f64::from(self.max.max(1));
        }
        let alone = (0..MOST_KINDS).map(|kind| self.per_node_alone(kind));
        alone.fold(0.0, f64::max)
    }

    /// The same on nodes of one kind alone; 0 where it cannot run there.
    fn per_node_alone(&self, kind: usize) -> f64 {
        let most = self.kinds.as_ref().map(|kinds| kinds.value.most());
        let nodes = most.map_or(0, |most| count(&most, kind).min(self.max));
        let value = self.value_of(with_count(NO_NODES, kind, nodes));
        (value / f64::from(nodes.max(1))).max(0.0)
    }

    /// By kind: what the best of these trainers makes of a node, over what the best makes of one of
    /// the best kind.
    #[must_use]
    pub fn worth_of_kinds<'a>(trainers: impl Iterator<Item = &'a Self> + Clone) -> Vec<f64> {
        let best = |kind| {
            let each = trainers.clone().map(|item| item.per_node_alone(kind));
            each.fold(0.0, f64::max)
        };
        let worth: Vec<f64> = (0..MOST_KINDS).map(best).collect();
        let most = worth.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
        worth.into_iter().map(|worth| worth / most).collect()
    }
}

impl MixProblem {
    /// The problem of some of the trainers, by their places, on other nodes.
    #[must_use]
    pub fn part(&self, trainers: &[u32], nodes: Mix) -> Self {
        let items = trainers.iter();
        let items = items.filter_map(|&j| self.trainers.get(j as usize).cloned());
        Self {
            nodes,
            trainers: items.collect(),
            ..*self
        }
    }

    /// The mixes with their objective, objective units.
    #[must_use]
    pub fn sizes(&self, mixes: Vec<Mix>) -> MixSizes {
        let gains = self.trainers.iter().zip(&mixes);
        let objective = gains
            .map(|(item, &mix)| item.gain_of(self.horizon_s, mix))
            .sum();
        MixSizes { mixes, objective }
    }

    /// Whether these mixes are possible and fit into the pool.
    #[must_use]
    pub fn is_feasible(&self, mixes: &[Mix]) -> bool {
        let sum = |kind| {
            mixes
                .iter()
                .map(|mix| u64::from(count(mix, kind)))
                .sum::<u64>()
        };
        mixes.len() == self.trainers.len()
            && (0..MOST_KINDS).all(|kind| sum(kind) <= u64::from(count(&self.nodes, kind)))
            && self
                .trainers
                .iter()
                .zip(mixes)
                .all(|(item, &mix)| item.value_of(mix).is_finite())
    }
}
