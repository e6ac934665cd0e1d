//! The forecast service keeps the pool from the event stream and learns from holes that end. It
//! publishes the pool with a forecast for every hole, and with the holes that end together.
//!
//! - [`Forecaster`] is the core, without I/O: the pool and the [`Models`], which forecast, are
//!   scored, and take over from each other.
//! - [`PredictorSettings`] holds the settings of the core, and [`Store`] saves models.
//! - [`run`] is the shell around them.

mod announced_ends;
mod choice;
mod forecaster;
mod given;
mod learner;
mod metrics;
mod models;
mod publish;
mod quality;
mod sections;
mod shell;
mod store;
mod upkeep;

pub use choice::{OrderError, PredictorSettings};
pub use forecaster::{Forecaster, Ready, StreamAnomalies};
pub use learner::Upto;
pub use metrics::Metrics;
pub use models::{ModelEvent, Models, Role};
pub use quality::Quality;
pub use sections::{Config, Context, Sections};
pub use shell::run;
pub use store::{Found, Refused, Situation, Store};
