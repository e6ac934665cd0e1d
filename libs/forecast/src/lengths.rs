//! The lengths of holes by age, from the first hole on: a mixture of laws with conjugate evidence.

use serde::{Deserialize, Serialize};

use crate::co_departure::STRATA;
use crate::prior::{Law, Prior};

/// The weight of the prior mean of each shape, in ends.
const PRIOR: f64 = 2.0;

/// The evidence of an end fades over about this many later ends, so a machine may change.
const REMEMBERED: f64 = 400.0;

/// Laws with less weight are left out of forecasts.
const LEAST: f64 = 0.02;

/// The most present holes that are looked at for evidence; of more, each k-th is.
const LOOKED_AT: usize = 256;

/// The evidence for one law.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
struct Sums {
    /// The summed exposures of watched holes.
    exposure: f64,
    /// The summed log rates at the ends.
    log_rates: f64,
}

/// The evidence of ended holes for each law of a prior.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(crate) struct Evidence {
    ended: f64,
    /// The number of releases of the ended holes.
    releases: f64,
    of: Vec<Sums>,
}

/// A watched hole.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Watched {
    /// The age from which it is watched, seconds.
    pub(crate) from_s: f64,
    /// Its age at the end, or now, seconds.
    pub(crate) until_s: f64,
    /// One over the number of holes of its release.
    pub(crate) share: f64,
}

/// The lengths of holes by the laws of a prior.
///
/// Law `e` has the hazard `f_e r_e(age)` with a known rate `r_e` and a shape `f_e`. The prior of the
/// shape is a gamma distribution, which is conjugate. With `D` ends and the summed exposure
/// `H_e = Σ ∫ r_e` of all watched holes, ended or not, its mean is `(2 + τD) / (2 / m_e + τH_e)`,
/// where `m_e` is the prior mean. Holes of one release mostly end together and are one piece of
/// evidence: `τ` is the number of releases over that of holes. The weight of a law is its prior
/// weight times its marginal likelihood
/// `exp(τ Σ ln r_e) (2 / m_e)^2 / (2 / m_e + τH_e)^(2 + τD)`, up to a factor that all laws share.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Lengths {
    prior: Prior,
    /// The share of the evidence that is kept at each end.
    kept: f64,
    evidence: Evidence,
}

impl Lengths {
    /// The lengths by a prior alone. Evidence for them fades, or does not.
    pub(crate) fn new(prior: Prior, fades: bool) -> Self {
        let of = vec![Sums::default(); prior.laws().len()];
        Self {
            prior,
            kept: if fades { 1.0 - 1.0 / REMEMBERED } else { 1.0 },
            evidence: Evidence {
                of,
                ..Evidence::default()
            },
        }
    }

    /// Counts a hole that ended.
    pub(crate) fn end(&mut self, hole: Watched) {
        let Evidence {
            ended,
            releases,
            of,
        } = &mut self.evidence;
        *ended = *ended * self.kept + 1.0;
        *releases = *releases * self.kept + hole.share.clamp(0.0, 1.0);
        for (sums, law) in of.iter_mut().zip(self.prior.laws()) {
            sums.exposure *= self.kept;
            sums.log_rates = sums.log_rates * self.kept + law.rate(hole.until_s).ln();
        }
        self.watch(hole);
    }

    /// Counts a hole whose end was not seen.
    pub(crate) fn watch(&mut self, hole: Watched) {
        for (sums, law) in self.evidence.of.iter_mut().zip(self.prior.laws()) {
            sums.exposure += law.exposure(hole.from_s, hole.until_s);
        }
    }

