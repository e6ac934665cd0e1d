//! The batch schedulers that Lacuna knows, by name.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The batch schedulers.
#[derive(
    Debug,
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum SchedulerName {
    /// Slurm.
    #[default]
    Slurm,
    /// OpenPBS or PBS Professional.
    Pbs,
    /// IBM Spectrum LSF.
    Lsf,
    /// Flux.
    Flux,
}

impl SchedulerName {
    /// All schedulers.
    pub const ALL: [Self; 4] = [Self::Slurm, Self::Pbs, Self::Lsf, Self::Flux];

    /// Its name in the configuration and in logs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Slurm => "slurm",
            Self::Pbs => "pbs",
            Self::Lsf => "lsf",
            Self::Flux => "flux",
        }
    }

    /// The scheduler that a setting names.
    #[must_use]
    pub fn named(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|name| name.as_str() == text)
    }
}

impl fmt::Display for SchedulerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
