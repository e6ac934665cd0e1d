//! Shapes: what a decision knows of a node set beside its departures.
//!
//! Whatever a trainer gains by its nodes (kinds, distance, crowded uplinks) is its rate on a shape.
//! Where nodes are of one kind, a mix has nodes of the first kind alone.

use lacuna_model::among;

use super::allocation::Item;
use super::mixes::{Mix, NO_NODES, count};

/// A node set without its departures.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shape {
    /// Nodes of each kind.
    pub mix: Mix,
    /// How far apart they are.
    pub tier: usize,
    /// How crowded their uplinks are, 1 or more; see [`crate::Switches::crowds`].
    pub crowd: f64,
}

impl Default for Shape {
    fn default() -> Self {
        Self::new(NO_NODES, 0)
    }
}

impl Shape {
    /// A mix at a tier, with free uplinks.
    #[must_use]
    pub const fn new(mix: Mix, tier: usize) -> Self {
        Self {
            mix,
            tier,
            crowd: 1.0,
        }
    }

    /// Nodes of the first kind at a tier, with free uplinks.
    #[must_use]
    pub const fn of(nodes: u32, tier: usize) -> Self {
        Self::new([nodes, 0, 0, 0], tier)
    }

    /// Number of nodes.
    #[must_use]
    pub fn nodes(&self) -> u32 {
        self.mix.iter().sum()
    }
}

impl Item {
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

    /// Cost of a change from the present nodes to a mix, objective units. A change that grows in one
    /// kind and shrinks in another pays both.
    #[must_use]
    pub fn cost_of(&self, mix: Mix) -> f64 {
        let Some(kinds) = &self.kinds else {
            return self.change_cost(mix.iter().sum());
        };
        let pairs = || mix.iter().zip(&kinds.current);
        let (grows, shrinks) = (pairs().any(|(n, c)| n > c), pairs().any(|(n, c)| n < c));
        if !grows && !shrinks {
            return 0.0;
        }
        let mut seconds = self.lost.seconds(mix.iter().sum());
        if grows {
            seconds += self.up_s;
        }
        if shrinks {
            seconds += self.down_s;
        }
        let waits = if grows {
            self.pilot_wait(self.value_of(mix))
        } else {
            0.0
        };
        self.rate_now * seconds + waits
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
        let Some(kinds) = &self.kinds else {
            return self.value_at(self.max) / f64::from(self.max.max(1));
        };
        let most = kinds.value.most();
        let alone = (0..most.len()).filter_map(|kind| {
            let nodes = count(&most, kind).min(self.max);
            let mut mix = NO_NODES;
            *mix.get_mut(kind)? = nodes;
            (nodes > 0).then(|| self.value_of(mix) / f64::from(nodes))
        });
        alone.fold(0.0, f64::max)
    }
}