    /// The mixture by all evidence, that of the present holes included.
    pub(crate) fn mixture(&self, present: impl ExactSizeIterator<Item = Watched>) -> Mixture<'_> {
        let step = present.len().div_ceil(LOOKED_AT).max(1);
        let mut sums = self.evidence.of.clone();
        let (mut releases, mut holes) = (self.evidence.releases, self.evidence.ended);
        for hole in present.step_by(step) {
            let times = step as f64;
            releases += times * hole.share.clamp(0.0, 1.0);
            holes += times;
            for (sums, law) in sums.iter_mut().zip(self.prior.laws()) {
                sums.exposure += times * law.exposure(hole.from_s, hole.until_s);
            }
        }
        let tau = if holes > 0.0 { releases / holes } else { 1.0 };
        let ended = PRIOR + tau * self.evidence.ended;
        let parts = self.prior.laws().iter().zip(&sums);
        let mut parts: Vec<Part<'_>> = parts
            .map(|(law, sums)| {
                let before = PRIOR / law.shape;
                let exposed = before + tau * sums.exposure;
                Part {
                    law,
                    shape: ended / exposed,
                    most_shape: law.most_shape(),
                    weight: law.weight.ln() + tau * sums.log_rates + PRIOR * before.ln()
                        - ended * exposed.ln(),
                }
            })
            .collect();
        let logs = parts.iter().map(|part| part.weight);
        let most = logs.fold(f64::NEG_INFINITY, f64::max);
        for part in &mut parts {
            part.weight = (part.weight - most).exp();
        }
        let all: f64 = parts.iter().map(|part| part.weight).sum();
        parts.retain(|part| part.weight >= LEAST * all);
        let kept: f64 = parts.iter().map(|part| part.weight).sum();
        for part in &mut parts {
            part.weight /= kept;
        }
        Mixture { parts }
    }

    /// The evidence, to be saved.
    pub(crate) fn evidence(&self) -> Evidence {
        self.evidence.clone()
    }

    /// Takes saved evidence in. Evidence for the laws of another prior is dropped. The error names
    /// the damage.
    pub(crate) fn restore(&mut self, evidence: Evidence) -> Result<(), &'static str> {
        let counts = [evidence.ended, evidence.releases];
        let exposures = evidence.of.iter().map(|sums| sums.exposure);
        let mut sums = counts.into_iter().chain(exposures);
        if sums.any(|sum| !sum.is_finite() || sum < 0.0)
            || evidence.of.iter().any(|sums| !sums.log_rates.is_finite())
        {
            return Err("a sum of ages is out of range");
        }
        if evidence.of.len() == self.evidence.of.len() {
            self.evidence = evidence;
        }
        Ok(())
    }
}

/// One law of a mixture.
#[derive(Debug, Clone, Copy)]
struct Part<'a> {
    law: &'a Law,
    shape: f64,
    /// The largest shape of a forecast.
    most_shape: f64,
    weight: f64,
}

/// The lengths of holes at one moment.
#[derive(Debug, Clone)]
pub(crate) struct Mixture<'a> {
    parts: Vec<Part<'a>>,
}

