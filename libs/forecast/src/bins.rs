//! Bins of ages, so that the learnt state has a fixed size.

/// Bins of ages. Bin `k` holds the ages in `(edge(k - 1), edge(k)]` seconds. Bin 0 begins at zero,
/// and the last bin also holds all ages beyond its edge.
#[derive(Debug, Clone, PartialEq)]
pub struct Bins {
    edges: Vec<f64>,
}

impl Bins {
    /// Bins whose edges grow by the factor `ratio` (above 1), from `first_s` until `last_s` is
    /// reached.
    #[must_use]
    pub fn logarithmic(first_s: f64, last_s: f64, ratio: f64) -> Self {
        let edges = std::iter::successors(Some(first_s), |&edge| {
            (edge < last_s && ratio > 1.0).then_some(edge * ratio)
        })
        .collect();
        Self { edges }
    }

    /// One bin for each second up to `last_s`: exact for ages in whole seconds.
    #[must_use]
    pub fn every_second(last_s: u32) -> Self {
        Self {
            edges: (1..=last_s.max(1)).map(f64::from).collect(),
        }
    }

    /// The number of bins, at least one.
    #[must_use]
    pub fn count(&self) -> usize {
        self.edges.len()
    }

    /// The bin of an age in seconds.
    #[must_use]
    pub fn of(&self, age_s: f64) -> usize {
        self.edges
            .partition_point(|&edge| edge < age_s)
            .min(self.edges.len().saturating_sub(1))
    }

    /// The upper edges, seconds.
    #[must_use]
    pub fn edges(&self) -> &[f64] {
        &self.edges
    }
}

impl Default for Bins {
    /// From 10 s to 30 days in steps of 6 %: 215 bins.
    fn default() -> Self {
        Self::logarithmic(10.0, 30.0 * 86_400.0, 1.06)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_on_an_edge_is_in_the_bin_below_it() {
        let bins = Bins::every_second(10);
        assert_eq!(bins.of(0.0), 0);
        assert_eq!(bins.of(1.0), 0);
        assert_eq!(bins.of(1.5), 1);
        assert_eq!(bins.of(10.0), 9);
        assert_eq!(bins.of(1e9), 9);
        let bins = Bins::default();
        assert_eq!(bins.count(), 215);
        assert!(
            bins.edges()
                .last()
                .is_some_and(|&edge| edge >= 30.0 * 86_400.0)
        );
    }
}
