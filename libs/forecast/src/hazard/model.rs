//! The fitted hazard: trees that all ask the same questions at one depth.

use serde::{Deserialize, Serialize};

use super::features::FeatureRow;
use super::feature_bins::BINS;

/// How many intervals of the time to come have a hazard of their own.
pub(crate) const INTERVALS: usize = 8;

/// Where the intervals end, seconds from now. Within a interval the curve is linear; beyond the
/// last one, the last hazard goes on.
pub(crate) const EDGES_S: [f32; INTERVALS] = [
    60.0, 150.0, 300.0, 900.0, 3600.0, 14_400.0, 57_600.0, 230_400.0,
];

/// How many questions each tree asks.
pub(crate) const DEPTH: usize = 4;

/// How many leaves that makes.
pub(crate) const LEAVES: usize = 1 << DEPTH;

/// A value for each interval.
pub(crate) type PerInterval = [f32; INTERVALS];

/// A tree whose every node of one depth asks the same: is this feature's level above that one?
/// So its leaf is a number whose bits are the answers, and no branch is mispredicted
/// (oblivious trees: Prokhorenkova et al., "CatBoost", NeurIPS 2018).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Tree {
    /// Feature and level of each question; a level that none is above makes no question.
    pub(crate) questions: [(u8, u8); DEPTH],
    /// For each leaf, what it adds to the log-odds of each interval; [`LEAVES`] of them.
    pub(crate) leaves: Vec<PerInterval>,
}

impl Tree {
    pub(crate) fn leaf(&self, row: &FeatureRow) -> usize {
        let mut leaf = 0;
        for (bit, &(feature, level)) in self.questions.iter().enumerate() {
            let above = row.get(feature as usize).is_some_and(|&have| have > level);
            leaf |= usize::from(above) << bit;
        }
        leaf
    }
}

/// Log-odds of ending in each interval, given that the hole is open at its start.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(crate) struct Model {
    /// By level of age: what the age alone says; [`BINS`] of them.
    pub(crate) by_age: Vec<PerInterval>,
    pub(crate) trees: Vec<Tree>,
}

impl Model {
    /// The log-odds for one row.
    pub(crate) fn odds(&self, row: &FeatureRow) -> PerInterval {
        let [age, ..] = row;
        let by_age = self.by_age.get(usize::from(*age)).copied();
        let mut sums = by_age.unwrap_or_default();
        for tree in &self.trees {
            if let Some(leaf) = tree.leaves.get(tree.leaf(row)) {
                for (sum, add) in sums.iter_mut().zip(leaf) {
                    *sum += add;
                }
            }
        }
        sums
    }

    /// Probability of being open at the end of each interval, with log-odds that are off by
    /// `drift`.
    pub(crate) fn open(&self, row: &FeatureRow, drift: &PerInterval) -> PerInterval {
        let mut open = 1.0;
        let mut curve = self.odds(row);
        for (odds, drift) in curve.iter_mut().zip(drift) {
            open *= 1.0 - logistic(*odds + drift);
            *odds = open;
        }
        curve
    }

    /// What is wrong with a model that was read from somewhere, if anything is.
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        let leaves = self.trees.iter().flat_map(|tree| &tree.leaves);
        let mut numbers = leaves.chain(&self.by_age).flatten();
        if self.trees.iter().any(|tree| tree.leaves.len() != LEAVES) {
            Err("a tree has the wrong number of leaves")
        } else if self.by_age.len() != BINS {
            Err("it has the wrong number of ages")
        } else if numbers.any(|number| !number.is_finite()) {
            Err("a leaf is not a number")
        } else {
            Ok(())
        }
    }
}

pub(crate) fn logistic(x: f32) -> f32 {
    1.0 / (1.0 + (-x).exp())
}
