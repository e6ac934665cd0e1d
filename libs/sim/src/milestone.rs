//! What a replay has done until a moment.

use lacuna_trainer::measure;
use serde::{Deserialize, Serialize};

/// What a replay has done until a moment.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Milestone {
    /// Hours from the start until then.
    pub hours: f64,
    /// Samples done by all trainers until then.
    pub samples: f64,
    /// As [`Summary::zero_cost_fraction`](crate::Summary::zero_cost_fraction), until then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zero_cost_fraction: Option<f64>,
}

impl Milestone {
    /// What was done until moments, seconds; `free` has the samples of the zero-cost bound.
    pub(crate) fn list(at_s: &[f64], samples: &[f64], free: Option<&[f64]>) -> Vec<Self> {
        let of = |(at, (&at_s, &samples)): (usize, (&f64, &f64))| Self {
            hours: at_s / 3600.0,
            samples,
            zero_cost_fraction: free
                .and_then(|free| free.get(at))
                .map(|&free| measure::share(samples, free)),
        };
        at_s.iter().zip(samples).enumerate().map(of).collect()
    }
}
