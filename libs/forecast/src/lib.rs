//! Forecasts of the remaining length of holes: predictors behind one trait, and their scores.
//!
//! - [`Predictor`] is the trait: a predictor sees holes open and close, and gives a survival
//!   curve of the remaining length of every present hole.
//! - [`Constant`] gives every hole the same remaining length (BFTrainer's T), [`Persistence`] its
//!   age.
//! - [`Survival`] learns the Kaplan-Meier curve by age while it runs.
//! - [`Hazard`] learns a discrete-time hazard by age and by place in the order in which the
//!   scheduler takes nodes. It also learns which holes end together ([`Joint`]). [`HazardCore`]
//!   is the same on numbered nodes. Before, it forecasts by age alone (`lengths`), from a [`Prior`]
//!   on; both are mixed by their scores (`hazard::trust`).
//! - [`WithPlannedStarts`] adds planned starts and reservations to another predictor, weighed by
//!   their track record ([`EndTracker`]).
//! - [`Calibration`] keeps the scores of past forecasts, [`Alarm`] tells when they are adrift.
//! - [`Learnt`] is a model that was learnt from a log, with what it was learnt from.
//! - [`settings`] is the section `[forecast]` of the configuration.
//!
//! All are plain state machines: time is an argument, and none sees the future.

mod bins;
mod calibration;
mod choice;
mod co_departure;
mod constant;
mod curve;
mod hazard;
mod learnt;
mod lengths;
mod order;
mod persistence;
mod planned_starts;
mod predictor;
mod prior;
pub mod saved;
pub mod settings;
pub mod skill;
mod survival;
mod typical;

pub use bins::Bins;
pub use calibration::{Adrift, Alarm, Calibration, HORIZONS_S, Limits, Score};
pub use choice::Choice;
pub use constant::Constant;
pub use curve::Curve;
pub use hazard::{
    Anomalies, FitTask, Fits, Fitted, GRID_S, Hazard, HazardCore, HazardSettings, OrderReport,
    OrderState, View,
};
pub use lacuna_model::Joint;
pub use learnt::{Learnt, LearntFrom, Unfit};
pub use order::{Evidence, Nodes, OrderBy, block_of, natural_cmp};
pub use persistence::Persistence;
pub use planned_starts::{
    AnnouncedEnd, EndKind, EndOdds, EndTracker, RefreshTimer, TrackRecord, WithPlannedStarts,
};
pub use predictor::{Forecasts, LearningStage, Predictor, Report, Saver};
pub use prior::{MachinePrior, Prior};
pub use saved::ModelError;
pub use survival::{Settings, Survival};
pub use typical::Typical;
