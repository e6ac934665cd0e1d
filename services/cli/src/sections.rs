//! The configuration as a whole: the sections of every service, joined. A service reads its own and
//! passes over those of others, so this is where a file is checked from its first line to its last.

#[cfg(test)]
mod tests;

use lacuna_forecast::settings::ForecastSection;
use lacuna_model::{PlannerSettings, SettingError};
use lacuna_runtime::config::{self, Gateway};
use lacuna_scheduler::check_pilots;
use lacuna_scheduler::ingest::Ingest;
use lacuna_trainer::settings::{self, Agent, Control};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The sections of all services.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Sections {
    /// The sources of events.
    pub ingest: Ingest,
    /// How remaining hole lengths are predicted.
    pub forecast: ForecastSection,
    /// How plans are made.
    pub planner: PlannerSettings,
    /// How trainers are admitted and leases kept.
    pub control: Control,
    /// How nodes run training.
    pub agent: Agent,
    /// The operator's page.
    pub gateway: Gateway,
}

impl config::Sections for Sections {
    fn check(&self) -> Result<(), SettingError> {
        self.ingest.check()?;
        self.forecast.check()?;
        self.planner.check()?;
        settings::check(&self.control, &self.agent)?;
        if let Some(pilots) = &self.control.pilots {
            check_pilots(pilots)?;
        }
        self.gateway.check()
    }
}

/// The configuration of all services.
pub type Config = lacuna_runtime::Config<Sections>;
