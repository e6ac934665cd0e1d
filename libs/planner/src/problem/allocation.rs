//! The allocation problem as ordinal-indexed, serialisable data.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::mixes::OnKinds;
use lacuna_rates::Shape;

/// The allocation problem over sizes: maximise the sum of [`Item::gain`] over the trainers while
/// the node counts sum to at most `nodes` (arXiv 2106.12091; [`crate::milp`] has the mathematics).
/// A saved problem can be solved again as a test.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Problem {
    /// Nodes in the pool that may be used.
    pub nodes: u32,
    /// Forward-looking time T, seconds.
    pub horizon_s: f64,
    /// The admitted trainers.
    pub trainers: Vec<Item>,
}

/// One trainer of a [`Problem`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Item {
    /// Number of present nodes, C.
    pub current: u32,
    /// Fewest nodes that it can run on, at least 1.
    pub min: u32,
    /// Most nodes that it can use.
    pub max: u32,
    /// Objective rate O(n) for n = 0..=max, objective units per second.
    pub value: Arc<[f64]>,
    /// Rate that a change stalls: O(C) if `current >= min`, else 0. Objective units per second.
    pub rate_now: f64,
    /// Cost of growing, seconds at `rate_now`.
    pub up_s: f64,
    /// Seconds until its owner's pilots run on further nodes; until then it works as before. 0
    /// where agents serve any trainer.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub pilot_s: f64,
    /// Cost of shrinking, seconds at `rate_now`.
    pub down_s: f64,
    /// Work that a change throws away.
    #[serde(default, skip_serializing_if = "Lost::is_nothing")]
    pub lost: Lost,
    /// What is left of `value` where the nodes are apart.
    #[serde(default, skip_serializing_if = "Far::is_free")]
    pub far: Far,
    /// What it has and gains where nodes are of several kinds. Its sizes are then sums over kinds.
    #[serde(skip)]
    pub kinds: Option<OnKinds>,
}

/// Work that a change of nodes throws away, and what a stop costs later. A departure throws the same
/// work away, so this counts for changes by choice alone.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Lost {
    /// By any change, seconds at `rate_now`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub change_s: f64,
    /// Beside it by a stop, seconds at `rate_now`: work that lives in the members, and the next
    /// start.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub stop_s: f64,
}

impl Lost {
    /// Whether a change throws nothing away.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }

    /// Seconds at the present rate that a change to `n` nodes costs.
    pub(crate) fn seconds(&self, n: u32) -> f64 {
        self.change_s + if n == 0 { self.stop_s } else { 0.0 }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
pub(super) fn is_zero(number: &f64) -> bool {
    *number == 0.0
}

/// The shares of a rate that are left at each tier from 1 on, by node count. A tier beyond the last
/// has the shares of the last; without any, distance costs nothing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Far(Arc<[Arc<[f64]>]>);

impl Default for Far {
    fn default() -> Self {
        Self(Arc::new([]))
    }
}

impl Far {
    /// The shares on 0, 1, 2, ... nodes, by tier from 1 on.
    #[must_use]
    pub fn new(tiers: impl IntoIterator<Item = Vec<f64>>) -> Self {
        Self(tiers.into_iter().map(Arc::from).collect())
    }

    /// Whether distance costs nothing.
    #[must_use]
    pub fn is_free(&self) -> bool {
        self.0.is_empty()
    }

    /// The share that is left on `nodes` nodes at a tier; beyond the last count, that of the last.
    #[must_use]
    pub fn share(&self, nodes: u32, tier: usize) -> f64 {
        let Some(at) = tier.min(self.0.len()).checked_sub(1) else {
            return 1.0;
        };
        let shares = self.0.get(at).map_or(&[][..], AsRef::as_ref);
        let share = shares.get(nodes as usize).or(shares.last());
        share.copied().unwrap_or(1.0)
    }
}

/// An answer to a [`Problem`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sizes {
    /// Node count of each trainer.
    pub counts: Vec<u32>,
    /// Sum of the gains, objective units.
    pub objective: f64,
}

impl Item {
    /// Objective rate on `n` nodes, objective units per second. It is minus infinity beyond
    /// [`max`](Self::max), so that a wrong size is never the best.
    #[must_use]
    pub fn value_at(&self, n: u32) -> f64 {
        self.value
            .get(n as usize)
            .copied()
            .unwrap_or(f64::NEG_INFINITY)
    }

