//! What distance costs a trainer: the share of its rate that is left where its nodes are apart.
//!
//! The scaling curve of a trainer holds where all its nodes are on one leaf (tier 0). At a tier k
//! it trains at `P(n, k) = P(n) share(n, k)`. A tier that is not given has the share of the tier
//! before it, and a farther tier never has a larger share. One node is at no distance.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::{CurvePoint, ScalingCurve, Tier};

/// What distance costs a trainer, and on what that rests. Lists are by tier, from tier 1 on.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Distance {
    /// Nothing, as far as is known.
    #[default]
    Free,
    /// The share of the rate that is left, whatever the number of nodes.
    Shares(Vec<f64>),
    /// Measured rates. Between two node counts the share is interpolated, outside it is that of the
    /// nearest.
    Measured(Vec<Vec<CurvePoint>>),
    /// The same, from the replay of a step over links as others of its owner were measured on.
    Replayed(Vec<f64>),
    /// A model of the communication through one rate of each tier.
    Fitted(Fitted),
}

/// A model of data parallel training that one measured rate of each tier determines:
///
/// ```text
/// T(n, k) = C + max(0, A - w C) + A / N,    A = 2 (n - 1) / n q_k
/// ```
///
/// is the time of an iteration: C computes, a ring reduces all gradients in A, the backward pass
/// hides up to the share w of C, and nothing hides the last of N reductions. `q_k` is the size of
/// the gradients over the bandwidth at tier k. The scaling curve gives C at one node and `q_0` at
/// the node count of the first rate. Latency is left out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Fitted {
    /// Samples of a node in one iteration.
    pub samples: f64,
    /// Reductions of an iteration, N.
    pub reductions: u32,
    /// The share of the computation that can hide communication, w.
    #[serde(default = "hidden")]
    pub hidden: f64,
    /// One measured rate of each tier.
    pub rates: Vec<CurvePoint>,
}

const fn hidden() -> f64 {
    0.6
}

/// Why a [`Distance`] was refused.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum DistanceError {
    /// More tiers than networks have.
    #[error("{tiers} tiers: expected at most {most}", most = Distance::MOST_TIERS)]
    Tiers {
        /// Number of tiers.
        tiers: usize,
    },
    /// A share of the rate is no share.
    #[error(
        "the share of the rate at tier {tier} is {share}: expected a number above 0, at most 1"
    )]
    Share {
        /// The tier.
        tier: usize,
        /// The share as it was given.
        share: f64,
    },
    /// A measured point is no rate of nodes that are apart.
    #[error(
        "at tier {tier}, {nodes} nodes train at {rate}: expected a positive finite rate of 2 nodes \
         or more"
    )]
    Point {
        /// The tier.
        tier: usize,
        /// The node count.
        nodes: u32,
        /// The rate as it was given.
        rate: f64,
    },
    /// Node counts of a tier do not strictly increase, or there is none.
    #[error("the measured points of tier {tier} have no node counts that strictly increase")]
    Order {
        /// The tier.
        tier: usize,
    },
    /// A number of the model is out of range.
    #[error("{what} is {value}: expected {expected}")]
    Model {
        /// The number.
        what: &'static str,
        /// Its value as it was given.
        value: f64,
        /// The accepted values.
        expected: &'static str,
    },
}

impl Distance {
    /// The most tiers, more than networks have levels of switches.
    pub const MOST_TIERS: usize = 8;

    /// Whether nothing is known that distance costs.
    #[must_use]
    pub fn is_free(&self) -> bool {
        *self == Self::Free
    }

