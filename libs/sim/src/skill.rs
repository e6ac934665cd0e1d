//! How good forecasts would have been on a trace: each is made from what was known at its
//! moment, and only then is the answer learnt (prequential; Dawid, "Statistical theory: the
//! prequential approach", J. R. Stat. Soc. A 147 (1984)).
//!
//! At some moments a sample of the present holes is asked after: how long will it last? Every
//! predictor is asked the same. What came of it is told in the measures of
//! [`lacuna_forecast::skill`], up to an hour ahead.
//!
//! **Weights.** Asked is at every k-th event ([`Moments::Events`]), since that is when decisions
//! are made, or at moments spread evenly over time ([`Moments::Times`]). At each, at most
//! [`SkillOptions::holes`] of the present holes are drawn without replacement, all being equally
//! likely, so that a moment with thousands of idle nodes does not outweigh a day with few. In all
//! figures every drawn hole then counts once, in the concordance within one event every pair; in
//! [`HorizonSkill::skill_by_event`] every moment does.

mod figures;
mod order;
mod pairs;
mod past;
mod plan;
mod score;
mod walk;

use lacuna_forecast::{Choice, OrderBy};
use lacuna_model::{Span, Timestamp};
use serde::{Deserialize, Serialize};

use crate::{Progress, PoolTrace, SimError, limits};

pub use figures::{
    ConcordanceFigures, Evaluation, HorizonSkill, LIMIT_S, LinkSkill, OrderFigures, PredictorSkill,
    QuantileSkill, RANKED_S,
};

/// At which moments is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Moments {
    /// At every k-th event, right after it, with k such that there are at most so many.
    Events(u32),
    /// One in each of so many equal parts of the time.
    Times(u32),
}

/// What predictors do once they are scored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum After {
    /// They go on learning from every end, as they do live.
    Learn,
    /// They watch, and know only what they knew before.
    Freeze,
}

/// What is asked, of whom.
#[derive(Debug, Clone, PartialEq)]
pub struct SkillOptions {
    /// The predictors, with their labels; the first is drawn first.
    pub predictors: Vec<(String, Choice)>,
    /// Before it predictors only learn; if absent, they are scored as soon as none is too young.
    pub train_until: Option<Timestamp>,
    /// Whether the first predictor is asked a second time, with the ends that the simulated
    /// scheduler announces ([`PoolStep::planned`](crate::PoolStep::planned)).
    pub hints: bool,
    /// What they do after it.
    pub after: After,
    /// When is asked; each moment costs a forecast of the whole pool.
    pub moments: Moments,
    /// Holes that are asked after at a moment, at most.
    pub holes: usize,
    /// Which order of nodes is looked for in what leaves; none is for [`OrderBy::None`], and that
    /// of names where it is to be learnt.
    pub order: OrderBy,
    /// Seed of moments and samples.
    pub seed: u64,
}

impl Default for SkillOptions {
    /// The survival curve beside `BFTrainer`'s constant of 120 s, 1,000 moments spread over time,
    /// 64 holes each.
    fn default() -> Self {
        Self {
            predictors: vec![
                ("survival".to_owned(), Choice::survival(120.0)),
                (
                    "constant 120 s".to_owned(),
                    Choice::Constant { length_s: 120.0 },
                ),
            ],
            train_until: None,
            hints: false,
            after: After::Learn,
            moments: Moments::Times(1000),
            holes: 64,
            order: OrderBy::None,
            seed: 1,
        }
    }
}

/// Walks over a trace, lets predictors learn and forecast, and scores them.
///
/// # Errors
/// [`SimError`] if the trace cannot be read, or is longer than any can be.
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
