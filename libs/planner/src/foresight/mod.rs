//! Plans by forecasts: from a pool that says how long its holes stay to who gets which.
//!
//! `view` leaves out what is in doubt, and `lineup` puts the rest in order; scenarios are drawn
//! from their forecasts, with a seed that follows from the slots; [`crate::joint`] allocates, and
//! [`crate::patterns`] improves that where the policy has it. All of that is `decide`, on ordinals,
//! for the planner service and for replays.
//!
//! **In doubt it does less.** A pool that is too old, that has no forecasts, or whose order is no
//! order of its holes, makes no plan: all allocations stand, as far as the pool still has them. A
//! hole whose own forecast is broken goes to no new trainer, and a trainer that holds such a hole
//! keeps what it has. An ordinal that is no place in its list (`planner::ordinal`) is a mistake of
//! the planner: no trainer grows, the plan tells it, and a replay ends.
//!
//! **Reasons.** `word`, `reasons` and `verdicts` explain a decision in numbers. Holes that fare
//! alike are one class: what is expected of them, which trainer they would have served, what that
//! would have brought and cost. So the report grows with the trainers and not with the holes.
//! `lacuna plan` and `lacuna explain` print it.

mod decide;
mod lineup;
mod offers;
mod parts;
mod reach;
mod reasons;
mod verdicts;
mod view;
mod word;

use lacuna_model::{
    ForecastReport, ForesightSettings, HoleVerdict, NodeId, Pool, TrainerRecord, TrainerVerdict,
};
use serde::{Deserialize, Serialize};

use crate::decider::{Candidate, Decision};
use crate::joint;
use crate::translate::Translated;

pub use decide::Foreseen;
pub(crate) use decide::{Ask, decide, reach, stand};
pub(crate) use word::word;

/// How plans by forecasts are made.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// How the allocation weighs things.
    pub joint: joint::Settings,
    /// How many equally likely futures are weighed.
    pub scenarios: u32,
}

impl From<&ForesightSettings> for Settings {
    fn from(settings: &ForesightSettings) -> Self {
        Self {
            joint: settings.into(),
            scenarios: settings.scenarios,
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        (&ForesightSettings::default()).into()
    }
}

/// A decision by forecasts that is to be worded.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked<'a> {
    pub(crate) case: &'a Translated,
    pub(crate) candidates: &'a [Candidate],
    pub(crate) pool: &'a Pool,
    pub(crate) trainers: &'a [TrainerRecord],
    pub(crate) decision: &'a Decision,
    /// How things are weighed, as far ahead as was looked.
    pub(crate) joint: &'a joint::Settings,
}

/// The words for it, by slots and trainers of the case.
#[derive(Debug, Clone)]
pub(crate) struct Worded {
    pub(crate) trainers: Vec<TrainerVerdict>,
    pub(crate) holes: Vec<(NodeId, HoleVerdict)>,
    pub(crate) report: ForecastReport,
}
