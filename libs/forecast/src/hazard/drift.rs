//! Keeping the level of the hazard right between fits.
//!
//! Machines have busy days and quiet ones, and a model that is fitted to the past lags behind.
//! So the log-odds of each interval are shifted by what the newest forecasts were off. A sample
//! counts for a interval once the whole interval is over, whether or not its hole has ended by
//! then: what ended early must not count where its equals that lasted do not count yet.
//!
//! How fast a level should follow is another matter on every machine and in every week: one that
//! is too fast runs after chance, one that is too slow is late. So there are some *followers*
//! `e`, slow and fast, and the shift is their mean, weighted by how well each has done, interval
//! by interval `k`:
//!
//! ```text
//! shift_k = Σ_e w_ek s_ek
//! s_ek  ← s_ek - Σ(h_ek - y) / (Σ h_ek (1 - h_ek) + I_e sqrt(length of k))      (a Newton step)
//! w_ek  ← (1 - α) w_ek exp(-n loss_ek) / Z + α / E
//! ```
//!
//! with the hazards `h_ek` that a follower gives the newly known outcomes `y` before it has
//! learnt from them, its inertia `I_e`, its mean log loss, and the number `n` of outcomes that
//! tell something of their own. These are exponential weights (Vovk, "Aggregating strategies",
//! COLT 1990: never much worse than the best) with a fixed share, so that who was wrong last
//! week may be right today (Herbster and Warmuth, "Tracking the best expert", Machine Learning
//! 32, 1998).

use serde::{Deserialize, Serialize};

use super::boost::Example;
use super::model::{EDGES_S, Model, INTERVALS, PerInterval, logistic};
use super::samples::{Fate, Sample};

/// How many followers there are.
const FOLLOWERS: usize = 3;

/// The first interval of each follower moves as if samples of so much curvature had been forecast
/// well before: four times as slow, and again. What is asked at one moment is answered by few
/// events, so the fastest stands for a moment or two.
const INERTIA: [f32; FOLLOWERS] = [25.0, 100.0, 400.0];

/// The length of the first interval, seconds.
const FIRST_S: f32 = 60.0;

/// The share of all weight that is dealt out anew at each update.
const SHARE: f32 = 0.02;

/// Levels are brought up to date this often, seconds: most intervals that plans depend on are no
/// shorter.
const EVERY_S: f64 = 900.0;

/// What a new model leaves of the shift: half in a day, at four fits a day.
const KEPT: f32 = 0.84;

/// No shift is larger, in log-odds.
const MOST: f32 = 2.0;

/// One follower at one interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct Follower {
    shift: f32,
    weight: f32,
}

/// All of them, interval by interval.
pub(super) type Followers = [[Follower; FOLLOWERS]; INTERVALS];

impl Default for Follower {
    fn default() -> Self {
        Self {
            shift: 0.0,
            weight: 1.0 / FOLLOWERS as f32,
        }
    }
}

/// What came of a follower's forecasts of one interval.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct News {
    off: f32,
    curvature: f32,
    loss: f32,
}

impl News {
    fn add(&mut self, odds: f32, outcome: f32) {
        let hazard = logistic(odds);
        self.off += hazard - outcome;
        self.curvature += hazard * (1.0 - hazard);
        let wrong = if outcome > 0.5 { -odds } else { odds };
        self.loss += wrong.max(0.0) + (-wrong.abs()).exp().ln_1p();
    }
}

/// The shift of each interval's log-odds, and who it is made from.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Drift {
    pub(super) shift: PerInterval,
    followers: Followers,
    as_of_s: Option<f64>,
}

impl Drift {
    /// What is to be saved.
    pub(super) const fn followers(&self) -> Followers {
        self.followers
    }

    /// Takes up what was saved; says what is wrong with it, if anything is. What came out while
    /// nobody looked is not made up for: of the holes of then only those that ended are known.
    pub(super) fn restore(followers: Followers) -> Result<Self, &'static str> {
        let is_sound = |of: &[Follower; FOLLOWERS]| {
            let weight: f32 = of.iter().map(|one| one.weight).sum();
            (weight - 1.0).abs() < 1e-2
                && of
                    .iter()
                    .all(|one| one.shift.abs() <= MOST && (0.0..=1.0).contains(&one.weight))
        };
        if !followers.iter().all(is_sound) {
            return Err("a level is out of range");
        }
        Ok(Self {
            shift: followers.map(|of| mean(&of)),
            followers,
            as_of_s: None,
        })
    }

    /// Followers that agree.
    #[cfg(test)]
    pub(super) fn equal(shift: f32) -> [Follower; FOLLOWERS] {
        let weight = 1.0 / FOLLOWERS as f32;
        [Follower { shift, weight }; FOLLOWERS]
    }

    /// A new model knows some of what the shift made up for.
    pub(super) fn refitted(&mut self) {
        for follower in self.followers.iter_mut().flatten() {
            follower.shift *= KEPT;
        }
        self.shift = self.shift.map(|shift| shift * KEPT);
    }

    /// Time begins anew.
    pub(super) fn restart(&mut self) {
        self.as_of_s = None;
    }

    /// Whether an update is due.
    pub(super) fn is_due(&self, now_s: f64) -> bool {
        self.as_of_s.is_none_or(|as_of| now_s >= as_of + EVERY_S)
    }

    /// Takes in the samples whose intervals are newly over; `samples` in the order of time.
    pub(super) fn update(&mut self, model: &Model, samples: &[Sample], now_s: f64) {
        let before = self.as_of_s.replace(now_s);
        let Some(before) = before else {
            return;
        };
        let mut start_s = 0.0;
        let intervals = self.followers.iter_mut().zip(&mut self.shift);
        for (k, ((followers, shift), &edge)) in intervals.zip(&EDGES_S).enumerate() {
            let edge_s = f64::from(edge);
            let from = samples.partition_point(|sample| sample.at_s + edge_s <= before);
            let mut news = [News::default(); FOLLOWERS];
            let (mut outcomes, mut moments) = (0.0f32, 0.0f32);
            let mut last_s = f64::NEG_INFINITY;
            for sample in samples.iter().skip(from) {
                if sample.at_s + edge_s > now_s {
                    break;
                }
                let example = example(sample, now_s);
                let (Some(outcome), Some(odds)) =
                    (example.outcome(k), model.odds(&sample.row).get(k).copied())
                else {
                    continue;
                };
                outcomes += 1.0;
                moments += f32::from(u8::from(sample.at_s > last_s));
                last_s = sample.at_s;
                for (news, follower) in news.iter_mut().zip(&*followers) {
                    news.add(odds + follower.shift, outcome);
                }
            }
            // What is asked at one moment ends together, and what is asked within one length of
            // the interval is mostly answered by the same events.
            let room = ((now_s - before) / (edge_s - start_s)).max(1.0) as f32;
            start_s = edge_s;
            if outcomes > 0.0 {
                weigh(followers, &news, moments.min(room) / outcomes);
                // The longer the interval, the longer one event goes on showing in it.
                learn(followers, &news, (edge / FIRST_S).sqrt());
                *shift = mean(followers);
            }
        }
    }
}

