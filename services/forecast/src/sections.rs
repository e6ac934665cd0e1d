//! The sections of the configuration that the forecast service reads.

use lacuna_forecast::settings::ForecastSection;
use lacuna_model::SettingError;
use lacuna_runtime::config;
use serde::{Deserialize, Serialize};

/// What the forecast service reads of the configuration.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Sections {
    /// How remaining hole lengths are predicted.
    pub forecast: ForecastSection,
}

impl config::Sections for Sections {
    fn check(&self) -> Result<(), SettingError> {
        self.forecast.check()
    }
}

/// The configuration of the forecast service.
pub type Config = lacuna_runtime::Config<Sections>;

/// The context of the forecast service.
pub type Context = lacuna_runtime::Context<Sections>;
