//! The choice of a predictor, as a setting.

use lacuna_model::Span;
use serde::{Deserialize, Serialize};

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
        /// Days after which an ended hole counts half; absent for no decay.
        #[serde(default)]
        half_life_days: Option<f64>,
    },
    /// A discrete-time hazard by age, place in the scheduler's order and other features, learnt
    /// while running.
    Hazard {
        /// Days after which a sample counts half; absent for no decay.
        #[serde(default)]
        half_life_days: Option<f64>,
        /// The source of the order of nodes.
        #[serde(default)]
        order: OrderBy,
    },
}

impl Default for Choice {
    /// The survival curve.
    fn default() -> Self {
        Self::survival()
    }
}

impl Choice {
    /// The survival curve with a half-life of a week.
    #[must_use]
    pub const fn survival() -> Self {
        Self::Survival {
            half_life_days: Some(7.0),
        }
    }

    /// The hazard with a half-life of two weeks, and this source of the order of nodes.
    #[must_use]
    pub const fn hazard(order: OrderBy) -> Self {
        Self::Hazard {
            half_life_days: Some(14.0),
            order,
        }
    }

    /// Checks the numbers.
    ///
    /// # Errors
    /// A sentence with the setting, its value and what was expected.
    pub fn check(&self) -> Result<(), String> {
        let number = match self {
            Self::Constant { length_s } => Some(("length_s", *length_s)),
            Self::Persistence => None,
            Self::Survival { half_life_days } | Self::Hazard { half_life_days, .. } => {
                half_life_days.map(|days| ("half_life_days", days))
            }
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
        match number {
            Some((what, value)) if !value.is_finite() || value <= 0.0 => {
                Err(format!("{what} is {value}: expected a number above zero"))
            }
            _ => Ok(()),
        }
    }

    /// Makes a new predictor.
    #[must_use]
    pub fn build(&self) -> Box<dyn Predictor> {
        match self {
            Self::Constant { length_s } => Box::new(Constant::new(Span::from_secs_f64(*length_s))),
            Self::Persistence => Box::new(Persistence::new()),
            Self::Survival { half_life_days } => Box::new(Survival::new(survival(*half_life_days))),
            Self::Hazard {
                half_life_days,
                order,
            } => Box::new(Hazard::new(hazard(*half_life_days, order))),
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
            Self::Survival { half_life_days } => {
                Box::new(Survival::restore(survival(*half_life_days), bytes)?)
            }
            Self::Hazard {
                half_life_days,
                order,
            } => Box::new(Hazard::restore(hazard(*half_life_days, order), bytes)?),
        })
    }
}

fn days(days: Option<f64>) -> Option<Span> {
    days.map(|days| Span::from_secs_f64(days * 86_400.0))
}

fn survival(half_life_days: Option<f64>) -> Settings {
    Settings {
        half_life: days(half_life_days),
        ..Settings::default()
    }
}

fn hazard(half_life_days: Option<f64>, order: &OrderBy) -> HazardSettings {
    HazardSettings {
        half_life: days(half_life_days),
        order: order.clone(),
        ..HazardSettings::default()
    }
}
