//! The sections of the configuration that control reads.

use lacuna_model::{PlannerSettings, SettingError};
use lacuna_runtime::config;
use lacuna_scheduler::check_pilots;
use lacuna_trainer::settings::{self, Agent, Control};
use serde::{Deserialize, Serialize};

/// What control reads of the configuration.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Sections {
    /// How trainers are admitted and leases kept.
    pub control: Control,
    /// How nodes run training: when agents report, and how long they take to stop.
    pub agent: Agent,
    /// How plans are made: by which policy and objective, and when inputs are stale.
    pub planner: PlannerSettings,
}

impl config::Sections for Sections {
    fn check(&self) -> Result<(), SettingError> {
        self.planner.check()?;
        settings::check(&self.control, &self.agent)?;
        match &self.control.pilots {
            Some(pilots) => check_pilots(pilots),
            None => Ok(()),
        }
    }
}

/// The configuration of control.
pub type Config = lacuna_runtime::Config<Sections>;

/// The context of control.
pub type Context = lacuna_runtime::Context<Sections>;
