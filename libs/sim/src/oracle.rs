//! Oracle lookahead: a walk that also says when present holes end, as far ahead as a planner is to
//! know.
//!
//! A scheduler's planned starts are beliefs ([`PlannedStartUpdate`](crate::PlannedStartUpdate)). What is revealed here is
//! the truth, and therefore for measuring alone: it bounds from above what look-ahead is worth.

use std::collections::VecDeque;

use crate::{PlannedStartUpdate, PoolTrace, SimError, PoolStep, PoolSteps};

/// A hole whose end is not known.
const UNKNOWN: f64 = f64::INFINITY;

/// A node that has no hole where the trace has been read to.
const CLOSED: (u64, u32) = (u64::MAX, 0);

/// A walk over a [`PoolTrace`] that reveals the true ends of present holes, up to some time
/// ahead.
///
/// At moment `now` the end of a present hole is revealed if and only if `end <= now + lookahead`.
/// So complete knowledge of the next `lookahead` seconds: who is not announced within them does
/// not leave within them. Of holes that open later nothing is told. A hole that lasts until the
/// trace ends has no end that anybody knows.
///
/// [`next`](PoolSteps::next) goes to the next step and [`advance`](Self::advance) to moments between
/// steps; [`next_at_s`](Self::next_at_s) says when the next step is, so that nobody has to take a
/// step in order to learn whether something else comes before it.
///
/// The trace is read ahead no further than to the first step beyond what may be revealed, and
/// memory is bounded by what happens in that time. Without a bound it is walked through once more
/// beforehand, for eight bytes of memory a hole. Without look-ahead it is read as by its own walk.
pub struct OracleWalk<'a> {
    steps: Box<dyn PoolSteps + 'a>,
    lookahead_s: f64,
    /// The trace's length: what is open then has no known end.
    length_s: f64,
    now_s: f64,
    /// Steps that have been read and not told. All but perhaps the last have been looked into.
    ahead: VecDeque<Ahead>,
    /// How many of them have been looked into.
    seen: usize,
    /// The number of the first of them, counting all steps.
    first: u64,
    /// Where each node's hole opened, as far as has been looked: step and place in it.
    places: Vec<(u64, u32)>,
    /// The end of each node's present hole, if it is known.
    ends: Vec<f64>,
    /// With no bound: the end of each hole, in the order in which they open.
    all: Option<std::vec::IntoIter<f64>>,
    /// The step that was told last.
    told: Ahead,
    /// Emptied steps, for their memory.
    spare: Vec<Ahead>,
    /// Why the trace ended too early: told when all before it has been.
    failed: Option<SimError>,
    finished: bool,
}

/// A step that has been read.
#[derive(Debug, Clone, Default)]
struct Ahead {
    at_s: f64,
    closed: Vec<u32>,
    opened: Vec<(u32, i64)>,
    planned: Vec<PlannedStartUpdate>,
    /// The end of each hole that opens, if it is known; no number if the node has one already.
    ends: Vec<f64>,
}

impl Ahead {
    fn fill(&mut self, step: &PoolStep<'_>) {
        self.at_s = step.at_s;
        self.closed.clear();
        self.closed.extend_from_slice(step.closed);
        self.opened.clear();
        self.opened.extend_from_slice(step.opened);
        self.planned.clear();
        self.planned.extend_from_slice(step.planned);
        self.ends.clear();
        self.ends.resize(self.opened.len(), UNKNOWN);
    }

    fn shown(&self) -> PoolStep<'_> {
        PoolStep {
            at_s: self.at_s,
            closed: &self.closed,
            opened: &self.opened,
            planned: &self.planned,
        }
    }
}

impl<'a> OracleWalk<'a> {
    /// Begins a walk. `lookahead` is in seconds, nothing less than zero; `None` reveals
    /// everything from the first step on, which is clairvoyance.
    ///
    /// # Errors
    /// [`SimError`] if the trace cannot be opened, or without a bound if it is damaged.
    pub fn new(trace: &'a dyn PoolTrace, lookahead: Option<f64>) -> Result<Self, SimError> {
        let length_s = trace.length_s();
        let lookahead_s = lookahead.unwrap_or(f64::INFINITY).max(0.0);
        let unbounded = lookahead_s.is_infinite();
        let nodes = trace.nodes() as usize;
        let all = match unbounded {
            true => Some(all_ends(trace, length_s)?.into_iter()),
            false => None,
        };
        Ok(Self {
            steps: trace.steps()?,
            lookahead_s,
            length_s,
            now_s: 0.0,
            ahead: VecDeque::new(),
            seen: 0,
            first: 0,
            places: vec![CLOSED; nodes],
            ends: vec![UNKNOWN; nodes],
            all,
            told: Ahead::default(),
            spare: Vec::new(),
            failed: None,
            finished: false,
        })
    }

    /// The present moment, seconds since the start: that of the last step, or up to which time
    /// was advanced since.
    #[must_use]
    pub const fn now_s(&self) -> f64 {
        self.now_s
    }

    /// By node, the end of its present hole in seconds since the start, if it is revealed at
    /// the present moment; infinite if it is not, or if the node has no hole.
    #[must_use]
    pub fn ends(&self) -> &[f64] {
        &self.ends
    }

