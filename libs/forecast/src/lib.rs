//! How long each hole will last: predictors behind one trait, and how good they were.
//!
//! - [`Predictor`] is what a predictor must do: watch holes open and close, and give every
//!   present hole a survival curve of its remaining length.
//! - [`Constant`] believes every hole to last the same time (BFTrainer's T), [`Persistence`] as
//!   long again as it is old.
//! - [`Survival`] learns the Kaplan-Meier curve by age while it runs.
//! - [`Hazard`] learns a discrete-time hazard by age and by place in the order in which the
//!   scheduler takes nodes, and which holes end together ([`Joint`]); [`HazardCore`] is the same
//!   on numbered nodes.
//! - [`Hinted`] adds the ends that the scheduler announces, by what came of such words
//!   ([`Promises`]).
//! - [`Calibration`] keeps the scores of the forecasts that were given, [`Alarm`] says when they
//!   are adrift.
//! - [`settings`] is the section `[forecast]` of the configuration.
//!
//! Plain state machines: time is an argument, nothing of the future is ever seen.

mod announced;
mod bins;
mod calibration;
mod choice;
mod constant;
mod curve;
mod hazard;
mod hinted;
mod joint;
mod order;
mod persistence;
mod predictor;
mod promises;
pub mod saved;
pub mod settings;
pub mod skill;
mod survival;
mod typical;

pub use announced::AnnouncedEnds;
pub use bins::Bins;
pub use calibration::{Adrift, Alarm, Calibration, HORIZONS_S, Limits, Score};
pub use choice::Choice;
pub use constant::Constant;
pub use curve::Curve;
pub use hazard::{
    FitTask, Fits, Fitted, GRID_S, Hazard, HazardCore, HazardSettings, Oddities, OrderReport,
    OrderState, View,
};
pub use hinted::{Certainty, Hint, Hinted};
pub use lacuna_model::Joint;
pub use order::{Evidence, Nodes, OrderBy, block_of, natural_cmp};
pub use persistence::Persistence;
pub use predictor::{Forecasts, Learning, Predictor, Report, Saver};
pub use promises::{Promises, Record, Word};
pub use saved::ModelError;
pub use survival::{Settings, Survival};
pub use typical::Typical;