    /// On what the shares rest, in words; none without a cost of distance.
    #[must_use]
    pub const fn basis(&self) -> Option<&'static str> {
        match self {
            Self::Free => None,
            Self::Shares(_) => Some("a given share"),
            Self::Measured(_) => Some("measured rates"),
            Self::Replayed(_) => Some("the replay of a step"),
            Self::Fitted(_) => Some("a model through measured rates"),
        }
    }

    /// Checks the numbers.
    ///
    /// # Errors
    /// [`DistanceError`] names the tier and the accepted values.
    pub fn check(&self) -> Result<(), DistanceError> {
        let tiers = self.tiers();
        if tiers > Self::MOST_TIERS {
            return Err(DistanceError::Tiers { tiers });
        }
        match self {
            Self::Free => Ok(()),
            Self::Shares(shares) | Self::Replayed(shares) => {
                let bad = (1..).zip(shares).find(|(_, share)| !is_share(**share));
                bad.map_or(Ok(()), |(tier, &share)| {
                    Err(DistanceError::Share { tier, share })
                })
            }
            Self::Measured(tiers) => {
                for (tier, points) in (1..).zip(tiers) {
                    points.iter().try_for_each(|point| sound(tier, point))?;
                    let increase = points.windows(2).all(|two| match two {
                        [a, b] => a.nodes < b.nodes,
                        _ => true,
                    });
                    if points.is_empty() || !increase {
                        return Err(DistanceError::Order { tier });
                    }
                }
                Ok(())
            }
            Self::Fitted(model) => model.check(),
        }
    }

    /// Number of tiers from 1 on with shares of their own.
    fn tiers(&self) -> usize {
        match self {
            Self::Free => 0,
            Self::Shares(shares) | Self::Replayed(shares) => shares.len(),
            Self::Measured(tiers) => tiers.len(),
            Self::Fitted(model) => model.rates.len(),
        }
    }

    /// The share of the rate on `nodes` nodes at a tier, for a trainer with this scaling curve.
    #[must_use]
    pub fn share(&self, throughput: &ScalingCurve, nodes: u32, tier: Tier) -> f64 {
        let tiers = self.tiers().min(usize::from(tier.0));
        if nodes < 2 {
            return 1.0;
        }
        let shares = (0..tiers).map(|at| match self {
            Self::Free => 1.0,
            Self::Shares(shares) | Self::Replayed(shares) => shares.get(at).copied().unwrap_or(1.0),
            Self::Measured(tiers) => {
                let points = tiers.get(at).map_or(&[][..], Vec::as_slice);
                measured(throughput, points, f64::from(nodes))
            }
            Self::Fitted(model) => model.share(throughput, nodes, at),
        });
        shares.fold(1.0, f64::min)
    }

    /// The shares on `0..=max` nodes, by tier from 1 on; empty where distance costs nothing.
    #[must_use]
    pub fn table(&self, throughput: &ScalingCurve, max: u32) -> Vec<Vec<f64>> {
        let tiers = (1..=self.tiers()).filter_map(|tier| u8::try_from(tier).ok());
        let of = |tier| {
            (0..=max)
                .map(|n| self.share(throughput, n, Tier(tier)))
                .collect()
        };
        let table: Vec<Vec<f64>> = tiers.map(of).collect();
        if table.iter().flatten().all(|&share| share == 1.0) {
            return Vec::new();
        }
        table
    }

    /// Its length in bytes, which its submitter chooses freely.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Free => 0,
            Self::Shares(shares) | Self::Replayed(shares) => size_of_val(shares.as_slice()),
            Self::Measured(tiers) => tiers.iter().map(|t| size_of_val(t.as_slice())).sum(),
            Self::Fitted(model) => size_of_val(model.rates.as_slice()),
        }
    }
}

/// The share of a rate that is left where `crowd` trainers, 1 or more, share what one would have
/// alone: with x the time that crossing adds to a sample, from 1 / (1 + x) to 1 / (1 + crowd x).
#[must_use]
pub fn among(share: f64, crowd: f64) -> f64 {
    if crowd > 1.0 && share > 0.0 {
        1.0 / (1.0 + crowd * (1.0 / share - 1.0))
    } else {
        share
    }
}

