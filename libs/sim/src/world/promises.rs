//! How what the scheduler says of present holes turns out, learnt as it does.

use lacuna_planner::joint::Promise;

/// A hole that ends within so many seconds of the moment promised ends as promised.
const TOLERANCE_S: f64 = 60.0;

/// Words are judged apart by how far ahead they are, seconds, at most; further ahead than the
/// last is a class of its own.
const LEADS_S: [f64; 4] = [60.0, 300.0, 900.0, 3600.0];

/// One class for each of the above, one for what is further ahead, and one for what should have
/// come by now and has not.
const CLASSES: usize = 6;

/// The class of what is overdue.
const OVERDUE: usize = CLASSES - 1;

/// What a step tells of a class fades over about so many later ones.
const REMEMBERED: f64 = 500.0;

/// No word.
const NONE: f64 = f64::INFINITY;

/// How words of one class turned out, each step counting as one: parts of it before the moment,
/// at it, and later or never.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Record {
    before: f64,
    kept: f64,
    after: f64,
}

impl Record {
    fn settle(&mut self, told: &mut [u32; 3]) {
        let [before, kept, after] = std::mem::take(told).map(f64::from);
        let all = before + kept + after;
        if all > 0.0 {
            let fade = 1.0 - 1.0 / REMEMBERED;
            self.before = self.before * fade + before / all;
            self.kept = self.kept * fade + kept / all;
            self.after = self.after * fade + after / all;
        }
    }

    /// The mean of a Dirichlet distribution that began as uniform.
    fn shares(&self) -> (f64, f64) {
        let all = self.before + self.kept + self.after + 3.0;
        ((self.before + 1.0) / all, (self.kept + 1.0) / all)
    }
}

/// What was said of one node's hole.
#[derive(Debug, Clone, Copy)]
struct Said {
    /// The newest word: when, seconds since the start.
    at_s: f64,
    /// By class, the word that is still to be judged.
    open: [f64; CLASSES],
    /// Whether a moment that was promised has passed.
    is_overdue: bool,
    /// Whether the node is in the list of those that are watched.
    is_watched: bool,
}

const SILENCE: Said = Said {
    at_s: NONE,
    open: [NONE; CLASSES],
    is_overdue: false,
    is_watched: false,
};

/// The scheduler's words and how they turn out. Nodes are numbered as they like.
#[derive(Debug, Clone, Default)]
pub(super) struct Promises {
    said: Vec<Said>,
    /// Nodes of which something is said or still to be judged.
    watched: Vec<u32>,
    records: [Record; CLASSES],
    told: [[u32; 3]; CLASSES],
}

impl Promises {
    /// For nodes numbered below `nodes`.
    pub(super) fn new(nodes: u32) -> Self {
        Self {
            said: vec![SILENCE; nodes as usize],
            ..Self::default()
        }
    }

    /// A hole ends.
    pub(super) fn ends(&mut self, node: u32, now_s: f64) {
        if let Some(said) = self.said.get_mut(node as usize) {
            judge(&mut self.told, said, now_s, true);
            let is_watched = said.is_watched;
            *said = Said {
                is_watched,
                ..SILENCE
            };
        }
    }

    /// The scheduler says when it wants a present hole; infinite if it does not any more.
    pub(super) fn says(&mut self, node: u32, at_s: f64) {
        let Some(said) = self.said.get_mut(node as usize) else {
            return;
        };
        said.at_s = if at_s.is_nan() { NONE } else { at_s };
        if said.at_s < NONE && !said.is_watched {
            said.is_watched = true;
            self.watched.push(node);
        }
    }

    /// All has been said of a step: what has come out is judged, and what stands is remembered.
    pub(super) fn step(&mut self, now_s: f64) {
        let Self {
            said,
            watched,
            records,
            told,
        } = self;
        watched.retain(|&node| {
            let Some(said) = said.get_mut(node as usize) else {
                return false;
            };
            judge(told, said, now_s, false);
            let class = class(said, now_s);
            if said.at_s < NONE
                && let Some(open) = said.open.get_mut(class)
                && *open == NONE
            {
                *open = said.at_s;
            }
            said.is_watched = said.at_s < NONE || said.open.iter().any(|&open| open < NONE);
            said.is_watched
        });
        for (record, told) in records.iter_mut().zip(told) {
            record.settle(told);
        }
    }

