//! The loss of a forecast quantile.

/// The scored quantiles of the remaining length.
pub const LEVELS: [f64; 3] = [0.1, 0.5, 0.9];

/// The pinball loss of a quantile: the mean of `max(p (L - q), (1 - p) (q - L))` for a forecast `q`
/// of the `p`-quantile of `L`, in the unit of `L`. The true quantile has the least loss. Koenker
/// and Bassett, "Regression quantiles", Econometrica 46 (1978).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pinball {
    level: f64,
    count: u64,
    within: u64,
    sum: f64,
}

impl Pinball {
    /// The loss of the quantile at a level in `(0, 1)`.
    #[must_use]
    pub const fn new(level: f64) -> Self {
        Self {
            level,
            count: 0,
            within: 0,
            sum: 0.0,
        }
    }

    /// Adds a forecast quantile and the length.
    pub fn add(&mut self, quantile: f64, length: f64) {
        self.count += 1;
        self.within += u64::from(length <= quantile);
        self.sum += loss(self.level, quantile, length);
    }

    /// The level of the quantile.
    #[must_use]
    pub const fn level(&self) -> f64 {
        self.level
    }

    /// The number of lengths.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// The mean loss; `None` without a length.
    #[must_use]
    pub fn loss(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum / self.count as f64)
    }

    /// The share of lengths up to the quantile. It equals the level if forecasts are right and few
    /// lengths are equal.
    #[must_use]
    pub fn coverage(&self) -> Option<f64> {
        (self.count > 0).then(|| self.within as f64 / self.count as f64)
    }
}

/// The loss of the best constant, which is the quantile of the lengths and is known only
/// afterwards. `None` without a length. The lengths are sorted.
#[must_use]
pub fn best_constant(level: f64, lengths: &mut [f64]) -> Option<f64> {
    lengths.sort_unstable_by(f64::total_cmp);
    let rank = (level * lengths.len() as f64).ceil().max(1.0) as usize;
    let best = *lengths.get(rank.min(lengths.len()).checked_sub(1)?)?;
    let sum: f64 = lengths
        .iter()
        .map(|&length| loss(level, best, length))
        .sum();
    Some(sum / lengths.len() as f64)
}

fn loss(level: f64, quantile: f64, length: f64) -> f64 {
    let short = length - quantile;
    (level * short).max((level - 1.0) * short)
}
