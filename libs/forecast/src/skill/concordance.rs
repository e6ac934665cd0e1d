//! Harrell's concordance, at the cost of sorting.
//!
//! Harrell, Califf, Pryor, Lee, Rosati, "Evaluating the yield of medical tests", JAMA 247 (1982).
//! Two holes are comparable if the one with the shorter time ended. At equal times, exactly one
//! must have ended, since the other then lasted longer. The pair is concordant if the hole that
//! ended first was forecast to last less long, and counts one half if the forecasts are equal.
//! Holes that end at the same time are not compared.

/// A forecast as a place in a ranking, with its outcome.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ranked {
    /// The forecast length in any unit; only the order counts.
    pub expected: f64,
    /// The time until the hole ended, or for which it was seen open, seconds.
    pub length_s: f64,
    /// Whether the hole ended then.
    pub ended: bool,
}

/// Pairs of holes by the outcome of the forecast order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Concordance {
    /// Pairs in the forecast order.
    pub concordant: u64,
    /// Pairs with equal forecasts.
    pub tied: u64,
    /// All comparable pairs.
    pub comparable: u64,
}

impl Concordance {
    /// The share of pairs in the right order, with equal forecasts counting one half. .5 is chance,
    /// 1 is perfect. `None` without a pair.
    #[must_use]
    pub fn share(&self) -> Option<f64> {
        (self.comparable > 0)
            .then(|| (self.concordant as f64 + self.tied as f64 / 2.0) / self.comparable as f64)
    }

    /// Adds the pairs of another set.
    pub const fn add(&mut self, other: Self) {
        self.concordant = self.concordant.saturating_add(other.concordant);
        self.tied = self.tied.saturating_add(other.tied);
        self.comparable = self.comparable.saturating_add(other.comparable);
    }
}

/// Compares every pair of a set, which is reordered. A forecast of NaN counts as the shortest.
#[must_use]
pub fn concordance(set: &mut [Ranked]) -> Concordance {
    for one in set.iter_mut() {
        // Zero gets one sign, so that equal forecasts compare as equal.
        one.expected = if one.expected.is_nan() {
            f64::NEG_INFINITY
        } else {
            one.expected + 0.0
        };
    }
    let mut scores: Vec<f64> = set.iter().map(|one| one.expected).collect();
    scores.sort_unstable_by(f64::total_cmp);
    scores.dedup();
    let place = |one: &Ranked| scores.partition_point(|&score| score < one.expected);
    // From the longest to the shortest. Of equal lengths, those that had not ended come first,
    // since they lasted longer.
    set.sort_unstable_by(|a, b| {
        b.length_s
            .total_cmp(&a.length_s)
            .then(a.ended.cmp(&b.ended))
    });
    let mut longer = Counts::new(scores.len());
    let mut found = Concordance::default();
    let alike =
        |a: &Ranked, b: &Ranked| a.length_s.total_cmp(&b.length_s).is_eq() && a.ended == b.ended;
    for group in set.chunk_by(alike) {
        for one in group.iter().filter(|one| one.ended) {
            let place = place(one);
            let (below, with) = (longer.below(place), longer.below(place + 1));
            found.comparable += longer.total;
            found.tied += with - below;
            found.concordant += longer.total - with;
        }
        for one in group {
            longer.add(place(one));
        }
    }
    found
}

/// The number of holes at each place of a ranking, with sums from its start (Fenwick, "A new
/// data structure for cumulative frequency tables", Software: Practice and Experience 24 (1994)).
struct Counts {
    /// Place `k` (from 1) has the sum of the `k & -k` places that end with it.
    sums: Vec<u64>,
    total: u64,
}

impl Counts {
    fn new(places: usize) -> Self {
        Self {
            sums: vec![0; places + 1],
            total: 0,
        }
    }

    fn add(&mut self, place: usize) {
        self.total += 1;
        let mut at = place + 1;
        while let Some(sum) = self.sums.get_mut(at) {
            *sum += 1;
            at += at & at.wrapping_neg();
        }
    }

    /// The number of holes before a place.
    fn below(&self, place: usize) -> u64 {
        let mut at = place;
        let mut sum = 0;
        while at > 0 {
            sum += self.sums.get(at).copied().unwrap_or(0);
            at &= at - 1;
        }
        sum
    }
}
