//! What a predictor must do.

use lacuna_model::{Forecast, Hole, Pool, PooledHole, Span, Timestamp};
use serde::{Deserialize, Serialize};

use crate::{Constant, Settings, Survival};

/// Forecasts for a list of holes: those that are forecast alike share one.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Forecasts {
    /// The distinct forecasts.
    pub forecasts: Vec<Forecast>,
    /// For each hole of the list, its forecast's place in `forecasts`.
    pub index: Vec<u32>,
}

impl Forecasts {
    /// Joins the forecasts with the holes that they were made for.
    #[must_use]
    pub fn into_pool(self, as_of: Timestamp, seq: u64, holes: Vec<Hole>) -> Pool {
        let holes = holes
            .into_iter()
            .zip(self.index)
            .map(|(hole, forecast)| PooledHole { hole, forecast })
            .collect();
        Pool {
            as_of,
            seq,
            holes,
            forecasts: self.forecasts,
        }
    }

    /// The forecast of the hole at a place in the list.
    #[must_use]
    pub fn of(&self, place: usize) -> Option<&Forecast> {
        self.forecasts.get(*self.index.get(place)? as usize)
    }
}

/// How much a predictor has learnt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Learning {
    /// There is nothing to learn.
    Fixed,
    /// It has not seen enough yet and falls back to something simpler.
    Young {
        /// Ended holes seen.
        ended: u64,
        /// Ended holes needed.
        needed: u64,
    },
    /// It forecasts by what it has learnt.
    Learnt {
        /// Ended holes seen.
        ended: u64,
    },
}

/// Watches holes and forecasts how long the present ones will stay open.
pub trait Predictor: Send {
    /// Which predictor this is: `constant`, `survival`, ...
    fn name(&self) -> &'static str;

    /// What its forecasts now rest on, in words.
    fn label(&self) -> String;

    /// How much it has learnt.
    fn learning(&self) -> Learning;

    /// A hole is present. `seen` is the moment from which on it is known: its start, or later
    /// (a hole that is only known from some age on says nothing of shorter holes).
    fn opened(&mut self, hole: &Hole, seen: Timestamp);

    /// A hole ended at `at`.
    fn closed(&mut self, hole: &Hole, at: Timestamp);

    /// A hole ended unseen, some time after `last_seen`.
    fn lost(&mut self, hole: &Hole, last_seen: Timestamp);

    /// From now on it watches what happens and learns nothing more from it, so that what it knew
    /// can be scored on what came later. Nothing happens where there is nothing to learn.
    fn freeze(&mut self) {}

    /// Forecasts the present holes as of `now`. The list is all holes that are present.
    fn forecast(&mut self, now: Timestamp, holes: &[Hole]) -> Forecasts;
}

/// Which predictor is wanted, as a setting.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "snake_case", deny_unknown_fields)]
pub enum Choice {
    /// Every hole lasts `length_s` more seconds.
    Constant {
        /// Seconds, above zero.
        length_s: f64,
    },
    /// Kaplan-Meier by age, learnt while running.
    Survival {
        /// Seconds for the constant that it falls back to while it is young.
        fallback_s: f64,
        /// Days after which an ended hole counts half; for ever if absent.
        #[serde(default)]
        half_life_days: Option<f64>,
    },
}

impl Default for Choice {
    /// The survival curve, with BFTrainer's 120 s while it is young.
    fn default() -> Self {
        Self::survival(120.0)
    }
}

impl Choice {
    /// The survival curve with a half-life of a week and a constant of `fallback_s` seconds
    /// while it is young.
    #[must_use]
    pub const fn survival(fallback_s: f64) -> Self {
        Self::Survival {
            fallback_s,
            half_life_days: Some(7.0),
        }
    }

    /// What is wrong with the numbers, if anything is.
    ///
    /// # Errors
    /// A sentence that names the setting, its value and what was expected.
    pub fn check(&self) -> Result<(), String> {
        let numbers = match self {
            Self::Constant { length_s } => vec![("length_s", *length_s)],
            Self::Survival {
                fallback_s,
                half_life_days,
            } => [("fallback_s", *fallback_s)]
                .into_iter()
                .chain(half_life_days.map(|days| ("half_life_days", days)))
                .collect(),
        };
        match numbers
            .into_iter()
            .find(|(_, value)| !value.is_finite() || *value <= 0.0)
        {
            Some((what, value)) => Err(format!("{what} is {value}: expected a number above zero")),
            None => Ok(()),
        }
    }

    /// Makes the predictor.
    #[must_use]
    pub fn build(&self) -> Box<dyn Predictor> {
        match self {
            Self::Constant { length_s } => Box::new(Constant::new(Span::from_secs_f64(*length_s))),
            Self::Survival {
                fallback_s,
                half_life_days,
            } => Box::new(Survival::new(Settings {
                fallback: Span::from_secs_f64(*fallback_s),
                half_life: half_life_days.map(|days| Span::from_secs_f64(days * 86_400.0)),
                ..Settings::default()
            })),
        }
    }
}
