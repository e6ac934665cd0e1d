//! One configuration file for all services (TOML). Unknown keys are errors, and every key has a
//! default. Lengths of time are written `120s`, `15m`. Secrets come from files or from the
//! environment, never from this file.
//!
//! The section of a core library is defined there, with its defaults and documents: `[control]` and
//! `[agent]` in `lacuna_trainer`, `[control.pilots]` in `lacuna_pilots`, `[forecast]` in
//! `lacuna_forecast`, `[ingest.slurm]`, `[ingest.pbs]` and `[ingest.lsf]` in `lacuna_scheduler`, and
//! `[planner]` in `lacuna_model`. This module defines the other sections and reads the file.

mod gateway;
mod ingest;
mod load;
mod sections;
#[cfg(test)]
mod tests;
mod text;

pub use gateway::Gateway;
pub use ingest::{Ingest, KindsSource, Recording, RecordingPace, TopologySource};
pub use load::ConfigError;
pub use sections::{BusSettings, Cluster, Config, Http, LogFormat, Telemetry};
