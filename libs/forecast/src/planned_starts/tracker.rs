//! The outcomes of planned starts and reservations, learnt while they come.
//!
//! The scheduler announces an end again and again, and its odds depend on how far ahead it is
//! announced (the *lead*). For each lead, the first announced time of a hole is kept until its
//! outcome is known. A plan that moves meanwhile is not false by that; the outcome is decided by
//! the end of the hole. All ends of one lead and one time are one *batch*: a batch job of a
//! thousand nodes is one observation, whether its nodes are announced in one step or in a
//! thousand.
//!
//! A clock that goes back by more than an hour takes back all that was observed later.

use serde::{Deserialize, Serialize};

use super::announced_end::EndKind;
use super::class::{CLASSES, OVERDUE, class, first};
use super::outcomes::{Outcome, OutcomeCounts, Outcomes, TrackRecord};

/// A hole that ends within this many seconds of the announced time ends as announced.
const TOLERANCE_S: f64 = 60.0;

/// An end whose time has passed is expected in this many seconds.
const SOONEST_S: f64 = 1.0;

/// A clock that goes back by more than this has restarted, seconds.
const RESTART_S: f64 = 3600.0;

/// The time of an end that is not announced, or whose outcome is known.
pub(super) const NONE: f64 = f64::INFINITY;

/// The announced ends of one node's hole.
#[derive(Debug, Clone, Copy)]
struct Tracked {
    /// The newest announced time, seconds.
    at_s: f64,
    kind: EndKind,
    /// By class, the announced time whose outcome is open.
    open: [f64; CLASSES],
    /// Whether an announced time has passed while the hole was open.
    is_overdue: bool,
    /// Whether the node is in the list of watched nodes.
    is_watched: bool,
}

const UNTRACKED: Tracked = Tracked {
    at_s: NONE,
    kind: EndKind::PlannedStart,
    open: [NONE; CLASSES],
    is_overdue: false,
    is_watched: false,
};

impl Tracked {
    /// The class of the newest announced end.
    fn class(&self, now_s: f64) -> usize {
        class(self.kind, self.at_s - now_s, self.is_overdue)
    }
}

/// The announced end of a hole, with its odds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EndOdds {
    /// The announced time, seconds from now.
    pub after_s: f64,
    /// Probability that the hole ends earlier than that, beyond the tolerance.
    pub early: f64,
    /// Probability that the hole ends at that time.
    pub kept: f64,
}

/// The announced ends of numbered nodes, and how such ends turn out. Times are seconds from any
/// fixed origin.
#[derive(Debug, Clone, Default)]
pub struct EndTracker {
    tracked: Vec<Tracked>,
    /// Nodes with an announced end, or with one whose outcome is open.
    watched: Vec<u32>,
    pub(super) counts: OutcomeCounts,
    now_s: Option<f64>,
}

/// The learnt part of an [`EndTracker`], as it is saved.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Memory {
    outcomes: [Outcomes; CLASSES],
    counts: [(u64, u64); 2],
}

impl EndTracker {
    /// Makes room for nodes with numbers below `nodes`. Ends announced for others are ignored.
    pub fn grow(&mut self, nodes: usize) {
        if self.tracked.len() < nodes {
            self.tracked.resize(nodes, UNTRACKED);
        }
    }

    /// Stops learning from outcomes.
    pub fn freeze(&mut self) {
        self.counts.is_frozen = true;
    }

    /// Records that the hole of a node ended at `now_s`.
    pub fn ended(&mut self, node: u32, now_s: f64) {
        self.turn_to(now_s);
        if let Some(tracked) = self.tracked.get_mut(node as usize) {
            judge(&mut self.counts, tracked, now_s, true);
            clear(&mut self.counts, tracked);
        }
    }

    /// Records that the hole of a node ended unseen, so that the outcome is unknown.
    pub fn lost(&mut self, node: u32) {
        if let Some(tracked) = self.tracked.get_mut(node as usize) {
            clear(&mut self.counts, tracked);
        }
    }

    /// Sets the announced end of a present hole; an infinite time withdraws it.
    pub fn announce(&mut self, node: u32, at_s: f64, kind: EndKind) {
        let Some(tracked) = self.tracked.get_mut(node as usize) else {
            return;
        };
        tracked.at_s = if at_s.is_nan() { NONE } else { at_s };
        tracked.kind = kind;
        if tracked.at_s < NONE && !tracked.is_watched {
            tracked.is_watched = true;
            self.watched.push(node);
        }
    }

