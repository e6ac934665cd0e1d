//! Results of an evaluation.

use lacuna_forecast::LearningStage;
use lacuna_forecast::skill::ReliabilityBin;
use lacuna_model::Timestamp;
use serde::{Deserialize, Serialize};

use super::AfterTraining;

/// Lengths are scored up to the longest horizon, seconds: the planner looks no further ahead.
pub const LIMIT_S: f64 = 3600.0;

/// Holes are ranked by their expected length up to a day, seconds: the order of long holes matters
/// too.
pub const RANKED_S: f64 = 86_400.0;

/// Skill of the forecasts of some predictors.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Evaluation {
    /// Seed of moments and samples.
    pub seed: u64,
    /// Start of scoring; before it predictors only learn.
    pub train_until: Option<Timestamp>,
    /// Learning of predictors while they are scored.
    pub after: AfterTraining,
    /// Events in the scored time.
    pub events: u64,
    /// Events between two moments of questions; none for moments spread over time.
    pub every: Option<u64>,
    /// Moments with questions: no predictor was too young.
    pub moments: u64,
    /// Moments without questions, since a predictor was too young.
    pub too_young: u64,
    /// Questions of all moments.
    pub holes: u64,
    /// Questions about holes that end after the trace.
    pub unended: u64,
    /// Whether the scheduler takes nodes in an order, if one was tested.
    pub order: Option<OrderFigures>,
    /// Scores by predictor.
    pub predictors: Vec<PredictorSkill>,
}

/// Places of departed nodes among the idle ones, in an order of nodes: 0 is its front, 1 its end,
/// and .5 is the mean without an order. If `k` of `n` nodes leave and their places, from 0, have
/// the mean `m`, the figure is `(m - (k - 1) / 2) / (n - k)`: the share of pairs of a node that
/// left and one that stayed in which the former comes later (Mann and Whitney, Annals of
/// Mathematical Statistics 18 (1947)).
///
/// Events are weighted by the nodes that they took, since a single node may leave for its own
/// reasons. The unit of the error is the event, as the nodes of one event mostly go to one batch
/// job. Events that took every idle node have no information and are left out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OrderFigures {
    /// Name of the order.
    pub by: String,
    /// Events that took some of the idle nodes and left others.
    pub events: u64,
    /// Nodes taken by these events.
    pub nodes: u64,
    /// Mean place of these nodes.
    pub place: Option<f64>,
    /// Standard error of the mean place, by event.
    pub standard_error: Option<f64>,
    /// Mean place with equal weights of events.
    pub by_event: Option<f64>,
    /// Standard errors by which the mean place lies before the middle.
    pub z: Option<f64>,
    /// Whether the front is taken first, with significance.
    pub holds: bool,
    /// Whether the end is taken first, with significance.
    pub reversed: bool,
}

impl OrderFigures {
    /// The verdict, in words.
    #[must_use]
    pub const fn words(&self) -> &'static str {
        if self.holds {
            "nodes are taken from the front"
        } else if self.reversed {
            "nodes are taken from the end"
        } else {
            "no order is recognisable"
        }
    }
}

/// Scores of one predictor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PredictorSkill {
    /// Label of the predictor.
    pub label: String,
    /// Basis of its forecasts at the end, in its own words.
    pub rests_on: String,
    /// Extent of its learning at the end.
    pub learning: LearningStage,
    /// Agreement of the order of lengths with the forecast order.
    pub concordance: ConcordanceFigures,
    /// Its scores, in the order of [`lacuna_forecast::HORIZONS_S`].
    pub horizons: Vec<HorizonSkill>,
    /// Its quantiles, in the order of [`lacuna_forecast::skill::LEVELS`].
    pub quantiles: Vec<QuantileSkill>,
    /// Scores of its links between neighbours, if it forecasts them.
    pub links: Option<LinkSkill>,
}

/// Harrell's concordance: .5 is chance, 1 is perfect. Holes are ranked by their expected length,
/// counted up to [`RANKED_S`].
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct ConcordanceFigures {
    /// Concordance over all questions.
    pub all: Option<f64>,
    /// Pairs that it is made from.
    pub all_pairs: u64,
    /// Concordance over pairs of questions of the same moment.
    pub within: Option<f64>,
    /// Pairs that it is made from.
    pub within_pairs: u64,
    /// Standard error of `within`, with moments taken as independent. Consecutive moments are not
    /// quite independent, so the true error is larger.
    pub within_error: Option<f64>,
}

/// Scores of one predictor at one horizon.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct HorizonSkill {
    /// The horizon, seconds.
    pub horizon_s: f64,
    /// Questions whose answer lies in the trace.
    pub answered: u64,
    /// Questions whose hole was still open.
    pub open: u64,
    /// Brier score: 0 is perfect, .25 is a coin.
    pub brier: Option<f64>,
    /// Mean log loss, in nats: 0 is perfect, .69 is a coin.
    #[serde(default)]
    pub log_loss: Option<f64>,
    /// Brier score of the base rate: the share that stays open.
    pub brier_of_base_rate: Option<f64>,
    /// Skill: one less the ratio of both scores; above zero is better than the base rate.
    pub skill: Option<f64>,
    /// Standard error of the skill, with moments taken as independent. Consecutive moments are
    /// not quite independent, so the true error is larger.
    pub skill_error: Option<f64>,
    /// Skill with equal weights of moments: the holes of one moment end in few events, and each
    /// event is one decision.
    #[serde(default)]
    pub skill_by_event: Option<f64>,
    /// The training constant: the share of holes that stayed open, as known at the start of
    /// scoring. None without time of learning.
    #[serde(default)]
    pub constant: Option<f64>,
    /// Brier score of the training constant.
    #[serde(default)]
    pub brier_of_constant: Option<f64>,
    /// Skill over the training constant.
    #[serde(default)]
    pub skill_over_constant: Option<f64>,
    /// Expected calibration error, over tenths of probability.
    pub calibration_error: Option<f64>,
    /// Calibration in the large: mean probability of open less the share that was open.
    pub in_the_large: Option<f64>,
    /// Bins of forecasts by probability, without empty bins.
    pub bins: Vec<ReliabilityBin>,
}

/// Scores of one quantile of one predictor: of the remaining length up to [`LIMIT_S`].
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct QuantileSkill {
    /// Level of the quantile.
    pub level: f64,
    /// Questions whose answer lies in the trace.
    pub answered: u64,
    /// Mean pinball loss, seconds.
    pub loss_s: Option<f64>,
    /// Pinball loss of the best constant, which is known only afterwards, seconds.
    pub loss_of_constant_s: Option<f64>,
    /// Skill: one less the ratio of both losses.
    pub skill: Option<f64>,
    /// Share of lengths that were at most the quantile.
    pub coverage: Option<f64>,
}

/// Frequency of neighbours that end in the same event, beside its forecast probability. Each
/// predictor has an order and neighbours of its own, so predictors are scored on different pairs.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct LinkSkill {
    /// Pairs of which the first has ended.
    pub answered: u64,
    /// Pairs that ended together.
    pub together: u64,
    /// Brier score.
    pub brier: Option<f64>,
    /// Skill over the base rate: the share of pairs that ends together.
    pub skill: Option<f64>,
    /// Expected calibration error, over tenths of probability.
    pub calibration_error: Option<f64>,
    /// Mean probability less the share that ended together.
    pub in_the_large: Option<f64>,
}
