//! Which predictor is wanted, as a setting.

use lacuna_model::Span;
use serde::{Deserialize, Serialize};

use crate::settings::UNLEARNT;
use crate::{
    Constant, Hazard, HazardSettings, ModelError, OrderBy, Persistence, Predictor, Settings,
    Survival,
};

/// Which predictor is wanted, as a setting.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "snake_case", deny_unknown_fields)]
pub enum Choice {
    /// Every hole lasts `length_s` more seconds.
    Constant {
        /// Seconds, above zero.
        length_s: f64,
    },
    /// Every hole lasts as long again as it is old.
    Persistence,
    /// Kaplan-Meier by age, learnt while running.
    Survival {
        /// Seconds for the constant that it falls back to while it is young.
        fallback_s: f64,
        /// Days after which an ended hole counts half; for ever if absent.
        #[serde(default)]
        half_life_days: Option<f64>,
    },
    /// A discrete-time hazard by age, place in the scheduler's order and more, learnt while
    /// running.
    Hazard {
        /// Mean seconds that are believed while nothing has been learnt.
        fallback_s: f64,
        /// Days after which what was seen counts half; for ever if absent.
        #[serde(default)]
        half_life_days: Option<f64>,
        /// Where the order of nodes comes from.
        #[serde(default)]
        order: OrderBy,
    },
}

impl Default for Choice {
    /// The survival curve, with the usual length while it is young.
    fn default() -> Self {
        Self::survival(UNLEARNT.as_secs_f64())
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

    /// The hazard with a half-life of two weeks, an order that is learnt, and a mean of
    /// `fallback_s` seconds while it is young.
    #[must_use]
    pub const fn hazard(fallback_s: f64) -> Self {
        Self::Hazard {
            fallback_s,
            half_life_days: Some(14.0),
            order: OrderBy::Learnt,
        }
    }

    /// What is wrong with the numbers, if anything is.
    ///
    /// # Errors
    /// A sentence that names the setting, its value and what was expected.
    pub fn check(&self) -> Result<(), String> {
        let numbers = match self {
            Self::Constant { length_s } => vec![("length_s", *length_s)],
            Self::Persistence => Vec::new(),
            Self::Survival {
                fallback_s,
                half_life_days,
            }
            | Self::Hazard {
                fallback_s,
                half_life_days,
                ..
            } => [("fallback_s", *fallback_s)]
                .into_iter()
                .chain(half_life_days.map(|days| ("half_life_days", days)))
                .collect(),
        };
        if let Self::Hazard {
            order: OrderBy::Weights(weights),
            ..
        } = self
            && let Some((node, weight)) = weights.iter().find(|(_, weight)| !weight.is_finite())
        {
            return Err(format!(
                "the weight of {node} is {weight}: expected a number"
            ));
        }
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
            Self::Persistence => Box::new(Persistence::new()),
            Self::Survival {
                fallback_s,
                half_life_days,
            } => Box::new(Survival::new(survival(*fallback_s, *half_life_days))),
            Self::Hazard {
                fallback_s,
                half_life_days,
                order,
            } => Box::new(Hazard::new(hazard(*fallback_s, *half_life_days, order))),
        }
    }

    /// Makes the predictor with what [`Predictor::save`] gave.
    ///
    /// # Errors
    /// [`ModelError`] says what is wrong with the bytes. Whoever gets it may go on with
    /// [`build`](Self::build), and should say so.
    pub fn restore(&self, bytes: &[u8]) -> Result<Box<dyn Predictor>, ModelError> {
        Ok(match self {
            Self::Constant { .. } => {
                return Err(ModelError::NothingToLearn { name: "constant" });
            }
            Self::Persistence => {
                return Err(ModelError::NothingToLearn {
                    name: "persistence",
                });
            }
            Self::Survival {
                fallback_s,
                half_life_days,
            } => Box::new(Survival::restore(
                survival(*fallback_s, *half_life_days),
                bytes,
            )?),
            Self::Hazard {
                fallback_s,
                half_life_days,
                order,
            } => Box::new(Hazard::restore(
                hazard(*fallback_s, *half_life_days, order),
                bytes,
            )?),
        })
    }
}

fn days(days: Option<f64>) -> Option<Span> {
    days.map(|days| Span::from_secs_f64(days * 86_400.0))
}

fn survival(fallback_s: f64, half_life_days: Option<f64>) -> Settings {
    Settings {
        fallback: Span::from_secs_f64(fallback_s),
        half_life: days(half_life_days),
        ..Settings::default()
    }
}

fn hazard(fallback_s: f64, half_life_days: Option<f64>, order: &OrderBy) -> HazardSettings {
    HazardSettings {
        fallback: Span::from_secs_f64(fallback_s),
        half_life: days(half_life_days),
        order: order.clone(),
        ..HazardSettings::default()
    }
}
