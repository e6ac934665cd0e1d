//! Branch and bound over the rate.
//!
//! `R(x)` is the least spend a second of plans with a rate of x or more. It does not fall in x, since
//! `k(x)` does not. So a plan with a rate in [a, b] costs at least `R(a)/b` a sample. `F(x)` is the
//! least spend a sample with fractional units. It does not fall either, so a plan with any rate from x
//! on costs at least `F(x)`.
//!
//! From the lowest rate a on, with the best cost so far C and tolerance ε:
//!
//! ```text
//! F(a) >= (1 - ε) C                          no higher rate is better: end
//! R(a) infinite                              no higher rate is possible: end
//! rates up to R(a) / ((1 - ε) C)             cost at least (1 - ε) C: go on behind them
//! rates up to that of the plan of R(a), x'   have the same R, so the plan is their best: go on behind
//! ```
//!
//! Every rate is bounded by one of these, and the least of the bounds is the proof.

use crate::model::ROUNDING;

/// Rates behind a plan's own are tried from this relative step on.
const NEXT: f64 = 1e-9;

/// Spends of interest reach to those of plans so much faster than asked.
const LOOK_AHEAD: f64 = 1.1;

/// The step where a spend is not known exactly.
const COARSE: f64 = 1.003;

/// The factor between rates at which fractions are counted.
const SELDOM: f64 = 1.02;

/// The factor of the first look over the rates.
const FIRST_LOOK: f64 = 1.25;

/// The cheapest plan at a rate, as far as it is known.
#[derive(Debug, Clone)]
pub(crate) struct Cheapest<P> {
    /// The plan with its rate and its spend a second.
    pub(crate) plan: Option<(P, f64, f64)>,
    /// No plan at this rate spends less: R(x), or what is proven of it.
    pub(crate) at_least: f64,
}

/// A choice among plans by rate.
pub(crate) trait Rated {
    type Plan: Clone;

    /// F(x), a sample, if it is less than `enough`; else that or more. Infinite or `enough` if no plan
    /// has the rate.
    fn fractional(&mut self, rate: f64, enough: f64) -> f64;

    /// The plan of R(x), if it spends less than `below` a second.
    fn cheapest(&mut self, rate: f64, below: f64) -> Cheapest<Self::Plan>;

    /// The best rate of a plan by itself.
    fn polish(&mut self, plan: &Self::Plan, rate: f64) -> Option<(Self::Plan, f64, f64)>;
}

/// What a sweep found.
#[derive(Debug, Clone)]
pub(crate) struct Swept<P> {
    /// The plan, and its cost a sample.
    pub(crate) best: Option<(P, f64)>,
    /// No plan costs less a sample.
    pub(crate) at_least: f64,
    /// The rates that were solved.
    pub(crate) solved: usize,
}

impl<P> Swept<P> {
    fn cost(&self) -> f64 {
        self.best.as_ref().map_or(f64::INFINITY, |best| best.1)
    }

    fn offer(&mut self, (plan, rate, spend): (P, f64, f64)) -> bool {
        let cost = spend / rate;
        let better = cost < self.cost();
        if better {
            self.best = Some((plan, cost));
        }
        better
    }
}

/// The cheapest plan with at least this rate. A plan that is known already is a start.
pub(crate) fn sweep<R: Rated>(
    rated: &mut R,
    rate: f64,
    tolerance: f64,
    known: Option<(R::Plan, f64)>,
) -> Swept<R::Plan> {
    let mut swept = Swept {
        best: known,
        at_least: f64::INFINITY,
        solved: 0,
    };
    look_over(rated, rate, tolerance, &mut swept);
    let mut x = rate;
    // The bound by fractions costs as much as a solve, and changes slowly.
    let mut look = rate;
    loop {
        let wanted = swept.cost() * (1.0 - tolerance);
        if x >= look {
            let fractional = rated.fractional(x, wanted);
            if fractional >= wanted * (1.0 - ROUNDING) {
                swept.at_least = swept.at_least.min(fractional);
                break;
            }
            look = x * SELDOM;
        }
        let below = if wanted.is_finite() {
            wanted * x * LOOK_AHEAD
        } else {
            f64::INFINITY
        };
        let found = rated.cheapest(x, below);
        swept.solved += 1;
        if found.at_least == f64::INFINITY {
            break;
        }
        let mut next = x;
        if let Some((plan, reached, spend)) = found.plan {
            if found.at_least >= spend * (1.0 - NEXT) {
                next = reached * (1.0 + NEXT);
            }
            if swept.offer((plan.clone(), reached, spend))
                && let Some(polished) = rated.polish(&plan, rate)
            {
                swept.offer(polished);
            }
        }
        // A plan without a price is the best.
        let wanted = swept.cost() * (1.0 - tolerance);
        if wanted <= 0.0 {
            swept.at_least = 0.0;
            break;
        }
        next = next.max(found.at_least / wanted);
        // Without a plan wanted is infinite, and without a proof of R the step is coarse.
        if next <= x {
            next = x * COARSE;
        }
        swept.at_least = swept.at_least.min(found.at_least / next);
        x = next;
    }
    swept
}

/// A first look at few rates, for a good plan to compare others with.
fn look_over<R: Rated>(rated: &mut R, rate: f64, tolerance: f64, swept: &mut Swept<R::Plan>) {
    let mut x = rate;
    loop {
        let wanted = swept.cost() * (1.0 - tolerance);
        if rated.fractional(x, wanted) >= wanted * (1.0 - ROUNDING) {
            return;
        }
        let found = rated.cheapest(x, wanted * x * FIRST_LOOK);
        swept.solved += 1;
        let Some((plan, reached, spend)) = found.plan else {
            if found.at_least == f64::INFINITY {
                return;
            }
            x *= FIRST_LOOK;
            continue;
        };
        if let Some(polished) = rated.polish(&plan, rate) {
            swept.offer(polished);
        }
        swept.offer((plan, reached, spend));
        x = (x * FIRST_LOOK).max(reached * (1.0 + NEXT));
    }
}
