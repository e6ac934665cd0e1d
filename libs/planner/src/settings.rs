//! Settings of a decider.

use lacuna_model::{ForecastingSettings, NodeChoice, PlannerSettings, Policy, Span};
use serde::{Deserialize, Serialize};

use crate::milp::MilpOptions;
use crate::placement;

/// How a [`crate::Decider`] decides.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// How sizes and nodes are found.
    pub policy: Policy,
    /// How nodes are chosen for known sizes.
    pub node_choice: NodeChoice,
    /// Time over which gains are counted where holes are not forecast, T.
    pub horizon: Span,
    /// Limits of the mixed-integer programs.
    pub milp: MilpOptions,
    /// Seed of random choices.
    pub seed: u64,
    /// Settings of decisions by forecasts.
    pub forecasting: ForecastSettings,
}

impl From<&PlannerSettings> for Settings {
    fn from(settings: &PlannerSettings) -> Self {
        Self {
            policy: settings.policy,
            node_choice: settings.node_choice,
            horizon: settings.horizon,
            milp: settings.into(),
            seed: settings.seed,
            forecasting: (&settings.forecasting).into(),
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        (&PlannerSettings::default()).into()
    }
}

/// Settings of decisions by forecasts.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ForecastSettings {
    /// How node sets are valued.
    pub joint: placement::Settings,
    /// Number of equally likely futures that are drawn.
    pub scenarios: u32,
}

impl From<&ForecastingSettings> for ForecastSettings {
    fn from(settings: &ForecastingSettings) -> Self {
        Self {
            joint: settings.into(),
            scenarios: settings.scenarios,
        }
    }
}

impl Default for ForecastSettings {
    fn default() -> Self {
        (&ForecastingSettings::default()).into()
    }
}
