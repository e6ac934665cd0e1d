//! Histograms of the lengths of holes: a fine one for quantiles, a coarse one for pages.

use super::types::{HoleBin, Shorter};

const MINUTE: f64 = 60.0;
const HOUR: f64 = 3600.0;

/// Coarse bins: upper end in seconds, and label.
const BINS: [(f64, &str); 10] = [
    (MINUTE, "under 1 min"),
    (2.0 * MINUTE, "1-2 min"),
    (5.0 * MINUTE, "2-5 min"),
    (10.0 * MINUTE, "5-10 min"),
    (30.0 * MINUTE, "10-30 min"),
    (HOUR, "30-60 min"),
    (2.0 * HOUR, "1-2 h"),
    (4.0 * HOUR, "2-4 h"),
    (12.0 * HOUR, "4-12 h"),
    (f64::INFINITY, "over 12 h"),
];

/// Up to this many seconds each second has a bin of its own.
const EXACT_S: u64 = 4096;
/// Bins of each doubling above that.
const PER_DOUBLING: u64 = 2048;
/// Number of doublings: up to 4,096 s times 2 to this power, some 8,700 years.
const DOUBLINGS: u64 = 26;

/// Count and sum of a fine bin.
#[derive(Debug, Clone, Copy, Default)]
struct Bin {
    count: u64,
    seconds: f64,
}

/// The lengths of holes so far.
#[derive(Debug, Clone)]
pub(super) struct Lengths {
    bins: Vec<Bin>,
    coarse: Vec<HoleBin>,
    count: u64,
    seconds: f64,
    min_s: f64,
    max_s: f64,
    under_10_min: (u64, f64),
    under_1_h: (u64, f64),
}

impl Lengths {
    pub(super) fn new() -> Self {
        let bins = EXACT_S + DOUBLINGS * PER_DOUBLING;
        Self {
            bins: vec![Bin::default(); bins as usize],
            coarse: empty_bins(),
            count: 0,
            seconds: 0.0,
            min_s: f64::INFINITY,
            max_s: 0.0,
            under_10_min: (0, 0.0),
            under_1_h: (0, 0.0),
        }
    }

    /// The bin of a length in whole seconds.
    fn place(&self, seconds: u64) -> usize {
        let place = if seconds < EXACT_S {
            seconds
        } else {
            let doublings = u64::from((seconds / EXACT_S).ilog2());
            // The range of this doubling is `EXACT_S << doublings` long, and so is its start.
            let start = EXACT_S << doublings;
            let within = (seconds - start) / (start / PER_DOUBLING);
            EXACT_S + doublings * PER_DOUBLING + within
        };
        (place as usize).min(self.bins.len().saturating_sub(1))
    }

    pub(super) fn add(&mut self, length_ms: i64) {
        let seconds = length_ms.max(0) as f64 / 1000.0;
        let place = self.place(length_ms.max(0).unsigned_abs() / 1000);
        if let Some(bin) = self.bins.get_mut(place) {
            bin.count += 1;
            bin.seconds += seconds;
        }
        if let Some(bin) = self.coarse.get_mut(bin_of_length(seconds)) {
            bin.count += 1;
            bin.node_hours += seconds / 3600.0;
        }
        self.count += 1;
        self.seconds += seconds;
        self.min_s = self.min_s.min(seconds);
        self.max_s = self.max_s.max(seconds);
        for (limit, under) in [
            (600.0, &mut self.under_10_min),
            (3600.0, &mut self.under_1_h),
        ] {
            if seconds < limit {
                under.0 += 1;
                under.1 += seconds;
            }
        }
    }

    /// The length that this share of the holes does not exceed, by nearest rank, seconds. It is the
    /// mean of its bin.
    pub(super) fn quantile(&self, share: f64) -> f64 {
        let rank = ((share * self.count as f64).ceil() as u64).max(1);
        let mut before = 0;
        for bin in &self.bins {
            before += bin.count;
            if before >= rank {
                return bin.seconds / bin.count.max(1) as f64;
            }
        }
        self.max_s
    }

    pub(super) const fn count(&self) -> u64 {
        self.count
    }

    /// Sum of all lengths, seconds.
    pub(super) const fn seconds(&self) -> f64 {
        self.seconds
    }

    pub(super) const fn min_s(&self) -> f64 {
        if self.count > 0 { self.min_s } else { 0.0 }
    }

    pub(super) const fn max_s(&self) -> f64 {
        self.max_s
    }

    pub(super) fn under_10_min(&self) -> Shorter {
        self.share(self.under_10_min)
    }

    pub(super) fn under_1_h(&self) -> Shorter {
        self.share(self.under_1_h)
    }

    fn share(&self, (count, seconds): (u64, f64)) -> Shorter {
        Shorter {
            count: count as f64 / self.count.max(1) as f64,
            node_time: seconds / self.seconds.max(f64::MIN_POSITIVE),
        }
    }

    pub(super) fn into_bins(self) -> Vec<HoleBin> {
        self.coarse
    }
}

/// The coarse bins, empty.
fn empty_bins() -> Vec<HoleBin> {
    BINS.iter()
        .map(|(_, label)| HoleBin {
            label: (*label).to_owned(),
            count: 0,
            node_hours: 0.0,
        })
        .collect()
}

/// The coarse bin of a length in seconds.
fn bin_of_length(length_s: f64) -> usize {
    BINS.partition_point(|(end, _)| *end <= length_s)
}

/// Sorts holes, given by their lengths in seconds, into the coarse bins.
#[must_use]
pub fn bin_holes(lengths_s: impl IntoIterator<Item = f64>) -> Vec<HoleBin> {
    let mut bins = empty_bins();
    for length in lengths_s {
        if let Some(bin) = bins.get_mut(bin_of_length(length)) {
            bin.count += 1;
            bin.node_hours += length / HOUR;
        }
    }
    bins
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_do_not_decrease_and_are_narrow() {
        let lengths = Lengths::new();
        let mut before = (0, 0);
        for seconds in (0..20_000).chain((20_000..40_000_000).step_by(997)) {
            let place = lengths.place(seconds);
            assert!(place >= before.0, "{seconds}");
            if place > before.0 {
                before = (place, seconds);
            }
            // No bin is wider than 1/2,048 of its start.
            assert!(seconds - before.1 <= seconds / 2048, "{seconds}");
        }
        assert!(lengths.place(4095) + 1 == lengths.place(4096));
        assert_eq!(lengths.place(u64::MAX), lengths.bins.len() - 1);
    }

    #[test]
    fn quantiles_are_by_nearest_rank() {
        let mut lengths = Lengths::new();
        for seconds in 1..=200 {
            lengths.add(seconds * 1000);
        }
        assert_eq!(lengths.quantile(0.1), 20.0);
        assert_eq!(lengths.quantile(0.5), 100.0);
        assert_eq!(lengths.quantile(0.99), 198.0);
        assert_eq!(lengths.quantile(1.0), 200.0);
        assert_eq!(Lengths::new().quantile(0.5), 0.0);
    }
}
