//! The optimum of one moment where distance matters: equal trainers, free changes.
//!
//! At most J trainers share the free nodes of the leaves, `c_l` on leaf l. A trainer on one leaf
//! has the rate P(n), one that crosses F(n), whatever its leaves. With a price a >= 0 of a trainer
//! and b >= 0 of a node that a crossing trainer gets,
//!
//! ```text
//! L(a, b) = J a + sum over l of G(c_l) + J max(0, max over n of F(n) - b n - a)
//! G(c)    = max(G(c - 1) + b, max over n of P(n) - a + G(c - n)),    G(0) = 0
//! ```
//!
//! bounds the work of any allocation (Lagrange). It is convex, and the least one found counts.

#![expect(
    clippy::indexing_slicing,
    reason = "hot path; nodes of a leaf stay within the tables made in this file"
)]

use lacuna_planner::Shape;
use lacuna_planner::kind::Kind;

/// Steps of the search for each of the two prices.
const STEPS: usize = 12;

/// A bound on the rate of all trainers together, by the free nodes of each leaf.
#[derive(Debug, Clone)]
pub(crate) struct InstantBound {
    /// Rates by node count, samples/s: on one leaf, and across leaves.
    near: Vec<f64>,
    far: Vec<f64>,
    min: usize,
    trainers: f64,
    /// G by nodes of a leaf.
    leaf: Vec<f64>,
}

impl InstantBound {
    /// The bound for this number of trainers of this kind.
    pub(crate) fn new(kind: &Kind, trainers: u32) -> Self {
        let sizes = 0..kind.rates().len() as u32;
        Self {
            near: kind.rates().to_vec(),
            far: sizes
                .map(|nodes| kind.rate_on(&Shape::of(nodes, 1)))
                .collect(),
            min: kind.min().max(1) as usize,
            trainers: f64::from(trainers),
            leaf: Vec::new(),
        }
    }

    /// The bound, samples/s. `leaves[c]` is the number of leaves with c free nodes.
    pub(crate) fn rate(&mut self, leaves: &[u32]) -> f64 {
        let sizes = self.near.iter().zip(1..).skip(self.min);
        let dearest = sizes
            .map(|(rate, next)| rate / f64::from(next - 1))
            .fold(0.0, f64::max);
        let (mut low, mut high) = (0.0, dearest);
        let mut best = f64::INFINITY;
        for _ in 0..STEPS {
            let (a, b) = (low + (high - low) / 3.0, high - (high - low) / 3.0);
            let (at_a, at_b) = (self.at_node_price(a, leaves), self.at_node_price(b, leaves));
            best = best.min(at_a).min(at_b);
            if at_a <= at_b {
                high = b;
            } else {
                low = a;
            }
        }
        best.min(self.at_node_price(0.0, leaves))
    }

    /// The least bound found at a price of a node.
    fn at_node_price(&mut self, node: f64, leaves: &[u32]) -> f64 {
        let most = self.near.iter().copied().fold(0.0, f64::max);
        let (mut low, mut high) = (0.0, most);
        let mut best = f64::INFINITY;
        for step in 0..STEPS {
            let price = if step == 0 {
                0.0
            } else {
                f64::midpoint(low, high)
            };
            let (bound, wanted) = self.at(price, node, leaves);
            best = best.min(bound);
            if wanted <= self.trainers {
                // Fewer trainers are wanted than there may be: the price is too high.
                high = price;
                if step == 0 {
                    break;
                }
            } else {
                low = price;
            }
        }
        best
    }

