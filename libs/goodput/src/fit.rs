//! The seven parameters of [`StepFormula`] from measured steps.
//!
//! ```text
//! minimise  RMSE(log T_acc) + RMSE(log T) + 1e-3 (gamma - 1)^2
//!           + 1e-2 ((beta_n / alpha_n)^2 + (beta_r / alpha_r)^2)
//! ```
//!
//! from (0.1, 0.01) three times and 1.001, with 1e-8 below each parameter and gamma of 1 to 10
//! (AdaptDL, `goodput.py`). What was not seen is frozen: with one size of a pass `alpha_c` is half
//! of the mean pass; without a run on several nodes `alpha_n` and `beta_n` are 1.1 times those
//! within a node; without more than two replicas both `beta` are at their floor. The first six are
//! searched as logarithms, since they differ by orders of magnitude.

use crate::error::Error;
use crate::minimise::{Box7, Vector, minimise};
use crate::observation::Observation;
use crate::step::{FLOOR, StepFormula};

/// The most seconds that a parameter may take.
const MOST: f64 = 1e6;

/// A fitted model, and how well it fits.
#[derive(Debug, Clone, PartialEq)]
pub struct Fit {
    /// The model.
    pub model: StepFormula,
    /// The value of the objective that was minimised.
    pub objective: f64,
    /// Median of the relative errors of measured steps.
    pub median_error: f64,
    /// Largest of the relative errors of measured steps.
    pub worst_error: f64,
}

/// Fits the model.
///
/// # Errors [`Error::NoObservation`] without steps, [`Error::Observation`] for one that is not
/// usable, with its place.
pub fn fit(observations: &[Observation]) -> Result<Fit, Error> {
    check(observations)?;
    let (start, bounds) = scope(observations);
    let terms = Terms { observations };
    let function = |x: &Vector| terms.value(x);
    let mut best = minimise(function, &bounds, &start);
    // Objectives of this kind have several valleys: one of large and one of small latencies is
    // tried too.
    for shift in [-3.0_f64, 1.5] {
        let mut other = start;
        for x in other.iter_mut().take(6) {
            *x += shift;
        }
        let found = minimise(function, &bounds, &other);
        if found.0 < best.0 {
            best = found;
        }
    }
    let (objective, x) = best;
    let mut parameters = natural(&x);
    let [_, _, alpha_n, beta_n, alpha_r, beta_r, _] = &mut parameters;
    if !observations.iter().any(|one| one.nodes > 1) {
        *alpha_n = alpha_n.max(1.1 * *alpha_r);
        *beta_n = beta_n.max(1.1 * *beta_r);
    }
    let model = StepFormula::new(parameters)?;
    let mut errors: Vec<f64> = observations
        .iter()
        .map(|one| (of_model(&model, one) / one.step_s - 1.0).abs())
        .collect();
    errors.sort_by(f64::total_cmp);
    Ok(Fit {
        model,
        objective,
        median_error: errors.get(errors.len() / 2).copied().unwrap_or(0.0),
        worst_error: errors.last().copied().unwrap_or(0.0),
    })
}

impl Fit {
    /// The objective of a model on measured steps: what [`fit`] minimises.
    ///
    /// # Errors
    /// As [`fit`].
    pub fn objective_of(model: &StepFormula, observations: &[Observation]) -> Result<f64, Error> {
        check(observations)?;
        let mut x = model.parameters();
        for value in x.iter_mut().take(6) {
            *value = value.max(FLOOR).ln();
        }
        Ok(Terms { observations }.value(&x).0)
    }
}

fn of_model(model: &StepFormula, one: &Observation) -> f64 {
    let pass = model.pass_s(one.local);
    let network = model.network_s(one.nodes, one.replicas);
    let [.., gamma] = model.parameters();
    crate::step::overlapped(pass, network, gamma)
}

