//! What an evaluation gives.

use lacuna_forecast::Learning;
use lacuna_forecast::skill::ReliabilityBin;
use lacuna_model::Timestamp;
use serde::{Deserialize, Serialize};

use super::AfterTraining;

/// Lengths are scored up to the longest horizon, seconds: nobody plans further ahead.
pub const LIMIT_S: f64 = 3600.0;

/// Holes are ranked by the length that is expected of them up to a day, seconds: which of two will
/// be kept longer matters among those that are kept for hours, too.
pub const RANKED_S: f64 = 86_400.0;

/// How good the forecasts of some predictors would have been.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Evaluation {
    /// Seed of moments and samples.
    pub seed: u64,
    /// Before it predictors only learnt.
    pub train_until: Option<Timestamp>,
    /// What they did after it.
    pub after: AfterTraining,
    /// Events in the time that was scored.
    pub events: u64,
    /// Every so many of them was asked at; nothing if moments were spread over time.
    pub every: Option<u64>,
    /// Moments at which was asked: those at which no predictor was too young.
    pub moments: u64,
    /// Moments at which a predictor was too young to be asked.
    pub too_young: u64,
    /// Holes that were asked after, all moments together.
    pub holes: u64,
    /// Of these, holes whose end lies beyond the trace.
    pub unended: u64,
    /// Whether the scheduler takes nodes in an order, if one was looked for.
    pub order: Option<OrderFigures>,
    /// The predictors.
    pub predictors: Vec<PredictorSkill>,
}

/// Where the nodes that left stood among the idle ones, in an order of nodes: 0 is its very front,
/// 1 its very end, and .5 is the mean of no order. If `k` of `n` nodes leave and their places,
/// from 0, have the mean `m`, that is `(m - (k - 1) / 2) / (n - k)`: the share of pairs of a node
/// that left and one that stayed in which the former stands behind (Mann and Whitney, Annals of
/// Mathematical Statistics 18 (1947)).
///
/// Events are weighted by the nodes that they took, since a single node may well leave for its own
/// reasons; but the unit of the error is the event, as the nodes of one mostly go to one batch job.
/// Events that took every idle node say nothing and are left out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OrderFigures {
    /// Which order, in words.
    pub by: String,
    /// Events that took some of the idle nodes and left others.
    pub events: u64,
    /// Nodes that they took.
    pub nodes: u64,
    /// Mean place of these nodes.
    pub place: Option<f64>,
    /// Its standard error, by event.
    pub standard_error: Option<f64>,
    /// Mean place if every event counts once, however many nodes it took.
    pub by_event: Option<f64>,
    /// Standard errors by which the mean place lies before the middle.
    pub z: Option<f64>,
    /// Whether the front is taken first, beyond doubt.
    pub holds: bool,
    /// Whether the end is taken first, beyond doubt.
    pub reversed: bool,
}

impl OrderFigures {
    /// What follows from it, in words.
    #[must_use]
    pub const fn words(&self) -> &'static str {
        if self.holds {
            "nodes are taken from the front"
        } else if self.reversed {
            "nodes are taken from the end"
        } else {
            "no order can be told"
        }
    }
}

/// One predictor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PredictorSkill {
    /// What it is called.
    pub label: String,
    /// What its forecasts rested on at the end, in its own words.
    pub rests_on: String,
    /// How much it had learnt at the end.
    pub learning: Learning,
    /// Whether holes lasted in the order that was forecast.
    pub concordance: ConcordanceFigures,
    /// Its scores, in the order of [`lacuna_forecast::HORIZONS_S`].
    pub horizons: Vec<HorizonSkill>,
    /// Its quantiles, in the order of [`lacuna_forecast::skill::LEVELS`].
    pub quantiles: Vec<QuantileSkill>,
    /// Whether neighbours end together as it says, if it says anything of that.
    pub links: Option<LinkSkill>,
}

/// Harrell's concordance: .5 is chance, 1 is perfect. Holes are ranked by the length that is
/// expected of them, counted up to [`RANKED_S`].
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct ConcordanceFigures {
    /// Over all holes that were asked after, at whatever moment.
    pub all: Option<f64>,
    /// Pairs that it is made from.
    pub all_pairs: u64,
    /// Over pairs of holes that were present at the same moment.
    pub within: Option<f64>,
    /// Pairs that it is made from.
    pub within_pairs: u64,
    /// Its standard error, moments being independent. Those that follow each other closely are
    /// not quite, so it is rather more.
    pub within_error: Option<f64>,
}

/// One predictor at one horizon.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct HorizonSkill {
    /// How far ahead, seconds.
    pub horizon_s: f64,
    /// Questions whose answer lies in the trace.
    pub answered: u64,
    /// Of these, holes that were still open.
    pub open: u64,
    /// Brier score: 0 is perfect, .25 is a coin.
    pub brier: Option<f64>,
    /// Brier score of knowing only the share that stays open.
    pub brier_of_base_rate: Option<f64>,
    /// One less the ratio of both: above zero is better than the base rate.
    pub skill: Option<f64>,
    /// Its standard error, moments being independent. Those that follow each other closely are
    /// not quite, so it is rather more.
    pub skill_error: Option<f64>,
    /// The skill if every moment counts once, however many holes were asked after at it: those of
    /// one moment end in few events, and a decision is one.
    #[serde(default)]
    pub skill_by_event: Option<f64>,
    /// The share that stayed open while predictors only learnt, as far as that was known when
    /// scoring began: what an honest constant says. Nothing if there was no such time.
    #[serde(default)]
    pub constant: Option<f64>,
    /// Brier score of that constant.
    #[serde(default)]
    pub brier_of_constant: Option<f64>,
    /// One less the ratio to it: above zero is better than that constant.
    #[serde(default)]
    pub skill_over_constant: Option<f64>,
    /// Expected calibration error, over tenths of probability.
    pub calibration_error: Option<f64>,
    /// Mean probability of open less the share that was open.
    pub in_the_large: Option<f64>,
    /// Forecasts by probability, those bins that have any.
    pub bins: Vec<ReliabilityBin>,
}

/// One quantile of one predictor: of the remaining length up to [`LIMIT_S`].
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct QuantileSkill {
    /// Which quantile.
    pub level: f64,
    /// Questions whose answer lies in the trace.
    pub answered: u64,
    /// Mean pinball loss, seconds.
    pub loss_s: Option<f64>,
    /// That of the best constant, which is known only afterwards, seconds.
    pub loss_of_constant_s: Option<f64>,
    /// One less the ratio of both.
    pub skill: Option<f64>,
    /// Share of lengths that were at most the quantile.
    pub coverage: Option<f64>,
}

/// How often neighbours end in the same event, beside the probability that was forecast for it.
/// Neighbours are those of the predictor's own order, so figures of different predictors are not
/// of the same pairs.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct LinkSkill {
    /// Pairs of which the first has ended.
    pub answered: u64,
    /// Of these, pairs that ended together.
    pub together: u64,
    /// Brier score.
    pub brier: Option<f64>,
    /// One less its ratio to that of knowing only the share that ends together.
    pub skill: Option<f64>,
    /// Expected calibration error, over tenths of probability.
    pub calibration_error: Option<f64>,
    /// Mean probability less the share that ended together.
    pub in_the_large: Option<f64>,
}
