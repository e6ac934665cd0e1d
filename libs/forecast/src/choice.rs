//! The choice of a predictor, as a setting.

use lacuna_model::Span;
use serde::{Deserialize, Serialize};

use crate::settings::UNLEARNT;
use crate::{
    Constant, Hazard, HazardSettings, ModelError, OrderBy, Persistence, Predictor, Settings,
    Survival,
};

/// The choice of a predictor, as a setting.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "snake_case", deny_unknown_fields)]
pub enum Choice {
    /// Every hole lasts `length_s` more seconds.
    Constant {
        /// The remaining length of every hole, seconds, above zero.
        length_s: f64,
    },
    /// The median remaining length of a hole is its age.
    Persistence,
    /// Kaplan-Meier by age, learnt while running.
    Survival {
        /// The length of the constant that forecasts until enough holes have ended, seconds.
        fallback_s: f64,
        /// Days after which an ended hole counts half; absent for no decay.
        #[serde(default)]
        half_life_days: Option<f64>,
    },
    /// A discrete-time hazard by age, place in the scheduler's order and other features, learnt
    /// while running.
    Hazard {
        /// The mean of the exponential curve that forecasts until a model is fitted, seconds.
        fallback_s: f64,
        /// Days after which a sample counts half; absent for no decay.
        #[serde(default)]
        half_life_days: Option<f64>,
        /// The source of the order of nodes.
        #[serde(default)]
        order: OrderBy,
    },
}

impl Default for Choice {
    /// The survival curve with the default fallback.
    fn default() -> Self {
        Self::survival(UNLEARNT.as_secs_f64())
    }
}

impl Choice {
    /// The survival curve with a half-life of a week, and a constant of `fallback_s` seconds until
    /// enough holes have ended.
    #[must_use]
    pub const fn survival(fallback_s: f64) -> Self {
        Self::Survival {
            fallback_s,
            half_life_days: Some(7.0),
        }
    }

    /// The hazard with a half-life of two weeks, a learnt order, and a mean of `fallback_s` seconds
    /// until a model is fitted.
    #[must_use]
    pub const fn hazard(fallback_s: f64) -> Self {
        Self::Hazard {
            fallback_s,
            half_life_days: Some(14.0),
            order: OrderBy::Learnt,
        }
    }

    /// Checks the numbers.
    ///
    /// # Errors
    /// A sentence with the setting, its value and what was expected.
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

    /// Makes a new predictor.
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

    /// Makes a predictor from the bytes of [`Predictor::save`].
    ///
    /// # Errors
    /// [`ModelError`] if the bytes are damaged, or of another predictor or version. The caller may
    /// go on with [`build`](Self::build), and should report it.
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
