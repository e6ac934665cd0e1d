//! The section `[forecast]` of the configuration.

use std::path::PathBuf;

use lacuna_model::{SettingError, Span, SpanText};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How long a hole is taken to last while nothing has been learnt: BFTrainer's T.
pub const UNLEARNT: Span = Span::from_secs(120);

/// Which predictor of remaining hole length.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Predictor {
    /// Every hole stays open for the same time.
    Constant,
    /// Every hole stays open for as long again as it is old.
    Persistence,
    /// A survival curve by age, learnt online (Kaplan-Meier).
    Survival,
    /// A hazard by age, place in the scheduler's order and more, learnt online; says which holes
    /// end together.
    #[default]
    Hazard,
}

/// Where the order comes from in which the scheduler takes nodes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NodeOrder {
    /// Whichever what was taken bears out: names forwards, names backwards, or estimated from
    /// what was taken; none while none is significant.
    #[default]
    Learnt,
    /// Names, with numbers in them as numbers.
    Names,
    /// `order_file` lists the nodes, first taken first, one name a line.
    List,
    /// `order_file` gives each node a weight, lowest taken first: name and weight on a line.
    Weights,
    /// There is none.
    None,
}

impl NodeOrder {
    /// Whether it stands in a file.
    #[must_use]
    pub const fn needs_file(self) -> bool {
        matches!(self, Self::List | Self::Weights)
    }
}

/// How remaining hole lengths are predicted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Forecast {
    /// Which predictor of remaining hole length.
    pub predictor: Predictor,
    /// The length that the constant predictor says, and the others while they are young.
    #[serde(with = "SpanText")]
    pub constant: Span,
    /// Where the hazard's order of nodes comes from.
    pub order: NodeOrder,
    /// The file of an order that is a list or weights.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order_file: Option<PathBuf>,
    /// Whether planned jobs and reservations that the scheduler tells of are heeded.
    pub hints: bool,
    /// Where what was learnt is saved, in a folder for each cluster; nowhere if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_dir: Option<PathBuf>,
    /// What was learnt is saved this often, and at the end.
    #[serde(with = "SpanText")]
    pub save_every: Span,
    /// The pool is published at most this often; zero: at every event.
    #[serde(with = "SpanText")]
    pub publish_every: Span,
    /// So many holes whose forecasts are scored must have ended within the window of scores
    /// before a predictor may be called adrift.
    pub drift_ended: u32,
    /// Probabilities may be off by so much on average before their predictor is called adrift.
    pub drift_bias: f64,
    /// Whether the survival curve by age takes over while the predictor is adrift and beyond
    /// doubt worse than the curve. Never in lock step.
    pub fallback: bool,
}

impl Default for Forecast {
    fn default() -> Self {
        Self {
            predictor: Predictor::default(),
            constant: UNLEARNT,
            order: NodeOrder::default(),
            order_file: None,
            hints: true,
            model_dir: None,
            save_every: Span::from_secs(300),
            publish_every: Span::from_ms(10),
            drift_ended: 200,
            drift_bias: 0.1,
            fallback: true,
        }
    }
}

impl Forecast {
    /// Checks what the types do not say.
    ///
    /// # Errors
    /// The first value that makes no sense.
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
