//! What centres run today in place of Lacuna, as practices that are replayed beside the policy.
//!
//! `deploy/beside.md` states the practices with their sources. They see the same holes, trainers, costs
//! and places as the policy. `world/launch.rs` has them.

use lacuna_model::Span;
use serde::{Deserialize, Serialize};

/// A practice beside the policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Practice {
    /// A preemptible partition: jobs of a fixed size, which are killed with a node and start again
    /// from their last checkpoint.
    Requeue,
    /// An elastic launcher: every member starts again from the last checkpoint when nodes come or
    /// go.
    TorchrunElastic,
}

impl Practice {
    /// All practices.
    pub const ALL: [Self; 2] = [Self::Requeue, Self::TorchrunElastic];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Requeue => "requeue",
            Self::TorchrunElastic => "torchrun-elastic",
        }
    }
}

/// The practices that are replayed beside the policy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Beside {
    /// The practices.
    pub practices: Vec<Practice>,
    /// Time between two checkpoints of a trainer. Writing one takes no time.
    pub checkpoint_every: Span,
}

impl Default for Beside {
    fn default() -> Self {
        Self {
            practices: Vec::new(),
            checkpoint_every: Span::from_secs(600),
        }
    }
}

impl Beside {
    /// Whether there is no practice.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.practices.is_empty()
    }
}