    /// When the next step is, seconds since the start; infinite if there is none.
    ///
    /// # Errors
    /// As [`PoolSteps::next`].
    pub fn next_at_s(&mut self) -> Result<f64, SimError> {
        if self.ahead.is_empty() {
            self.read();
        }
        match (self.ahead.front(), self.failed.take()) {
            (Some(next), failed) => {
                self.failed = failed;
                Ok(next.at_s)
            }
            (None, Some(failed)) => Err(failed),
            (None, None) => Ok(f64::INFINITY),
        }
    }

    /// Time goes on to a moment before the next step, or to that of the next step at the
    /// latest. It never goes back, and a moment that is no number changes nothing.
    ///
    /// # Errors
    /// As [`PoolSteps::next`].
    pub fn advance(&mut self, now_s: f64) -> Result<(), SimError> {
        let next_at_s = self.next_at_s()?;
        if now_s > self.now_s {
            self.now_s = now_s.min(next_at_s);
        }
        self.look();
        Ok(())
    }

    /// Looks into all steps that may be revealed by now.
    fn look(&mut self) {
        if self.lookahead_s <= 0.0 {
            return;
        }
        // Where all ends are known beforehand, steps are looked into as they come, for whose
        // holes they are.
        let bounded = self.all.is_none();
        let until_s = self.now_s + if bounded { self.lookahead_s } else { 0.0 };
        loop {
            if self.seen == self.ahead.len() {
                let enough = !bounded && !self.ahead.is_empty();
                if enough || !self.read() {
                    return;
                }
            }
            if self.ahead.back().is_none_or(|step| step.at_s > until_s) {
                return;
            }
            self.look_into_last();
        }
    }

    /// Finds out which holes the newest step ends, and remembers which it opens.
    fn look_into_last(&mut self) {
        self.seen = self.ahead.len();
        let Some(mut step) = self.ahead.pop_back() else {
            return;
        };
        let number = self.first.saturating_add(self.ahead.len() as u64);
        let reveals = self.all.is_none() && step.at_s < self.length_s;
        for &node in &step.closed {
            let Some(place) = self.places.get_mut(node as usize) else {
                continue;
            };
            let (opened, at) = std::mem::replace(place, CLOSED);
            if !reveals || (opened, at) == CLOSED {
                continue;
            }
            let end = match opened.checked_sub(self.first) {
                None => self.ends.get_mut(node as usize),
                Some(coming) => {
                    let step = self.ahead.get_mut(coming as usize);
                    step.and_then(|step| step.ends.get_mut(at as usize))
                }
            };
            if let Some(end) = end {
                *end = step.at_s;
            }
        }
        for ((at, &(node, _)), end) in (0_u32..).zip(&step.opened).zip(&mut step.ends) {
            let Some(place) = self.places.get_mut(node as usize) else {
                continue;
            };
            if *place != CLOSED {
                *end = f64::NAN;
                continue;
            }
            *place = (number, at);
            if let Some(all) = &mut self.all {
                *end = all.next().unwrap_or(UNKNOWN);
            }
        }
        self.ahead.push_back(step);
    }

    /// Reads one more step; whether there was one.
    fn read(&mut self) -> bool {
        if self.finished {
            return false;
        }
        match self.steps.next() {
            Ok(Some(step)) => {
                let mut ahead = self.spare.pop().unwrap_or_default();
                ahead.fill(&step);
                self.ahead.push_back(ahead);
                return true;
            }
            Ok(None) => {}
            Err(error) => self.failed = Some(error),
        }
        self.finished = true;
        false
    }
}

impl PoolSteps for OracleWalk<'_> {
    /// Goes to the next step. From now on the [`ends`](Self::ends) are those after it.
    fn next(&mut self) -> Result<Option<PoolStep<'_>>, SimError> {
        let at_s = self.next_at_s()?;
        if self.ahead.is_empty() {
            return Ok(None);
        }
        self.advance(at_s)?;
        let Some(step) = self.ahead.pop_front() else {
            return Ok(None);
        };
        self.seen = self.seen.saturating_sub(1);
        self.first += 1;
        self.spare.push(std::mem::replace(&mut self.told, step));
        for &node in &self.told.closed {
            if let Some(end) = self.ends.get_mut(node as usize) {
                *end = UNKNOWN;
            }
        }
        for (&(node, _), &known) in self.told.opened.iter().zip(&self.told.ends) {
            if let Some(end) = self.ends.get_mut(node as usize)
                && !known.is_nan()
            {
                *end = known;
            }
        }
        Ok(Some(self.told.shown()))
    }
}

/// The end of each hole of a trace, in the order in which they open.
fn all_ends(trace: &dyn PoolTrace, length_s: f64) -> Result<Vec<f64>, SimError> {
    let mut ends: Vec<f64> = Vec::new();
    let mut places: Vec<Option<usize>> = vec![None; trace.nodes() as usize];
    let mut steps = trace.steps()?;
    while let Some(step) = steps.next()? {
        for &node in step.closed {
            let place = places.get_mut(node as usize).and_then(Option::take);
            if let Some(end) = place.and_then(|place| ends.get_mut(place))
                && step.at_s < length_s
            {
                *end = step.at_s;
            }
        }
        for &(node, _) in step.opened {
            if let Some(place) = places.get_mut(node as usize)
                && place.is_none()
            {
                *place = Some(ends.len());
                ends.push(UNKNOWN);
            }
        }
    }
    Ok(ends)
}
