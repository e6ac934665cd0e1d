//! The section `[control.profile]`: how trainers without a scaling curve are measured.

use lacuna_model::{SettingError, Span, SpanText};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Order of the probed sizes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ProfileOrder {
    /// From all nodes down, by parking nodes; all nodes again at the end.
    #[default]
    LargeToSmall,
    /// From the smallest size up, by adding nodes.
    SmallToLarge,
}

/// How trainers that are submitted without a curve are measured. Sizes that plans give are
/// measured in any case. These settings are of probes: sizes tried in order to measure them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Profile {
    /// The share of a trainer's node-time that probes may cost; 0: no probes.
    pub share: f64,
    /// Order of the probed sizes.
    pub order: ProfileOrder,
    /// Longest time of one probe.
    #[serde(with = "SpanText")]
    pub longest: Span,
}

impl Default for Profile {
    fn default() -> Self {
        Self {
            share: 0.05,
            order: ProfileOrder::default(),
            longest: Span::from_secs(120),
        }
    }
}

impl Profile {
    /// Checks the values.
    ///
    /// # Errors
    /// The first value that is out of range.
    pub(super) fn check(&self) -> Result<(), SettingError> {
        SettingError::unless(
            (0.0..=1.0).contains(&self.share),
            "control.profile.share",
            self.share,
            "a number from 0 (no probes) to 1",
        )?;
        SettingError::unless_positive([("control.profile.longest", self.longest)])
    }
}
