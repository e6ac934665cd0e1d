//! How far the fitted hazard is trusted beside the lengths by age.
//!
//! Both forecast the same holes at the same moments, and their log losses are compared once the
//! outcome is known. For each interval `k` of the time to come a new comparison begins when the
//! last one is over, so no hour counts twice. The log-odds of the hazard are
//!
//! ```text
//! own_k ← clamp(own_k + (losses by age - losses of the hazard))       trust_k = own_k + (F + trust_{k-1}) / 2
//! ```
//!
//! with own_k = 0 and trust_k = F at first, so that long intervals, of which little is known for days, go
//! with the shorter ones. F grows with the holes that the hazard has learnt from: 0 at 400 ended holes.
//! Each is a Bayes factor (Dawid, "Present position and potential developments: some personal
//! views. Statistical theory: the prequential approach", J. R. Stat. Soc. A 147, 1984). Its bound
//! lets a machine that changes return to the lengths by age within few comparisons.

use std::collections::BTreeMap;

use super::model::{EDGES_S, INTERVALS, PerInterval, logistic};

/// The most holes of one comparison.
pub(super) const HOLES: usize = 64;

/// The most pieces of evidence of one comparison: holes of one moment end in few events.
const MOST_EVENTS: f32 = 8.0;

/// The least and the most evidence of an interval.
const OWN: [f32; 2] = [-4.0, 6.0];

/// Smaller shares are none, larger ones than one less it are all.
const LEAST: f32 = 0.05;

/// The share of the trust in an interval that holds for the next one.
const CARRIED: f32 = 0.5;

/// A hole of a comparison with the hazards of its interval.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Forecast {
    node: u32,
    since_s: f64,
    release: u32,
    fitted: f32,
    by_age: f32,
}

/// The comparison of one interval.
#[derive(Debug, Clone, PartialEq, Default)]
struct Comparison {
    /// When the forecasts were made.
    at_s: Option<f64>,
    /// Whether holes that ended before the interval have been taken out.
    has_begun: bool,
    holes: Vec<Forecast>,
}

/// A hole whose forecasts are compared: both curves, each with the probabilities of being open at
/// the ends of the intervals.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Compared {
    pub(super) node: u32,
    pub(super) since_s: f64,
    pub(super) release: u32,
    pub(super) fitted: PerInterval,
    pub(super) by_age: PerInterval,
}

/// The trust in the fitted hazard, by interval.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Trust {
    /// The evidence of each interval, own_k.
    own: PerInterval,
    comparisons: [Comparison; INTERVALS],
}

impl Default for Trust {
    fn default() -> Self {
        Self {
            own: [0.0; INTERVALS],
            comparisons: Default::default(),
        }
    }
}

impl Trust {
    /// The trust in models that were saved before it was.
    pub(super) fn full() -> Self {
        let [_, most] = OWN;
        Self {
            own: [most; INTERVALS],
            ..Self::default()
        }
    }

    /// The saved state.
    pub(super) const fn own(&self) -> PerInterval {
        self.own
    }

    /// Restores the saved state; the error names the damage.
    pub(super) fn restore(own: PerInterval) -> Result<Self, &'static str> {
        let [least, most] = OWN;
        if own.iter().all(|own| (least..=most).contains(own)) {
            Ok(Self {
                own,
                ..Self::default()
            })
        } else {
            Err("a trust is out of range")
        }
    }

    /// The share of a hazard that has learnt from `ended` holes, in each interval.
    pub(super) fn shares(&self, ended: u64) -> PerInterval {
        let first = first(ended);
        let mut odds = first;
        self.own.map(|own| {
            odds = own + (1.0 - CARRIED) * first + CARRIED * odds;
            let share = logistic(odds);
            if share < LEAST {
                0.0
            } else if share > 1.0 - LEAST {
                1.0
            } else {
                share
            }
        })
    }

    /// Takes in what is known of the outcomes just before `now_s`. `is_open` says whether a hole
    /// of a node with a start has been open until then.
    pub(super) fn settle(&mut self, now_s: f64, is_open: impl Fn(u32, f64) -> bool) {
        let [least, most] = OWN;
        let mut start_s = 0.0;
        for ((one, own), &edge) in self.comparisons.iter_mut().zip(&mut self.own).zip(&EDGES_S) {
            let from_s = std::mem::replace(&mut start_s, f64::from(edge));
            let Some(at_s) = one.at_s else {
                continue;
            };
            if !one.has_begun && now_s > at_s + from_s {
                one.holes.retain(|hole| is_open(hole.node, hole.since_s));
                one.has_begun = true;
            }
            if now_s > at_s + f64::from(edge) {
                one.at_s = None;
                *own = (*own + gain(&one.holes, &is_open)).clamp(least, most);
            }
        }
    }

    /// Whether a comparison may begin.
    pub(super) fn is_due(&self) -> bool {
        self.comparisons.iter().any(|one| one.at_s.is_none())
    }

    /// Begins the comparisons that may begin.
    pub(super) fn compare(&mut self, now_s: f64, holes: &[Compared]) {
        for (k, one) in self.comparisons.iter_mut().enumerate() {
            if one.at_s.is_some() || holes.is_empty() {
                continue;
            }
            one.at_s = Some(now_s);
            one.has_begun = false;
            one.holes.clear();
            one.holes.extend(holes.iter().map(|hole| Forecast {
                node: hole.node,
                since_s: hole.since_s,
                release: hole.release,
                fitted: hazard(&hole.fitted, k),
                by_age: hazard(&hole.by_age, k),
            }));
        }
    }

    /// Leaves out a hole whose end was not seen.
    pub(super) fn forget(&mut self, node: u32) {
        for one in &mut self.comparisons {
            one.holes.retain(|hole| hole.node != node);
        }
    }

    /// Drops all comparisons, since the clock has changed.
    pub(super) fn restart(&mut self) {
        self.comparisons = Default::default();
    }
}

