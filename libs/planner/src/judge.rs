//! The judge: a decision solved again by mixed-integer programs, with a bound on their answers.
//!
//! | decision | solved again by |
//! |---|---|
//! | sizes, without forecasts | [`milp`] over counts, without its shortcuts |
//! | counts of several kinds, without forecasts | [`mixed::patterns`], over mixes |
//! | nodes, by forecasts | [`columns`], over sets of nodes |
//!
//! Distance and shared uplinks are those of the decision. An owner's trainers are judged on the nodes
//! that its share gave them, and its price of a node-second is that of the decision. Not judged are
//! decisions in doubt, and two that have no such program: kinds of nodes with forecasts, and kinds
//! within shares of owners ([`NotJudged`]).
//!
//! A decision may hold node sets that are no patterns ([`columns`]). Where it is above the bound on
//! patterns, its own value counts as the bound.

use std::time::Duration;

use lacuna_model::{Generation, Outcome, Solve};

use crate::by_sizes::scatter;
use crate::decision::Decision;
use crate::milp::{self, MilpOptions};
use crate::mixed;
use crate::placement::forecast::Evaluation;
use crate::placement::{Assignment, Request, Settings, columns};
use crate::problem::{MixProblem, Problem};

/// Stop of a judgement by the stopwatch. The bound so far then counts.
pub const TIME_LIMIT: Duration = Duration::from_secs(60);

/// Most ends of intervals ([`columns::ends`]): some 200 MB.
const MOST_ENDS: usize = 8_000_000;

/// Whether the plan of this generation is one of the `share` of plans to judge.
#[must_use]
pub fn picks(share: f64, seed: u64, generation: Generation) -> bool {
    let bits = scatter(seed ^ scatter(generation.0));
    // The upper 53 bits, as a number from 0 to below 1.
    ((bits >> 11) as f64) / ((1_u64 << 53) as f64) < share
}

/// Relative distance between the best answer and the bound that counts as a proof.
pub const PROOF: f64 = 1e-3;

/// A decision as it was asked and answered.
#[derive(Debug, Clone)]
pub enum Case {
    /// Sizes of the trainers of each owner, or of all, with their objective.
    Sizes(Vec<(Problem, f64)>),
    /// Counts of several kinds with their objective.
    Mixes(Box<MixProblem>, f64),
    /// Nodes by forecasts.
    Nodes(Box<Evaluation>),
}

/// The reason for which a decision is not judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotJudged {
    /// Every trainer keeps its nodes, since the pool is in doubt.
    Doubt,
    /// Kinds of nodes with forecasts, or within shares of owners.
    Kinds,
    /// The programs would take too much room.
    TooLarge,
    /// The solver failed, or was stopped before its first bound.
    NoBound,
}

impl NotJudged {
    /// All reasons.
    pub const ALL: [Self; 4] = [Self::Doubt, Self::Kinds, Self::TooLarge, Self::NoBound];

    /// The name in metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Doubt => "doubt",
            Self::Kinds => "kinds",
            Self::TooLarge => "too_large",
            Self::NoBound => "no_bound",
        }
    }
}

/// What is known of the best answer to a decision, objective units.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Judgement {
    /// The value of the decision.
    pub value: f64,
    /// The value of the best known answer: that of the judge, or the decision itself.
    pub best: f64,
    /// The upper bound on every answer that the programs know, or `best` if that is more.
    pub bound: f64,
}

impl Judgement {
    fn new(value: f64, found: f64, bound: f64) -> Result<Self, NotJudged> {
        let best = value.max(found);
        let bound = bound.max(best);
        let sound = bound.is_finite() && value.is_finite();
        sound
            .then_some(Self { value, best, bound })
            .ok_or(NotJudged::NoBound)
    }

    fn plus(self, other: Self) -> Self {
        Self {
            value: self.value + other.value,
            best: self.best + other.best,
            bound: self.bound + other.bound,
        }
    }

    /// The most by which the decision lies below the best answer, relative to the bound.
    #[must_use]
    pub fn gap(&self) -> f64 {
        self.relative(self.bound - self.value)
    }

    /// The least by which the decision lies below the best answer, relative to the bound.
    #[must_use]
    pub fn shortfall(&self) -> f64 {
        self.relative(self.best - self.value)
    }

    /// Whether the best known answer is the best of all that the programs know, to a thousandth.
    #[must_use]
    pub fn is_proven(&self) -> bool {
        self.relative(self.bound - self.best) <= PROOF
    }

    fn relative(&self, distance: f64) -> f64 {
        let scale = self.bound.abs().max(self.value.abs());
        if distance > 0.0 {
            distance / scale
        } else {
            0.0
        }
    }
}

