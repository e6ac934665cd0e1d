//! What a trainer's steps teach. Programs with the package `lacuna` measure it; agents report it,
//! control keeps it with the trainer.

use serde::{Deserialize, Serialize};

/// The batch of a trainer, and what its size is worth. Sources: McCandlish et al. (arXiv
/// 1812.06162); Pollux (OSDI 2021), section 3.1.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Learning {
    /// Noise scale of the gradient, in samples. A batch far above it teaches hardly more.
    pub noise_scale: f64,
    /// Its relative standard error.
    pub error: f64,
    /// The batch that the user asked for, in samples.
    pub user_batch: u64,
    /// The batch of the newest step, in samples.
    pub batch: u64,
    /// Samples of the user's batch that a sample of the present one is worth, above 0 and at most 1.
    pub efficiency: f64,
}

impl Learning {
    /// Whether all figures are within their bounds.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        let positive = |x: f64| x.is_finite() && x >= 0.0;
        positive(self.noise_scale)
            && positive(self.error)
            && self.user_batch > 0
            && self.batch > 0
            && self.efficiency > 0.0
            && self.efficiency <= 1.0 + 1e-9
    }
}