    /// Judges the ends whose time has passed, and keeps the announced ends of `now_s` until their
    /// outcome is known. To be called after all ends of a moment are announced.
    pub fn step(&mut self, now_s: f64) {
        self.turn_to(now_s);
        let Self {
            tracked,
            watched,
            counts,
            ..
        } = self;
        watched.retain(|&node| {
            let Some(tracked) = tracked.get_mut(node as usize) else {
                return false;
            };
            judge(counts, tracked, now_s, false);
            let class = tracked.class(now_s);
            // A reservation whose time has passed was wrong; a planned start may still come.
            let is_announced = match tracked.kind {
                EndKind::PlannedStart => tracked.at_s < NONE,
                EndKind::Reservation => tracked.at_s < NONE && tracked.at_s >= now_s - TOLERANCE_S,
            };
            if is_announced
                && let Some(open) = tracked.open.get_mut(class)
                && *open == NONE
            {
                *open = tracked.at_s.max(now_s + SOONEST_S);
                counts.open(class, *open);
            }
            tracked.is_watched =
                tracked.at_s < NONE || tracked.open.iter().any(|&open| open < NONE);
            tracked.is_watched
        });
    }

    /// The announced end of a node's hole with its odds. `open_after` gives the probability that
    /// the hole is open after a time in seconds, without regard to announced ends.
    #[must_use]
    pub fn odds(&self, node: u32, now_s: f64, open_after: impl Fn(f64) -> f64) -> Option<EndOdds> {
        let tracked = self.tracked.get(node as usize).filter(|t| t.at_s < NONE)?;
        let lead_s = tracked.at_s - now_s;
        let after_s = lead_s.max(SOONEST_S);
        let (early, kept) = match tracked.kind {
            EndKind::PlannedStart => {
                let outcomes = self.counts.outcomes.get(tracked.class(now_s));
                outcomes.copied().unwrap_or_default().shares()
            }
            // A hole that is open after the reservation's start shows that it was wrong.
            EndKind::Reservation if lead_s < -TOLERANCE_S => return None,
            EndKind::Reservation => {
                let record = self.record(EndKind::Reservation);
                let trust = if record.is_doubtful() {
                    record.reliability()
                } else {
                    1.0
                };
                let open = open_after(after_s).clamp(0.0, 1.0);
                (trust * (1.0 - open), trust * open)
            }
        };
        Some(EndOdds {
            after_s,
            early,
            kept,
        })
    }

    /// The track record of a kind, over all leads.
    #[must_use]
    pub fn record(&self, kind: EndKind) -> TrackRecord {
        let from = first(kind);
        // Overdue ends were counted when their time passed.
        let outcomes = self.counts.outcomes.iter().skip(from).take(OVERDUE);
        let [planned, reserved] = self.counts.counts;
        let (came_true, proved_false) = match kind {
            EndKind::PlannedStart => planned,
            EndKind::Reservation => reserved,
        };
        let mut record = TrackRecord {
            came_true,
            proved_false,
            ..TrackRecord::default()
        };
        for outcomes in outcomes {
            let kept = match kind {
                EndKind::PlannedStart => outcomes.at,
                EndKind::Reservation => outcomes.at + outcomes.before,
            };
            record.kept += kept;
            record.broken += outcomes.all() - kept;
        }
        record
    }

    /// Drops all announced ends if the clock was set back: ends on the new clock do not decide
    /// what was announced on the old one.
    fn turn_to(&mut self, now_s: f64) {
        if self.now_s.is_some_and(|was| now_s < was - RESTART_S) {
            self.tracked.fill(UNTRACKED);
            self.watched.clear();
            self.counts.open.clear();
            self.now_s = Some(now_s);
        } else if now_s.is_finite() {
            self.now_s = Some(self.now_s.map_or(now_s, |was| was.max(now_s)));
        }
    }

    pub(crate) fn memory(&self) -> Memory {
        Memory {
            outcomes: self.counts.outcomes,
            counts: self.counts.counts,
        }
    }

    /// Restores the saved outcomes; the error names the damage.
    pub(crate) fn restore(memory: &Memory) -> Result<Self, &'static str> {
        let parts = |one: &Outcomes| [one.before, one.at, one.after];
        let mut parts = memory.outcomes.iter().flat_map(parts);
        if parts.any(|part| !part.is_finite() || part < 0.0) {
            return Err("a record of announcements is out of range");
        }
        let mut tracker = Self::default();
        tracker.counts.outcomes = memory.outcomes;
        tracker.counts.counts = memory.counts;
        Ok(tracker)
    }
}

/// Clears the announced ends of a node; open ones close without an outcome.
fn clear(counts: &mut OutcomeCounts, tracked: &mut Tracked) {
    for (class, &open) in tracked.open.iter().enumerate() {
        if open < NONE {
            counts.close(class, open, None);
        }
    }
    let is_watched = tracked.is_watched;
    *tracked = Tracked {
        is_watched,
        ..UNTRACKED
    };
}

/// Judges the announced ends of a hole that ends now (`ends`), or whose time has passed.
fn judge(counts: &mut OutcomeCounts, tracked: &mut Tracked, now_s: f64, ends: bool) {
    for (class, open) in tracked.open.iter_mut().enumerate() {
        let late_s = now_s - *open;
        let outcome = if late_s > TOLERANCE_S {
            tracked.is_overdue = true;
            Outcome::After
        } else if !ends || *open == NONE {
            continue;
        } else if late_s < -TOLERANCE_S {
            Outcome::Before
        } else {
            Outcome::At
        };
        counts.close(class, *open, Some(outcome));
        *open = NONE;
    }
}
