//! Plans by forecasts: from a pool that says how long its holes stay to who gets which.
//!
//! `view` leaves out what is in doubt, and `lineup` puts the rest in order, by the same function
//! as a replay does ([`crate::joint::Lineup`]); scenarios are drawn from their forecasts, with a
//! seed that follows from the number of the pool's newest event; [`crate::joint`] allocates, and
//! [`crate::patterns`] betters that if it is asked to; `reasons` says why.
//!
//! **The same input gives the same plan.** What a free node-second is worth is learnt by
//! [`crate::joint`] from what it planned before. Here it learns from two plans of the same
//! input, of which the second counts, so that a plan that is made again comes out the same,
//! whoever makes it; unless the clock cuts a solve over patterns short, which is said.
//!
//! **On doubt it does less.** A pool that is too old, that has no forecasts, or whose order is no
//! order, makes no plan: what everybody has stands, as far as the pool still has it. A hole whose
//! own forecast is broken goes to nobody new, and who holds such a hole keeps what it has.

mod decide;
mod lineup;
mod offers;
mod reach;
mod reasons;
mod verdicts;
mod view;

use lacuna_model::{Doubt, ForecastReport, HoleVerdict, NodeId, Pool, Solve, TrainerId};
use lacuna_model::{TrainerRecord, TrainerVerdict};
use serde::{Deserialize, Serialize};

use crate::translate::Translated;
use crate::{joint, patterns};

pub(crate) use decide::{plan, start};
pub use lineup::Line;

/// How plans by forecasts are made.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// How the allocation weighs things.
    pub joint: joint::Settings,
    /// How many equally likely futures are weighed.
    pub scenarios: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            joint: joint::Settings::default(),
            scenarios: 32,
        }
    }
}

/// What a plan by forecasts is made of.
#[derive(Debug, Clone)]
pub(crate) struct Asked<'a> {
    pub(crate) case: &'a Translated,
    pub(crate) pool: &'a Pool,
    pub(crate) trainers: &'a [TrainerRecord],
    pub(crate) settings: Settings,
    pub(crate) seed: u64,
    /// What is known beforehand to forbid any growth.
    pub(crate) doubt: Option<Doubt>,
    /// How the programme over patterns is bounded, if it is to be solved.
    pub(crate) patterns: Option<patterns::Options<'a>>,
}

/// What comes of it, by slots and trainers of the case.
#[derive(Debug, Clone)]
pub(crate) struct Foreseen {
    pub(crate) owners: Vec<Option<u32>>,
    pub(crate) repooled: Vec<TrainerId>,
    pub(crate) solve: Solve,
    pub(crate) trainers: Vec<TrainerVerdict>,
    pub(crate) holes: Vec<(NodeId, HoleVerdict)>,
    pub(crate) report: ForecastReport,
}
