//! The discrete-time hazard: the probability that a hole ends in each interval of the time to
//! come, given its age and its place in the scheduler's order.
//!
//! [`HazardCore`] works on numbered nodes, [`Hazard`] on named ones. Both give a survival curve
//! for each present hole, in the order in which the scheduler takes nodes. For each pair of
//! neighbours they give the probability that both leave in one event.

mod boost;
mod core;
mod curves;
mod drift;
mod feature_bins;
mod features;
mod fit;
mod learn;
mod memory;
mod model;
mod named;
mod present;
mod refit;
mod samples;
mod settings;
mod trust;

pub use self::core::{HazardCore, View};
pub use curves::GRID_S;
pub use fit::{FitTask, Fits, Fitted};
pub use named::Hazard;
pub use settings::{Anomalies, HazardSettings, OrderReport, OrderState};
