//! The lengths of holes while too few have ended for a model.

use serde::{Deserialize, Serialize};

/// The scale of lengths, seconds. From a minute to half an hour it makes no difference to plans.
const SCALE_S: f64 = 300.0;

/// The largest shape, by which half of the new holes are open after two minutes. Many short holes
/// say little about the rest of one that has stayed, and a shape that follows them would stop all
/// training: the fitted models take that up.
const MOST_SHAPE: f64 = 2.0;

/// The prior of the shape: a gamma distribution with this shape and this rate, so its mean is 1.
const PRIOR: f64 = 2.0;

/// The evidence for the shape of lengths by the Lomax distribution (K. S. Lomax, "Business
/// failures", J. Am. Stat. Assoc. 49 (1954)).
///
/// A hole of age `a` is open `t` seconds later with probability `((s + a) / (s + a + t))^shape`. So
/// a hole that has stayed long stays long. The prior is conjugate: the mean of the shape is
/// `(2 + ended) / (2 + exposure)`. A hole that was watched from age `a` to age `b` is exposed by
/// `ln((s + b) / (s + a))`, whether it has ended or not.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub(crate) struct Lomax {
    ended: f64,
    exposure: f64,
}

impl Lomax {
    /// Counts a hole that ended, watched between two ages in seconds.
    pub(crate) fn end(&mut self, from_s: f64, until_s: f64) {
        self.ended += 1.0;
        self.watch(from_s, until_s);
    }

    /// Counts a hole that was watched between two ages in seconds, its end unseen.
    pub(crate) fn watch(&mut self, from_s: f64, until_s: f64) {
        self.exposure += exposure(from_s, until_s);
    }

    /// The lengths by all evidence, that of the present holes included: the ages between which each
    /// is watched, in seconds.
    pub(crate) fn lengths(mut self, present: impl IntoIterator<Item = (f64, f64)>) -> Lengths {
        for (from_s, until_s) in present {
            self.watch(from_s, until_s);
        }
        Lengths {
            shape: ((PRIOR + self.ended) / (PRIOR + self.exposure)).min(MOST_SHAPE),
        }
    }

    /// Whether restored evidence is possible.
    pub(crate) fn is_sound(&self) -> bool {
        [self.ended, self.exposure]
            .iter()
            .all(|sum| sum.is_finite() && *sum >= 0.0)
    }
}

/// The lengths of holes by their age.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Lengths {
    shape: f64,
}

impl Lengths {
    /// The probability that a hole of age `age_s` is open `after_s` seconds later.
    pub(crate) fn open_after(self, age_s: f64, after_s: f64) -> f64 {
        (-self.shape * exposure(age_s, age_s + after_s)).exp()
    }
}

fn exposure(from_s: f64, until_s: f64) -> f64 {
    let [from_s, until_s] = [from_s, until_s].map(|age_s| age_s.max(0.0) + SCALE_S);
    (until_s / from_s).ln().max(0.0)
}

#[cfg(test)]
mod tests {
    use rand::{RngExt as _, SeedableRng as _};
    use rand_chacha::ChaCha8Rng;

    use super::*;

    #[test]
    fn the_longer_a_hole_has_stayed_the_longer_it_stays() {
        let lengths = Lomax::default().lengths([]);
        // By the prior alone: half are open after the scale.
        assert!((lengths.open_after(0.0, SCALE_S) - 0.5).abs() < 1e-12);
        assert!((lengths.open_after(SCALE_S, SCALE_S) - 2.0 / 3.0).abs() < 1e-12);
        assert_eq!(lengths.open_after(-5.0, 0.0), 1.0);
    }

    #[test]
    fn an_open_hole_is_evidence_and_one_known_late_is_none_of_its_past() {
        let prior = Lomax::default().lengths([]);
        let stays = Lomax::default().lengths([(0.0, 36_000.0)]);
        assert!(stays.open_after(0.0, 3600.0) > prior.open_after(0.0, 3600.0));
        assert_eq!(Lomax::default().lengths([(3600.0, 3600.0)]), prior);
    }

    #[test]
    fn many_short_holes_do_not_stop_all_training() {
        let mut lomax = Lomax::default();
        for _ in 0..199 {
            lomax.end(0.0, 2.0);
        }
        let open = lomax.lengths([]).open_after(0.0, 120.0);
        assert!((0.5..0.55).contains(&open), "{open}");
    }

    #[test]
    fn the_shape_of_many_holes_is_found_however_late_each_is_known() {
        let seed = 3;
        println!("seed {seed}");
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let shape = 0.6;
        let mut lomax = Lomax::default();
        for _ in 0..20_000 {
            let open: f64 = rng.random_range(f64::MIN_POSITIVE..1.0);
            let length_s = SCALE_S * (open.powf(-1.0 / shape) - 1.0);
            let known_s = rng.random_range(0.0..600.0);
            let lost_s = rng.random_range(0.0..20_000.0);
            if known_s < length_s.min(lost_s) {
                if length_s <= lost_s {
                    lomax.end(known_s, length_s);
                } else {
                    lomax.watch(known_s, lost_s);
                }
            }
        }
        let found = lomax.lengths([]).shape;
        assert!((found - shape).abs() < 0.02, "{found}");
    }
}
