//! The survival curve of the whole length of holes.

/// Probability that a new hole lasts longer than an age: the Kaplan-Meier estimate as far as enough
/// holes were at risk, and a constant hazard beyond.
///
/// Kaplan and Meier, "Nonparametric estimation from incomplete observations", J. Am. Stat.
/// Assoc. 53 (1958): `S(t) = Π (1 - d_k / n_k)` over the bins up to `t`, with `d_k` the ends in
/// bin `k` and `n_k` the holes at risk there.
#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    /// The upper edges of the bins in use, seconds.
    edges: Vec<f64>,
    /// The survival at each edge.
    open: Vec<f64>,
    /// The hazard beyond the last edge, per second.
    tail: f64,
}

/// The events in one bin of ages, as weights of holes.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Tally {
    /// Holes that ended in the bin.
    pub(crate) ended: f64,
    /// Holes that were at risk in the bin.
    pub(crate) at_risk: f64,
}

impl Curve {
    /// The curve of the events in each bin. The first bin with fewer than `enough` at risk begins
    /// the tail, whose hazard is that of the older half of the range before it.
    pub(crate) fn new(edges: &[f64], tallies: &[Tally], enough: f64) -> Self {
        let used = tallies
            .iter()
            .take_while(|tally| tally.at_risk > 0.0 && tally.at_risk >= enough)
            .count();
        let mut open = Vec::with_capacity(used);
        let mut alive = 1.0;
        for tally in tallies.iter().take(used) {
            alive *= (1.0 - tally.ended / tally.at_risk).clamp(0.0, 1.0);
            open.push(alive);
        }
        let edges: Vec<f64> = edges.iter().take(used).copied().collect();
        let half = edges.last().map_or(0.0, |last| last / 2.0);
        let (mut ended, mut exposed, mut before) = (0.0, 0.0, 0.0);
        for (&edge, tally) in edges.iter().zip(tallies) {
            if edge > half {
                ended += tally.ended;
                exposed += tally.at_risk * (edge - before);
            }
            before = edge;
        }
        let tail = if exposed > 0.0 { ended / exposed } else { 0.0 };
        Self { edges, open, tail }
    }

    /// Probability that a hole lasts longer than `age_s` seconds, linear within a bin.
    #[must_use]
    pub fn open(&self, age_s: f64) -> f64 {
        let bin = self.edges.partition_point(|&edge| edge < age_s);
        let (from, before) = match bin.checked_sub(1) {
            Some(below) => (
                self.edges.get(below).copied().unwrap_or(0.0),
                self.open.get(below).copied().unwrap_or(1.0),
            ),
            None => (0.0, 1.0),
        };
        match (self.edges.get(bin), self.open.get(bin)) {
            (Some(&to), Some(&after)) if to > from => {
                before + (after - before) * ((age_s - from) / (to - from)).clamp(0.0, 1.0)
            }
            _ => before * (-self.tail * (age_s - from)).exp(),
        }
    }

    /// Probability that a hole of age `age_s` is still open `after_s` seconds later.
    #[must_use]
    pub fn open_after(&self, age_s: f64, after_s: f64) -> f64 {
        let alive = self.open(age_s);
        if alive > 1e-12 {
            (self.open(age_s + after_s) / alive).clamp(0.0, 1.0)
        } else {
            (-self.tail * after_s).exp()
        }
    }

    /// The age at which the estimate ends and the tail begins, seconds.
    #[must_use]
    pub fn reach_s(&self) -> f64 {
        self.edges.last().copied().unwrap_or(0.0)
    }
}
