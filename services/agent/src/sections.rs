//! The sections of the configuration that the agent reads.

use lacuna_model::SettingError;
use lacuna_runtime::config;
use lacuna_trainer::settings::{self, Agent, Control};
use serde::{Deserialize, Serialize};

/// What the agent reads of the configuration.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Sections {
    /// How nodes run training.
    pub agent: Agent,
    /// How leases are kept: after which silence control gives an agent up.
    pub control: Control,
}

impl config::Sections for Sections {
    fn check(&self) -> Result<(), SettingError> {
        settings::check(&self.control, &self.agent)
    }
}

/// The configuration of the agent.
pub type Config = lacuna_runtime::Config<Sections>;

/// The context of the agent.
pub type Context = lacuna_runtime::Context<Sections>;
