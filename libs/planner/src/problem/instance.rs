//! Seeded instances of the allocation problem for measurement: a scarce pool, mostly held by
//! different trainers.
//!
//! A slack instance, on which every trainer gets its best size, says nothing about a solver.
//! So here the trainers could use half as many nodes again as there are, at least; 95 % of the
//! pool is held, in random proportions, so that the answer needs changes whose cost counts; and
//! trainers take turns through several networks with different curves and costs.

use std::sync::Arc;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use lacuna_model::ScalingCurve;

use crate::{Far, Item, Lost, Problem};

/// A network that trainers train.
#[derive(Debug, Clone, PartialEq)]
pub struct Network {
    /// Measured throughput, samples/s.
    pub curve: ScalingCurve,
    /// Cost of growing, seconds.
    pub up_s: f64,
    /// Cost of shrinking, seconds.
    pub down_s: f64,
}

/// The size of an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size {
    /// Trainers.
    pub trainers: u32,
    /// Nodes in the pool.
    pub nodes: u32,
}

/// The sizes that solvers are compared on. 10x100 to 20x100 are those of the paper's kind, the
/// next two are Summit's part and the whole of it with 35 trainers, the last is a machine of
/// the next kind.
pub const SIZES: [Size; 7] = [
    Size::of(5, 20),
    Size::of(10, 100),
    Size::of(10, 200),
    Size::of(20, 100),
    Size::of(35, 1_024),
    Size::of(35, 4_734),
    Size::of(100, 10_000),
];

/// The forward-looking time of the published evaluation, seconds.
const HORIZON_S: f64 = 120.0;
/// Part of the pool that is held before the solve.
const HELD: f64 = 0.95;
/// No published trainer may grow further than this.
const PUBLISHED_MAX: u32 = 64;

/// Larger instances are refused when they are read: far beyond any machine, they would only
/// fill the memory.
const MOST_TRAINERS: u32 = 10_000;
const MOST_NODES: u32 = 1_000_000;

impl Size {
    /// The size for these numbers of trainers and nodes.
    #[must_use]
    pub const fn of(trainers: u32, nodes: u32) -> Self {
        Self { trainers, nodes }
    }

    /// The most nodes that a trainer may have: 64 as published, doubled until all trainers
    /// together could use half as many nodes again as there are.
    #[must_use]
    pub fn max_nodes(self) -> u32 {
        let wanted = u64::from(self.nodes) * 3 / 2;
        let mut max = PUBLISHED_MAX;
        while u64::from(max) * u64::from(self.trainers.max(1)) < wanted && max < u32::MAX / 2 {
            max *= 2;
        }
        max
    }
}

impl std::fmt::Display for Size {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}x{}", self.trainers, self.nodes)
    }
}

impl std::str::FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.split_once('x')
            .and_then(|(trainers, nodes)| {
                let size = Self::of(trainers.parse().ok()?, nodes.parse().ok()?);
                let sound = (1..=MOST_TRAINERS).contains(&size.trainers)
                    && (1..=MOST_NODES).contains(&size.nodes);
                sound.then_some(size)
            })
            .ok_or_else(|| {
                format!(
                    "{text:?} is no size: expected TRAINERSxNODES, such as 10x200, at most \
                     {MOST_TRAINERS}x{MOST_NODES}"
                )
            })
    }
}

/// Seven networks of the measured kind, made up: every doubling of the nodes brings 1.75 to
/// 2.02 times the rate.
#[must_use]
pub fn networks(seed: u64) -> Vec<Network> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    (0..7)
        .filter_map(|_| {
            let mut rate = 1e3 * 7_f64.powf(rng.random_range(0.0..1.0));
            let points: Vec<(u32, f64)> = (0..7)
                .map(|doubling| {
                    let point = (1 << doubling, rate);
                    rate *= rng.random_range(1.75..2.02);
                    point
                })
                .collect();
            Some(Network {
                curve: ScalingCurve::new(points).ok()?,
                up_s: rng.random_range(17.0..19.0),
                down_s: rng.random_range(11.0..12.6),
            })
        })
        .collect()
}