/// How crowded the uplinks of each trainer are, by the leaves of its nodes: the crossing trainers of
/// its most crowded leaf over those that an uplink carries at full speed, at least 1. It is 1 for a
/// trainer on one leaf.
#[must_use]
pub fn crowds<L: Ord>(leaves: &[BTreeSet<L>], carries: u32) -> Vec<f64> {
    let crossing = |leaves: &&BTreeSet<L>| leaves.len() > 1;
    let mut count: BTreeMap<&L, f64> = BTreeMap::new();
    for leaf in leaves.iter().filter(crossing).flatten() {
        *count.entry(leaf).or_default() += 1.0;
    }
    let carries = f64::from(carries.max(1));
    let crowd = |leaves: &BTreeSet<L>| {
        let here = leaves.iter().filter_map(|leaf| count.get(leaf));
        let most = here.fold(0.0, |most: f64, &here| most.max(here));
        let crowd = if leaves.len() > 1 {
            most / carries
        } else {
            1.0
        };
        crowd.max(1.0)
    };
    leaves.iter().map(crowd).collect()
}

fn is_share(share: f64) -> bool {
    share > 0.0 && share <= 1.0
}

fn sound(tier: usize, point: &CurvePoint) -> Result<(), DistanceError> {
    let CurvePoint { nodes, rate } = *point;
    if nodes >= 2 && rate.is_finite() && rate > 0.0 {
        return Ok(());
    }
    Err(DistanceError::Point { tier, nodes, rate })
}

/// The share of measured points at a number of nodes.
fn measured(throughput: &ScalingCurve, points: &[CurvePoint], nodes: f64) -> f64 {
    let share = |point: &CurvePoint| (point.rate / throughput.at(point.nodes)).min(1.0);
    let mut before: Option<&CurvePoint> = None;
    for point in points {
        let at = f64::from(point.nodes);
        if nodes <= at {
            return before.map_or_else(
                || share(point),
                |before| {
                    let from = f64::from(before.nodes);
                    let part = (nodes - from) / (at - from);
                    share(before) + (share(point) - share(before)) * part
                },
            );
        }
        before = Some(point);
    }
    before.map_or(1.0, share)
}

impl Fitted {
    fn check(&self) -> Result<(), DistanceError> {
        for (what, value, sound, expected) in [
            (
                "samples",
                self.samples,
                self.samples.is_finite() && self.samples > 0.0,
                "a positive finite number",
            ),
            (
                "reductions",
                f64::from(self.reductions),
                self.reductions > 0,
                "1 or more",
            ),
            (
                "hidden",
                self.hidden,
                (0.0..=1.0).contains(&self.hidden),
                "a share of the computation, from 0 to 1",
            ),
        ] {
            if !sound {
                return Err(DistanceError::Model {
                    what,
                    value,
                    expected,
                });
            }
        }
        let mut rates = (1..).zip(&self.rates);
        rates.try_for_each(|(tier, point)| sound(tier, point))
    }

    /// The share on `nodes` nodes at the tier with the rate number `at`.
    fn share(&self, throughput: &ScalingCurve, nodes: u32, at: usize) -> f64 {
        let (Some(first), Some(far)) = (self.rates.first(), self.rates.get(at)) else {
            return 1.0;
        };
        let compute_s = self.samples / throughput.at(1);
        let near = CurvePoint {
            rate: throughput.at(first.nodes),
            ..*first
        };
        let time = |point: &CurvePoint| {
            let reduce_s = self.reduce_s(point, compute_s) / ring(point.nodes) * ring(nodes);
            let exposed_s = (reduce_s - self.hidden * compute_s).max(0.0);
            compute_s + exposed_s + reduce_s / f64::from(self.reductions)
        };
        (time(&near) / time(far)).min(1.0)
    }

    /// The time of reducing all gradients, A, at a measured rate.
    fn reduce_s(&self, point: &CurvePoint, compute_s: f64) -> f64 {
        let iteration_s = f64::from(point.nodes) * self.samples / point.rate;
        let exposed_s = (iteration_s - compute_s).max(0.0);
        let (last, hidden_s) = (1.0 / f64::from(self.reductions), self.hidden * compute_s);
        if exposed_s <= hidden_s * last {
            exposed_s / last
        } else {
            (exposed_s + hidden_s) / (1.0 + last)
        }
    }
}

