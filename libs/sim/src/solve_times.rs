//! Wall-clock times of decisions, in bounded memory.

use crate::SolveSeconds;

/// Bits of the mantissa that select a bin: 64 bins to an octave, each 1.1 % wide.
const FINE: u32 = 6;

/// Most single times that are kept.
const KEPT: usize = 4096;

/// Wall-clock times of decisions: a histogram with bins of 1.1 %, and a sample of the times.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SolveTimes {
    /// Counts by bin, from the bin of the shortest possible time.
    counts: std::collections::BTreeMap<u64, u64>,
    number: u64,
    total_s: f64,
    max_s: f64,
    /// A sample of the times, at a constant stride.
    kept: Vec<f64>,
    stride_log2: u32,
}

impl SolveTimes {
    /// Adds a time, seconds.
    pub fn add(&mut self, seconds: f64) {
        let seconds = seconds.max(0.0);
        *self.counts.entry(bin(seconds)).or_default() += 1;
        self.total_s += seconds;
        self.max_s = self.max_s.max(seconds);
        if self.number.is_multiple_of(1 << self.stride_log2) {
            self.kept.push(seconds);
        }
        self.number += 1;
        if self.kept.len() >= KEPT {
            let mut place = 0_usize;
            self.kept.retain(|_| {
                place += 1;
                place % 2 == 1
            });
            self.stride_log2 += 1;
        }
    }

    /// Number of times.
    #[must_use]
    pub const fn len(&self) -> u64 {
        self.number
    }

    /// Whether there is no time.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.number == 0
    }

    /// The bins that are not empty, in ascending order: lower and upper edge in seconds, count.
    pub fn bins(&self) -> impl Iterator<Item = (f64, f64, u64)> {
        let bins = self.counts.iter();
        bins.map(|(&bin, &count)| (edge(bin), edge(bin + 1), count))
    }

    /// The time that this share of the decisions does not exceed, seconds, to 1.1 %.
    #[must_use]
    pub fn quantile(&self, share: f64) -> f64 {
        let rank = (share * self.number as f64).ceil().max(1.0) as u64;
        let mut before = 0;
        for (from, until, count) in self.bins() {
            before += count;
            if before >= rank {
                return f64::midpoint(from, until).min(self.max_s);
            }
        }
        0.0
    }

    /// A sample of the times, in order: all up to 4,096, else every second, every fourth, ...
    #[must_use]
    pub fn sample(&self) -> &[f64] {
        &self.kept
    }

    /// Quantiles and sum, seconds.
    #[must_use]
    pub fn seconds(&self) -> SolveSeconds {
        SolveSeconds {
            p50: self.quantile(0.5),
            p99: self.quantile(0.99),
            max: self.max_s,
            total: self.total_s,
        }
    }
}

/// The bin of a time. The leading bits of non-negative floats are ordered as the floats are.
fn bin(seconds: f64) -> u64 {
    seconds.to_bits() >> (52 - FINE)
}

fn edge(bin: u64) -> f64 {
    f64::from_bits(bin << (52 - FINE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_right_to_the_width_of_a_bin() {
        let mut times = SolveTimes::default();
        for k in (1..=20_000).rev() {
            times.add(f64::from(k) * 1e-6);
        }
        for (share, exact) in [(0.5, 0.01), (0.99, 0.0198), (0.001, 20e-6)] {
            let found = times.quantile(share);
            assert!((found / exact - 1.0).abs() < 0.012, "{share}: {found}");
        }
        let seconds = times.seconds();
        assert_eq!(seconds.max, 0.02);
        assert!((seconds.total - 200.01).abs() < 1e-6);
        assert_eq!(times.bins().map(|(.., count)| count).sum::<u64>(), 20_000);
        assert!(times.sample().len() <= KEPT && times.sample().len() > KEPT / 4);
        assert_eq!(SolveTimes::default().seconds(), SolveSeconds::default());
    }
}