/// The rates of a network at `0..=max` nodes. Beyond the last point that was measured they go
/// on as over the last two: by the same factor for each doubling.
fn rates(curve: &ScalingCurve, max: u32) -> Arc<[f64]> {
    let points = curve.points();
    let factor = match points {
        [.., a, b] if b.nodes == a.nodes.saturating_mul(2) => b.rate / a.rate,
        _ => 1.0,
    };
    let mut all: Vec<(u32, f64)> = points.iter().map(|p| (p.nodes, p.rate)).collect();
    while let Some(&(nodes, rate)) = all.last()
        && nodes < max
    {
        all.push((nodes.saturating_mul(2), rate * factor));
    }
    let curve = ScalingCurve::new(all).unwrap_or_else(|_| curve.clone());
    curve.table(max).into()
}

/// An instance: trainers take turns through the networks. Empty without networks.
#[must_use]
pub fn scarce(size: Size, networks: &[Network], seed: u64) -> Problem {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let max = size.max_nodes();
    let tables: Vec<Arc<[f64]>> = networks.iter().map(|n| rates(&n.curve, max)).collect();
    // Exponential weights: a random cut of the pool into parts.
    let weights: Vec<f64> = (0..size.trainers)
        .map(|_| -(1.0 - rng.random_range(0.0..1.0_f64)).ln())
        .collect();
    let total: f64 = weights.iter().sum();
    let kinds = networks.iter().zip(&tables).cycle();
    let trainers = weights
        .iter()
        .zip(kinds)
        .map(|(weight, (network, value))| {
            let held = HELD * f64::from(size.nodes) * weight / total;
            let current = (held as u32).min(max);
            let item = Item {
                current,
                min: 1,
                max,
                value: value.clone(),
                rate_now: 0.0,
                up_s: network.up_s,
                pilot_s: 0.0,
                far: Far::default(),
                kinds: None,
                down_s: network.down_s,
                lost: Lost::default(),
            };
            item.at_its_rate(0)
        })
        .collect();
    Problem {
        nodes: size.nodes,
        horizon_s: HORIZON_S,
        trainers,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instances_are_scarce_and_mostly_held_and_the_same_for_a_seed() {
        for size in SIZES {
            let problem = scarce(size, &networks(1), 7);
            assert_eq!(problem.trainers.len(), size.trainers as usize);
            let room: u32 = problem.trainers.iter().map(|t| t.max).sum();
            let held: u32 = problem.trainers.iter().map(|t| t.current).sum();
            assert!(room * 2 >= size.nodes * 3, "{size}: room for {room}");
            assert!(held <= size.nodes, "{size}: {held} held");
            // Rounding down costs a node a trainer at most, the bound of a trainer some more.
            assert!(
                held + size.trainers >= size.nodes * 3 / 4,
                "{size}: {held} held"
            );
            assert_eq!(problem, scarce(size, &networks(1), 7));
            assert_ne!(problem, scarce(size, &networks(1), 8));
            assert_eq!(size.to_string().parse(), Ok(size));
        }
        for bad in ["10", "x", "0x5", "5x0", "-1x4"] {
            assert!(bad.parse::<Size>().is_err(), "{bad}");
        }
    }

    #[test]
    fn curves_go_on_as_they_end() {
        let curve = ScalingCurve::new([(1, 10.0), (2, 19.0), (4, 36.1)]).unwrap();
        let rates = rates(&curve, 16);
        assert_eq!(rates[4], 36.1);
        assert!((rates[8] - 36.1 * 1.9).abs() < 1e-9);
        assert!((rates[16] - 36.1 * 1.9 * 1.9).abs() < 1e-9);
        assert!((rates[6] - 36.1 * 1.45).abs() < 1e-9);
    }
}
