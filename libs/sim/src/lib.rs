//! The scheduler's cores in virtual time: replay of recordings, measures of efficiency, and
//! the report.
//!
//! [`Trace`] turns a hole list into numbered nodes and steps; [`replay`] drives the planner
//! over it and counts what comes of it; [`report`] draws it.

mod account;
mod efficiency;
mod history;
mod replay;
pub mod report;
mod settings;
mod summary;
mod trace;
mod world;

pub use account::Account;
pub use efficiency::{dedicated_samples, split_rate, static_samples};
pub use history::{History, Life, Point};
pub use replay::{Hooks, Progress, Replayed, SimError, replay};
pub use settings::{Model, Objective, Settings, TrainerEnd};
pub use summary::{SolveSeconds, Summary, Verified};
pub use trace::{Step, Trace};
