//! Harrell's concordance, in the time that sorting takes.
//!
//! Harrell, Califf, Pryor, Lee, Rosati, "Evaluating the yield of medical tests", JAMA 247 (1982).
//! Two holes are comparable if the shorter time is one at which a hole ended (and, of two equal
//! times, only one is: the other lasted longer). The pair is concordant if the hole that ended
//! first was forecast to last less long, and counts one half if both were forecast alike. Holes
//! that end at the same moment are not compared: neither lasted longer.

/// A forecast as a place in a ranking, and what came of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ranked {
    /// How long the hole was forecast to last, in any unit: only the order counts.
    pub expected: f64,
    /// Seconds until it ended, or for which it was seen to be open.
    pub length_s: f64,
    /// Whether it ended then.
    pub ended: bool,
}

/// Pairs of holes by what became of the forecast order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Concordance {
    /// Pairs in the order that was forecast.
    pub concordant: u64,
    /// Pairs that were forecast alike.
    pub tied: u64,
    /// All pairs that can be compared.
    pub comparable: u64,
}

impl Concordance {
    /// Share of pairs in the right order, those forecast alike counting one half: .5 is chance,
    /// 1 is perfect. Nothing without a pair.
    #[must_use]
    pub fn share(&self) -> Option<f64> {
        (self.comparable > 0)
            .then(|| (self.concordant as f64 + self.tied as f64 / 2.0) / self.comparable as f64)
    }

    /// The pairs of another set as well.
    pub const fn add(&mut self, other: Self) {
        self.concordant = self.concordant.saturating_add(other.concordant);
        self.tied = self.tied.saturating_add(other.tied);
        self.comparable = self.comparable.saturating_add(other.comparable);
    }
}

/// Compares every pair of a set. The set is put in another order. A forecast that is no number
/// counts as the shortest.
#[must_use]
pub fn concordance(set: &mut [Ranked]) -> Concordance {
    for one in set.iter_mut() {
        // Zero has one sign, so that forecasts that are equal are alike.
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
    // From the longest to the shortest; of equal lengths those that had not ended come first,
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

/// How many holes there are at each place of a ranking, with sums from its start (Fenwick, "A new
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

    /// How many lie before a place.
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
