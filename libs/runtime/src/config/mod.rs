//! One configuration file for all services (TOML). Unknown keys are errors; everything has a
//! default; lengths of time are written `120s`, `15m`. Secrets come from files or from the
//! environment, never from this file.

mod access;
mod adapters;
mod forecast;
mod gateway;
mod load;
mod pilots;
mod planner;
mod profile;
mod sections;
mod text;

pub use access::{Access, Quota, Rate};
pub use adapters::{Answers, Following, Lsf, Marks, Pbs, Polling, Slurm};
pub use forecast::{Forecast, NodeOrder, Predictor};
pub use gateway::Gateway;
pub use load::ConfigError;
pub use pilots::{Assumed, PilotCommands, PilotMode, PilotPace, PilotScheduler, PilotTime, Pilots};
pub use planner::{Foresight, Planner};
pub use profile::{Profile, ProfileOrder};
pub use sections::{
    Agent, BusSettings, Cluster, Config, Control, Http, Ingest, LogFormat, Recording,
    RecordingPace, Telemetry,
};
