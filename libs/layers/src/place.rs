//! The cheapest placement that meets a rate.

use crate::error::Error;
use crate::fastest::{fastest, rate_without};
use crate::limited::Limited;
use crate::model::{Plan, Terms};
use crate::placement::{Bound, Placement};
use crate::profile::LayerProfile;
use crate::sweep::sweep;

/// How exactly to search.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Options {
    /// The search ends when the cost is proven to be within this share of the least.
    pub tolerance: f64,
}

impl Default for Options {
    fn default() -> Self {
        Self { tolerance: 1e-4 }
    }
}

/// Why a rate cannot be met.
#[derive(Debug, Clone, PartialEq)]
pub enum Obstacle {
    /// There are too few units of a kind, as a place in [`LayerProfile::kinds`].
    Limit {
        /// The kind.
        kind: usize,
        /// The highest rate with one more unit, samples/s.
        with_one_more: f64,
        /// The highest rate with as many as are wanted.
        without_limit: f64,
    },
    /// A kind has no limit, so that the highest rate takes more units of it than any machine has.
    NoLimit {
        /// The kind.
        kind: usize,
        /// Its units.
        units: u32,
        /// A rate of nine tenths, samples/s.
        rate: f64,
        /// The units of this kind in the cheapest placement with that rate.
        units_then: u32,
    },
    /// More units bring nothing: what they do not divide takes too long.
    Serial {
        /// The stage of the nearest placement.
        stage: usize,
        /// Computation or communication.
        part: Bound,
    },
}

/// From this number of units on a kind without a limit is an obstacle.
const MANY: u32 = 10_000;

/// The answer to a rate.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// The cheapest placement.
    Met(Placement),
    /// No placement has the rate.
    Short {
        /// The cheapest placement with the highest rate.
        nearest: Placement,
        /// What stands in the way.
        why: Vec<Obstacle>,
    },
}

/// The cheapest placement with a rate of at least [`LayerProfile::min_rate`] within the limits.
///
/// The cost is proven to be within the tolerance of the least with up to three kinds, and with any
/// number where limits do not bind over several stages. Else [`Placement::gap`] says what is proven.
///
/// # Errors
/// The network fits within the limits at no rate.
pub fn place(profile: &LayerProfile, options: &Options) -> Result<Answer, Error> {
    let terms = Terms::new(profile);
    if let Some(placement) = cheapest(profile, &terms, options, None) {
        return Ok(Answer::Met(placement));
    }
    let nearest = fastest(profile)?;
    let mut why = obstacles(profile, &nearest);
    why.extend(without_limit(profile, &nearest, options)?);
    Ok(Answer::Short { nearest, why })
}

/// The kinds without a limit of which a placement that asks for the highest rate, as that of
/// [`fastest`], takes 10,000 units or more.
///
/// # Errors
/// None is expected: a lower rate can be met too.
pub fn without_limit(
    profile: &LayerProfile,
    highest: &Placement,
    options: &Options,
) -> Result<Vec<Obstacle>, Error> {
    let kinds = profile.kinds().iter().zip(&highest.used).enumerate();
    let endless = kinds.filter(|(_, (kind, used))| kind.limit().is_none() && **used >= MANY);
    let endless: Vec<(usize, u32)> = endless.map(|(kind, (_, used))| (kind, *used)).collect();
    if endless.is_empty() {
        return Ok(Vec::new());
    }
    let rate = 0.9 * highest.rate;
    let lower = profile.clone().with_min_rate(rate)?;
    let then = cheapest(&lower, &Terms::new(&lower), options, None);
    let obstacle = |(kind, units): (usize, u32)| Obstacle::NoLimit {
        kind,
        units,
        rate,
        units_then: then
            .as_ref()
            .and_then(|placement| placement.used.get(kind).copied())
            .unwrap_or(units),
    };
    Ok(endless.into_iter().map(obstacle).collect())
}

/// The cheapest placement, if one is found. One that is known already is a start.
pub(crate) fn cheapest(
    profile: &LayerProfile,
    terms: &Terms,
    options: &Options,
    known: Option<Plan>,
) -> Option<Placement> {
    let mut limited = Limited::new(terms, false);
    let known = known.map(|plan| {
        let cost = plan.spend / plan.rate;
        (plan, cost)
    });
    let tolerance = options.tolerance.clamp(1e-9, 0.5);
    let swept = sweep(&mut limited, profile.min_rate(), tolerance, known);
    let (at_least, solved) = (swept.at_least, swept.solved);
    let (plan, _) = swept.best?;
    Some(Placement::new(profile, terms, &plan, at_least, solved))
}

fn obstacles(profile: &LayerProfile, nearest: &Placement) -> Vec<Obstacle> {
    let mut why = Vec::new();
    let higher = |rate: f64| rate > nearest.rate * (1.0 + 1e-6);
    for (kind, of) in profile.kinds().iter().enumerate() {
        let Some(limit) = of.limit() else {
            continue;
        };
        let rate = |limit| rate_without(profile, of.name(), limit, nearest.rate);
        let without_limit = rate(None);
        if higher(without_limit) {
            why.push(Obstacle::Limit {
                kind,
                with_one_more: rate(Some(limit.saturating_add(1))),
                without_limit,
            });
        }
    }
    if why.is_empty() {
        let stage = nearest.slowest();
        let part = nearest.stages.get(stage).map_or(Bound::Computation, |s| {
            if s.communication_s > s.compute_s {
                Bound::Communication
            } else {
                Bound::Computation
            }
        });
        why.push(Obstacle::Serial { stage, part });
    }
    why
}