/// The part of all gradients that a ring of nodes sends, both ways.
fn ring(nodes: u32) -> f64 {
    2.0 * (1.0 - 1.0 / f64::from(nodes.max(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn linear() -> ScalingCurve {
        ScalingCurve::linear(10.0, 16).unwrap()
    }

    const fn point(nodes: u32, rate: f64) -> CurvePoint {
        CurvePoint { nodes, rate }
    }

    #[test]
    fn a_missing_tier_is_as_the_one_before_it() {
        let curve = linear();
        let share = |distance: &Distance, nodes, tier| distance.share(&curve, nodes, Tier(tier));
        assert_eq!(share(&Distance::Free, 8, 2), 1.0);
        let shares = Distance::Shares(vec![0.8, 0.9]);
        assert_eq!(share(&shares, 8, 0), 1.0);
        assert_eq!(share(&shares, 1, 2), 1.0);
        // A farther tier is never faster.
        assert_eq!([1, 2, 3].map(|tier| share(&shares, 8, tier)), [0.8; 3]);
        assert_eq!(shares.table(&curve, 2), [[1.0, 1.0, 0.8], [1.0, 1.0, 0.8]]);
        assert!(Distance::Shares(vec![1.0]).table(&curve, 2).is_empty());
    }

    #[test]
    fn measured_shares_are_interpolated() {
        let curve = linear();
        let distance = Distance::Measured(vec![vec![point(4, 36.0), point(8, 40.0)]]);
        let share = |nodes| distance.share(&curve, nodes, Tier(1));
        assert_eq!([2, 4, 8, 16].map(share), [0.9, 0.9, 0.5, 0.5]);
        assert!((share(6) - 0.7).abs() < 1e-12);
        // Faster when apart: an error of measurement, and no gain.
        let faster = Distance::Measured(vec![vec![point(4, 50.0)]]);
        assert_eq!(faster.share(&curve, 4, Tier(1)), 1.0);
    }

    #[test]
    fn the_model_goes_through_its_rates() {
        // C = 1 s, A = 2 (n - 1) / n q with q = 1 s near and 3 s far, w = .5, N = 10.
        let (compute, hidden, last) = (1.0, 0.5, 0.1);
        let time = |n: u32, q: f64| {
            let reduce = ring(n) * q;
            compute + (reduce - hidden * compute).max(0.0) + reduce * last
        };
        let rate = |n: u32, q: f64| f64::from(n) * 32.0 / time(n, q);
        let curve = ScalingCurve::new((1..=32).map(|n| (n, rate(n, 1.0)))).unwrap();
        let distance = Distance::Fitted(Fitted {
            samples: 32.0,
            reductions: 10,
            hidden,
            rates: vec![point(8, rate(8, 3.0))],
        });
        assert_eq!(distance.check(), Ok(()));
        for nodes in [2, 8, 16, 32] {
            let share = distance.share(&curve, nodes, Tier(1));
            let expected = rate(nodes, 3.0) / rate(nodes, 1.0);
            assert!(
                (share - expected).abs() < 1e-9,
                "{nodes}: {share} {expected}"
            );
        }
    }

    #[test]
    fn numbers_out_of_range_are_refused() {
        let text = |distance: Distance| distance.check().unwrap_err().to_string();
        assert!(text(Distance::Shares(vec![0.5, 0.0])).contains("tier 2"));
        assert!(text(Distance::Shares(vec![0.5; 9])).contains("9 tiers"));
        assert!(text(Distance::Measured(vec![vec![point(1, 5.0)]])).contains("2 nodes or more"));
        assert!(text(Distance::Measured(vec![vec![]])).contains("tier 1"));
        let two = vec![point(8, 5.0), point(8, 6.0)];
        assert!(text(Distance::Measured(vec![two])).contains("strictly increase"));
        let model = Fitted {
            samples: 32.0,
            reductions: 0,
            hidden: 0.6,
            rates: vec![point(8, 5.0)],
        };
        assert!(text(Distance::Fitted(model)).contains("reductions is 0"));
    }
}
