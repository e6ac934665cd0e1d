//! Planner: makes a plan for every change of the pool or of the trainers.
//!
//! - [`desk`]: what is known, what is to be planned, what is worth publishing; no I/O
//! - [`solver`]: the thread that solves
//! - [`shell`]: reads and writes the bus

pub mod desk;
mod metrics;
mod save;
pub mod shell;
pub mod solver;

pub use metrics::Metrics;
pub use shell::run;
