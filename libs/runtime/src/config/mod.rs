//! One configuration file for all services (TOML). Unknown keys are errors; everything has a
//! default; lengths of time are written `120s`, `15m`. Secrets come from files or from the
//! environment, never from this file.
//!
//! A section whose core is a library is defined there, with its defaults and documents: `[control]`
//! and `[agent]` in `lacuna_trainer`, `[control.pilots]` in `lacuna_pilots`, `[forecast]` in
//! `lacuna_forecast`, `[ingest.slurm]`, `[ingest.pbs]` and `[ingest.lsf]` in `lacuna_schedlog`, and
//! `[planner]` in `lacuna_model`. Here are the others, and how the file is read.

mod gateway;
mod ingest;
mod load;
mod sections;
#[cfg(test)]
mod tests;
mod text;

pub use gateway::Gateway;
pub use ingest::{Ingest, Recording, RecordingPace};
pub use load::ConfigError;
pub use sections::{BusSettings, Cluster, Config, Http, LogFormat, Telemetry};