impl Case {
    /// The case of a decision. `problem` and `mixed` are those over sizes that it solved, if it went
    /// without forecasts.
    ///
    /// # Errors
    /// The reason for which it cannot be judged.
    pub(crate) fn new(
        decision: &Decision,
        problem: &Problem,
        mixed: Option<&MixProblem>,
    ) -> Result<Self, NotJudged> {
        if decision.doubt.is_some() {
            return Err(NotJudged::Doubt);
        }
        if let Some(evaluation) = &decision.evaluation {
            let tells = evaluation.request().scenarios.tells_kinds();
            let nodes = (!tells).then(|| Self::Nodes(evaluation.clone()));
            return nodes.ok_or(NotJudged::Kinds);
        }
        let sizes = &decision.sizes;
        if let Some(mixed) = mixed {
            let one = decision.shares.is_empty();
            let mixes = one.then(|| Self::Mixes(Box::new(mixed.clone()), sizes.objective));
            return mixes.ok_or(NotJudged::Kinds);
        }
        if decision.shares.is_empty() {
            return Ok(Self::Sizes(vec![(problem.clone(), sizes.objective)]));
        }
        let of_owner = decision.shares.iter().map(|share| {
            let own = problem.part(&share.candidates, share.nodes);
            let counts = share.candidates.iter();
            let counts = counts.filter_map(|&j| sizes.counts.get(j as usize).copied());
            let value = own.objective(&counts.collect::<Vec<u32>>());
            (own, value)
        });
        Ok(Self::Sizes(of_owner.collect()))
    }

    /// Judges it; `stopwatch` gives seconds since any fixed moment.
    ///
    /// # Errors
    /// The reason for which it cannot be judged.
    pub fn judge(&self, stopwatch: &dyn Fn() -> f64) -> Result<Judgement, NotJudged> {
        let none = Judgement::default();
        match self {
            Self::Sizes(parts) => parts.iter().try_fold(none, |sum, (problem, value)| {
                let (sizes, solve) = milp::solve(problem, &options(parts.len()));
                Ok(sum.plus(by_program(*value, sizes.objective, &solve)?))
            }),
            Self::Mixes(problem, value) => {
                let (sizes, solve) = mixed::patterns::solve(problem, &options(1));
                by_program(*value, sizes.objective, &solve)
            }
            Self::Nodes(evaluation) => {
                let decided: Vec<_> = evaluation.decided().collect();
                let time_limit = TIME_LIMIT / decided.len().max(1) as u32;
                let settings = &evaluation.settings;
                let sum = decided.iter().try_fold(none, |sum, (request, plan)| {
                    let (found, bound) = again(request, settings, plan, time_limit, stopwatch)?;
                    Ok(sum.plus(Judgement::new(plan.value, found, bound)?))
                })?;
                // Owners may have given nodes up since, for uplinks that they share.
                let value = evaluation.assignment.value;
                let found = Some(sum.best).filter(|_| value >= sum.value);
                Judgement::new(value, found.unwrap_or(value), sum.bound)
            }
        }
    }
}

/// Solves a request again: the value of the best answer found, and a bound on that of every answer.
///
/// # Errors
/// The reason for which it has no bound.
pub fn again(
    request: &Request<'_>,
    settings: &Settings,
    plan: &Assignment,
    time_limit: Duration,
    stopwatch: &dyn Fn() -> f64,
) -> Result<(f64, f64), NotJudged> {
    if request.scenarios.tells_kinds() {
        return Err(NotJudged::Kinds);
    }
    if columns::ends(request, settings) > MOST_ENDS {
        return Err(NotJudged::TooLarge);
    }
    // After a stop no seconds pass any more.
    if !stopwatch().is_finite() {
        return Err(NotJudged::NoBound);
    }
    let options = columns::Options {
        gap: PROOF,
        time_limit,
        ..columns::Options::new(stopwatch)
    };
    let (found, answer) = columns::decide(request, settings, plan.shadow_price, &options);
    match answer.outcome {
        Outcome::Failed => Err(NotJudged::NoBound),
        _ => Ok((found.value, answer.bound)),
    }
}

fn options(parts: usize) -> MilpOptions {
    MilpOptions {
        shortcuts: false,
        time_limit: TIME_LIMIT / parts.max(1) as u32,
        ..MilpOptions::default()
    }
}

fn by_program(value: f64, found: f64, solve: &Solve) -> Result<Judgement, NotJudged> {
    match solve.outcome {
        Outcome::Optimal => Judgement::new(value, found, found),
        Outcome::Feasible { gap } => Judgement::new(value, found, found + gap * found.abs()),
        _ => Err(NotJudged::NoBound),
    }
}
