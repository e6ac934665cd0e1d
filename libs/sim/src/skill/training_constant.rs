//! The training constant: the share of holes that stay open, learnt before scoring.
//!
//! Its questions are drawn as in scoring, before scoring begins, and only answers known by then
//! count. So it is a forecast of the mean alone. The best constant of the scored time, in contrast,
//! is known only afterwards.

use lacuna_forecast::HORIZONS_S;
use lacuna_forecast::skill::Seen;
use lacuna_model::Hole;
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use super::plan::{Asking, Plan};

/// Questions of the time in which predictors only learn.
pub(super) struct TrainingConstant {
    until_s: f64,
    asking: Asking,
    steps: u64,
    /// Index of the next moment of questions.
    next: usize,
    holes: usize,
    rng: ChaCha8Rng,
    /// Questions: the moment in seconds, and the outcome.
    questions: Vec<(f64, Seen)>,
    /// By node, the questions that wait for the end of its hole.
    waiting: Vec<Vec<usize>>,
}

impl TrainingConstant {
    pub(super) fn new(plan: &Plan, nodes: usize, holes: usize, seed: u64) -> Self {
        Self {
            until_s: plan.from_s,
            asking: plan.past.clone(),
            steps: 0,
            next: 0,
            holes,
            rng: ChaCha8Rng::seed_from_u64(seed),
            questions: Vec::new(),
            waiting: vec![Vec::new(); nodes],
        }
    }

    /// Makes room for new nodes.
    pub(super) fn grow(&mut self, nodes: usize) {
        self.waiting.resize(nodes, Vec::new());
    }

    /// Draws questions before a step, whose changes are not known yet.
    pub(super) fn before(&mut self, at_s: f64, present: &[Option<Hole>]) {
        while let Some(&time) = self.asking.times.get(self.next)
            && time < at_s
        {
            self.next += 1;
            self.ask(time, present);
        }
    }

    /// Ends a node's hole.
    pub(super) fn close(&mut self, node: usize, at_s: f64) {
        let waiting = self.waiting.get_mut(node).map(std::mem::take);
        for number in waiting.unwrap_or_default() {
            if let Some((moment, seen)) = self.questions.get_mut(number)
                && at_s < self.until_s
            {
                seen.length_s = at_s - *moment;
                seen.ended = true;
            }
        }
    }

    /// Draws questions after a step.
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
                waiting.push(self.questions.len());
                let watched_s = self.until_s - at_s;
                let seen = Seen {
                    length_s: watched_s,
                    ended: false,
                    watched_s,
                };
                self.questions.push((at_s, seen));
            }
        }
    }

    /// At each horizon, the share of holes that were still open; none without questions.
    pub(super) fn shares(&self) -> [Option<f64>; HORIZONS_S.len()] {
        HORIZONS_S.map(|after_s| {
            let known = self.questions.iter();
            let known = known.filter_map(|(_, seen)| seen.open_after(after_s));
            let (open, all) = known.fold((0_u64, 0_u64), |(open, all), is_open| {
                (open + u64::from(is_open), all + 1)
            });
            (all > 0).then(|| open as f64 / all as f64)
        })
    }
}
