//! How trainers without a scaling curve are measured.

use lacuna_model::{SettingError, Span, SpanText};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// In which order sizes are tried.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ProfileOrder {
    /// Each next size by leaving nodes, and back to all of them at the end.
    #[default]
    LargeToSmall,
    /// The smallest size first, each next one by joining.
    SmallToLarge,
}

/// How trainers that are submitted with `profile = true` are measured. What their plans happen
/// to give them is measured in any case; here is how sizes are tried for the sake of measuring.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Profile {
    /// The share of a trainer's node-time that trying sizes may cost; 0 tries none.
    pub share: f64,
    /// In which order sizes are tried.
    pub order: ProfileOrder,
    /// Longest time that one size is tried.
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
    /// Whether the values make sense.
    ///
    /// # Errors
    /// The first one that does not.
    pub(super) fn check(&self) -> Result<(), SettingError> {
        SettingError::unless(
            (0.0..=1.0).contains(&self.share),
            "control.profile.share",
            self.share,
            "a number from 0 (no size is tried on purpose) to 1",
        )?;
        SettingError::unless_positive([("control.profile.longest", self.longest)])
    }
}
