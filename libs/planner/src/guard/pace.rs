//! How long a trainer keeps its nodes.
//!
//! That is a floor of the look ahead of forecasts ([`crate::placement::Settings::reach`]).
//!
//! Fixed floors from 300 to 1,800 seconds were tried on three machines that were new: each left cells
//! of costs and windows further below the simple rules than this one. Without the typical length of
//! holes as its limit it is too long where many holes end at once.

use std::collections::HashMap;

use crate::placement::UNKNOWN_S;

use super::book::WINDOW_S;

/// The weight of what is assumed before anything has changed, in changes.
const ASSUMED: f64 = 2.0;

/// How often trainers change, in a fading window.
///
/// Services decide several times at one moment, while a plan is carried out and trainers end. So a
/// moment counts when it is over, from its beginning to its last decision.
#[derive(Debug, Clone, Default)]
pub(super) struct Pace {
    /// Summed time of running trainers, seconds.
    running_s: f64,
    /// Departures that hit a trainer, and changes of its size, before the present moment.
    changes: f64,
    /// The trainers at the beginning of the present moment.
    began: HashMap<u64, Began>,
    /// Number of them that were hit, or have changed by the newest decision.
    changed: usize,
}

/// A trainer at the beginning of a moment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Began {
    pub(super) nodes: u32,
    /// Whether a departure has just hit it.
    pub(super) is_hit: bool,
}

impl Pace {
    /// Lets seconds pass in which this many trainers run, until a moment that begins with `trainers`,
    /// each with its number.
    pub(super) fn pass(
        &mut self,
        seconds: f64,
        running: usize,
        trainers: impl Iterator<Item = (u64, Began)>,
    ) {
        if seconds <= 0.0 {
            return;
        }
        let kept = (-seconds / WINDOW_S).exp();
        self.running_s = self.running_s * kept + running as f64 * WINDOW_S * (1.0 - kept);
        self.changes = (self.changes + self.changed as f64) * kept;
        self.began.clear();
        self.began.extend(trainers);
        self.changed = 0;
    }

    /// Takes the numbers of nodes that a decision gives to trainers.
    pub(super) fn decide(&mut self, trainers: impl Iterator<Item = (u64, u32)>) {
        let began = &self.began;
        let is_changed = |(life, nodes): &(u64, u32)| {
            began
                .get(life)
                .is_some_and(|b| b.is_hit || (b.nodes > 0 && b.nodes != *nodes))
        };
        self.changed = trainers.filter(is_changed).count();
    }

    /// The mean time between two changes of a trainer before the present moment, seconds.
    pub(super) fn kept_s(&self) -> f64 {
        (self.running_s + ASSUMED * UNKNOWN_S) / (self.changes + ASSUMED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Four trainers run for seconds. Then one is hit, and another one has changed after several
    /// decisions at one moment. A third has only changed for a while.
    fn turn(pace: &mut Pace, seconds: f64) {
        let began = (0..4).map(|life| {
            let is_hit = life == 0;
            (life, Began { nodes: 2, is_hit })
        });
        pace.pass(seconds, 4, began);
        for nodes in [[2, 1, 3, 2], [2, 1, 2, 2]] {
            pace.decide((0..).zip(nodes));
            pace.pass(0.0, 4, std::iter::empty());
        }
    }

    #[test]
    fn the_time_between_changes_is_found_and_follows_the_machine() {
        let mut pace = Pace::default();
        assert_eq!(pace.kept_s(), UNKNOWN_S);
        let hours = |pace: &mut Pace, hours: u32, each_s: f64| {
            for _ in 0..(f64::from(hours) * 3600.0 / each_s) as u32 {
                turn(pace, each_s);
            }
        };
        hours(&mut pace, 100, 60.0);
        assert!((pace.kept_s() - 120.0).abs() < 3.0, "{}", pace.kept_s());
        hours(&mut pace, 100, 1800.0);
        assert!((pace.kept_s() - 3400.0).abs() < 300.0, "{}", pace.kept_s());
    }

    #[test]
    fn trainers_that_ended_within_a_moment_do_not_count() {
        let mut pace = Pace::default();
        turn(&mut pace, 100.0);
        let both = pace.changed;
        pace.decide((1..4).zip([1, 2, 2]));
        assert_eq!((both, pace.changed), (2, 1));
    }
}
