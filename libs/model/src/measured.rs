//! What was measured of a trainer while it trained, and how firmly its curve stands on it.

use serde::{Deserialize, Serialize};

use crate::{NodeId, Timestamp, TrainerId};

/// What was measured of a trainer while it trained: what its scaling curve and its rescale
/// costs rest on, and how firmly.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Measured {
    /// Rates by node count, fewest nodes first.
    pub rates: Vec<MeasuredRate>,
    /// What growing costs, once it has grown often enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub up: Option<MeasuredPause>,
    /// What shrinking and losing nodes costs, once that has happened often enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub down: Option<MeasuredPause>,
    /// What trying sizes on purpose has cost so far, node-seconds: time stalled by it, and time
    /// that nodes spent below what the plan would have had of them.
    #[serde(default)]
    pub spent_node_s: f64,
    /// Nodes that it holds and that do not train while it tries fewer, sorted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aside: Vec<NodeId>,
}

/// The rate at one node count, as measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MeasuredRate {
    /// Node count, at least 1.
    pub nodes: u32,
    /// Samples/s.
    pub rate: f64,
    /// Standard deviation of the single measurements, samples/s.
    pub spread: f64,
    /// From so many measurements.
    pub count: u32,
    /// The newest of them, in the cluster's time.
    pub at: Timestamp,
    /// The other trainer on which they were made, if it declares the same program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<TrainerId>,
}

/// What one kind of change of nodes costs, as measured.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct MeasuredPause {
    /// Mean, seconds of lost training.
    pub mean_s: f64,
    /// Standard deviation of the single changes, seconds.
    pub spread_s: f64,
    /// From so many changes.
    pub count: u32,
    /// The newest of them, in the cluster's time.
    pub at: Timestamp,
}

/// How the rate of a trainer at a node count is known.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "known")]
pub enum Basis {
    /// It was measured there.
    Measured(MeasuredRate),
    /// It lies on the line between two counts: the nearest that were measured, or none.
    Between {
        /// The nearest measured count below; 0 for the origin.
        below: u32,
        /// The nearest measured count above.
        above: u32,
    },
    /// It goes on in a straight line from what was measured.
    Beyond {
        /// The largest measured count.
        last: u32,
    },
    /// Nothing was measured yet.
    Assumed,
}

impl Measured {
    /// How the rate at `nodes` is known.
    #[must_use]
    pub fn basis(&self, nodes: u32) -> Basis {
        if let Some(rate) = self.rates.iter().find(|rate| rate.nodes == nodes) {
            return Basis::Measured(rate.clone());
        }
        let mut counts = self.rates.iter().map(|rate| rate.nodes);
        match counts.clone().find(|&count| count > nodes) {
            Some(above) => Basis::Between {
                below: counts.rfind(|&count| count < nodes).unwrap_or(0),
                above,
            },
            None => counts
                .next_back()
                .map_or(Basis::Assumed, |last| Basis::Beyond { last }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_known_by_what_was_measured_around_it() {
        let rate = |nodes| MeasuredRate {
            nodes,
            rate: 1.0,
            spread: 0.0,
            count: 2,
            at: Timestamp::default(),
            from: None,
        };
        let of = |counts: &[u32], nodes| {
            let rates = counts.iter().map(|&n| rate(n)).collect();
            let measured = Measured {
                rates,
                ..Measured::default()
            };
            measured.basis(nodes)
        };
        assert_eq!(of(&[], 3), Basis::Assumed);
        assert_eq!(of(&[2, 8], 8), Basis::Measured(rate(8)));
        assert_eq!(of(&[2, 8], 1), Basis::Between { below: 0, above: 2 });
        assert_eq!(of(&[2, 4, 8], 5), Basis::Between { below: 4, above: 8 });
        assert_eq!(of(&[2, 8], 9), Basis::Beyond { last: 8 });
    }
}
