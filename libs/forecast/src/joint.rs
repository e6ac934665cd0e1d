//! Which holes end together.

use serde::{Deserialize, Serialize};

/// Which holes end together: holes in the order in which the scheduler takes nodes, and how
/// firmly neighbours in it hang together. Walking along the order and breaking between two
/// holes with the probability that they do not end together gives one scenario of groups.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Joint {
    /// Places in the list of holes, in the order in which the scheduler takes nodes, first
    /// taken first.
    pub order: Vec<u32>,
    /// For each position in `order` but the last: probability that the hole there and its
    /// successor end in the same event.
    pub link: Vec<f32>,
}

/// What neighbours have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Kinship {
    /// Their holes began in the same release event.
    pub(crate) release: bool,
    /// They stand in the same block.
    pub(crate) block: bool,
}

impl Kinship {
    fn stratum(self) -> usize {
        usize::from(self.release) * 2 + usize::from(self.block)
    }
}

/// An event's weight fades over about so many later ones.
const REMEMBERED: f64 = 5000.0;

/// How often two neighbours of the ordered idle list left together when at least one of them
/// left, by what they have in common. Each rate is the mean of a Beta distribution that began
/// as uniform. Pairs of one event share one unit of weight for each stratum, since they are no
/// independent witnesses.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub(crate) struct Links {
    both: [f64; 4],
    any: [f64; 4],
    now: [(u32, u32); 4],
}

impl Links {
    /// At least one of two neighbours leaves; `both` tells whether the other does too.
    pub(crate) fn pair(&mut self, kinship: Kinship, both: bool) {
        if let Some(count) = self.now.get_mut(kinship.stratum()) {
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
                // The square root lies between counting pairs and counting events: a job of a
                // hundred nodes says more of its neighbours than one of two, but not fifty times.
                let weight = f64::from(pairs).sqrt();
                *both = *both * fade + weight * f64::from(together) / f64::from(pairs);
                *any = *any * fade + weight;
            }
        }
    }

    /// Probability that neighbours end together.
    pub(crate) fn of(&self, kinship: Kinship) -> f32 {
        let stratum = kinship.stratum();
        let at = |sums: &[f64; 4]| sums.get(stratum).copied().unwrap_or(0.0);
        ((at(&self.both) + 1.0) / (at(&self.any) + 2.0)) as f32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_learnt_by_what_neighbours_share() {
        let kin = |release, block| Kinship { release, block };
        let mut links = Links::default();
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
