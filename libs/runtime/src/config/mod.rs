//! One configuration file for all services (TOML). Unknown keys are errors, and every key has a
//! default. Lengths of time are written `120s`, `15m`. Secrets come from files or from the
//! environment, never from this file.
//!
//! A program names the sections that it reads as a type with [`Sections`]: of these it refuses each
//! wrong value and unknown key, and of the file each unknown section. `lacuna` joins all sections, so
//! `lacuna config check` refuses whatever a service would.
//!
//! The sections of every program are defined here, and `[gateway]`, whose service has no core. The
//! others are defined in the core that uses them, which this crate does not know: `[control]` and
//! `[agent]` in `lacuna_trainer`, `[control.pilots]` and `[planner]` in `lacuna_model`, `[forecast]`
//! in `lacuna_forecast`, and `[ingest]` in `lacuna_scheduler`.

mod gateway;
mod load;
mod sections;

pub use gateway::Gateway;
pub use load::ConfigError;
pub use sections::{
    BusSettings, Cluster, Config, Http, LogFormat, NoSections, Sections, Telemetry,
};
