//! Which holes end together.

use serde::{Deserialize, Serialize};

/// What neighbours have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PairFeatures {
    /// Their holes began in the same release event.
    pub(crate) release: bool,
    /// They stand in the same block.
    pub(crate) block: bool,
    /// How many of those that began with them are left, of the fewer of both.
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

/// What pairs of an event weigh fades over about so many later events of their stratum.
const REMEMBERED: f64 = 2000.0;

/// How many strata there are: two answers, and four sizes.
const STRATA: usize = 16;

/// How often two neighbours of the ordered idle list left together when at least one of them
/// left, by what they have in common. Each rate is the mean of a Beta distribution that began
/// as uniform. Pairs count alike, since a scenario asks of pairs; an event that tells of a
/// thousand counts no more than one that tells of a hundred.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub(crate) struct CoDeparture {
    both: [f64; STRATA],
    any: [f64; STRATA],
    now: [(u32, u32); STRATA],
}

/// Pairs of one event and stratum that count at most.
const AT_MOST: f64 = 100.0;

impl CoDeparture {
    /// At least one of two neighbours leaves; `both` tells whether the other does too.
    pub(crate) fn pair(&mut self, pair_features: PairFeatures, both: bool) {
        if let Some(count) = self.now.get_mut(pair_features.stratum()) {
            *count = (
                count.0.saturating_add(u32::from(both)),
                count.1.saturating_add(1),
            );
        }
    }

    /// The event is told.
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

    /// Probability that neighbours end together.
    pub(crate) fn of(&self, pair_features: PairFeatures) -> f32 {
        let stratum = pair_features.stratum();
        let at = |sums: &[f64; STRATA]| sums.get(stratum).copied().unwrap_or(0.0);
        ((at(&self.both) + 1.0) / (at(&self.any) + 2.0)) as f32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_learnt_by_what_neighbours_share() {
        let kin = |release, block| PairFeatures {
            release,
            block,
            left: 7,
        };
        let mut links = CoDeparture::default();
        assert_eq!(links.of(kin(true, true)), 0.5);
        for event in 0..100 {
            links.pair(kin(true, true), event % 10 > 0);
            links.pair(kin(false, true), event % 2 > 0);
            links.event();
        }
        assert!((links.of(kin(true, true)) - 0.9).abs() < 0.02);
        assert!((links.of(kin(false, true)) - 0.5).abs() < 0.02);
        assert_eq!(links.of(kin(false, false)), 0.5);
    }
}