    /// What is promised of a node, as seconds from now, with what such words are worth.
    pub(super) fn of(&self, node: u32, now_s: f64) -> Promise {
        let said = self.said.get(node as usize).filter(|s| s.at_s < NONE);
        let Some(said) = said else {
            return Promise::NONE;
        };
        let record = self.records.get(class(said, now_s));
        let (early, kept) = record.copied().unwrap_or_default().shares();
        Promise {
            at_s: (said.at_s - now_s).max(0.0),
            early,
            kept,
        }
    }

    /// By class, how words turned out: before the moment, at it, after it; each step counts one.
    #[cfg(test)]
    fn records(&self) -> [[f64; 3]; CLASSES] {
        self.records.map(|r| [r.before, r.kept, r.after])
    }
}

/// The class of the newest word.
fn class(said: &Said, now_s: f64) -> usize {
    if said.is_overdue {
        return OVERDUE;
    }
    let lead = said.at_s - now_s;
    LEADS_S
        .iter()
        .position(|&most| lead <= most)
        .unwrap_or(LEADS_S.len())
}

/// Counts what came of words, if the hole ends now or if their time has passed.
fn judge(told: &mut [[u32; 3]; CLASSES], said: &mut Said, now_s: f64, ends: bool) {
    for (open, [before, kept, after]) in said.open.iter_mut().zip(told) {
        let late = now_s - *open;
        let outcome = if late > TOLERANCE_S {
            said.is_overdue = true;
            after
        } else if !ends || *open == NONE {
            continue;
        } else if late < -TOLERANCE_S {
            before
        } else {
            kept
        };
        *outcome = outcome.saturating_add(1);
        *open = NONE;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_judged_by_what_came_of_them() {
        let mut promises = Promises::new(4);
        for round in 0..100 {
            let now = f64::from(round) * 10_000.0;
            // Node 0 always leaves as said, node 1 always too soon, node 2 never as said.
            for node in 0..3 {
                promises.says(node, now + 200.0 + 300.0 * f64::from(node));
            }
            promises.step(now);
            promises.ends(1, now + 100.0);
            promises.step(now + 100.0);
            promises.ends(0, now + 230.0);
            promises.step(now + 230.0);
            promises.step(now + 1000.0);
            promises.ends(2, now + 5000.0);
            promises.step(now + 5000.0);
        }
        let [_, soon, later, ..] = promises.records();
        // Of words 60 to 300 s ahead those of node 0, of further ones the others'.
        assert!(soon[1] > 80.0 && soon[0] == 0.0, "{soon:?}");
        assert!(
            later[1] == 0.0 && later[0] > 80.0 && later[2] > 80.0,
            "{later:?}"
        );
        promises.says(3, 1e6 + 200.0);
        promises.step(1e6);
        let promise = promises.of(3, 1e6);
        assert!(promise.at_s == 200.0 && promise.kept > 0.5, "{promise:?}");
        promises.says(3, NONE);
        assert_eq!(promises.of(3, 1e6), Promise::NONE);
        assert_eq!(promises.of(99, 1e6), Promise::NONE);
    }

    #[test]
    fn what_is_overdue_is_trusted_less_than_what_is_to_come() {
        let mut promises = Promises::new(1);
        for round in 0..50 {
            let mut now = f64::from(round) * 10_000.0;
            promises.says(0, now + 50.0);
            promises.step(now);
            // It is said again and again to come any second.
            for _ in 0..20 {
                now += 100.0;
                promises.says(0, now + 1.0);
                promises.step(now);
            }
            promises.ends(0, now + 50.0);
            promises.step(now + 50.0);
        }
        let records = promises.records();
        assert!(
            records[OVERDUE][2] > 5.0 * records[OVERDUE][1],
            "{records:?}"
        );
        // A word that is no number is none.
        promises.says(0, f64::NAN);
        assert_eq!(promises.of(0, 0.0), Promise::NONE);
    }
}
