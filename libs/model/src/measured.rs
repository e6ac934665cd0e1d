//! Rates and rescale costs that were measured while a trainer trained.

use serde::{Deserialize, Serialize};

use crate::{NodeId, Timestamp, TrainerId};

/// The measurements behind a trainer's scaling curve and rescale costs.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Measured {
    /// Rates by node count, fewest nodes first.
    pub rates: Vec<MeasuredRate>,
    /// Cost of growing, once there are enough measurements.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub up: Option<MeasuredPause>,
    /// Cost of shrinking and of losing nodes, once there are enough measurements.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub down: Option<MeasuredPause>,
    /// Cost of probes so far, in node-seconds: stalled time, and node-time below the size that the
    /// plan gave.
    #[serde(default)]
    pub spent_node_s: f64,
    /// Parked nodes: held by the trainer and not training while it probes fewer nodes; sorted.
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
    /// Number of measurements.
    pub count: u32,
    /// The newest of them, in the cluster's time.
    pub at: Timestamp,
    /// The other trainer on which they were made, if both declare the same program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<TrainerId>,
}

/// The measured cost of one kind of change of nodes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct MeasuredPause {
    /// Mean, in seconds of lost training.
    pub mean_s: f64,
    /// Standard deviation of the single changes, seconds.
    pub spread_s: f64,
    /// Number of changes.
    pub count: u32,
    /// The newest of them, in the cluster's time.
    pub at: Timestamp,
}

/// What the rate of a trainer at a node count rests on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "known")]
pub enum Basis {
    /// A measurement at this count.
    Measured(MeasuredRate),
    /// Linear interpolation between the nearest measured counts.
    Between {
        /// The nearest measured count below; 0 for the origin.
        below: u32,
        /// The nearest measured count above.
        above: u32,
    },
    /// Linear extrapolation from the measured counts.
    Beyond {
        /// The largest measured count.
        last: u32,
    },
    /// The submitted curve; nothing was measured yet.
    Assumed,
}

impl Measured {
    /// What the rate at `nodes` rests on.
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
    fn a_rate_rests_on_the_nearest_measured_counts() {
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
