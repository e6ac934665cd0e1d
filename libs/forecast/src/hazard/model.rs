//! The fitted hazard: oblivious trees, which ask one question at each depth.

use serde::{Deserialize, Serialize};

use super::feature_bins::BINS;
use super::features::FeatureRow;

/// The number of intervals of the time to come, each with its own hazard.
pub(crate) const INTERVALS: usize = 8;

/// The ends of the intervals, seconds from now. The curve is linear within an interval, and the
/// last hazard goes on beyond the last one.
pub(crate) const EDGES_S: [f32; INTERVALS] = [
    60.0, 150.0, 300.0, 900.0, 3600.0, 14_400.0, 57_600.0, 230_400.0,
];

/// The number of questions of each tree.
pub(crate) const DEPTH: usize = 4;

/// The number of leaves of each tree.
pub(crate) const LEAVES: usize = 1 << DEPTH;

/// A value for each interval.
pub(crate) type PerInterval = [f32; INTERVALS];

/// An oblivious tree (Prokhorenkova et al., "CatBoost", NeurIPS 2018). All nodes of one depth ask
/// whether one feature is above one bin. So a leaf is the number whose bits are the answers, and no
/// branch is mispredicted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Tree {
    /// The feature and the bin of each question. The largest bin makes an empty question.
    pub(crate) questions: [(u8, u8); DEPTH],
    /// The values that each of the [`LEAVES`] adds to the log-odds of each interval.
    pub(crate) leaves: Vec<PerInterval>,
}

impl Tree {
    pub(crate) fn leaf(&self, row: &FeatureRow) -> usize {
        let mut leaf = 0;
        for (bit, &(feature, bin)) in self.questions.iter().enumerate() {
            let above = row.get(feature as usize).is_some_and(|&have| have > bin);
            leaf |= usize::from(above) << bit;
        }
        leaf
    }
}

/// The log-odds of an end in each interval, given that the hole is open at its start.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(crate) struct Model {
    /// The log-odds by age alone, for each of the [`BINS`] of age.
    pub(crate) by_age: Vec<PerInterval>,
    pub(crate) trees: Vec<Tree>,
}

impl Model {
    /// The log-odds of a row of features.
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

    /// The probability of being open at the end of each interval, with log-odds shifted by `drift`.
    pub(crate) fn open(&self, row: &FeatureRow, drift: &PerInterval) -> PerInterval {
        let mut open = 1.0;
        let mut curve = self.odds(row);
        for (odds, drift) in curve.iter_mut().zip(drift) {
            open *= 1.0 - logistic(*odds + drift);
            *odds = open;
        }
        curve
    }

    /// Checks a restored model; the error names the damage.
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
