//! What is known of a trainer's rates and costs beside what its owner submitted.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::{
    Distance, KindName, NodeId, ScalingCurve, StepModel, Tier, Timestamp, TrainerId, is_default,
};

/// What was measured of a trainer, and what decisions go by for it. `lacuna_rates` says which of this
/// and of the specification counts.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Measured {
    /// Rates at tier 0 by node count, fewest nodes first.
    pub rates: Vec<MeasuredRate>,
    /// Rates at the tiers from 1 on, each by node count, fewest nodes first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub apart: Vec<Vec<MeasuredRate>>,
    /// The same of each kind of nodes, of a trainer with rates by kind: its rates, its replay, and the
    /// curve and the distance that are in force. Costs are the trainer's.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub kinds: BTreeMap<KindName, Measured>,
    /// What the newest replay of a step that can be trusted says of other counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay: Option<Box<StepModel>>,
    /// Cost of growing, once there are enough measurements.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub up: Option<MeasuredPause>,
    /// Cost of shrinking and of losing nodes, once there are enough measurements.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub down: Option<MeasuredPause>,
    /// Cost of a start from no nodes, once there is a measurement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<MeasuredStart>,
    /// Cost of probes so far, in node-seconds: stalled time, and node-time below the size that the
    /// plan gave.
    #[serde(default)]
    pub spent_node_s: f64,
    /// Parked nodes: held by the trainer and not training while it probes fewer nodes; sorted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parked: Vec<NodeId>,
    /// What decisions go by in place of the specification.
    #[serde(default, skip_serializing_if = "is_default")]
    pub in_force: InForce,
}

/// What decisions go by in place of a trainer's specification. Whatever is absent is as submitted, as
/// it is in records from before there was this; these have measurements in their specification.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct InForce {
    /// Samples/s by count of near nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub curve: Option<ScalingCurve>,
    /// What distance costs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub distance: Option<Distance>,
    /// Cost of growing, seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub up_s: Option<f64>,
    /// Cost of shrinking and of losing nodes, seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub down_s: Option<f64>,
    /// What a loader brings, samples/s of its trainer. Only plans see it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gain: Option<f64>,
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

/// The measured cost of a start from no nodes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MeasuredStart {
    /// From the command to start the program until it trains.
    pub pause: MeasuredPause,
    /// The other trainer on which it was measured, if both start the same program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<TrainerId>,
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
    /// The replay of a step, or a line from what it says.
    Replayed {
        /// Nodes of the step.
        nodes: u32,
        /// The greatest error of the replay that is known, as a share.
        error: f64,
    },
    /// Nothing more than at the last measured count, beyond which loaders limit.
    Limited {
        /// That count.
        last: u32,
    },
    /// Linear extrapolation from the measured counts.
    Beyond {
        /// The largest measured count.
        last: u32,
    },
    /// The submitted curve; nothing was measured yet.
    Assumed,
    /// The submitted rates, of a trainer that is not measured.
    Submitted,
    /// What a loader brings its trainer, by the replay of the trainer's steps.
    Brings,
}

impl Measured {
    /// Whether no rate was measured.
    #[must_use]
    pub fn is_without_rate(&self) -> bool {
        self.by_kind()
            .all(|(_, of)| of.at_all_tiers().next().is_none())
    }

    /// What was measured of all nodes alike, and of each kind.
    pub fn by_kind(&self) -> impl Iterator<Item = (Option<&KindName>, &Self)> {
        let kinds = self.kinds.iter().map(|(kind, of)| (Some(kind), of));
        std::iter::once((None, self)).chain(kinds)
    }

    /// What was measured of a kind, or of all nodes alike.
    #[must_use]
    pub fn of(&self, kind: Option<&KindName>) -> Option<&Self> {
        match kind {
            None => Some(self),
            Some(kind) => self.kinds.get(kind),
        }
    }

    /// The same, to change it.
    pub fn of_mut(&mut self, kind: Option<&KindName>) -> &mut Self {
        match kind {
            None => self,
            Some(kind) => self.kinds.entry(kind.clone()).or_default(),
        }
    }

    /// All rates, each with its tier.
    pub fn at_all_tiers(&self) -> impl Iterator<Item = (Tier, &MeasuredRate)> {
        let tiers = std::iter::once(&self.rates).chain(&self.apart);
        let tiers = (0..=u8::MAX).map(Tier).zip(tiers);
        tiers.flat_map(|(tier, rates)| rates.iter().map(move |rate| (tier, rate)))
    }

