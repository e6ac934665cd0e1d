//! Keeping the level of the hazard right between fits.
//!
//! Machines have busy days and quiet ones, and a model that is fitted to the past lags behind.
//! So the log-odds of each stretch are shifted by what the newest forecasts were off. A sample
//! counts for a stretch once the whole stretch is over, whether or not its hole has ended by
//! then: what ended early must not count where its equals that lasted do not count yet.

use super::boost::Trial;
use super::model::{EDGES_S, Model, STRETCHES, Stretches, logistic};
use super::samples::{Fate, Sample};

/// The shift of the first stretch follows as if samples of so much curvature had been forecast
/// well before.
const INERTIA: f32 = 25.0;

/// The length of the first stretch, seconds.
const FIRST_S: f32 = 60.0;

/// No shift is larger, in log-odds.
const MOST: f32 = 2.0;

/// The shift of each stretch's log-odds.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Drift {
    pub(super) shift: Stretches,
    as_of_s: Option<f64>,
}

impl Drift {
    /// A new model knows most of what the shift made up for.
    pub(super) fn refitted(&mut self) {
        self.shift = self.shift.map(|shift| shift / 2.0);
    }

    /// Time begins anew.
    pub(super) fn restart(&mut self) {
        self.as_of_s = None;
    }

    /// Whether an update is due: once in a while that is short beside a fit's.
    pub(super) fn is_due(&self, now_s: f64, every_s: f64) -> bool {
        self.as_of_s.is_none_or(|as_of| now_s >= as_of + every_s)
    }

    /// Takes in the samples whose stretches are newly over; `samples` in the order of time.
    pub(super) fn update(&mut self, model: &Model, samples: &[Sample], now_s: f64) {
        let before = self.as_of_s.replace(now_s);
        let Some(before) = before else {
            return;
        };
        for k in 0..STRETCHES {
            let edge = EDGES_S.get(k).map_or(0.0, |&edge| f64::from(edge));
            let from = samples.partition_point(|sample| sample.at_s + edge <= before);
            let (mut off, mut curvature) = (0.0f32, 0.0f32);
            for sample in samples.iter().skip(from) {
                if sample.at_s + edge > now_s {
                    break;
                }
                let (length_s, ended) = match sample.fate {
                    Fate::Open => ((now_s - sample.at_s) as f32, false),
                    Fate::Ended => (sample.length_s, true),
                    Fate::Censored => (sample.length_s, false),
                };
                let trial = Trial::new(sample.row, length_s, ended, 1.0);
                if let (Some(outcome), Some(odds), Some(shift)) = (
                    trial.outcome(k),
                    model.odds(&sample.row).get(k),
                    self.shift.get(k),
                ) {
                    let hazard = logistic(odds + shift);
                    off += hazard - outcome;
                    curvature += hazard * (1.0 - hazard);
                }
            }
            if let Some(shift) = self.shift.get_mut(k) {
                // The longer the stretch, the longer one event goes on showing in it.
                let inertia = INERTIA * (edge as f32 / FIRST_S).sqrt();
                *shift = (*shift - off / (curvature + inertia)).clamp(-MOST, MOST);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hazard::features::FEATURES;
    use crate::hazard::levels::LEVELS;
    use crate::hazard::samples::Samples;

    #[test]
    fn the_shift_follows_a_machine_that_has_become_quiet() {
        // The model says that every second hole ends within each stretch; one in four does.
        let model = Model {
            by_age: vec![[0.0; STRETCHES]; LEVELS],
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
            if drift.is_due(now, 3600.0) {
                drift.update(&model, &samples.list, now);
            }
        }
        let hazard = logistic(drift.shift[0]);
        assert!((hazard - 0.25).abs() < 0.02, "{hazard}");
    }
}
