//! Mixes: counts of nodes of two kinds.
//!
//! Where all nodes are of one kind, or no trainer tells kinds apart, a situation has no [`Mixes`], and
//! decisions are byte for byte those without kinds.

use std::sync::Arc;

/// Node counts of the two kinds.
pub type Mix = [u32; 2];

/// The kinds of the slots of a situation, and what mixes are worth to its candidates.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Mixes {
    /// The kind of each slot, 0 or 1.
    pub of: Vec<u8>,
    /// Each candidate over mixes.
    pub items: Vec<MixItem>,
}

/// The allocation problem over mixes: maximise the sum of [`MixItem::gain`] while the nodes of each
/// kind are at most those of the pool.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MixProblem {
    /// Nodes of each kind in the pool that may be used.
    pub nodes: Mix,
    /// Forward-looking time, seconds.
    pub horizon_s: f64,
    /// The admitted trainers.
    pub trainers: Vec<MixItem>,
}

/// A number for each mix up to a most mix, in rows of the first kind. Minus infinity where a mix is
/// impossible.
#[derive(Debug, Clone, PartialEq)]
pub struct MixTable {
    most: Mix,
    values: Arc<[f64]>,
}

/// One trainer of a [`MixProblem`].
#[derive(Debug, Clone, PartialEq)]
pub struct MixItem {
    /// Present nodes.
    pub current: Mix,
    /// Objective rate of each mix, objective units per second.
    pub value: MixTable,
    /// Rate that a change stalls, objective units per second.
    pub rate_now: f64,
    /// Cost of growing in any kind, seconds at `rate_now`.
    pub up_s: f64,
    /// Cost of shrinking in any kind, seconds at `rate_now`.
    pub down_s: f64,
}

/// An answer to a [`MixProblem`].
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MixSizes {
    /// Nodes of each kind of each trainer.
    pub mixes: Vec<Mix>,
    /// Sum of the gains, objective units.
    pub objective: f64,
}

impl MixTable {
    /// The table of a function of mixes up to `most`. No nodes are always possible, for nothing.
    #[must_use]
    pub fn new(most: Mix, value: impl Fn(Mix) -> Option<f64>) -> Self {
        let [rows, columns] = most;
        let mixes = (0..=rows).flat_map(|a| (0..=columns).map(move |b| [a, b]));
        let at = |mix: Mix| match mix {
            [0, 0] => 0.0,
            _ => value(mix).unwrap_or(f64::NEG_INFINITY),
        };
        Self {
            most,
            values: mixes.map(at).collect(),
        }
    }

    /// Most nodes of each kind.
    #[must_use]
    pub const fn most(&self) -> Mix {
        self.most
    }

    /// The number of a mix; minus infinity where it is impossible.
    #[must_use]
    pub fn at(&self, [a, b]: Mix) -> f64 {
        let [rows, columns] = self.most;
        if a > rows || b > columns {
            return f64::NEG_INFINITY;
        }
        let at = a as usize * (columns as usize + 1) + b as usize;
        self.values.get(at).copied().unwrap_or(f64::NEG_INFINITY)
    }

    /// The table with each number times a factor.
    #[must_use]
    pub fn times(&self, factor: f64) -> Self {
        if factor == 1.0 {
            return self.clone();
        }
        let scaled = |value: &f64| {
            if value.is_finite() {
                value * factor
            } else {
                *value
            }
        };
        Self {
            most: self.most,
            values: self.values.iter().map(scaled).collect(),
        }
    }
}

impl MixItem {
    /// Whether a mix is possible.
    #[must_use]
    pub fn is_mix(&self, mix: Mix) -> bool {
        self.value.at(mix).is_finite()
    }

    /// Gain of a mix over the horizon, less the cost of changing to it, objective units. A change
    /// that grows in one kind and shrinks in the other pays both. Minus infinity if impossible.
    #[must_use]
    pub fn gain(&self, horizon_s: f64, mix: Mix) -> f64 {
        let pairs = || mix.iter().zip(&self.current);
        let (grows, shrinks) = (pairs().any(|(n, c)| n > c), pairs().any(|(n, c)| n < c));
        let seconds =
            f64::from(u8::from(grows)) * self.up_s + f64::from(u8::from(shrinks)) * self.down_s;
        horizon_s * self.value.at(mix) - self.rate_now * seconds
    }
}

impl MixProblem {
    /// The mixes with their objective, objective units.
    #[must_use]
    pub fn sizes(&self, mixes: Vec<Mix>) -> MixSizes {
        let gains = self.trainers.iter().zip(&mixes);
        let objective = gains
            .map(|(item, &mix)| item.gain(self.horizon_s, mix))
            .sum();
        MixSizes { mixes, objective }
    }

    /// Whether these mixes are possible and fit into the pool.
    #[must_use]
    pub fn is_feasible(&self, mixes: &[Mix]) -> bool {
        let sum = |kind: fn(&Mix) -> u32| mixes.iter().map(|mix| u64::from(kind(mix))).sum::<u64>();
        let [first, second] = self.nodes;
        mixes.len() == self.trainers.len()
            && sum(|[a, _]| *a) <= u64::from(first)
            && sum(|[_, b]| *b) <= u64::from(second)
            && self
                .trainers
                .iter()
                .zip(mixes)
                .all(|(item, &mix)| item.is_mix(mix))
    }
}
