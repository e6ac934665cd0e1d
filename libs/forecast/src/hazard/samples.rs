//! The samples of the hazard: holes at some moment, with their later outcome.

use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::features::FeatureRow;

/// No further sample.
const NONE: u32 = u32::MAX;

/// The largest number of holes sampled at one moment. Holes of one moment end in few events, so
/// more moments add more information than more holes of one moment.
pub(crate) const AT_ONCE: usize = 16;

/// The largest number of steps between two that are sampled, also for restored samples.
const MOST_STEPS: u64 = 1 << 20;

/// The rounding error of a length against a time, seconds.
const ROUNDING_S: f64 = 1.0;

/// The outcome of a sampled hole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// The hole is still open.
    Open,
    /// The hole ended after `length_s`.
    Ended,
    /// The hole was last seen open after `length_s`.
    Censored,
}

/// A hole at one moment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Sample {
    pub(crate) row: FeatureRow,
    /// The time of the sample, seconds.
    pub(crate) at_s: f64,
    /// The time from the sample to its outcome, seconds.
    pub(crate) length_s: f32,
    pub(crate) fate: Fate,
    node: u32,
    /// The next sample of the same hole.
    next: u32,
}

/// A bounded set of samples, spread evenly over the remembered steps. Forecasts are made at steps,
/// so a busy hour weighs more than a quiet one.
#[derive(Debug, Clone)]
pub(crate) struct Samples {
    pub(crate) list: Vec<Sample>,
    capacity: usize,
    /// The first open sample of the present hole of each node.
    heads: Vec<u32>,
    /// The number of steps to one that is sampled.
    every: u64,
    /// The number of steps since the last one that was sampled.
    steps: u64,
    /// The age beyond which samples are dropped first, seconds.
    remembered_s: f64,
    rng: ChaCha8Rng,
}

impl Samples {
    pub(crate) fn new(capacity: usize, remembered_s: f64, seed: u64) -> Self {
        Self {
            list: Vec::new(),
            capacity: capacity.max(AT_ONCE * 4),
            heads: Vec::new(),
            every: 1,
            steps: 0,
            remembered_s,
            rng: ChaCha8Rng::seed_from_u64(seed),
        }
    }

    /// Counts a step, and tells whether holes are sampled at it.
    pub(crate) fn is_due(&mut self) -> bool {
        self.steps += 1;
        let is_due = self.steps >= self.every;
        if is_due {
            self.steps = 0;
        }
        is_due
    }

    /// Chooses the places, ascending, of the holes to sample out of `count`.
    pub(crate) fn choose(&mut self, count: usize, places: &mut Vec<usize>) {
        places.clear();
        if count <= AT_ONCE {
            places.extend(0..count);
        } else {
            places.extend((0..AT_ONCE).map(|_| self.rng.random_range(0..count)));
            places.sort_unstable();
            places.dedup();
        }
    }

    pub(crate) fn push(&mut self, node: u32, row: FeatureRow, now_s: f64) {
        if self.heads.len() <= node as usize {
            self.heads.resize(node as usize + 1, NONE);
        }
        if let Some(head) = self.heads.get_mut(node as usize) {
            let next = std::mem::replace(head, self.list.len() as u32);
            self.list.push(Sample {
                row,
                at_s: now_s,
                length_s: 0.0,
                fate: Fate::Open,
                node,
                next,
            });
        }
    }

    /// Sets the outcome of all open samples of a node at a time.
    pub(crate) fn settle(&mut self, node: u32, at_s: f64, fate: Fate) {
        let Some(head) = self.heads.get_mut(node as usize) else {
            return;
        };
        let mut next = std::mem::replace(head, NONE);
        while let Some(sample) = self.list.get_mut(next as usize) {
            sample.length_s = (at_s - sample.at_s).max(0.0) as f32;
            sample.fate = fate;
            next = std::mem::replace(&mut sample.next, NONE);
        }
    }

    /// Censors every open sample at a time.
    pub(crate) fn settle_all(&mut self, at_s: f64) {
        for node in 0..self.heads.len() as u32 {
            self.settle(node, at_s, Fate::Censored);
        }
    }

    /// Sets time back: drops samples and outcomes after `now_s`, and censors the open samples at
    /// it.
    pub(crate) fn turn_back(&mut self, now_s: f64) {
        self.settle_all(now_s);
        let latest_s = now_s + ROUNDING_S;
        self.list.retain(|sample| {
            sample.at_s <= now_s && sample.at_s + f64::from(sample.length_s) <= latest_s
        });
    }