    /// Objective rate on `n` nodes at a tier, objective units per second: O(n, tier).
    #[must_use]
    pub fn value_on(&self, n: u32, tier: usize) -> f64 {
        self.value_at(n) * self.far.share(n, tier)
    }

    /// The trainer with the rate that a change stalls: the rate of its present size at a tier, or 0
    /// with too few nodes to run.
    #[must_use]
    pub fn at_its_rate(mut self, tier: usize) -> Self {
        self.rate_now = if !self.runs() {
            0.0
        } else if self.kinds.is_some() {
            self.rate_on(&Shape::new(self.present(), tier))
        } else {
            self.value_on(self.current.min(self.max), tier)
        };
        self
    }

    /// Gain of `n` nodes over the horizon, less the cost of changing to them:
    /// `T * O(n) - rate_now * (up_s * [n > C] + down_s * [n < C] + L(n) * [n != C]) - W(n)`, in
    /// objective units, with W of [`pilot_wait`](Self::pilot_wait) and L of [`Lost`].
    /// Beyond `max`, minus infinity.
    #[must_use]
    pub fn gain(&self, horizon_s: f64, n: u32) -> f64 {
        horizon_s * self.value_at(n) - self.change_cost(n)
    }

    /// Cost of a change from the present size to `n` nodes, objective units.
    #[must_use]
    pub fn change_cost(&self, n: u32) -> f64 {
        match n.cmp(&self.current) {
            std::cmp::Ordering::Greater => self.grow_cost() + self.pilot_wait(self.value_at(n)),
            std::cmp::Ordering::Less => self.shrink_cost(n),
            std::cmp::Ordering::Equal => 0.0,
        }
    }

    /// Cost of growing without the wait for pilots, objective units.
    pub(crate) fn grow_cost(&self) -> f64 {
        self.rate_now * (self.up_s + self.lost.change_s)
    }

    /// Cost of shrinking to `n` nodes, objective units.
    pub(crate) fn shrink_cost(&self, n: u32) -> f64 {
        self.rate_now * (self.down_s + self.lost.seconds(n))
    }

    /// What further nodes do not add while they wait for their pilots, objective units: `rate` is
    /// the objective rate on all nodes.
    #[must_use]
    pub fn pilot_wait(&self, rate: f64) -> f64 {
        if self.pilot_s > 0.0 {
            self.pilot_s * (rate - self.rate_now).max(0.0)
        } else {
            0.0
        }
    }

    /// Whether the size is possible: no nodes, or between the bounds and within the curve.
    #[must_use]
    pub fn is_size(&self, n: u32) -> bool {
        n == 0 || (self.min <= n && n <= self.max && (n as usize) < self.value.len())
    }
}

impl Problem {
    /// The problem of some of the trainers, by their places, on `nodes` nodes.
    #[must_use]
    pub fn part(&self, trainers: &[u32], nodes: u32) -> Self {
        let items = trainers.iter();
        let items = items.filter_map(|&j| self.trainers.get(j as usize).cloned());
        Self {
            nodes,
            trainers: items.collect(),
            ..*self
        }
    }

    /// The value of `n` nodes to a trainer over the horizon, without the cost of a change,
    /// objective units.
    pub(crate) fn value(&self, item: &Item, n: u32) -> f64 {
        self.horizon_s * item.value_at(n)
    }

    /// The objective of these sizes, objective units.
    #[must_use]
    pub fn objective(&self, counts: &[u32]) -> f64 {
        self.trainers
            .iter()
            .zip(counts)
            .map(|(item, &n)| item.gain(self.horizon_s, n))
            .sum()
    }

    /// Whether these sizes are feasible: one for each trainer, each possible, with a sum of at most
    /// `nodes`.
    #[must_use]
    pub fn is_feasible(&self, counts: &[u32]) -> bool {
        let total: u64 = counts.iter().map(|&n| u64::from(n)).sum();
        counts.len() == self.trainers.len()
            && total <= u64::from(self.nodes)
            && self
                .trainers
                .iter()
                .zip(counts)
                .all(|(item, &n)| item.is_size(n))
    }

    /// The sizes with their objective.
    #[must_use]
    pub fn sizes(&self, counts: Vec<u32>) -> Sizes {
        Sizes {
            objective: self.objective(&counts),
            counts,
        }
    }
}
