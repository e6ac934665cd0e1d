//! Measured steps, and times that prefer them to the model.

use std::collections::BTreeMap;

use crate::error::Error;
use crate::fit::{Fit, fit};
use crate::observation::Observation;
use crate::step::{FLOOR, Layout, StepFormula};

/// Seconds of a step by its layout.
pub trait StepTimes {
    /// Seconds of a step.
    fn step_s(&self, at: Layout) -> f64;
}

impl StepTimes for StepFormula {
    fn step_s(&self, at: Layout) -> f64 {
        StepFormula::step_s(self, at)
    }
}

/// Steps that were measured, and the model through them.
///
/// At a measured number of nodes, times lie on lines between measured samples of a pass, and go on
/// from the outermost as the model does. Between two measured numbers of nodes they lie on a line
/// between these; beyond them the model goes on from the nearest.
#[derive(Debug, Clone, PartialEq)]
pub struct StepProfile {
    model: StepFormula,
    fit: Fit,
    /// By nodes and replicas, then by samples of a pass.
    seen: BTreeMap<(u32, u32), BTreeMap<u32, Seen>>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Seen {
    pass_s: f64,
    step_s: f64,
    count: f64,
}

impl StepProfile {
    /// Fits the model to measured steps; equal layouts are averaged.
    ///
    /// # Errors
    /// As [`fit`].
    pub fn new(observations: &[Observation]) -> Result<Self, Error> {
        let fit = fit(observations)?;
        let mut seen: BTreeMap<_, BTreeMap<u32, Seen>> = BTreeMap::new();
        for one in observations {
            let of = seen.entry((one.nodes, one.replicas)).or_default();
            let mean = of.entry(one.local).or_insert(Seen {
                pass_s: 0.0,
                step_s: 0.0,
                count: 0.0,
            });
            mean.count += 1.0;
            mean.pass_s += (one.pass_s - mean.pass_s) / mean.count;
            mean.step_s += (one.step_s - mean.step_s) / mean.count;
        }
        Ok(Self {
            model: fit.model,
            fit,
            seen,
        })
    }

    /// The fit.
    #[must_use]
    pub const fn fit(&self) -> &Fit {
        &self.fit
    }

    /// The largest number of nodes that was measured.
    #[must_use]
    pub fn most_nodes(&self) -> u32 {
        self.seen.keys().map(|key| key.0).max().unwrap_or(0)
    }

    /// Seconds of a pass and of a step with one pass, at a measured number of nodes.
    fn measured(&self, nodes: u32, replicas: u32, local: u32) -> Option<(f64, f64)> {
        let by_local = self.seen.get(&(nodes, replicas))?;
        let below = by_local.range(..=local).next_back();
        let above = by_local.range(local..).next();
        let model = |local: u32| self.of_model(nodes, replicas, local);
        Some(match (below, above) {
            (Some((&low, one)), Some((&high, other))) if low < high => {
                let share = f64::from(local - low) / f64::from(high - low);
                let between = |a: f64, b: f64| a + (b - a) * share;
                (
                    between(one.pass_s, other.pass_s),
                    between(one.step_s, other.step_s),
                )
            }
            (Some((&at, one)), _) | (None, Some((&at, one))) => {
                let ((pass, step), (pass_at, step_at)) = (model(local), model(at));
                (one.pass_s * pass / pass_at, one.step_s * step / step_at)
            }
            (None, None) => return None,
        })
    }

    /// The share of a step that the sum over replicas costs: what a pass alone would not take.
    #[must_use]
    pub fn network_share(&self, at: Layout) -> f64 {
        let (pass, step) = self.times(at.nodes(), at.replicas(), at.local());
        ((step - pass) / self.step_s(at)).clamp(0.0, 1.0)
    }

    fn of_model(&self, nodes: u32, replicas: u32, local: u32) -> (f64, f64) {
        let pass = self.model.pass_s(local).max(FLOOR);
        let step = Layout::new(nodes, replicas, local, 0).map(|at| self.model.step_s(at));
        (pass, step.unwrap_or(pass).max(FLOOR))
    }

    /// Seconds of a pass and of a step with one pass.
    fn times(&self, nodes: u32, replicas: u32, local: u32) -> (f64, f64) {
        if let Some(known) = self.measured(nodes, replicas, local) {
            return known;
        }
        let each = (replicas / nodes).max(1);
        let alike = || self.seen.keys().filter(|key| key.1 == key.0 * each);
        let below = alike().rfind(|key| key.0 < nodes);
        let above = alike().find(|key| key.0 > nodes);
        let known = |key: &(u32, u32)| self.measured(key.0, key.1, local);
        // One node has no network: nothing lies between it and several.
        let below = below.filter(|key| key.0 > 1 || nodes == 1);
        match (below, above) {
            (Some(low), Some(high)) => {
                let share = f64::from(nodes - low.0) / f64::from(high.0 - low.0);
                let between = |a: f64, b: f64| a + (b - a) * share;
                match (known(low), known(high)) {
                    (Some(a), Some(b)) => (between(a.0, b.0), between(a.1, b.1)),
                    _ => self.of_model(nodes, replicas, local),
                }
            }
            (Some(near), None) | (None, Some(near)) if near.0 > 1 || nodes == 1 => {
                let here = self.of_model(nodes, replicas, local);
                let there = self.of_model(near.0, near.1, local);
                known(near).map_or(here, |(pass, step)| {
                    (pass * here.0 / there.0, step * here.1 / there.1)
                })
            }
            _ => self.of_model(nodes, replicas, local),
        }
    }
}

impl StepTimes for StepProfile {
    fn step_s(&self, at: Layout) -> f64 {
        let (pass, step) = self.times(at.nodes(), at.replicas(), at.local());
        f64::from(at.accumulation()) * pass + step
    }
}
