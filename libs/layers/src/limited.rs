//! Limits that bind over several stages of a kind.
//!
//! The program of a rate keeps `k <= N_t` for each stage. Its plan may still use more of a kind in
//! all. Then these kinds are *tracked*, and the problem with their limits alone is solved. Its
//! plan may break another limit, which is then tracked too. Each of these problems has fewer limits
//! than the true one, so its least spend is a lower bound, and a plan of it that keeps all limits is
//! the best plan.
//!
//! Prices: a unit of a tracked kind costs `λ_t >= 0` more. For every λ
//!
//! ```text
//! R(x) >= D(λ) = min over plans of Σ (p_t + λ_t) k_t  -  Σ λ_t N_t
//! ```
//!
//! since plans within the limits have `Σ λ_t k_t <= Σ λ_t N_t`. λ goes up where a plan uses too much
//! (subgradient). `labels` closes what is left between D and the best plan that is known.

use crate::labels::{Labels, Search};
use crate::model::{Plan, Terms};
use crate::program::{Count, Program};
use crate::provision::Fixed;
use crate::sweep::{Cheapest, Rated};

/// Steps of the multipliers.
const STEPS: usize = 24;

/// Polish of plans.
const POLISH: f64 = 1e-4;

/// Labels that are kept at each place where there are more than [`EXACT_KINDS`] kinds.
const WIDTH: usize = 256;

/// Up to this number of kinds the search is exact.
pub(crate) const EXACT_KINDS: usize = 3;

/// Plans by rate, within limits.
#[derive(Debug)]
pub(crate) struct Limited<'a> {
    terms: &'a Terms,
    prices: Vec<f64>,
    /// Kinds whose limits bound at some rate.
    tracked: Vec<usize>,
    /// By kind.
    multipliers: Vec<f64>,
    width: usize,
    /// Whether any plan within the limits will do.
    any: bool,
}

impl<'a> Limited<'a> {
    pub(crate) fn new(terms: &'a Terms, any: bool) -> Self {
        let kinds = terms.kinds().len();
        Self {
            terms,
            prices: terms.prices(),
            tracked: Vec::new(),
            multipliers: vec![0.0; kinds],
            width: if kinds <= EXACT_KINDS {
                usize::MAX
            } else {
                WIDTH
            },
            any,
        }
    }

    fn over(&self, plan: &Plan) -> Vec<usize> {
        let used = plan.used(self.terms.kinds().len());
        let kinds = self.terms.kinds().iter().zip(used).enumerate();
        let over = kinds.filter(|(_, (kind, used))| f64::from(*used) > kind.most);
        over.map(|(t, _)| t).collect()
    }

    fn track(&mut self, kinds: &[usize]) {
        for &kind in kinds {
            if !self.tracked.contains(&kind) {
                self.tracked.push(kind);
            }
        }
        self.tracked.sort_unstable();
    }

    /// Weights of units with multipliers, and what the limits take off again.
    fn weighted(&self, multipliers: &[f64]) -> (Vec<f64>, f64) {
        let weights = self.prices.iter().zip(multipliers).map(|(p, m)| p + m);
        let kinds = multipliers.iter().zip(self.terms.kinds());
        let free = kinds.map(|(m, kind)| if *m > 0.0 { m * kind.most } else { 0.0 });
        (weights.collect(), free.sum())
    }