/// The log-odds without evidence, F: -2 up to 180 ended holes, 12 from 50,000 on, which the bounded evidence
/// no longer turns.
fn first(ended: u64) -> f32 {
    (2.5 * (ended as f32 / 400.0).ln()).clamp(-2.0, 12.0)
}

/// The curve with the hazards of two curves mixed in each interval; `shares` are those of the
/// first.
pub(super) fn mixed(
    first: &PerInterval,
    second: &PerInterval,
    shares: &PerInterval,
) -> PerInterval {
    let mut open = 1.0;
    std::array::from_fn(|k| {
        let share = shares.get(k).copied().unwrap_or_default();
        open *= 1.0 - share * hazard(first, k) - (1.0 - share) * hazard(second, k);
        open
    })
}

/// The probability of an end in an interval, if the hole is open at its start.
fn hazard(open: &PerInterval, interval: usize) -> f32 {
    let before = interval
        .checked_sub(1)
        .map_or(1.0, |before| open.get(before).copied().unwrap_or(1.0));
    let after = open.get(interval).copied().unwrap_or(before);
    if before > 1e-9 {
        (1.0 - after / before).clamp(0.0, 1.0)
    } else {
        1.0
    }
}

/// The loss by age less that of the hazard, summed over releases.
fn gain(holes: &[Forecast], is_open: impl Fn(u32, f64) -> bool) -> f32 {
    let mut by_release: BTreeMap<u32, (f32, f32)> = BTreeMap::new();
    for hole in holes {
        let log_score = |hazard: f32| {
            let hazard = hazard.clamp(1e-4, 1.0 - 1e-4);
            if is_open(hole.node, hole.since_s) {
                (-hazard).ln_1p()
            } else {
                hazard.ln()
            }
        };
        let (sum, count) = by_release.entry(hole.release).or_default();
        *sum += log_score(hole.fitted) - log_score(hole.by_age);
        *count += 1.0;
    }
    let releases = by_release.len() as f32;
    let sum: f32 = by_release.values().map(|(sum, count)| sum / count).sum();
    sum * (MOST_EVENTS / releases.max(1.0)).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A curve with the same hazard in each interval.
    fn curve(hazard: f32) -> PerInterval {
        let mut open = 1.0;
        std::array::from_fn(|_| {
            open *= 1.0 - hazard;
            open
        })
    }

    /// Ten comparisons of twenty holes each. A third of the holes end if `many`, else none.
    fn watch(trust: &mut Trust, from_s: f64, many: bool) {
        let holes: Vec<Compared> = (0..20)
            .map(|node| Compared {
                node,
                since_s: 0.0,
                release: node,
                fitted: curve(0.3),
                by_age: curve(0.02),
            })
            .collect();
        for round in 0..10u32 {
            let now_s = from_s + f64::from(round) * 61.0;
            trust.compare(now_s, &holes);
            trust.settle(now_s + 1.0, |_, _| true);
            trust.settle(now_s + 61.0, |node, _| !many || node % 3 > 0);
        }
    }

    #[test]
    fn trust_goes_to_the_better_forecast_and_returns_after_a_change() {
        let mut trust = Trust::default();
        assert!(trust.shares(0).iter().all(|&share| share < 0.2));
        watch(&mut trust, 0.0, true);
        let [soon, ..] = trust.shares(0);
        assert_eq!(soon, 1.0);
        watch(&mut trust, 10_000.0, false);
        let [soon, ..] = trust.shares(0);
        assert_eq!(soon, 0.0);
        assert_eq!(trust.shares(50_000), [1.0; INTERVALS]);
    }

    #[test]
    fn trust_in_one_interval_is_carried_to_the_next() {
        let mut own = [0.0; INTERVALS];
        own[..2].fill(6.0);
        let [first, second, third, fourth, .., last] = Trust::restore(own).unwrap().shares(0);
        assert_eq!([first, second], [1.0; 2]);
        assert!(
            third > fourth && fourth > last && last > 0.1,
            "{third} {fourth} {last}"
        );
    }

    #[test]
    fn a_mixed_curve_is_between_both_and_falls() {
        let (first, second) = (curve(0.3), curve(0.02));
        let half = mixed(&first, &second, &[0.5; INTERVALS]);
        for k in 0..INTERVALS {
            assert!(first[k] < half[k] && half[k] < second[k], "{k}");
        }
        assert!(half.windows(2).all(|pair| pair[1] <= pair[0]));
        let all = mixed(&first, &second, &[1.0; INTERVALS]);
        assert!(all.iter().zip(&first).all(|(a, b)| (a - b).abs() < 1e-6));
    }

    #[test]
    fn holes_whose_end_was_not_seen_do_not_count() {
        let mut trust = Trust::default();
        let lost = Compared {
            node: 1,
            since_s: 0.0,
            release: 1,
            fitted: curve(0.9),
            by_age: curve(0.1),
        };
        trust.compare(0.0, &[lost]);
        trust.forget(1);
        trust.settle(1e6, |_, _| false);
        assert_eq!(trust.own(), Trust::default().own());
        for own in [f32::NAN, 99.0] {
            assert!(Trust::restore([own; INTERVALS]).is_err());
        }
    }
}
