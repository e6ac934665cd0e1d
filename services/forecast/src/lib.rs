//! The forecast service keeps the pool from the event stream, learns from holes that end, and
//! publishes the pool with a forecast for every hole, and with what ends together.
//!
//! - [`Forecaster`] is the whole of what it knows, without I/O: the pool, and [`Models`], which
//!   forecast, are scored, and take over from each other.
//! - [`Wanted`] is what the configuration asks for, [`Store`] where models are saved.
//! - [`run`] is the shell around them.

mod announced_ends;
mod choice;
mod forecaster;
mod learner;
mod metrics;
mod models;
mod publish;
mod quality;
mod shell;
mod store;
mod upkeep;

pub use choice::{OrderError, Wanted};
pub use forecaster::{Forecaster, Ready, StreamAnomalies};
pub use learner::Upto;
pub use metrics::Metrics;
pub use models::{ModelEvent, Models, Role};
pub use quality::Quality;
pub use shell::run;
pub use store::{Found, Refused, Situation, Store};