fn check(observations: &[Observation]) -> Result<(), Error> {
    if observations.is_empty() {
        return Err(Error::NoObservation);
    }
    for (index, one) in observations.iter().enumerate() {
        let counts = [
            ("the number of nodes", one.nodes, 1),
            ("the number of replicas", one.replicas, one.nodes),
            ("the samples of a pass", one.local, 1),
        ];
        for (what, value, least) in counts {
            if value < least {
                return Err(Error::Observation {
                    index,
                    what,
                    value: f64::from(value),
                    expected: "1 or more, and as many replicas as nodes or more",
                });
            }
        }
        for (what, value) in [
            ("the time of a pass", one.pass_s),
            ("the time of a step", one.step_s),
        ] {
            if !value.is_finite() || value <= 0.0 || value > MOST {
                return Err(Error::Observation {
                    index,
                    what,
                    value,
                    expected: "a positive number of seconds, at most a million",
                });
            }
        }
    }
    Ok(())
}

/// Start and bounds of the search, with what was not seen frozen.
fn scope(observations: &[Observation]) -> (Vector, Box7) {
    let any = |seen: fn(&Observation) -> bool| observations.iter().any(seen);
    let floor = FLOOR.ln();
    let mut start = [
        0.1_f64.ln(),
        0.01_f64.ln(),
        0.1_f64.ln(),
        0.01_f64.ln(),
        0.1_f64.ln(),
        0.01_f64.ln(),
        1.001,
    ];
    let mut low = [floor; 7];
    let mut high = [MOST.ln(); 7];
    let [.., low_gamma] = &mut low;
    let [.., high_gamma] = &mut high;
    (*low_gamma, *high_gamma) = (1.0, 10.0);
    let first = observations.first().map_or(0, |one| one.local);
    let mean = observations.iter().map(|one| one.pass_s).sum::<f64>() / observations.len() as f64;
    let one_size = observations.iter().all(|one| one.local == first);
    let replicas = any(|one| one.replicas > 2);
    let nodes = any(|one| one.nodes > 1);
    let within = any(|one| one.nodes == 1 && one.replicas > 1);
    let frozen = [
        (one_size, (mean / 2.0).max(FLOOR).ln()),
        (false, 0.0),
        (!nodes, floor),
        (!nodes || !replicas, floor),
        (!within, floor),
        (!within || !replicas, floor),
        (false, 0.0),
    ];
    let places = start.iter_mut().zip(&mut low).zip(&mut high);
    for (((start, low), high), (is_frozen, value)) in places.zip(frozen) {
        if is_frozen {
            (*start, *low, *high) = (value, value, value);
        }
    }
    (start, Box7 { low, high })
}

fn natural(x: &Vector) -> [f64; 7] {
    let mut parameters = *x;
    for value in parameters.iter_mut().take(6) {
        *value = value.exp();
    }
    parameters
}

struct Terms<'a> {
    observations: &'a [Observation],
}

/// A sum of squares, and its gradient by the variables of the search.
#[derive(Default)]
struct Squares {
    sum: f64,
    gradient: Vector,
}

impl Squares {
    fn add(&mut self, error: f64, slope: &Vector) {
        self.sum += error * error;
        for (total, one) in self.gradient.iter_mut().zip(slope) {
            *total += 2.0 * error * one;
        }
    }

    /// Root of the mean, and its gradient.
    fn root(&self, count: f64) -> (f64, Vector) {
        let rmse = (self.sum / count).sqrt();
        let scale = if rmse > 0.0 {
            0.5 / (rmse * count)
        } else {
            0.0
        };
        (rmse, self.gradient.map(|one| one * scale))
    }
}

