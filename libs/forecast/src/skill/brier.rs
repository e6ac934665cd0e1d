//! The Brier score at one horizon, and what it is made of.

use serde::{Deserialize, Serialize};

/// Bins of probabilities: tenths.
const BINS: usize = 10;

/// Forecasts of about one probability.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ReliabilityBin {
    /// Their mean probability of open.
    pub predicted: f64,
    /// The share of their holes that was open.
    pub observed: f64,
    /// How many.
    pub count: u64,
}

/// Answers in one bin.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Tenth {
    count: u64,
    predicted: f64,
    open: u64,
}

/// Probabilities of "still open" beside what came of them: running sums of fixed size. Brier,
/// "Verification of forecasts expressed in terms of probability", Monthly Weather Review 78
/// (1950).
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Brier {
    answered: u64,
    open: u64,
    predicted: f64,
    squares: f64,
    tenths: [Tenth; BINS],
}

impl Brier {
    /// Nothing asked yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A hole that was forecast to be open with this probability was, or was not. A probability
    /// that is no number counts as one half, others as the nearest in `[0, 1]`.
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
        let place = ((predicted * BINS as f64) as usize).min(BINS - 1);
        if let Some(tenth) = self.tenths.get_mut(place) {
            tenth.count += 1;
            tenth.predicted += predicted;
            tenth.open += u64::from(open);
        }
    }

    /// Questions answered.
    #[must_use]
    pub const fn answered(&self) -> u64 {
        self.answered
    }

    /// Of these, holes that were still open.
    #[must_use]
    pub const fn open(&self) -> u64 {
        self.open
    }

    /// The score: 0 is perfect, .25 is a coin. Nothing without an answer.
    #[must_use]
    pub fn score(&self) -> Option<f64> {
        (self.answered > 0).then(|| self.squares / self.answered as f64)
    }

    /// The score of climatology: always the share of all these holes that stayed open, which is
    /// the best constant and is known only afterwards.
    #[must_use]
    pub fn of_base_rate(&self) -> Option<f64> {
        (self.answered > 0).then(|| {
            let base = self.open as f64 / self.answered as f64;
            base * (1.0 - base)
        })
    }

    /// The score that one probability, said every time, would have had. Nothing without an
    /// answer.
    #[must_use]
    pub fn of_constant(&self, probability: f64) -> Option<f64> {
        (self.answered > 0).then(|| {
            let base = self.open as f64 / self.answered as f64;
            base * (1.0 - probability).powi(2) + (1.0 - base) * probability.powi(2)
        })
    }

    /// One less the ratio of both scores: above zero is better than the best constant. Nothing
    /// if that is perfect.
    #[must_use]
    pub fn skill(&self) -> Option<f64> {
        let base = self.of_base_rate().filter(|&base| base > 0.0)?;
        Some(1.0 - self.score()? / base)
    }

    /// Calibration in the large: mean probability less the share that was open. Above zero, holes
    /// were believed to last longer than they did.
    #[must_use]
    pub fn in_the_large(&self) -> Option<f64> {
        (self.answered > 0).then(|| (self.predicted - self.open as f64) / self.answered as f64)
    }

    /// Expected calibration error: how far probabilities are from the shares that were open, bin
    /// by bin (tenths), weighted by answers. Naeini, Cooper, Hauskrecht, "Obtaining well
    /// calibrated probabilities using Bayesian binning", AAAI (2015).
    #[must_use]
    pub fn calibration_error(&self) -> Option<f64> {
        (self.answered > 0).then(|| {
            let gap = |tenth: &Tenth| (tenth.predicted - tenth.open as f64).abs();
            self.tenths.iter().map(gap).sum::<f64>() / self.answered as f64
        })
    }

    /// The bins that have any forecast.
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