    /// Makes room if the set is full: drops samples that are too old. If these are few, drops half
    /// of the samples at random and samples half as often from then on.
    pub(crate) fn make_room(&mut self, now_s: f64) {
        if self.list.len() + AT_ONCE <= self.capacity {
            return;
        }
        let oldest = now_s - self.remembered_s;
        self.list.retain(|sample| sample.at_s >= oldest);
        if self.list.len() * 4 > self.capacity * 3 {
            let rng = &mut self.rng;
            self.list.retain(|_| rng.next_u32() & 1 == 0);
            self.every = self.every.saturating_mul(2);
        } else if self.list.len() * 4 < self.capacity {
            // On a quieter machine there is room for more samples.
            self.every = (self.every / 2).max(1);
        }
        self.heads.fill(NONE);
        for place in 0..self.list.len() {
            if let Some(sample) = self.list.get_mut(place)
                && sample.fate == Fate::Open
                && let Some(head) = self.heads.get_mut(sample.node as usize)
            {
                sample.next = std::mem::replace(head, place as u32);
            }
        }
    }

    /// The number of steps to one that is sampled.
    pub(crate) const fn every(&self) -> u64 {
        self.every
    }

    /// Restores samples with known outcomes, and the number of steps to one that is sampled.
    pub(crate) fn restore(
        &mut self,
        samples: impl IntoIterator<Item = (FeatureRow, f64, f32, bool)>,
        every: u64,
    ) {
        self.every = every.clamp(1, MOST_STEPS);
        let samples = samples.into_iter().take(self.capacity);
        self.list
            .extend(samples.map(|(row, at_s, length_s, ended)| Sample {
                row,
                at_s,
                length_s,
                fate: if ended { Fate::Ended } else { Fate::Censored },
                node: NONE,
                next: NONE,
            }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hazard::features::FEATURES;

    #[test]
    fn every_sample_of_a_hole_gets_its_outcome() {
        let mut samples = Samples::new(1000, 1e9, 1);
        for at in 0..5 {
            samples.push(3, [0; FEATURES], f64::from(at) * 10.0);
            samples.push(4, [0; FEATURES], f64::from(at) * 10.0);
        }
        samples.settle(3, 100.0, Fate::Ended);
        samples.settle(9, 100.0, Fate::Ended);
        let lengths: Vec<f32> = samples
            .list
            .iter()
            .filter(|sample| sample.fate == Fate::Ended)
            .map(|sample| sample.length_s)
            .collect();
        assert_eq!(lengths, [100.0, 90.0, 80.0, 70.0, 60.0]);
        samples.settle_all(200.0);
        assert!(samples.list.iter().all(|sample| sample.fate != Fate::Open));
    }

    #[test]
    fn samples_of_a_wrong_clock_are_dropped() {
        let mut samples = Samples::new(1000, 1e9, 1);
        samples.push(1, [0; FEATURES], 0.0);
        samples.push(2, [0; FEATURES], 10.0);
        samples.push(3, [0; FEATURES], 20.0);
        samples.settle(1, 40.0, Fate::Ended);
        // A day ahead, one hole ends and another is sampled.
        samples.settle(2, 86_400.0, Fate::Ended);
        samples.push(4, [0; FEATURES], 86_400.0);
        samples.turn_back(50.0);
        let left: Vec<(f64, f32, Fate)> = samples
            .list
            .iter()
            .map(|sample| (sample.at_s, sample.length_s, sample.fate))
            .collect();
        assert_eq!(
            left,
            [(0.0, 40.0, Fate::Ended), (20.0, 30.0, Fate::Censored)]
        );
        // Open holes are sampled again.
        samples.push(3, [0; FEATURES], 60.0);
        samples.settle(3, 70.0, Fate::Ended);
        assert_eq!(samples.list.last().unwrap().length_s, 10.0);
    }

    #[test]
    fn memory_is_bounded_and_outcomes_survive_the_thinning() {
        let mut samples = Samples::new(200, 1e9, 7);
        for at in 0..2000u32 {
            let now = f64::from(at);
            if samples.is_due() {
                samples.make_room(now);
                samples.push(at % 50, [0; FEATURES], now);
            }
            if at % 50 == 49 {
                for node in 0..50 {
                    samples.settle(node, now + 1.0, Fate::Ended);
                }
            }
        }
        assert!((50..=200).contains(&samples.list.len()));
        // Every hole is settled within 50 s, and samples are spread over the whole time.
        assert!(samples.list.iter().all(|sample| sample.length_s <= 51.0));
        let early = samples.list.iter().filter(|s| s.at_s < 1000.0).count();
        assert!(early * 10 > samples.list.len(), "{early}");
    }
}
