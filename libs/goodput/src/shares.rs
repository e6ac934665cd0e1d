//! Shares of a batch for members of unequal speed.
//!
//! Member k takes `t_k = o_k + b_k / speed_k` seconds for `b_k` samples. The shares that minimise
//! the longest `t_k` and sum to the batch exactly are solved for directly: bisection on the time of
//! the step, then the samples left over one by one to the member that would end first. A published
//! controller (`OmniLearn`, arXiv 2503.17469) approaches them over epochs, lets the batch drift and
//! changes shares with each bit of noise.

use crate::error::{Error, not_negative};

/// How fast a member is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Speed {
    overhead_s: f64,
    samples_per_s: f64,
}

impl Speed {
    /// Seconds of a step without samples, and samples a second.
    ///
    /// # Errors
    /// [`Error::Value`] for what is negative or not finite, and for a member that does nothing.
    pub fn new(overhead_s: f64, samples_per_s: f64) -> Result<Self, Error> {
        let overhead_s = not_negative("the overhead of a member", overhead_s)?;
        if !samples_per_s.is_finite() || samples_per_s <= 0.0 {
            return Err(Error::Value {
                what: "the speed of a member",
                value: samples_per_s,
                expected: "a positive number of samples a second: leave members without speed out",
            });
        }
        Ok(Self {
            overhead_s,
            samples_per_s,
        })
    }

    /// Seconds for a share.
    #[must_use]
    pub fn seconds(&self, share: u64) -> f64 {
        self.overhead_s + share as f64 / self.samples_per_s
    }

    /// The most samples within a time.
    fn within(&self, seconds: f64) -> u64 {
        // A negative product is no sample: such casts saturate.
        ((seconds - self.overhead_s) * self.samples_per_s) as u64
    }
}

/// Least and most samples of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    min: u64,
    max: u64,
}

impl Limits {
    /// From least and most samples; the most is what the memory of a member holds.
    ///
    /// # Errors
    /// [`Error::Bounds`] if they contradict each other.
    pub fn new(min: u64, max: u64) -> Result<Self, Error> {
        if min > max {
            return Err(Error::Bounds {
                low_name: "the least share",
                low: min as f64,
                high_name: "the largest share",
                high: max as f64,
            });
        }
        Ok(Self { min, max })
    }
}

/// Seconds of the longest member.
///
/// # Errors
/// [`Error::Lengths`] if the lists differ.
pub fn longest(members: &[Speed], shares: &[u64]) -> Result<f64, Error> {
    if members.len() != shares.len() {
        return Err(Error::Lengths {
            left_name: "the list of members",
            left: members.len(),
            right_name: "the list of shares",
            right: shares.len(),
        });
    }
    let times = members
        .iter()
        .zip(shares)
        .map(|(m, &share)| m.seconds(share));
    Ok(times.fold(0.0, f64::max))
}

/// The shares with the shortest step, in the order of the members; their sum is `total`.
///
/// # Errors
/// [`Error::NoShares`] if the limits leave no shares.
pub fn solve(total: u64, members: &[Speed], limits: Limits) -> Result<Vec<u64>, Error> {
    let count = members.len() as u64;
    let fits = |each: u64| each.checked_mul(count);
    let least_fits = fits(limits.min).is_some_and(|least| least <= total);
    let most_fits = fits(limits.max).is_none_or(|most| total <= most);
    if members.is_empty() || !least_fits || !most_fits {
        return Err(Error::NoShares {
            members: members.len(),
            min: limits.min,
            max: limits.max,
            total,
        });
    }
    let at = |seconds: f64| -> Vec<u64> {
        let share = |m: &Speed| m.within(seconds).clamp(limits.min, limits.max);
        members.iter().map(share).collect()
    };
    let sum = |shares: &[u64]| shares.iter().map(|&share| u128::from(share)).sum::<u128>();
    let total_wide = u128::from(total);
    let (mut low, mut high) = (0.0, longest(members, &vec![total; members.len()])?);
    for _ in 0..200 {
        let middle = f64::midpoint(low, high);
        if middle <= low || middle >= high {
            break;
        }
        if sum(&at(middle)) <= total_wide {
            low = middle;
        } else {
            high = middle;
        }
    }
    let mut shares = at(low);
    // At `low` the shares are too few by less than one each, but for members at their limits.
    while sum(&shares) < total_wide {
        let open = shares.iter_mut().zip(members);
        let first = open
            .filter(|(share, _)| **share < limits.max)
            .min_by(|(a, x), (b, y)| x.seconds(**a + 1).total_cmp(&y.seconds(**b + 1)));
        match first {
            Some((share, _)) => *share += 1,
            None => break,
        }
    }
    Ok(shares)
}

/// When shares follow speeds: only if the longest member gets shorter by more than 5 %, and not
/// within 50 steps of the last change.
#[derive(Debug, Clone, PartialEq)]
pub struct Balance {
    shares: Vec<u64>,
    limits: Limits,
    changed_at: Option<u64>,
}

/// Relative gain of a change that is worth it.
const WORTH: f64 = 0.05;
/// Steps between two changes.
const APART: u64 = 50;

impl Balance {
    /// Begins with even shares.
    ///
    /// # Errors
    /// As [`solve`].
    pub fn new(total: u64, members: usize, limits: Limits) -> Result<Self, Error> {
        let alike = Speed::new(0.0, 1.0)?;
        Ok(Self {
            shares: solve(total, &vec![alike; members], limits)?,
            limits,
            changed_at: None,
        })
    }

    /// The present shares, by member.
    #[must_use]
    pub fn shares(&self) -> &[u64] {
        &self.shares
    }

    /// Looks at the members' speeds after a step; the new shares if they changed.
    ///
    /// # Errors
    /// [`Error::Lengths`] if the members are not those of the shares, and as [`solve`].
    pub fn look(&mut self, step: u64, members: &[Speed]) -> Result<Option<&[u64]>, Error> {
        let now = longest(members, &self.shares)?;
        if self
            .changed_at
            .is_some_and(|at| step < at.saturating_add(APART))
        {
            return Ok(None);
        }
        let total = self.shares.iter().sum();
        let better = solve(total, members, self.limits)?;
        if longest(members, &better)? >= (1.0 - WORTH) * now {
            return Ok(None);
        }
        self.shares = better;
        self.changed_at = Some(step);
        Ok(Some(&self.shares))
    }
}
