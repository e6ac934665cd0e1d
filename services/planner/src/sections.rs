//! The sections of the configuration that the planner reads.

use lacuna_model::{PlannerSettings, SettingError};
use lacuna_runtime::config;
use serde::{Deserialize, Serialize};

/// What the planner reads of the configuration.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Sections {
    /// How plans are made.
    pub planner: PlannerSettings,
}

impl config::Sections for Sections {
    fn check(&self) -> Result<(), SettingError> {
        self.planner.check()
    }
}

/// The configuration of the planner.
pub type Config = lacuna_runtime::Config<Sections>;

/// The context of the planner.
pub type Context = lacuna_runtime::Context<Sections>;