impl Terms<'_> {
    fn value(&self, x: &Vector) -> (f64, Vector) {
        let [alpha_c, beta_c, alpha_n, beta_n, alpha_r, beta_r, gamma] = natural(x);
        let (mut passes, mut steps) = (Squares::default(), Squares::default());
        for one in self.observations {
            let of_samples = beta_c * f64::from(one.local);
            let pass = alpha_c + of_samples;
            // Derivatives by a logarithm are the terms themselves.
            let pass_slope = [alpha_c, of_samples, 0.0, 0.0, 0.0, 0.0, 0.0];
            passes.add((pass / one.pass_s).ln(), &pass_slope.map(|d| d / pass));
            let further = f64::from(one.replicas.saturating_sub(2)).max(FLOOR);
            let (network, network_slope) = if one.nodes > 1 {
                let more = beta_n * further;
                (alpha_n + more, [0.0, 0.0, alpha_n, more, 0.0, 0.0, 0.0])
            } else if one.replicas > 1 {
                let more = beta_r * further;
                (alpha_r + more, [0.0, 0.0, 0.0, 0.0, alpha_r, more, 0.0])
            } else {
                (FLOOR, [0.0; 7])
            };
            let step = crate::step::overlapped(pass, network, gamma);
            // T = (p^g + n^g)^(1/g): d log T / d log p is p^g over the sum, and alike for n.
            let share = 1.0 / (1.0 + (network / pass).powf(gamma));
            let by_gamma = -(entropy(share) + entropy(1.0 - share)) / (gamma * gamma);
            let mut slope: Vector = std::array::from_fn(|i| {
                let of = |slope: &Vector| slope.get(i).copied().unwrap_or(0.0);
                share * of(&pass_slope) / pass + (1.0 - share) * of(&network_slope) / network
            });
            let [.., last] = &mut slope;
            *last = by_gamma;
            steps.add((step / one.step_s).ln(), &slope);
        }
        let count = self.observations.len() as f64;
        let ((a, a_slope), (b, b_slope)) = (passes.root(count), steps.root(count));
        let (ratio_n, ratio_r) = ((beta_n / alpha_n).powi(2), (beta_r / alpha_r).powi(2));
        let value = a + b + 1e-3 * (gamma - 1.0).powi(2) + 1e-2 * (ratio_n + ratio_r);
        let penalty = [
            0.0,
            0.0,
            -2e-2 * ratio_n,
            2e-2 * ratio_n,
            -2e-2 * ratio_r,
            2e-2 * ratio_r,
            2e-3 * (gamma - 1.0),
        ];
        let mut gradient = penalty;
        for ((total, a), b) in gradient.iter_mut().zip(&a_slope).zip(&b_slope) {
            *total += a + b;
        }
        (value, gradient)
    }
}

/// `-p log p`, which is 0 at 0.
fn entropy(share: f64) -> f64 {
    if share > 0.0 {
        -share * share.ln()
    } else {
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gradient_is_that_of_differences() {
        let observations: Vec<Observation> =
            [(1, 1, 8), (1, 2, 16), (1, 4, 8), (2, 8, 32), (4, 16, 64)]
                .iter()
                .enumerate()
                .map(|(i, &(nodes, replicas, local))| Observation {
                    nodes,
                    replicas,
                    local,
                    pass_s: 0.05 + 0.003 * f64::from(local) + 0.01 * i as f64,
                    step_s: 0.2 + 0.004 * f64::from(local) + 0.02 * i as f64,
                })
                .collect();
        let terms = Terms {
            observations: &observations,
        };
        let x = [-2.5, -5.0, -1.5, -4.0, -2.0, -5.0, 1.7];
        let (_, gradient) = terms.value(&x);
        for (i, slope) in gradient.iter().enumerate() {
            let moved = |by: f64| {
                let mut other = x;
                other.iter_mut().skip(i).take(1).for_each(|x| *x += by);
                terms.value(&other).0
            };
            let difference = (moved(1e-6) - moved(-1e-6)) / 2e-6;
            assert!(
                (difference - slope).abs() < 1e-7,
                "{i}: {difference} {slope}"
            );
        }
    }
}