impl Mixture<'_> {
    /// The probability that a hole of age `age_s` is open `after_s` seconds later.
    pub(crate) fn open_after(&self, age_s: f64, after_s: f64) -> f64 {
        let open = self.parts.iter().map(|part| {
            let exposure = part.law.exposure(age_s, age_s + after_s);
            part.weight * (-part.shape.min(part.most_shape) * exposure).exp()
        });
        open.sum()
    }

    /// The law of the largest weight with its shape, and the weight.
    pub(crate) fn most_like(&self) -> Option<(&Law, f64, f64)> {
        let most = self
            .parts
            .iter()
            .max_by(|a, b| a.weight.total_cmp(&b.weight))?;
        Some((most.law, most.shape, most.weight))
    }

    /// The shares of neighbours that end together, by what they share.
    pub(crate) fn together(&self) -> [f32; STRATA] {
        let mut shares = [0.0; STRATA];
        for part in &self.parts {
            for (share, of) in shares.iter_mut().zip(part.law.together) {
                *share += part.weight as f32 * of;
            }
        }
        shares
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt as _, SeedableRng as _};
    use rand_chacha::ChaCha8Rng;

    use super::*;
    use crate::prior::MachinePrior;

    fn hole(from_s: f64, until_s: f64) -> Watched {
        Watched {
            from_s,
            until_s,
            share: 1.0,
        }
    }

    fn cold() -> Lengths {
        Lengths::new(Prior::cold(), true)
    }

    /// A length by the law of a scale and a shape, seconds.
    fn length_s(rng: &mut ChaCha8Rng, scale_s: f64, shape: f64) -> f64 {
        let open: f64 = rng.random_range(f64::MIN_POSITIVE..1.0);
        scale_s * (open.powf(-1.0 / shape) - 1.0)
    }

    #[test]
    fn the_longer_a_hole_has_stayed_the_longer_it_stays() {
        let cold = cold();
        let lengths = cold.mixture([].into_iter());
        // By the prior alone: half are open after the scale.
        assert!((lengths.open_after(0.0, 300.0) - 0.5).abs() < 1e-12);
        assert!((lengths.open_after(300.0, 300.0) - 2.0 / 3.0).abs() < 1e-12);
        assert_eq!(lengths.open_after(-5.0, 0.0), 1.0);
    }

    #[test]
    fn an_open_hole_is_evidence_and_one_known_late_is_none_of_its_past() {
        let cold = cold();
        let after_an_hour = |present: &[Watched]| {
            let lengths = cold.mixture(present.iter().copied());
            lengths.open_after(0.0, 3600.0)
        };
        let prior = after_an_hour(&[]);
        assert!(after_an_hour(&[hole(0.0, 36_000.0)]) > prior);
        assert_eq!(after_an_hour(&[hole(3600.0, 3600.0)]), prior);
    }

    #[test]
    fn many_short_holes_do_not_stop_all_training() {
        let mut lengths = cold();
        for _ in 0..1000 {
            lengths.end(hole(0.0, 2.0));
        }
        let open = lengths.mixture([].into_iter()).open_after(0.0, 120.0);
        assert!((0.5..0.55).contains(&open), "{open}");
    }

    #[test]
    fn holes_of_one_release_are_one_piece_of_evidence() {
        let after = |share: f64| {
            let mut lengths = cold();
            for _ in 0..100 {
                lengths.end(Watched {
                    share,
                    ..hole(0.0, 36_000.0)
                });
            }
            lengths.mixture([].into_iter()).open_after(0.0, 300.0)
        };
        let one = {
            let mut lengths = cold();
            lengths.end(hole(0.0, 36_000.0));
            lengths.mixture([].into_iter()).open_after(0.0, 300.0)
        };
        assert!((after(0.01) - one).abs() < 0.02, "{} {one}", after(0.01));
        assert!(after(1.0) > one + 0.05);
    }

    #[test]
    fn the_shape_of_many_holes_is_found_however_late_each_is_known() {
        let seed = 3;
        println!("seed {seed}");
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut lengths = Lengths::new(Prior::cold(), false);
        for _ in 0..20_000 {
            let length_s = length_s(&mut rng, 300.0, 0.6);
            let known_s = rng.random_range(0.0..600.0);
            let lost_s = rng.random_range(0.0..20_000.0);
            if known_s < length_s.min(lost_s) {
                if length_s <= lost_s {
                    lengths.end(hole(known_s, length_s));
                } else {
                    lengths.watch(hole(known_s, lost_s));
                }
            }
        }
        let mixture = lengths.mixture([].into_iter());
        let (_, found, _) = mixture.most_like().unwrap();
        assert!((found - 0.6).abs() < 0.02, "{found}");
    }

    #[test]
    fn a_known_machine_is_recognised_after_few_holes_and_a_changed_one_again() {
        let known = [("spot", 100_000.0, 20.0), ("batch", 30.0, 1.0)];
        let machines = known.map(|(name, scale_s, shape)| MachinePrior {
            name: name.into(),
            scale_s,
            shape,
            together: [0.5; STRATA],
        });
        let seed = 5;
        println!("seed {seed}");
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut lengths = Lengths::new(Prior::of(&machines), true);
        let mut ended = |lengths: &mut Lengths, (name, scale_s, shape): (&str, f64, f64)| {
            (1..5000).find(|_| {
                lengths.end(hole(0.0, length_s(&mut rng, scale_s, shape)));
                let mixture = lengths.mixture([].into_iter());
                let (law, _, weight) = mixture.most_like().unwrap();
                law.name == name && weight > 0.9
            })
        };
        let [spot, batch] = known;
        let (first, second) = (ended(&mut lengths, spot), ended(&mut lengths, batch));
        assert!(first.is_some_and(|ends| ends < 40), "{first:?}");
        assert!(second.is_some_and(|ends| ends < 400), "{second:?}");
    }

    #[test]
    fn numbers_that_are_none_do_no_harm() {
        let odd = [f64::NAN, f64::INFINITY, -1.0, 0.0].map(|number| MachinePrior {
            name: "odd".into(),
            scale_s: number,
            shape: 1.0,
            together: [f32::NAN; STRATA],
        });
        assert!(Prior::of(&odd).is_cold());
        let mut lengths = cold();
        for until_s in [-5.0, 0.0, 1e300] {
            lengths.end(hole(0.0, until_s));
            lengths.end(hole(1e300, until_s));
        }
        let open = lengths.mixture([].into_iter()).open_after(1e300, 60.0);
        assert!((0.0..=1.0).contains(&open), "{open}");
        let mut evidence = lengths.evidence();
        assert_eq!(lengths.restore(evidence.clone()), Ok(()));
        evidence.ended = f64::NAN;
        assert!(lengths.restore(evidence).is_err());
    }
}
