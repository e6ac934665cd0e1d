//! The forecast service keeps the pool from the event stream, learns from holes that end, and
//! publishes the pool with a forecast for every hole.
//!
//! [`Forecaster`] is the whole of what it knows, without I/O; [`run`] is the shell around it.

mod forecaster;
mod metrics;
mod publish;
mod shell;

pub use forecaster::{Forecaster, Ready};
pub use metrics::Metrics;
pub use shell::run;
