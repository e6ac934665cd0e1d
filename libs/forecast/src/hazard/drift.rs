//! The correction of the hazard between fits.
//!
//! Machines have busy and quiet days, and a model that is fitted to the past lags behind. So the
//! log-odds of each interval are shifted by the error of the newest forecasts. A sample counts for
//! an interval once the whole interval is over, even if its hole ended earlier. Otherwise holes
//! that end early would count before equal holes that last.
//!
//! The right speed of the shift differs between machines and weeks: a fast one follows chance, a
//! slow one is late. So there are slow and fast *followers* `e`. The shift is their mean, weighted
//! by their past loss, for each interval `k`:
//!
//! ```text
//! shift_k = Σ_e w_ek s_ek
//! s_ek  ← s_ek - Σ(h_ek - y) / (Σ h_ek (1 - h_ek) + I_e sqrt(length of k))      (a Newton step)
//! w_ek  ← (1 - α) w_ek exp(-n loss_ek) / Z + α / E
//! ```
//!
//! Here `h_ek` are the hazards that a follower gives the newly known outcomes `y` before it learns
//! from them. `I_e` is its inertia, `loss_ek` its mean log loss, and `n` the number of independent
//! outcomes. These are exponential weights (Vovk, "Aggregating strategies", COLT 1990: never much
//! worse than the best) with a fixed share. So a follower that was wrong last week can recover
//! (Herbster and Warmuth, "Tracking the best expert", Machine Learning 32, 1998).

use serde::{Deserialize, Serialize};

use super::boost::Example;
use super::model::{EDGES_S, INTERVALS, Model, PerInterval, logistic};
use super::samples::{Fate, Sample};

/// The number of followers.
const FOLLOWERS: usize = 3;

/// The inertia of each follower in the first interval, as the curvature of samples that were
/// forecast well before. Each is four times that of the one before. The samples of one moment end
/// in few events, so the fastest inertia is that of a moment or two.
const INERTIA: [f32; FOLLOWERS] = [25.0, 100.0, 400.0];

/// The length of the first interval, seconds.
const FIRST_S: f32 = 60.0;

/// The share of all weight that is redistributed equally at each update.
const SHARE: f32 = 0.02;

/// The time between updates, seconds. Most intervals that plans depend on are no shorter.
const EVERY_S: f64 = 900.0;

/// The share of the shift that is kept after a fit. At four fits a day, half is left after a day.
const KEPT: f32 = 0.84;

/// The largest shift, in log-odds.
const MOST: f32 = 2.0;

/// One follower in one interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct Follower {
    shift: f32,
    weight: f32,
}

/// All followers of each interval.
pub(super) type Followers = [[Follower; FOLLOWERS]; INTERVALS];

impl Default for Follower {
    fn default() -> Self {
        Self {
            shift: 0.0,
            weight: 1.0 / FOLLOWERS as f32,
        }
    }
}

/// The residuals of a follower in one interval.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Residuals {
    off: f32,
    curvature: f32,
    loss: f32,
}

impl Residuals {
    fn add(&mut self, odds: f32, outcome: f32) {
        let hazard = logistic(odds);
        self.off += hazard - outcome;
        self.curvature += hazard * (1.0 - hazard);
        let wrong = if outcome > 0.5 { -odds } else { odds };
        self.loss += wrong.max(0.0) + (-wrong.abs()).exp().ln_1p();
    }
}

/// The shift of the log-odds of each interval, and its followers.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Drift {
    pub(super) shift: PerInterval,
    followers: Followers,
    as_of_s: Option<f64>,
}

impl Drift {
    /// The saved state.
    pub(super) const fn followers(&self) -> Followers {
        self.followers
    }

    /// Restores the saved state; the error names the damage. Outcomes during the stop are left out,
    /// since only holes that ended then are known.
    pub(super) fn restore(followers: Followers) -> Result<Self, &'static str> {
        let is_sound = |of: &[Follower; FOLLOWERS]| {
            let weight: f32 = of.iter().map(|one| one.weight).sum();
            (weight - 1.0).abs() < 1e-2
                && of
                    .iter()
                    .all(|one| one.shift.abs() <= MOST && (0.0..=1.0).contains(&one.weight))
        };
        if !followers.iter().all(is_sound) {
            return Err("a shift is out of range");
        }
        Ok(Self {
            shift: followers.map(|of| mean(&of)),
            followers,
            as_of_s: None,
        })
    }

    /// Followers with equal shifts.
    #[cfg(test)]
    pub(super) fn equal(shift: f32) -> [Follower; FOLLOWERS] {
        let weight = 1.0 / FOLLOWERS as f32;
        [Follower { shift, weight }; FOLLOWERS]
    }

    /// Shrinks the shift after a fit, since the new model includes some of it.
    pub(super) fn refitted(&mut self) {
        for follower in self.followers.iter_mut().flatten() {
            follower.shift *= KEPT;
        }
        self.shift = self.shift.map(|shift| shift * KEPT);
    }

    /// Restarts after a change of the clock.
    pub(super) fn restart(&mut self) {
        self.as_of_s = None;
    }

    /// Whether an update is due.
    pub(super) fn is_due(&self, now_s: f64) -> bool {
        self.as_of_s.is_none_or(|as_of| now_s >= as_of + EVERY_S)
    }

    /// Learns from the samples whose intervals are newly over; `samples` are in the order of time.
    pub(super) fn update(&mut self, model: &Model, samples: &[Sample], now_s: f64) {
        let before = self.as_of_s.replace(now_s);
        let Some(before) = before else {
            return;
        };
        let mut start_s = 0.0;
        let intervals = self.followers.iter_mut().zip(&mut self.shift);
        for (k, ((followers, shift), &edge)) in intervals.zip(&EDGES_S).enumerate() {
            let edge_s = f64::from(edge);
            let from = samples.partition_point(|sample| sample.at_s + edge_s <= before);
            let mut residuals = [Residuals::default(); FOLLOWERS];
            let (mut outcomes, mut moments) = (0.0f32, 0.0f32);
            let mut last_s = f64::NEG_INFINITY;
            for sample in samples.iter().skip(from) {
                if sample.at_s + edge_s > now_s {
                    break;
                }
                let example = example(sample, now_s);
                let (Some(outcome), Some(odds)) =
                    (example.outcome(k), model.odds(&sample.row).get(k).copied())
                else {
                    continue;
                };
                outcomes += 1.0;
                moments += f32::from(u8::from(sample.at_s > last_s));
                last_s = sample.at_s;
                for (residuals, follower) in residuals.iter_mut().zip(&*followers) {
                    residuals.add(odds + follower.shift, outcome);
                }
            }
            // Samples of one moment end together, and samples within one length of the interval
            // mostly end by the same events.
            let room = ((now_s - before) / (edge_s - start_s)).max(1.0) as f32;
            start_s = edge_s;
            if outcomes > 0.0 {
                weigh(followers, &residuals, moments.min(room) / outcomes);
                // In a longer interval, one event counts for longer.
                learn(followers, &residuals, (edge / FIRST_S).sqrt());
                *shift = mean(followers);
            }
        }
    }
}