/// The shift that they make together.
fn mean(followers: &[Follower; FOLLOWERS]) -> f32 {
    followers.iter().map(|one| one.weight * one.shift).sum()
}

/// What is known of a sample now.
fn example(sample: &Sample, now_s: f64) -> Example {
    let (length_s, ended) = match sample.fate {
        Fate::Open => ((now_s - sample.at_s) as f32, false),
        Fate::Ended => (sample.length_s, true),
        Fate::Censored => (sample.length_s, false),
    };
    Example::new(sample.row, length_s, ended, 1.0)
}

/// Who was right gains weight. `rate` is how much the loss of one outcome counts.
fn weigh(followers: &mut [Follower], news: &[News], rate: f32) {
    let least = news
        .iter()
        .map(|one| one.loss)
        .fold(f32::INFINITY, f32::min);
    let mut total = 0.0;
    for (follower, news) in followers.iter_mut().zip(news) {
        follower.weight *= ((least - news.loss) * rate).exp();
        total += follower.weight;
    }
    let equal = 1.0 / FOLLOWERS as f32;
    for follower in followers {
        let earned = if total > 0.0 {
            follower.weight / total
        } else {
            equal
        };
        follower.weight = earned + SHARE * (equal - earned);
    }
}

/// Each moves by what it was off, with its inertia times `longer`.
fn learn(followers: &mut [Follower], news: &[News], longer: f32) {
    for ((follower, news), inertia) in followers.iter_mut().zip(news).zip(INERTIA) {
        let step = news.off / (news.curvature + inertia * longer);
        follower.shift = (follower.shift - step).clamp(-MOST, MOST);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hazard::features::FEATURES;
    use crate::hazard::feature_bins::BINS;
    use crate::hazard::samples::Samples;

    /// Outcomes of the first interval, sixteen at a time, of which a share that changes every so
    /// often ended.
    fn weights(changes_every: u32) -> [Follower; FOLLOWERS] {
        let mut followers = [Follower::default(); FOLLOWERS];
        let mut odd = 1u32;
        for at in 0..2000u32 {
            let ended = if (at / changes_every).is_multiple_of(2) {
                4
            } else {
                12
            };
            let mut news = [News::default(); FOLLOWERS];
            for _ in 0..16 {
                odd = odd.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let outcome = f32::from(u8::from((odd >> 28) < ended));
                for (news, follower) in news.iter_mut().zip(&followers) {
                    news.add(follower.shift, outcome);
                }
            }
            weigh(&mut followers, &news, 1.0);
            learn(&mut followers, &news, 1.0);
        }
        followers
    }

    #[test]
    fn a_restless_machine_is_followed_fast_and_a_steady_one_slowly() {
        let restless = weights(40).map(|one| one.weight);
        let steady = weights(u32::MAX).map(|one| one.weight);
        println!("restless {restless:?}, steady {steady:?}");
        assert!(restless[0] > 0.5 && restless[2] < 0.2, "{restless:?}");
        assert!(steady[2] > steady[0], "{steady:?}");
        // Nobody is ever out of the running.
        let least = SHARE / FOLLOWERS as f32 * 0.9;
        assert!(restless.iter().chain(&steady).all(|&weight| weight > least));
        let sum: f32 = restless.iter().sum();
        assert!((sum - 1.0).abs() < 1e-4, "{sum}");
    }

    #[test]
    fn the_shift_follows_a_machine_that_has_become_quiet() {
        // The model says that every second hole ends within each interval; one in four does.
        let model = Model {
            by_age: vec![[0.0; INTERVALS]; BINS],
            trees: Vec::new(),
        };
        let mut samples = Samples::new(100_000, 1e9, 1);
        let mut drift = Drift::default();
        for minute in 0..6000u32 {
            let now = f64::from(minute) * 60.0;
            let node = minute % 8;
            samples.settle(node, now, Fate::Ended);
            samples.push(node, [1; FEATURES], now);
            if minute % 4 == 0 {
                samples.settle(node, now + 30.0, Fate::Ended);
            }
            if drift.is_due(now) {
                drift.update(&model, &samples.list, now);
            }
        }
        let hazard = logistic(drift.shift[0]);
        assert!((hazard - 0.25).abs() < 0.02, "{hazard}");
    }
}
