//! How long each hole will last: predictors behind one trait, and how good they were.
//!
//! - [`Predictor`] is what a predictor must do: watch holes open and close, and give every
//!   present hole a survival curve of its remaining length.
//! - [`Constant`] believes every hole to last the same time (BFTrainer's T).
//! - [`Survival`] learns the Kaplan-Meier curve by age while it runs.
//! - [`Calibration`] keeps the Brier scores of the forecasts that were given.
//!
//! Plain state machines: time is an argument, nothing of the future is ever seen.

mod bins;
mod calibration;
mod constant;
mod curve;
mod predictor;
pub mod skill;
mod survival;

pub use bins::Bins;
pub use calibration::{Calibration, HORIZONS_S, Score};
pub use constant::Constant;
pub use curve::Curve;
pub use predictor::{Choice, Forecasts, Learning, Predictor};
pub use survival::{Settings, Survival};
