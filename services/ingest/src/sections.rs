//! The sections of the configuration that ingest reads.

use lacuna_model::SettingError;
use lacuna_runtime::config;
use lacuna_scheduler::ingest::Ingest;
use serde::{Deserialize, Serialize};

/// What ingest reads of the configuration.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Sections {
    /// The sources of events.
    pub ingest: Ingest,
}

impl config::Sections for Sections {
    fn check(&self) -> Result<(), SettingError> {
        self.ingest.check()
    }
}

/// The configuration of ingest.
pub type Config = lacuna_runtime::Config<Sections>;

/// The context of ingest.
pub type Context = lacuna_runtime::Context<Sections>;
