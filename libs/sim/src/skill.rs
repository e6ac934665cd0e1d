//! Forecast skill on a trace: each forecast uses only the knowledge of its moment, and the outcome
//! is learnt afterwards (prequential; Dawid, "Statistical theory: the prequential approach",
//! J. R. Stat. Soc. A 147 (1984)).
//!
//! A question is a present hole at a moment: how long will it last? Every predictor answers the
//! same questions. Their scores are the measures of [`lacuna_forecast::skill`], up to an hour
//! ahead.
//!
//! **Weights.** Questions are drawn at every k-th event ([`SampleTimes::Events`]), where decisions
//! are made, or at moments spread evenly over time ([`SampleTimes::Times`]). Each moment draws at
//! most [`SkillOptions::holes`] of the present holes, uniformly and without replacement. So a
//! moment with thousands of idle nodes does not outweigh a day with few. In all figures every
//! drawn hole counts once; in the concordance within one event every pair counts once, and in
//! [`HorizonSkill::skill_by_event`] every moment.

mod figures;
mod order;
mod pairs;
mod plan;
mod score;
mod training_constant;
mod walk;

use std::sync::Arc;

use lacuna_forecast::{Choice, Learnt, OrderBy};
use lacuna_model::{Span, Timestamp};
use serde::{Deserialize, Serialize};

use crate::{PoolTrace, Progress, SimError, limits};

pub use figures::{
    ConcordanceFigures, Evaluation, HorizonSkill, LIMIT_S, LinkSkill, OrderFigures, PredictorSkill,
    QuantileSkill, RANKED_S,
};

/// Choice of the moments of questions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SampleTimes {
    /// Right after every k-th event, with k such that there are at most this many moments.
    Events(u32),
    /// One moment in each of this many equal parts of the time.
    Times(u32),
}

/// Learning of predictors while they are scored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AfterTraining {
    /// They learn from every end, as in the service.
    Learn,
    /// They see every step and learn nothing more.
    Freeze,
}

/// Settings of an evaluation.
#[derive(Debug, Clone, PartialEq)]
pub struct SkillOptions {
    /// The predictors with their labels, in the order of the report.
    pub predictors: Vec<(String, Choice)>,
    /// A model that was learnt before the trace, to be scored first, beside the predictors. Scoring
    /// then starts at once, however young these are.
    pub model: Option<Arc<Learnt>>,
    /// Start of scoring; before it predictors only learn. By default scoring starts when no
    /// predictor is too young.
    pub train_until: Option<Timestamp>,
    /// Whether the first predictor takes part a second time, with the planned starts of the
    /// simulated scheduler ([`PoolStep::planned`](crate::PoolStep::planned)). A model has them in
    /// its only part.
    pub planned_starts: bool,
    /// Learning of predictors while they are scored.
    pub after: AfterTraining,
    /// Moments of questions. Each costs a forecast of the whole pool.
    pub moments: SampleTimes,
    /// Most questions of a moment.
    pub holes: usize,
    /// The order of nodes that departures are tested for: none for [`OrderBy::None`], the order of
    /// names for an order to be learnt.
    pub order: OrderBy,
    /// Seed of moments and samples.
    pub seed: u64,
}

impl Default for SkillOptions {
    /// The survival curve beside `BFTrainer`'s constant of 120 s; 1,000 moments spread over time
    /// with 64 questions each.
    fn default() -> Self {
        Self {
            predictors: vec![
                ("survival".to_owned(), Choice::survival()),
                (
                    "constant 120 s".to_owned(),
                    Choice::Constant { length_s: 120.0 },
                ),
            ],
            model: None,
            train_until: None,
            planned_starts: false,
            after: AfterTraining::Learn,
            moments: SampleTimes::Times(1000),
            holes: 64,
            order: OrderBy::None,
            seed: 1,
        }
    }
}

/// Walks over a trace, lets predictors learn and forecast, and scores them.
///
/// # Errors
/// [`SimError`] if the trace cannot be read, or is too long, or if the model is not of its machine.
pub fn evaluate(
    trace: &dyn PoolTrace,
    options: &SkillOptions,
    progress: &mut dyn FnMut(Progress),
) -> Result<Evaluation, SimError> {
    limits::check_length(trace)?;
    let from = options.train_until.unwrap_or(trace.start());
    let from_s = from.since(trace.start()).max(Span::ZERO).as_secs_f64();
    let plan = plan::plan(trace, options, from_s, progress)?;
    let walked = walk::walk(trace, options, &plan, progress)?;
    Ok(score::score(trace, options, &plan, walked))
}
