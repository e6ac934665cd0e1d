//! The planner service: a plan for every change of the pool or of the trainers.
//!
//! - [`judging`]: some decisions, solved again off the path
//! - [`pending`]: the newest inputs, the next task, and whether a plan is published; no I/O
//! - [`solver`]: the thread that solves
//! - [`shell`]: reads and writes the bus

pub mod judging;
mod metrics;
pub mod pending;
mod save;
mod sections;
pub mod shell;
pub mod solver;

pub use metrics::Metrics;
pub use sections::{Config, Context, Sections};
pub use shell::run;