    /// The rate on `nodes` nodes at a tier.
    #[must_use]
    pub fn rate(&self, nodes: u32, tier: Tier) -> Option<&MeasuredRate> {
        let rates = match tier.0.checked_sub(1) {
            None => Some(&self.rates),
            Some(at) => self.apart.get(usize::from(at)),
        };
        rates?.iter().find(|rate| rate.nodes == nodes)
    }

    /// Puts a rate in its place, in place of an earlier one.
    pub fn put(&mut self, tier: Tier, rate: MeasuredRate) {
        let rates = match tier.0.checked_sub(1).map(usize::from) {
            None => &mut self.rates,
            Some(at) => {
                if self.apart.len() <= at {
                    self.apart.resize(at + 1, Vec::new());
                }
                match self.apart.get_mut(at) {
                    Some(rates) => rates,
                    None => return,
                }
            }
        };
        match rates.binary_search_by_key(&rate.nodes, |known| known.nodes) {
            Ok(at) => {
                if let Some(known) = rates.get_mut(at) {
                    *known = rate;
                }
            }
            Err(at) => rates.insert(at, rate),
        }
    }

    /// What the rate of near nodes rests on: the nearest tier at which `nodes` were measured.
    #[must_use]
    pub fn basis(&self, nodes: u32) -> Basis {
        if let Some((_, rate)) = self.at_all_tiers().find(|(_, rate)| rate.nodes == nodes) {
            return Basis::Measured(rate.clone());
        }
        let counts: BTreeSet<u32> = self.at_all_tiers().map(|(_, rate)| rate.nodes).collect();
        if let Some(replay) = &self.replay {
            if let Some(last) = replay.judged.limit.filter(|last| nodes > *last) {
                return Basis::Limited { last };
            }
            if replay.says(nodes, &counts) {
                let error = replay.judged.error;
                let nodes = replay.nodes;
                return Basis::Replayed { nodes, error };
            }
        }
        match counts.range(nodes..).next() {
            Some(&above) => Basis::Between {
                below: counts.range(..nodes).next_back().copied().unwrap_or(0),
                above,
            },
            None => counts
                .last()
                .map_or(Basis::Assumed, |&last| Basis::Beyond { last }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CurvePoint, Judged};

    #[test]
    fn rates_are_kept_by_tier_and_count() {
        let rate = |nodes, rate| MeasuredRate {
            nodes,
            rate,
            spread: 0.0,
            count: 2,
            at: Timestamp::default(),
            from: None,
        };
        let mut measured = Measured::default();
        assert!(measured.is_without_rate());
        measured.put(Tier(2), rate(8, 40.0));
        measured.put(Tier(2), rate(4, 30.0));
        measured.put(Tier(0), rate(4, 50.0));
        measured.put(Tier(2), rate(8, 44.0));
        let all = measured.at_all_tiers();
        let all: Vec<_> = all.map(|(tier, r)| (tier.0, r.nodes, r.rate)).collect();
        assert_eq!(all, [(0, 4, 50.0), (2, 4, 30.0), (2, 8, 44.0)]);
        assert_eq!(measured.rate(8, Tier(2)).map(|r| r.rate), Some(44.0));
        assert_eq!(measured.rate(8, Tier(0)), None);
        assert_eq!(measured.rate(8, Tier(3)), None);
    }

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
        let replay = |rates: &[u32], limit| StepModel {
            nodes: 2,
            tier: Tier(0),
            at: Timestamp::default(),
            off: 0.01,
            reading: 0.0,
            speeds: Vec::new(),
            links: Vec::new(),
            judged: Judged {
                error: 0.03,
                met: 1,
                rates: rates
                    .iter()
                    .map(|&nodes| CurvePoint { nodes, rate: 1.0 })
                    .collect(),
                limit,
            },
        };
        let of = |rates: &[u32], limit, nodes| {
            let measured = Measured {
                rates: [2, 3, 8].map(rate).into(),
                replay: Some(Box::new(replay(rates, limit))),
                ..Measured::default()
            };
            measured.basis(nodes)
        };
        let replayed = Basis::Replayed {
            nodes: 2,
            error: 0.03,
        };
        let all = [1, 4, 16];
        for nodes in [1, 4, 5, 9, 16] {
            assert_eq!(of(&all, None, nodes), replayed, "{nodes}");
        }
        assert_eq!(of(&all, None, 8), Basis::Measured(rate(8)));
        assert_eq!(of(&all, None, 17), Basis::Beyond { last: 8 });
        assert_eq!(of(&[], Some(8), 9), Basis::Limited { last: 8 });
        assert_eq!(of(&[], Some(8), 5), Basis::Between { below: 3, above: 8 });
    }
}
