//! The constant that the time of learning teaches: how many holes stay open for how long.
//!
//! It is asked and answered as predictors are scored, but before that, and only with answers that
//! were known when scoring began. So it is what somebody could have said who knew nothing but the
//! mean, whereas the best constant of the time that is scored is known only afterwards.

use lacuna_forecast::HORIZONS_S;
use lacuna_forecast::skill::Seen;
use lacuna_model::Hole;
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use super::plan::{Asking, Plan};

/// Asks while predictors only learn.
pub(super) struct Past {
    until_s: f64,
    asking: Asking,
    steps: u64,
    /// The next of the times at which is asked.
    next: usize,
    holes: usize,
    rng: ChaCha8Rng,
    /// Moments with what became of a hole.
    asked: Vec<(f64, Seen)>,
    /// Of each node's hole, the questions that wait for its end.
    waiting: Vec<Vec<usize>>,
}

impl Past {
    pub(super) fn new(plan: &Plan, nodes: usize, holes: usize, seed: u64) -> Self {
        Self {
            until_s: plan.from_s,
            asking: plan.past.clone(),
            steps: 0,
            next: 0,
            holes,
            rng: ChaCha8Rng::seed_from_u64(seed),
            asked: Vec::new(),
            waiting: vec![Vec::new(); nodes],
        }
    }

    /// More nodes have turned up.
    pub(super) fn grow(&mut self, nodes: usize) {
        self.waiting.resize(nodes, Vec::new());
    }

    /// A step comes; what happens in it is not known yet.
    pub(super) fn before(&mut self, at_s: f64, present: &[Option<Hole>]) {
        while let Some(&time) = self.asking.times.get(self.next)
            && time < at_s
        {
            self.next += 1;
            self.ask(time, present);
        }
    }

    /// A node's hole ended.
    pub(super) fn close(&mut self, node: usize, at_s: f64) {
        let waiting = self.waiting.get_mut(node).map(std::mem::take);
        for number in waiting.unwrap_or_default() {
            if let Some((moment, seen)) = self.asked.get_mut(number)
                && at_s < self.until_s
            {
                seen.length_s = at_s - *moment;
                seen.ended = true;
            }
        }
    }

    /// A step was made.
    pub(super) fn after(&mut self, at_s: f64, present: &[Option<Hole>]) {
        if at_s < self.until_s && self.asking.every > 0 {
            if self.steps % self.asking.every == self.asking.phase {
                self.ask(at_s, present);
            }
            self.steps += 1;
        }
    }

    fn ask(&mut self, at_s: f64, present: &[Option<Hole>]) {
        let holes = present.iter().enumerate();
        let mut nodes: Vec<usize> = holes
            .filter_map(|(node, hole)| hole.as_ref().map(|_| node))
            .collect();
        let (sample, _) = nodes.partial_shuffle(&mut self.rng, self.holes);
        for &mut node in sample {
            if let Some(waiting) = self.waiting.get_mut(node) {
                waiting.push(self.asked.len());
                let watched_s = self.until_s - at_s;
                let seen = Seen {
                    length_s: watched_s,
                    ended: false,
                    watched_s,
                };
                self.asked.push((at_s, seen));
            }
        }
    }

    /// At each horizon, the share of holes that were still open; nothing if nobody has asked.
    pub(super) fn shares(&self) -> [Option<f64>; HORIZONS_S.len()] {
        HORIZONS_S.map(|after_s| {
            let known = self.asked.iter();
            let known = known.filter_map(|(_, seen)| seen.open_after(after_s));
            let (open, all) = known.fold((0_u64, 0_u64), |(open, all), is_open| {
                (open + u64::from(is_open), all + 1)
            });
            (all > 0).then(|| open as f64 / all as f64)
        })
    }
}
