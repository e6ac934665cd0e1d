//! The discrete-time hazard: how likely a hole is to end in each stretch of the time to come,
//! given its age and its place in the scheduler's order.
//!
//! [`HazardCore`] works on numbered nodes, [`Hazard`] on named ones.
//!
//! For the present holes, in the order in which the scheduler takes nodes, it gives a survival
//! curve each, and for each pair of neighbours the probability that both leave in one event.

mod boost;
mod core;
mod curves;
mod drift;
mod features;
mod learn;
mod levels;
mod memory;
mod model;
mod named;
mod present;
mod samples;
mod settings;
mod task;

pub use self::core::{HazardCore, View};
pub use curves::GRID_S;
pub use named::Hazard;
pub use settings::{HazardSettings, Oddities, OrderReport, OrderState};
pub use task::{FitTask, Fits, Fitted};