/// The weighted mean shift.
fn mean(followers: &[Follower; FOLLOWERS]) -> f32 {
    followers.iter().map(|one| one.weight * one.shift).sum()
}

/// The known outcome of a sample.
fn example(sample: &Sample, now_s: f64) -> Example {
    let (length_s, ended) = match sample.fate {
        Fate::Open => ((now_s - sample.at_s) as f32, false),
        Fate::Ended => (sample.length_s, true),
        Fate::Censored => (sample.length_s, false),
    };
    Example::new(sample.row, length_s, ended, 1.0)
}

/// Shifts weight to the followers with less loss. `rate` is the weight of the loss of one outcome.
fn weigh(followers: &mut [Follower], residuals: &[Residuals], rate: f32) {
    let least = residuals
        .iter()
        .map(|one| one.loss)
        .fold(f32::INFINITY, f32::min);
    let mut total = 0.0;
    for (follower, residuals) in followers.iter_mut().zip(residuals) {
        follower.weight *= ((least - residuals.loss) * rate).exp();
        total += follower.weight;
    }
    let equal = 1.0 / FOLLOWERS as f32;
    for follower in followers {
        let earned = if total > 0.0 {
            follower.weight / total
        } else {
            equal
        };
        follower.weight = earned + SHARE * (equal - earned);
    }
}

/// Moves each follower by its error, with its inertia times `longer`.
fn learn(followers: &mut [Follower], residuals: &[Residuals], longer: f32) {
    for ((follower, residuals), inertia) in followers.iter_mut().zip(residuals).zip(INERTIA) {
        let step = residuals.off / (residuals.curvature + inertia * longer);
        follower.shift = (follower.shift - step).clamp(-MOST, MOST);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hazard::feature_bins::BINS;
    use crate::hazard::features::FEATURES;
    use crate::hazard::samples::Samples;

    /// The weights after outcomes of the first interval, sixteen at a time. The share that ended
    /// changes after `changes_every` steps.
    fn weights(changes_every: u32) -> [Follower; FOLLOWERS] {
        let mut followers = [Follower::default(); FOLLOWERS];
        let mut odd = 1u32;
        for at in 0..2000u32 {
            let ended = if (at / changes_every).is_multiple_of(2) {
                4
            } else {
                12
            };
            let mut residuals = [Residuals::default(); FOLLOWERS];
            for _ in 0..16 {
                odd = odd.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let outcome = f32::from(u8::from((odd >> 28) < ended));
                for (residuals, follower) in residuals.iter_mut().zip(&followers) {
                    residuals.add(follower.shift, outcome);
                }
            }
            weigh(&mut followers, &residuals, 1.0);
            learn(&mut followers, &residuals, 1.0);
        }
        followers
    }

    #[test]
    fn a_changing_machine_is_followed_fast_and_a_steady_one_slowly() {
        let restless = weights(40).map(|one| one.weight);
        let steady = weights(u32::MAX).map(|one| one.weight);
        println!("restless {restless:?}, steady {steady:?}");
        assert!(restless[0] > 0.5 && restless[2] < 0.2, "{restless:?}");
        assert!(steady[2] > steady[0], "{steady:?}");
        // Every follower keeps a share of the weight.
        let least = SHARE / FOLLOWERS as f32 * 0.9;
        assert!(restless.iter().chain(&steady).all(|&weight| weight > least));
        let sum: f32 = restless.iter().sum();
        assert!((sum - 1.0).abs() < 1e-4, "{sum}");
    }

    #[test]
    fn the_shift_follows_a_machine_that_has_become_quiet() {
        // By the model every second hole ends within each interval; in truth one in four does.
        let model = Model {
            by_age: vec![[0.0; INTERVALS]; BINS],
            trees: Vec::new(),
        };
        let mut samples = Samples::new(100_000, 1e9, 1);
        let mut drift = Drift::default();
        for minute in 0..6000u32 {
            let now = f64::from(minute) * 60.0;
            let node = minute % 8;
            samples.settle(node, now, Fate::Ended);
            samples.push(node, [1; FEATURES], now);
            if minute % 4 == 0 {
                samples.settle(node, now + 30.0, Fate::Ended);
            }
            if drift.is_due(now) {
                drift.update(&model, &samples.list, now);
            }
        }
        let hazard = logistic(drift.shift[0]);
        assert!((hazard - 0.25).abs() < 0.02, "{hazard}");
    }
}
