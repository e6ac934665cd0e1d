//! Units, rate and cost of a given choice of kinds.
//!
//! The stages are fixed, so `R(x) = Σ p_t k(x)` and `F(x)` are sums; `sweep` does the rest.

use crate::error::Error;
use crate::model::{Load, Plan, Step, Terms, share_out};
use crate::placement::Placement;
use crate::profile::LayerProfile;
use crate::sweep::{Cheapest, Rated, Swept, sweep};

/// Within this of the least cost of a choice.
const TOLERANCE: f64 = 1e-6;

/// Stages without units.
#[derive(Debug, Clone)]
pub(crate) struct Fixed<'a> {
    terms: &'a Terms,
    stages: Vec<(Step, Load)>,
}

impl<'a> Fixed<'a> {
    /// Stages of a kind for each layer.
    pub(crate) fn of_choice(terms: &'a Terms, choice: &[usize]) -> Self {
        let mut steps: Vec<Step> = Vec::new();
        for (layer, &kind) in choice.iter().enumerate() {
            match steps.last_mut() {
                Some(last) if last.kind == kind => last.until = layer + 1,
                _ => steps.push(Step {
                    from: layer,
                    until: layer + 1,
                    kind,
                    units: 1,
                }),
            }
        }
        Self::of_steps(terms, &steps)
    }

    /// The stages of a plan.
    pub(crate) fn of_steps(terms: &'a Terms, steps: &[Step]) -> Self {
        let mut before = None;
        let mut stages = Vec::with_capacity(steps.len());
        for step in steps {
            let load = terms.stage(step.from, step.until, step.kind, before);
            stages.push((*step, load));
            before = Some(step.kind);
        }
        Self { terms, stages }
    }

    /// The fewest units for a rate, if the limits allow it.
    pub(crate) fn at(&self, rate: f64) -> Option<Plan> {
        let y = 1.0 / rate;
        let step = |(step, load): &(Step, Load)| {
            let units = self.terms.units(load, step.kind, y)?;
            Some(Step { units, ..*step })
        };
        let steps: Option<Vec<Step>> = self.stages.iter().map(step).collect();
        let plan = self.terms.plan(steps?);
        self.terms.within_limits(&plan).then_some(plan)
    }

    /// The cheapest rate from this one on.
    pub(crate) fn best(&mut self, rate: f64, tolerance: f64) -> Swept<Plan> {
        sweep(self, rate, tolerance, None)
    }
}

impl Rated for Fixed<'_> {
    type Plan = Plan;

    fn fractional(&mut self, rate: f64, _: f64) -> f64 {
        let y = 1.0 / rate;
        let of = |(step, load): &(Step, Load)| {
            let inside = share_out(load.parallel, load.serial, y);
            let sent = share_out(load.sent_parallel, load.sent_serial, y);
            let units = inside.max(sent);
            let kind = self.terms.kind(step.kind);
            if units > kind.most {
                return f64::INFINITY;
            }
            kind.price * units
        };
        self.stages.iter().map(of).sum::<f64>() / rate
    }

    fn cheapest(&mut self, rate: f64, _: f64) -> Cheapest<Plan> {
        let plan = self.at(rate);
        Cheapest {
            at_least: plan.as_ref().map_or(f64::INFINITY, |plan| plan.spend),
            plan: plan.map(|plan| {
                let (rate, spend) = (plan.rate, plan.spend);
                (plan, rate, spend)
            }),
        }
    }

    fn polish(&mut self, _: &Plan, _: f64) -> Option<(Plan, f64, f64)> {
        None
    }
}

/// Provisions choices of kinds for one profile.
#[derive(Debug, Clone)]
pub struct Provisioner<'a> {
    profile: &'a LayerProfile,
    terms: Terms,
}

impl<'a> Provisioner<'a> {
    /// For the choices of this profile.
    #[must_use]
    pub fn new(profile: &'a LayerProfile) -> Self {
        Self {
            profile,
            terms: Terms::new(profile),
        }
    }

    /// The cheapest placement with this kind for each layer, by place in [`LayerProfile::kinds`], and a
    /// rate of at least [`LayerProfile::min_rate`]; nothing if there is none. Its cost is within 1e-6 of the
    /// least.
    ///
    /// # Errors
    /// The choice has another length than the layers, or an unknown kind.
    pub fn placement(&self, choice: &[usize]) -> Result<Option<Placement>, Error> {
        let layers = self.profile.layers().len();
        let kinds = self.profile.kinds().len();
        if choice.len() != layers || choice.iter().any(|&kind| kind >= kinds) {
            return Err(Error::Choice {
                given: choice.len(),
                layers,
                kinds,
            });
        }
        let mut fixed = Fixed::of_choice(&self.terms, choice);
        let swept = fixed.best(self.profile.min_rate(), TOLERANCE);
        let (at_least, solved) = (swept.at_least, swept.solved);
        let placement =
            |(plan, _)| Placement::new(self.profile, &self.terms, &plan, at_least, solved);
        Ok(swept.best.map(placement))
    }
}

/// As [`Provisioner::placement`], for a single choice.
///
/// # Errors
/// As there.
pub fn provision(profile: &LayerProfile, choice: &[usize]) -> Result<Option<Placement>, Error> {
    Provisioner::new(profile).placement(choice)
}
