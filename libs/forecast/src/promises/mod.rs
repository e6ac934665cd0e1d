//! How what a scheduler says of when it wants present holes turns out, learnt as it does.
//!
//! A *word* is what is said of one hole at one lead: a planned start is said again and again, and
//! what it is worth depends on how far ahead it is said. Of each lead, the first word on a hole is
//! kept until it has come out; that the plan moves meanwhile makes it no lie, only what the hole
//! does. All words of one lead for one moment are one *announcement*: a job of a thousand nodes is
//! one piece of evidence, whether its nodes are told of in one step or in a thousand.
//!
//! A clock that goes back by more than an hour takes back what was seen later than that.

mod books;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

use crate::Certainty;
pub use books::Record;
use books::{Books, Outcome, Outcomes};

/// A hole that ends within so many seconds of the moment announced ends as announced.
const TOLERANCE_S: f64 = 60.0;

/// What should have come by now is expected in so many seconds.
const SOONEST_S: f64 = 1.0;

/// Words are judged apart by how far ahead they are, seconds, at most; further ahead than the
/// last is a class of its own.
const LEADS_S: [f64; 4] = [60.0, 300.0, 900.0, 3600.0];

/// One lead for each of the above, one for what is further ahead, and one for what should have
/// come by now and has not.
const LEADS: usize = LEADS_S.len() + 2;

/// The lead of what is overdue.
const OVERDUE: usize = LEADS - 1;

/// The leads of soft words, then those of hard ones.
const CLASSES: usize = 2 * LEADS;

/// A clock that goes back by more than this tells of another time, seconds.
const ANOTHER_TIME_S: f64 = 3600.0;

/// No word.
const NONE: f64 = f64::INFINITY;

/// The first class of a kind.
const fn first(certainty: Certainty) -> usize {
    match certainty {
        Certainty::Soft => 0,
        Certainty::Hard => LEADS,
    }
}

/// What was said of one node's hole.
#[derive(Debug, Clone, Copy)]
struct Said {
    /// The newest word: when, seconds.
    at_s: f64,
    certainty: Certainty,
    /// By class, the word that is still to come out.
    open: [f64; CLASSES],
    /// Whether a moment that was promised has passed.
    is_overdue: bool,
    /// Whether the node is in the list of those that are watched.
    is_watched: bool,
}

const SILENCE: Said = Said {
    at_s: NONE,
    certainty: Certainty::Soft,
    open: [NONE; CLASSES],
    is_overdue: false,
    is_watched: false,
};

impl Said {
    /// The class of the newest word.
    fn class(&self, now_s: f64) -> usize {
        let lead_s = self.at_s - now_s;
        // A plan that was moved by hours is a plan like any other.
        let lead = if self.is_overdue && lead_s <= LEADS_S[0] {
            OVERDUE
        } else {
            let within = LEADS_S.iter().position(|&most| lead_s <= most);
            within.unwrap_or(LEADS_S.len())
        };
        lead + first(self.certainty)
    }
}

/// What is said of a hole, and what that is worth.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Word {
    /// When the scheduler wants it, seconds from now.
    pub after_s: f64,
    /// Probability that the hole ends before that, other than by a little.
    pub early: f64,
    /// Probability that it ends then.
    pub kept: f64,
}

/// A scheduler's words and how they come out. Nodes are numbered as they like, times are seconds
/// from any fixed moment.
#[derive(Debug, Clone, Default)]
pub struct Promises {
    said: Vec<Said>,
    /// Nodes of which something is said or still to come out.
    watched: Vec<u32>,
    books: Books,
    now_s: Option<f64>,
}

/// What was learnt, as it is saved.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Memory {
    outcomes: [Outcomes; CLASSES],
    counts: [(u64, u64); 2],
}

impl Promises {
    /// Makes room for nodes numbered below `nodes`. Words on others are not heard.
    pub fn grow(&mut self, nodes: usize) {
        if self.said.len() < nodes {
            self.said.resize(nodes, SILENCE);
        }
    }

    /// From now on nothing is learnt from what comes out.
    pub fn freeze(&mut self) {
        self.books.is_frozen = true;
    }

    /// A hole ends.
    pub fn ends(&mut self, node: u32, now_s: f64) {
        self.turn_to(now_s);
        if let Some(said) = self.said.get_mut(node as usize) {
            judge(&mut self.books, said, now_s, true);
            silence(&mut self.books, said);
        }
    }

    /// A hole ended unseen: nobody knows whether as said.
    pub fn lose(&mut self, node: u32) {
        if let Some(said) = self.said.get_mut(node as usize) {
            silence(&mut self.books, said);
        }
    }

    /// The scheduler says when it wants a present hole; infinite if it does not any more.
    pub fn says(&mut self, node: u32, at_s: f64, certainty: Certainty) {
        let Some(said) = self.said.get_mut(node as usize) else {
            return;
        };
        said.at_s = if at_s.is_nan() { NONE } else { at_s };
        said.certainty = certainty;
        if said.at_s < NONE && !said.is_watched {
            said.is_watched = true;
            self.watched.push(node);
        }
    }

