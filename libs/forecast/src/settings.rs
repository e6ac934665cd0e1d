//! The section `[forecast]` of the configuration.

use std::path::PathBuf;

use lacuna_model::{SettingError, Span, SpanText};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The predictor of remaining hole length.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Predictor {
    /// Every hole stays open for the same time.
    Constant,
    /// The median remaining length of a hole is its age.
    Persistence,
    /// A survival curve by age, learnt online (Kaplan-Meier).
    Survival,
    /// A hazard by age, place in the scheduler's order and other features, learnt online. It also
    /// forecasts which holes end together.
    #[default]
    Hazard,
}

/// The source of the order in which the scheduler takes nodes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NodeOrder {
    /// The order that the taken nodes support: names forwards, names backwards, or one estimated
    /// from them. There is no order while none is significant.
    #[default]
    Learnt,
    /// Names in natural order, with numbers compared as numbers.
    Names,
    /// `order_file` lists the nodes, first taken first, one name a line.
    List,
    /// `order_file` gives each node a weight, lowest taken first, with name and weight on a line.
    Weights,
    /// No order.
    None,
}

impl NodeOrder {
    /// Whether the order is read from a file.
    #[must_use]
    pub const fn needs_file(self) -> bool {
        matches!(self, Self::List | Self::Weights)
    }
}

/// The forecasts of remaining hole lengths.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ForecastSection {
    /// The predictor of remaining hole length.
    pub predictor: Predictor,
    /// The remaining length that the constant predictor gives, BFTrainer's T.
    #[serde(with = "SpanText")]
    pub constant: Span,
    /// The source of the hazard's order of nodes.
    pub order: NodeOrder,
    /// The file of the order `list` or `weights`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order_file: Option<PathBuf>,
    /// Whether forecasts include the planned starts and reservations of the scheduler.
    pub planned_starts: bool,
    /// The folder of saved models, with a folder for each cluster. Without it none are saved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_dir: Option<PathBuf>,
    /// The model that forecasts start with, as `lacuna forecast learn` makes it from the machine's
    /// past. A saved model that has learnt longer counts instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<PathBuf>,
    /// The time between saves of the models. They are saved at the end too.
    #[serde(with = "SpanText")]
    pub save_every: Span,
    /// The least time between publications of the pool; zero publishes it at every event.
    #[serde(with = "SpanText")]
    pub publish_every: Span,
    /// The number of scored holes that must have ended within the window of scores before a
    /// predictor may be called adrift.
    pub drift_ended: u32,
    /// The largest mean error of the probabilities of a predictor that is not called adrift.
    pub drift_bias: f64,
    /// Whether the survival curve by age takes over while the predictor is adrift and significantly
    /// worse than the curve. It never does in lock step.
    pub fallback: bool,
}

impl Default for ForecastSection {
    fn default() -> Self {
        Self {
            predictor: Predictor::default(),
            constant: Span::from_secs(120),
            order: NodeOrder::default(),
            order_file: None,
            planned_starts: true,
            model_dir: None,
            model: None,
            save_every: Span::from_secs(300),
            publish_every: Span::from_ms(10),
            drift_ended: 200,
            drift_bias: 0.1,
            fallback: true,
        }
    }
}

impl ForecastSection {
    /// Checks the values beyond their types.
    ///
    /// # Errors
    /// [`SettingError`] for the first invalid value.
    pub fn check(&self) -> Result<(), SettingError> {
        SettingError::unless_positive([
            ("forecast.constant", self.constant),
            ("forecast.save_every", self.save_every),
        ])?;
        SettingError::unless(
            self.drift_bias > 0.0 && self.drift_bias < 1.0,
            "forecast.drift_bias",
            self.drift_bias,
            "a probability between 0 and 1, as in 0.1",
        )?;
        SettingError::unless(
            self.drift_ended > 0,
            "forecast.drift_ended",
            self.drift_ended,
            "1 or more",
        )?;
        let (value, expected) = match &self.order_file {
            None => (
                "absent".to_owned(),
                "the file that forecast.order = \"list\" or \"weights\" is read from",
            ),
            Some(file) => (
                file.display().to_string(),
                "no file, unless forecast.order is \"list\" or \"weights\"",
            ),
        };
        let sound = self.order_file.is_some() == self.order.needs_file();
        SettingError::unless(sound, "forecast.order_file", value, expected)
    }
}
