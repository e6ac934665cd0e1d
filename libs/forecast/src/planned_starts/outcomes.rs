//! Outcomes of planned starts and reservations, counted.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::class::{CLASSES, LEADS, OVERDUE};

/// The weight of an outcome fades over about this many later ones of its class.
const REMEMBERED: f64 = 500.0;

/// The weight of outcomes that must be known before reservations are doubted.
const ENOUGH: f64 = 10.0;

/// The end of a hole against its announced time: before it, at it, or later or never.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    Before,
    At,
    After,
}

/// Outcomes of one class, as faded sums. Each batch of announced ends adds 1 in all, shared out
/// by the outcomes of its holes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Outcomes {
    pub(super) before: f64,
    pub(super) at: f64,
    pub(super) after: f64,
}

impl Outcomes {
    pub(super) fn all(&self) -> f64 {
        self.before + self.at + self.after
    }

    fn add(&mut self, shares: Self) {
        let fade = 1.0 - 1.0 / REMEMBERED;
        self.before = self.before * fade + shares.before;
        self.at = self.at * fade + shares.at;
        self.after = self.after * fade + shares.after;
    }

    /// Probabilities that the next end comes before its time, and at it: the means of a
    /// Dirichlet distribution with a uniform prior.
    pub(super) fn shares(&self) -> (f64, f64) {
        let all = self.all() + 3.0;
        ((self.before + 1.0) / all, (self.at + 1.0) / all)
    }
}

/// The track record of announced ends of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct TrackRecord {
    pub(super) kept: f64,
    pub(super) broken: f64,
    /// Batches that came true, in total. A batch counts once for each lead at which it was
    /// announced.
    pub came_true: u64,
    /// Batches that did not come true: the holes ended too late or never. A planned start also
    /// proves false if its holes end too early.
    pub proved_false: u64,
}

impl TrackRecord {
    /// Probability that the next announced end comes true: the mean of a Beta distribution with
    /// a uniform prior.
    #[must_use]
    pub fn reliability(&self) -> f64 {
        (self.kept + 1.0) / (self.kept + self.broken + 2.0)
    }

    pub(super) fn is_doubtful(&self) -> bool {
        self.kept + self.broken >= ENOUGH && self.reliability() < 0.5
    }
}

/// The announced ends of one class and one time: the number that are open, and the outcomes of
/// the others.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Batch {
    open: u32,
    ended: [u32; 3],
}

/// The outcomes of all announced ends so far, and the batches that are open.
#[derive(Debug, Clone, Default)]
pub(super) struct OutcomeCounts {
    /// Open batches by class and time in milliseconds.
    pub(super) open: BTreeMap<(usize, i64), Batch>,
    pub(super) outcomes: [Outcomes; CLASSES],
    /// Batches that came true and that did not, for planned starts and for reservations.
    pub(super) counts: [(u64, u64); 2],
    pub(super) is_frozen: bool,
}

fn key(class: usize, at_s: f64) -> (usize, i64) {
    (class, (at_s * 1000.0).round() as i64)
}

impl OutcomeCounts {
    pub(super) fn open(&mut self, class: usize, at_s: f64) {
        self.open.entry(key(class, at_s)).or_default().open += 1;
    }

    /// Closes one announced end with its outcome; `None` if the outcome is unknown.
    pub(super) fn close(&mut self, class: usize, at_s: f64, outcome: Option<Outcome>) {
        let key = key(class, at_s);
        let Some(batch) = self.open.get_mut(&key) else {
            return;
        };
        let [before, at, after] = &mut batch.ended;
        match outcome {
            Some(Outcome::Before) => *before += 1,
            Some(Outcome::At) => *at += 1,
            Some(Outcome::After) => *after += 1,
            None => {}
        }
        batch.open = batch.open.saturating_sub(1);
        if batch.open == 0 {
            let ended = batch.ended.map(f64::from);
            self.open.remove(&key);
            self.settle(class, ended);
        }
    }

    fn settle(&mut self, class: usize, [before, at, after]: [f64; 3]) {
        let all = before + at + after;
        let is_reservation = class >= LEADS;
        if let Some(outcomes) = self.outcomes.get_mut(class)
            && all > 0.0
            && !self.is_frozen
        {
            outcomes.add(Outcomes {
                before: before / all,
                at: at / all,
                after: after / all,
            });
            // An overdue batch was counted when its time passed.
            if class % LEADS == OVERDUE {
                return;
            }
            let [planned, reserved] = &mut self.counts;
            // A reservation gives the latest end, a planned start the very time of it.
            let (count, kept) = if is_reservation {
                (reserved, before + at)
            } else {
                (planned, at)
            };
            let side = if kept * 2.0 >= all {
                &mut count.0
            } else {
                &mut count.1
            };
            *side = side.saturating_add(1);
        }
    }
}