    /// The bound at a price of a trainer and one of a node, and the trainers that it wants.
    fn at(&mut self, trainer: f64, node: f64, leaves: &[u32]) -> (f64, f64) {
        let Self {
            near,
            far,
            min,
            leaf,
            ..
        } = self;
        leaf.clear();
        leaf.push(0.0);
        let mut counts = vec![0.0];
        for c in 1..leaves.len() {
            let (mut best, mut count) = (leaf.last().copied().unwrap_or(0.0) + node, counts[c - 1]);
            for (n, rate) in near.iter().enumerate().take(c + 1).skip(*min) {
                let value = rate - trainer + leaf[c - n];
                if value > best {
                    (best, count) = (value, counts[c - n] + 1.0);
                }
            }
            leaf.push(best);
            counts.push(count);
        }
        let of = |list: &[f64]| -> f64 {
            let all = leaves.iter().zip(list);
            all.map(|(&leaves, value)| f64::from(leaves) * value).sum()
        };
        let sizes = far.iter().zip(0_u32..).skip(*min);
        let crossing = sizes.map(|(rate, n)| rate - node * f64::from(n) - trainer);
        let crossing = crossing.fold(0.0, f64::max);
        let bound = self.trainers * (trainer + crossing) + of(leaf);
        let cross = if crossing > 0.0 { self.trainers } else { 0.0 };
        (bound, of(&counts) + cross)
    }
}

#[cfg(test)]
mod tests {
    use lacuna_model::{
        Distance, Launch, RescaleCost, ScalingCurve, Timestamp, TrainerId, TrainerSpec, Work,
    };
    use lacuna_planner::kind::Costs;
    use lacuna_planner::objective::Objective;

    use super::*;

    fn kind(curve: &[(u32, f64)], share: f64) -> Kind {
        let spec = TrainerSpec {
            id: TrainerId::new("a").unwrap(),
            owner: None,
            priority: 0,
            weight: None,
            deadline: None,
            submit: Timestamp::default(),
            min_nodes: 1,
            max_nodes: 4,
            throughput: ScalingCurve::new(curve.iter().copied()).unwrap(),
            distance: Distance::Shares(vec![share]),
            kinds: lacuna_model::KindRates::default(),
            objective: None,
            rescale: RescaleCost {
                up_s: 0.0,
                down_s: 0.0,
                start_s: None,
            },
            work: Work::UntilExit,
            launch: Launch::Simulated,
        };
        Kind::new(&spec, Costs::of(&spec), &Objective::Throughput, 120.0).unwrap()
    }

    /// The best rate of `trainers` trainers on these leaves, by trying every allocation.
    fn best(kind: &Kind, leaves: &[u32], trainers: u32) -> f64 {
        if trainers == 0 {
            return 0.0;
        }
        let mut most = best(kind, leaves, trainers - 1);
        let mut take = vec![0_u32; leaves.len()];
        loop {
            let Some(at) = (0..take.len()).find(|&at| take[at] < leaves[at]) else {
                return most;
            };
            take[at] += 1;
            take[..at].fill(0);
            let nodes: u32 = take.iter().sum();
            if nodes > 4 {
                continue;
            }
            let crosses = take.iter().filter(|&&taken| taken > 0).count() > 1;
            let left: Vec<u32> = leaves.iter().zip(&take).map(|(a, b)| a - b).collect();
            let rate = kind.rate_on(&Shape::of(nodes, usize::from(crosses)));
            most = most.max(rate + best(kind, &left, trainers - 1));
        }
    }

    #[test]
    fn no_allocation_exceeds_the_bound_and_it_is_near() {
        let curves: [&[(u32, f64)]; 2] =
            [&[(1, 10.0), (4, 34.0)], &[(1, 4.0), (2, 12.0), (4, 30.0)]];
        let mut gaps = Vec::new();
        for curve in curves {
            for share in [0.4, 0.8, 1.0] {
                let kind = kind(curve, share);
                for leaves in [&[1, 1, 1][..], &[3, 2], &[4, 1, 1], &[2, 2, 2]] {
                    for trainers in 1..=3 {
                        let mut counts = vec![0; 5];
                        for &free in leaves {
                            counts[free as usize] += 1;
                        }
                        let bound = InstantBound::new(&kind, trainers).rate(&counts);
                        let best = best(&kind, leaves, trainers);
                        assert!(bound >= best - 1e-9, "{leaves:?}: {bound} {best}");
                        gaps.push(bound / best - 1.0);
                    }
                }
            }
        }
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        assert!(mean < 0.06, "{mean}");
    }
}
