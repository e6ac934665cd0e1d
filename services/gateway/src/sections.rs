//! The sections of the configuration that the gateway reads.

use lacuna_model::SettingError;
use lacuna_runtime::config::{self, Gateway};
use serde::{Deserialize, Serialize};

/// What the gateway reads of the configuration.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Sections {
    /// The operator's page.
    pub gateway: Gateway,
}

impl config::Sections for Sections {
    fn check(&self) -> Result<(), SettingError> {
        self.gateway.check()
    }
}

/// The configuration of the gateway.
pub type Config = lacuna_runtime::Config<Sections>;

/// The context of the gateway.
pub type Context = lacuna_runtime::Context<Sections>;
