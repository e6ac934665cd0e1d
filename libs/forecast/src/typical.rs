//! The median length of recently ended holes.

use serde::{Deserialize, Serialize};

/// The upper edge of the first bin, seconds; each further edge is [`RATIO`] times as far.
const FIRST_S: f64 = 10.0;
const RATIO: f64 = 1.15;
const BINS: usize = 90;

/// The weight of a hole fades over about this many later ones.
const REMEMBERED: f64 = 20_000.0;

/// The number of ended holes before a median is given.
const ENOUGH: f64 = 50.0;

/// The median length of recently ended holes, from a histogram of fixed size.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Typical {
    bins: Vec<f64>,
    /// The weight of the next hole. It grows instead of all others shrinking.
    unit: f64,
}

impl Default for Typical {
    fn default() -> Self {
        Self {
            bins: vec![0.0; BINS],
            unit: 1.0,
        }
    }
}

impl Typical {
    /// Adds an ended hole by its length in seconds. NaN and lengths below zero count as zero.
    pub fn add(&mut self, length_s: f64) {
        let length_s = if length_s > FIRST_S {
            length_s
        } else {
            FIRST_S
        };
        let bin = ((length_s / FIRST_S).ln() / RATIO.ln()).ceil();
        let last = self.bins.len().saturating_sub(1);
        let bin = if bin < last as f64 {
            bin as usize
        } else {
            last
        };
        if let Some(weight) = self.bins.get_mut(bin) {
            *weight += self.unit;
        }
        self.unit *= 1.0 + 1.0 / REMEMBERED;
        if self.unit > 1e100 {
            self.bins.iter_mut().for_each(|weight| *weight /= self.unit);
            self.unit = 1.0;
        }
    }

    /// The median, seconds, to 15 %; `None` while too few holes have ended.
    #[must_use]
    pub fn median_s(&self) -> Option<f64> {
        let all: f64 = self.bins.iter().sum();
        if all < ENOUGH * self.unit {
            return None;
        }
        let mut below = 0.0;
        let bin = self.bins.iter().position(|weight| {
            below += weight;
            below * 2.0 >= all
        })?;
        // The middle of the bin.
        Some(FIRST_S * RATIO.powf(bin as f64 - 0.5))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_near_and_follows_the_machine() {
        let mut typical = Typical::default();
        for length in 1..=40 {
            typical.add(f64::from(length) * 20.0);
        }
        assert_eq!(typical.median_s(), None);
        for _ in 0..20 {
            for length in 1..=1000 {
                typical.add(f64::from(length));
            }
        }
        let median = typical.median_s().unwrap_or_default();
        assert!((430.0..580.0).contains(&median), "{median}");
        for _ in 0..100_000 {
            typical.add(5000.0);
        }
        let median = typical.median_s().unwrap_or_default();
        assert!((4300.0..5800.0).contains(&median), "{median}");
    }

    #[test]
    fn invalid_lengths_do_no_harm() {
        let mut typical = Typical::default();
        for _ in 0..100 {
            for length in [f64::NAN, -5.0, f64::INFINITY, 0.0] {
                typical.add(length);
            }
        }
        assert!(typical.median_s().is_some_and(f64::is_finite));
    }
}