    /// All has been said as of a moment: what has come out is judged, and what stands is
    /// remembered.
    pub fn step(&mut self, now_s: f64) {
        self.turn_to(now_s);
        let Self {
            said,
            watched,
            books,
            ..
        } = self;
        watched.retain(|&node| {
            let Some(said) = said.get_mut(node as usize) else {
                return false;
            };
            judge(books, said, now_s, false);
            let class = said.class(now_s);
            // A latest moment that has passed was none; a planned one may come any second.
            let stands = match said.certainty {
                Certainty::Soft => said.at_s < NONE,
                Certainty::Hard => said.at_s < NONE && said.at_s >= now_s - TOLERANCE_S,
            };
            if stands
                && let Some(open) = said.open.get_mut(class)
                && *open == NONE
            {
                *open = said.at_s.max(now_s + SOONEST_S);
                books.open(class, *open);
            }
            said.is_watched = said.at_s < NONE || said.open.iter().any(|&open| open < NONE);
            said.is_watched
        });
    }

    /// What is said of a node; `open_after` is what is believed of its hole without that.
    #[must_use]
    pub fn of(&self, node: u32, now_s: f64, open_after: impl Fn(f64) -> f64) -> Option<Word> {
        let said = self.said.get(node as usize).filter(|s| s.at_s < NONE)?;
        let lead_s = said.at_s - now_s;
        let after_s = lead_s.max(SOONEST_S);
        let (early, kept) = match said.certainty {
            Certainty::Soft => {
                let outcomes = self.books.outcomes.get(said.class(now_s));
                outcomes.copied().unwrap_or_default().shares()
            }
            // A hole that is there after its latest moment shows that it was none.
            Certainty::Hard if lead_s < -TOLERANCE_S => return None,
            Certainty::Hard => {
                let record = self.record(Certainty::Hard);
                let trust = if record.is_doubtful() {
                    record.reliability()
                } else {
                    1.0
                };
                let open = open_after(after_s).clamp(0.0, 1.0);
                (trust * (1.0 - open), trust * open)
            }
        };
        Some(Word {
            after_s,
            early,
            kept,
        })
    }

    /// How words of a kind turned out, at all leads.
    #[must_use]
    pub fn record(&self, certainty: Certainty) -> Record {
        let from = first(certainty);
        // What is overdue has been counted when its time passed.
        let outcomes = self.books.outcomes.iter().skip(from).take(OVERDUE);
        let [soft, hard] = self.books.counts;
        let (came_true, proved_false) = match certainty {
            Certainty::Soft => soft,
            Certainty::Hard => hard,
        };
        let mut record = Record {
            came_true,
            proved_false,
            ..Record::default()
        };
        for outcomes in outcomes {
            let kept = match certainty {
                Certainty::Soft => outcomes.at,
                Certainty::Hard => outcomes.at + outcomes.before,
            };
            record.kept += kept;
            record.broken += outcomes.all() - kept;
        }
        record
    }

    /// A clock that was set back: words of another time are not judged by this one's ends.
    fn turn_to(&mut self, now_s: f64) {
        if self.now_s.is_some_and(|was| now_s < was - ANOTHER_TIME_S) {
            self.said.fill(SILENCE);
            self.watched.clear();
            self.books.open.clear();
            self.now_s = Some(now_s);
        } else if now_s.is_finite() {
            self.now_s = Some(self.now_s.map_or(now_s, |was| was.max(now_s)));
        }
    }

    pub(crate) fn memory(&self) -> Memory {
        Memory {
            outcomes: self.books.outcomes,
            counts: self.books.counts,
        }
    }

    /// Takes up what was saved; says what is wrong with it, if anything is.
    pub(crate) fn restore(memory: &Memory) -> Result<Self, &'static str> {
        let parts = |one: &Outcomes| [one.before, one.at, one.after];
        let mut parts = memory.outcomes.iter().flat_map(parts);
        if parts.any(|part| !part.is_finite() || part < 0.0) {
            return Err("a record of announcements is out of range");
        }
        let mut promises = Self::default();
        promises.books.outcomes = memory.outcomes;
        promises.books.counts = memory.counts;
        Ok(promises)
    }
}

/// Nothing is said any more, and what is still open is nobody's.
fn silence(books: &mut Books, said: &mut Said) {
    for (class, &open) in said.open.iter().enumerate() {
        if open < NONE {
            books.close(class, open, None);
        }
    }
    let is_watched = said.is_watched;
    *said = Said {
        is_watched,
        ..SILENCE
    };
}

/// Judges the words of a hole that ends now, or whose time has passed.
fn judge(books: &mut Books, said: &mut Said, now_s: f64, ends: bool) {
    for (class, open) in said.open.iter_mut().enumerate() {
        let late_s = now_s - *open;
        let outcome = if late_s > TOLERANCE_S {
            said.is_overdue = true;
            Outcome::After
        } else if !ends || *open == NONE {
            continue;
        } else if late_s < -TOLERANCE_S {
            Outcome::Before
        } else {
            Outcome::At
        };
        books.close(class, *open, Some(outcome));
        *open = NONE;
    }
}
