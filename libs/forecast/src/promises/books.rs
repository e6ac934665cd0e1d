//! What came of a scheduler's announcements, counted.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{CLASSES, LEADS, OVERDUE};

/// What an announcement weighs fades over about so many later ones of its class.
const REMEMBERED: f64 = 500.0;

/// So much must have come out before hard words are doubted.
const ENOUGH: f64 = 10.0;

/// How words come out: before their moment, at it, and later or never.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    Before,
    At,
    After,
}

/// How announcements of one class came out, each counting as one, by the parts of its words.
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

    fn add(&mut self, parts: Self) {
        let fade = 1.0 - 1.0 / REMEMBERED;
        self.before = self.before * fade + parts.before;
        self.at = self.at * fade + parts.at;
        self.after = self.after * fade + parts.after;
    }

    /// Probabilities that the next one comes before its moment, and at it: the means of a
    /// Dirichlet distribution that began as uniform.
    pub(super) fn shares(&self) -> (f64, f64) {
        let all = self.all() + 3.0;
        ((self.before + 1.0) / all, (self.at + 1.0) / all)
    }
}

/// How announcements of one kind turned out.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Record {
    pub(super) kept: f64,
    pub(super) broken: f64,
    /// Announcements that came true, ever. An announcement counts at each lead at which it was
    /// made.
    pub came_true: u64,
    /// Announcements that did not: too late, or never, or, if they named the very moment, too
    /// early.
    pub proved_false: u64,
}

impl Record {
    /// Probability that the next one comes true: the mean of a Beta distribution that began as
    /// uniform.
    #[must_use]
    pub fn reliability(&self) -> f64 {
        (self.kept + 1.0) / (self.kept + self.broken + 2.0)
    }

    pub(super) fn is_doubtful(&self) -> bool {
        self.kept + self.broken >= ENOUGH && self.reliability() < 0.5
    }
}

/// The words of one class for one moment: how many are open, and how the others came out.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Announcement {
    open: u32,
    told: [u32; 3],
}

/// What came of announcements so far.
#[derive(Debug, Clone, Default)]
pub(super) struct Books {
    /// By class and moment in milliseconds.
    pub(super) open: BTreeMap<(usize, i64), Announcement>,
    pub(super) outcomes: [Outcomes; CLASSES],
    /// Of soft announcements and of hard ones: how many came true, and how many did not.
    pub(super) counts: [(u64, u64); 2],
    pub(super) is_frozen: bool,
}

fn key(class: usize, at_s: f64) -> (usize, i64) {
    (class, (at_s * 1000.0).round() as i64)
}

impl Books {
    pub(super) fn open(&mut self, class: usize, at_s: f64) {
        self.open.entry(key(class, at_s)).or_default().open += 1;
    }

    /// A word came out, or nobody knows how.
    pub(super) fn close(&mut self, class: usize, at_s: f64, outcome: Option<Outcome>) {
        let key = key(class, at_s);
        let Some(announcement) = self.open.get_mut(&key) else {
            return;
        };
        let [before, at, after] = &mut announcement.told;
        match outcome {
            Some(Outcome::Before) => *before += 1,
            Some(Outcome::At) => *at += 1,
            Some(Outcome::After) => *after += 1,
            None => {}
        }
        announcement.open = announcement.open.saturating_sub(1);
        if announcement.open == 0 {
            let told = announcement.told.map(f64::from);
            self.open.remove(&key);
            self.settle(class, told);
        }
    }

    fn settle(&mut self, class: usize, [before, at, after]: [f64; 3]) {
        let all = before + at + after;
        let is_hard = class >= LEADS;
        if let Some(outcomes) = self.outcomes.get_mut(class)
            && all > 0.0
            && !self.is_frozen
        {
            outcomes.add(Outcomes {
                before: before / all,
                at: at / all,
                after: after / all,
            });
            // Counted when its time passed.
            if class % LEADS == OVERDUE {
                return;
            }
            let [soft, hard] = &mut self.counts;
            // What is hard names the latest moment, what is soft the very one.
            let (count, kept) = if is_hard {
                (hard, before + at)
            } else {
                (soft, at)
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
