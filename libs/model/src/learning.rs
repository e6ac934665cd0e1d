//! What a trainer's steps teach. Programs with the package `lacuna` measure it; agents report it,
//! control keeps it with the trainer.

use serde::{Deserialize, Serialize};

use crate::{KindName, ScalingCurve, Timestamp};

/// The batch of a trainer, and what its size is worth. Sources: McCandlish et al. (arXiv
/// 1812.06162); Pollux (OSDI 2021), section 3.1.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Learning {
    /// Noise scale of the gradient, in samples. A batch far above it teaches hardly more.
    pub noise_scale: f64,
    /// Its relative standard error.
    pub error: f64,
    /// The batch that the user asked for, in samples.
    pub user_batch: u64,
    /// The batch of the newest step, in samples.
    pub batch: u64,
    /// Samples of the user's batch that a sample of the present one is worth, above 0; above 1 where
    /// the present batch is the smaller one.
    pub efficiency: f64,
    /// Whether the program counts its progress in samples of the user's batch.
    #[serde(default)]
    pub counts_progress: bool,
    /// What other batches and numbers of workers would take, if the program says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sizing: Option<Box<Sizing>>,
}

impl Learning {
    /// Whether all figures are within their bounds.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        let positive = |x: f64| x.is_finite() && x >= 0.0;
        // Each sample of a smaller batch teaches more, at most as much as one of the user's steps.
        let most = (self.user_batch as f64 / self.batch as f64).max(1.0);
        positive(self.noise_scale)
            && positive(self.error)
            && self.user_batch > 0
            && self.batch > 0
            && self.efficiency > 0.0
            && self.efficiency <= most + 1e-9
            && self.sizing.as_ref().is_none_or(|sizing| sizing.is_valid())
    }

    /// Samples of the user's batch that one of the samples in the trainer's progress, and in its
    /// rate, is worth.
    #[must_use]
    pub const fn worth_of_counted(&self) -> f64 {
        if self.counts_progress {
            1.0
        } else {
            self.efficiency
        }
    }
}

/// How the batch of a trainer follows its nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Follows {
    /// The batch of the group is the user's at any number of nodes.
    Whole,
    /// Each node has the same number of samples.
    PerNode {
        /// Samples of a node.
        samples: u64,
    },
    /// The program chooses the batch that learns most a second.
    Adaptive,
}

/// The seconds of a step by batch and workers, and the batches that the user allows: what goodput
/// needs at node counts that the trainer never had. A step of `b` samples a worker takes
/// `rest_s(workers) + fixed_s + sample_s b`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sizing {
    /// How the batch follows the nodes.
    pub follows: Follows,
    /// The largest batch, in samples.
    pub most: u64,
    /// The samples that a worker's memory holds, if the user has said it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub most_of_worker: Option<u64>,
    /// Seconds of a worker in each step, without samples.
    pub fixed_s: f64,
    /// Seconds of a worker for a sample.
    pub sample_s: f64,
    /// By workers of the group, as seen: seconds of a step beside the work of the longest one.
    pub rest_s: Vec<(u32, f64)>,
}

impl Sizing {
    /// The most numbers of workers.
    pub const MOST_ROWS: usize = 64;

    /// Whether all figures are within their bounds.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        let positive = |x: f64| x.is_finite() && x >= 0.0;
        let rows = &self.rest_s;
        self.most > 0
            && self.follows != (Follows::PerNode { samples: 0 })
            && self.most_of_worker != Some(0)
            && positive(self.fixed_s)
            && positive(self.sample_s)
            && self.fixed_s + self.sample_s > 0.0
            && (1..=Self::MOST_ROWS).contains(&rows.len())
            && rows
                .iter()
                .all(|&(workers, rest)| workers > 0 && positive(rest))
    }
}

/// Learning a second by node count, as control finds it from a trainer's newest [`Learning`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Goodput {
    /// When it was found, in the cluster's time.
    pub at: Timestamp,
    /// The kind of nodes on which its steps were timed, if its trainer has rates by kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<KindName>,
    /// By node count, fewest first. Beyond the last one nothing is gained that is known.
    pub sizes: Vec<GoodputAt>,
}

/// Learning a second at a node count.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct GoodputAt {
    /// The node count.
    pub nodes: u32,
    /// The batch there, in samples.
    pub batch: u64,
    /// Samples of the user's batch that one of its samples is worth.
    pub efficiency: f64,
    /// Samples of the user's batch a second.
    pub rate: f64,
}

impl Goodput {
    /// The rates as a curve, which may dip; nothing without a size.
    #[must_use]
    pub fn curve(&self) -> Option<ScalingCurve> {
        let points = self.sizes.iter().map(|size| (size.nodes, size.rate));
        ScalingCurve::new(points).ok()
    }
}
