//! What one would have in place of Lacuna, replayed beside the policy: what centres run today, and
//! simple rules.
//!
//! `deploy/beside.md` states the practices with their sources. They see the same holes, trainers, costs
//! and places as the policy. `world/launch.rs` has what centres run; the rules are policies.

use lacuna_model::{Policy, Span};
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
    /// Lacuna without forecasts: sizes by dynamic programming.
    Dp,
    /// Lacuna with equal shares, first come, first served.
    EqualShare,
}

impl Practice {
    /// All practices.
    pub const ALL: [Self; 4] = [
        Self::Requeue,
        Self::TorchrunElastic,
        Self::Dp,
        Self::EqualShare,
    ];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Requeue => "requeue",
            Self::TorchrunElastic => "torchrun-elastic",
            Self::Dp => Policy::Dp.name(),
            Self::EqualShare => Policy::EqualShare.name(),
        }
    }

    /// The policy that it is; none for what centres run.
    #[must_use]
    pub const fn rule(self) -> Option<Policy> {
        match self {
            Self::Requeue | Self::TorchrunElastic => None,
            Self::Dp => Some(Policy::Dp),
            Self::EqualShare => Some(Policy::EqualShare),
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
