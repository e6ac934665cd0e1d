//! The highest rate within the limits.
//!
//! Whether a rate x can be met does not depend on prices, and what can be met at x can be met at
//! each lower rate. So the highest rate is found by bisection, and each plan that is found puts the
//! lower end to its own rate. A unit of a limited kind counts `1/N_t` in the search, so that plans
//! which use little of each limit come first.

use crate::error::Error;
use crate::limited::Limited;
use crate::model::{Plan, Terms};
use crate::placement::Placement;
use crate::profile::LayerProfile;
use crate::sweep::Rated;

/// The highest rate is known within this.
const PRECISE: f64 = 1e-9;

/// How often a rate is halved in search of one that can be met.
const HALVINGS: usize = 80;

/// The cheapest placement with the highest rate that the limits allow, whatever [`LayerProfile::min_rate`]
/// is. Its `cost_at_least` is for that rate. Exact to 1e-9 with up to three kinds, else found by
/// prices.
///
/// # Errors
/// The network fits within the limits at no rate.
pub fn fastest(profile: &LayerProfile) -> Result<Placement, Error> {
    let terms = Terms::new(profile);
    let found = highest(&terms, profile.min_rate());
    let (plan, solved) = found.ok_or_else(|| {
        let bytes = |l: &crate::profile::Layer| l.weight_bytes() + l.table_bytes();
        let layers = profile.layers().iter();
        let most = layers.max_by(|a, b| bytes(a).total_cmp(&bytes(b)));
        Error::TooFew {
            layer: most.map_or_else(String::new, |layer| layer.name().to_owned()),
        }
    })?;
    let rate = plan.rate * (1.0 - PRECISE);
    let cheapest = Limited::new(&terms, false).cheapest(rate, f64::INFINITY);
    let at_least = cheapest.at_least / plan.rate;
    let plan = cheapest.plan.map_or(plan, |(plan, _, _)| plan);
    Ok(Placement::new(profile, &terms, &plan, at_least, solved))
}

/// The highest rate with another limit of one kind, or the given rate if that is not found.
pub(crate) fn rate_without(
    profile: &LayerProfile,
    kind: &str,
    limit: Option<u32>,
    rate: f64,
) -> f64 {
    let Ok(profile) = profile.clone().with_limit(kind, limit) else {
        return rate;
    };
    highest(&Terms::new(&profile), rate).map_or(rate, |(plan, _)| plan.rate)
}

/// A plan with the highest rate, and the rates that were solved.
fn highest(terms: &Terms, start: f64) -> Option<(Plan, usize)> {
    let counted = terms.priced(|kind| 1.0 / kind.most.max(1.0));
    let mut limited = Limited::new(&counted, true);
    let mut solved = 0;
    let mut at = |rate: f64| {
        solved += 1;
        let found = limited.cheapest(rate, f64::INFINITY).plan;
        found.map(|(plan, _, _)| plan)
    };
    let mut low = at(start);
    let mut high = start;
    let mut halvings = 0;
    while low.is_none() && halvings < HALVINGS {
        high = start * 0.5_f64.powi(halvings as i32);
        low = at(high / 2.0);
        halvings += 1;
    }
    let mut low = low?;
    if halvings == 0 {
        high = low.rate * 2.0;
        while let Some(plan) = at(high) {
            high = plan.rate * 2.0;
            low = plan;
        }
    }
    while high > low.rate * (1.0 + PRECISE) {
        // Geometric first: the ends may be far apart.
        let middle = (low.rate * high)
            .sqrt()
            .max(low.rate * (1.0 + PRECISE / 2.0));
        match at(middle) {
            Some(plan) if plan.rate > low.rate => low = plan,
            _ => high = middle,
        }
    }
    // The prices of the search are not those of the profile.
    Some((terms.plan(low.steps), solved))
}
