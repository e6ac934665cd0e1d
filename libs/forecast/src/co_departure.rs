//! The probability that two neighbouring holes end together (co-departure).

use serde::{Deserialize, Serialize};

/// The features that two neighbours share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PairFeatures {
    /// Their holes began in the same release event.
    pub(crate) release: bool,
    /// Their nodes are in the same block.
    pub(crate) block: bool,
    /// The number of present holes of their release, the smaller of both.
    pub(crate) left: u32,
}

impl PairFeatures {
    fn stratum(self) -> usize {
        let size = match self.left {
            0..5 => 0,
            5..20 => 1,
            20..100 => 2,
            100.. => 3,
        };
        (usize::from(self.release) * 2 + usize::from(self.block)) * 4 + size
    }
}

/// The weight of an event fades over about this many later events of its stratum.
const REMEMBERED: f64 = 2000.0;

/// The weight of the expected rate, in pairs.
const PRIOR: f64 = 2.0;

/// The number of strata: two binary features and four sizes.
pub(crate) const STRATA: usize = 16;

/// The share of neighbours in the ordered idle list that left together when at least one of them
/// left, by shared features. Each rate is the mean of a Beta distribution with a uniform prior.
/// All pairs weigh the same, since forecasts are about pairs. An event of a thousand pairs weighs
/// no more than one of a hundred ([`AT_MOST`]).
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub(crate) struct CoDeparture {
    both: [f64; STRATA],
    any: [f64; STRATA],
    now: [(u32, u32); STRATA],
}

/// The largest weight of one event in one stratum, in pairs.
const AT_MOST: f64 = 100.0;

impl CoDeparture {
    /// Records that at least one of two neighbours leaves; `both` if the other does too.
    pub(crate) fn pair(&mut self, pair_features: PairFeatures, both: bool) {
        if let Some(count) = self.now.get_mut(pair_features.stratum()) {
            *count = (
                count.0.saturating_add(u32::from(both)),
                count.1.saturating_add(1),
            );
        }
    }

    /// Ends the event and adds its pairs to the sums.
    pub(crate) fn event(&mut self) {
        for ((both, any), now) in self.both.iter_mut().zip(&mut self.any).zip(&mut self.now) {
            let (together, pairs) = std::mem::take(now);
            if pairs > 0 {
                let fade = 1.0 - 1.0 / REMEMBERED;
                let weight = f64::from(pairs).min(AT_MOST);
                *both = *both * fade + weight * f64::from(together) / f64::from(pairs);
                *any = *any * fade + weight;
            }
        }
    }

    /// The shares of neighbours that end together, by what they share; half without evidence.
    pub(crate) fn shares(&self) -> [f32; STRATA] {
        std::array::from_fn(|stratum| self.share(stratum, &[0.5; STRATA]))
    }

    /// The probability that neighbours end together. `expected` are the shares before evidence.
    pub(crate) fn of(&self, pair_features: PairFeatures, expected: &[f32; STRATA]) -> f32 {
        self.share(pair_features.stratum(), expected)
    }

    fn share(&self, stratum: usize, expected: &[f32; STRATA]) -> f32 {
        let at = |sums: &[f64; STRATA]| sums.get(stratum).copied().unwrap_or(0.0);
        let expected = expected.get(stratum).copied().unwrap_or(0.5);
        ((at(&self.both) + PRIOR * f64::from(expected)) / (at(&self.any) + PRIOR)) as f32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn co_departure_is_learnt_by_shared_features() {
        let pair = |release, block| PairFeatures {
            release,
            block,
            left: 7,
        };
        let mut links = CoDeparture::default();
        assert_eq!(links.of(pair(true, true), &[0.5; STRATA]), 0.5);
        for event in 0..100 {
            links.pair(pair(true, true), event % 10 > 0);
            links.pair(pair(false, true), event % 2 > 0);
            links.event();
        }
        assert!((links.of(pair(true, true), &[0.5; STRATA]) - 0.9).abs() < 0.02);
        assert!((links.of(pair(false, true), &[0.5; STRATA]) - 0.5).abs() < 0.02);
        assert_eq!(links.of(pair(false, false), &[0.5; STRATA]), 0.5);
    }
}