    /// The limits of the tracked kinds alone.
    fn solve_tracked(&mut self, y: f64, below: f64) -> Cheapest<Plan> {
        let mut upper = below;
        let mut best: Option<Plan> = None;
        let mut multipliers = self.multipliers.clone();
        let mut highest = (f64::NEG_INFINITY, multipliers.clone());
        for step in 0..STEPS {
            let (weights, free) = self.weighted(&multipliers);
            let program = Program::solve(self.terms, y, (Count::Whole, f64::INFINITY), &weights);
            if program.least() == f64::INFINITY {
                return nothing(f64::INFINITY);
            }
            let bound = program.least() - free;
            if bound > highest.0 {
                highest = (bound, multipliers.clone());
            }
            if bound >= upper {
                break;
            }
            let Some(steps) = program.steps(self.terms, y) else {
                break;
            };
            let plan = self.terms.plan(steps);
            let used = plan.used(self.terms.kinds().len());
            let kinds = self.tracked.iter().filter_map(|&t| {
                let kind = self.terms.kinds().get(t)?;
                Some((t, f64::from(*used.get(t)?) - kind.most))
            });
            let excess: Vec<(usize, f64)> = kinds.collect();
            if excess.iter().all(|&(_, over)| over <= 0.0) {
                if plan.spend < upper {
                    upper = plan.spend;
                    best = Some(plan);
                }
                if self.any {
                    break;
                }
            }
            let norm: f64 = excess.iter().map(|(_, over)| over * over).sum();
            if norm == 0.0 {
                break;
            }
            let aim = if upper.is_finite() {
                upper
            } else {
                bound.abs() * 1.2 + f64::MIN_POSITIVE
            };
            let length =
                (aim - bound).max(1e-4 * aim.abs()) / norm * (1.5 - step as f64 / STEPS as f64);
            for (t, over) in excess {
                if let Some(multiplier) = multipliers.get_mut(t) {
                    *multiplier = (*multiplier + length * over).max(0.0);
                }
            }
        }
        self.multipliers.clone_from(&highest.1);
        if highest.0 >= upper || (self.any && best.is_some()) {
            let at_least = if highest.0 >= upper { upper } else { highest.0 };
            return Cheapest {
                plan: best.map(found),
                at_least,
            };
        }
        let (weights, free) = self.weighted(&highest.1);
        let search = Search {
            terms: self.terms,
            y,
            prices: &self.prices,
            tracked: &self.tracked,
            weights: &weights,
            free,
            width: self.width,
            any: self.any,
        };
        let labels = Labels::search(&search, upper);
        let at_least = labels.at_least.max(highest.0);
        let plan = labels.steps.map(|steps| self.terms.plan(steps)).or(best);
        Cheapest {
            plan: plan.map(found),
            at_least,
        }
    }
}

fn found(plan: Plan) -> (Plan, f64, f64) {
    let (rate, spend) = (plan.rate, plan.spend);
    (plan, rate, spend)
}

fn nothing(at_least: f64) -> Cheapest<Plan> {
    Cheapest {
        plan: None,
        at_least,
    }
}

impl Rated for Limited<'_> {
    type Plan = Plan;

    fn fractional(&mut self, rate: f64, enough: f64) -> f64 {
        let count = (Count::Fractions, enough * rate);
        Program::solve(self.terms, 1.0 / rate, count, &self.prices).least() / rate
    }

    fn cheapest(&mut self, rate: f64, below: f64) -> Cheapest<Plan> {
        let y = 1.0 / rate;
        let program = Program::solve(self.terms, y, (Count::Whole, below), &self.prices);
        let least = program.least();
        if least >= below {
            return nothing(least);
        }
        let Some(steps) = program.steps(self.terms, y) else {
            return nothing(f64::INFINITY);
        };
        let plan = self.terms.plan(steps);
        let mut over = self.over(&plan);
        if over.is_empty() {
            return Cheapest {
                plan: Some(found(plan)),
                at_least: least,
            };
        }
        loop {
            self.track(&over);
            let mut cheapest = self.solve_tracked(y, below);
            let Some((plan, _, _)) = &cheapest.plan else {
                return cheapest;
            };
            over = self.over(plan);
            if over.is_empty() {
                return cheapest;
            }
            let known = over.iter().all(|kind| self.tracked.contains(kind));
            if known {
                cheapest.plan = None;
                return cheapest;
            }
        }
    }

    fn polish(&mut self, plan: &Plan, rate: f64) -> Option<(Plan, f64, f64)> {
        let swept = Fixed::of_steps(self.terms, &plan.steps).best(rate, POLISH);
        swept.best.map(|(plan, _)| found(plan))
    }
}
