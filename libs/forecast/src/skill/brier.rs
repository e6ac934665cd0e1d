//! The Brier score at one horizon, and its parts.

use serde::{Deserialize, Serialize};

/// The number of bins of probabilities: tenths.
const BINS: usize = 10;

/// The least probability of an outcome in the log loss: a certainty that fails costs 9.2.
const LEAST_GIVEN: f64 = 1e-4;

/// The forecasts in one bin of probabilities.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ReliabilityBin {
    /// The mean probability of an open hole.
    pub predicted: f64,
    /// The share of open holes.
    pub observed: f64,
    /// The number of forecasts.
    pub count: u64,
}

/// The answers in one bin.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Tenth {
    count: u64,
    predicted: f64,
    open: u64,
}

/// Probabilities of "still open" with their outcomes, as running sums of fixed size. Brier,
/// "Verification of forecasts expressed in terms of probability", Monthly Weather Review 78
/// (1950).
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Brier {
    answered: u64,
    open: u64,
    predicted: f64,
    squares: f64,
    log_losses: f64,
    tenths: [Tenth; BINS],
}

impl Brier {
    /// A score without answers.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a probability of "open" and its outcome. NaN counts as one half, other values as the
    /// nearest in `[0, 1]`.
    pub fn add(&mut self, predicted: f64, open: bool) {
        let predicted = if predicted.is_nan() {
            0.5
        } else {
            predicted.clamp(0.0, 1.0)
        };
        let outcome = if open { 1.0 } else { 0.0 };
        self.answered += 1;
        self.open += u64::from(open);
        self.predicted += predicted;
        self.squares += (predicted - outcome).powi(2);
        let given = if open { predicted } else { 1.0 - predicted };
        self.log_losses -= given.max(LEAST_GIVEN).ln();
        let place = ((predicted * BINS as f64) as usize).min(BINS - 1);
        if let Some(tenth) = self.tenths.get_mut(place) {
            tenth.count += 1;
            tenth.predicted += predicted;
            tenth.open += u64::from(open);
        }
    }

    /// The number of answers.
    #[must_use]
    pub const fn answered(&self) -> u64 {
        self.answered
    }

    /// The number of holes that were still open.
    #[must_use]
    pub const fn open(&self) -> u64 {
        self.open
    }

    /// The score: 0 is perfect, .25 is that of always one half. `None` without an answer.
    #[must_use]
    pub fn score(&self) -> Option<f64> {
        (self.answered > 0).then(|| self.squares / self.answered as f64)
    }

    /// The mean log loss, in nats: 0 is perfect, .69 is that of always one half. `None` without an
    /// answer.
    #[must_use]
    pub fn log_loss(&self) -> Option<f64> {
        (self.answered > 0).then(|| self.log_losses / self.answered as f64)
    }

    /// The score of climatology, the share of all these holes that stayed open. It is the best
    /// constant and known only afterwards.
    #[must_use]
    pub fn of_base_rate(&self) -> Option<f64> {
        (self.answered > 0).then(|| {
            let base = self.open as f64 / self.answered as f64;
            base * (1.0 - base)
        })
    }

    /// The score of one probability given for every question. `None` without an answer.
    #[must_use]
    pub fn of_constant(&self, probability: f64) -> Option<f64> {
        (self.answered > 0).then(|| {
            let base = self.open as f64 / self.answered as f64;
            base * (1.0 - probability).powi(2) + (1.0 - base) * probability.powi(2)
        })
    }

    /// One less the ratio of both scores: above zero is better than the best constant. `None` if
    /// that is perfect.
    #[must_use]
    pub fn skill(&self) -> Option<f64> {
        let base = self.of_base_rate().filter(|&base| base > 0.0)?;
        Some(1.0 - self.score()? / base)
    }

    /// Calibration in the large: mean probability less the share of open holes. Above zero, holes
    /// lasted less long than forecast.
    #[must_use]
    pub fn in_the_large(&self) -> Option<f64> {
        (self.answered > 0).then(|| (self.predicted - self.open as f64) / self.answered as f64)
    }

    /// Expected calibration error: the distance of probabilities from the shares of open holes, by
    /// bin (tenths), weighted by answers. Naeini, Cooper, Hauskrecht, "Obtaining well calibrated
    /// probabilities using Bayesian binning", AAAI (2015).
    #[must_use]
    pub fn calibration_error(&self) -> Option<f64> {
        (self.answered > 0).then(|| {
            let gap = |tenth: &Tenth| (tenth.predicted - tenth.open as f64).abs();
            self.tenths.iter().map(gap).sum::<f64>() / self.answered as f64
        })
    }

    /// The bins with at least one forecast.
    #[must_use]
    pub fn bins(&self) -> Vec<ReliabilityBin> {
        self.tenths
            .iter()
            .filter(|tenth| tenth.count > 0)
            .map(|tenth| ReliabilityBin {
                predicted: tenth.predicted / tenth.count as f64,
                observed: tenth.open as f64 / tenth.count as f64,
                count: tenth.count,
            })
            .collect()
    }
}
