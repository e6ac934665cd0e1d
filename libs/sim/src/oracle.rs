//! Oracle lookahead: a walk that reveals the true ends of present holes, up to a bound ahead.
//!
//! A planned start is an estimate ([`PlannedStartUpdate`](crate::PlannedStartUpdate)). Oracle
//! lookahead reveals truth, so only measurements use it: it bounds the value of forecasts.

use std::collections::VecDeque;

use crate::{PlannedStartUpdate, PoolStep, PoolSteps, PoolTrace, SimError};

/// The end of a hole that is not revealed, seconds.
const UNKNOWN: f64 = f64::INFINITY;

/// The place of a node without a hole, as far as the trace is read.
const CLOSED: (u64, u32) = (u64::MAX, 0);

/// A walk over a [`PoolTrace`] that reveals the true ends of present holes, up to a bound ahead.
///
/// At moment `now` the end of a present hole is revealed if and only if `end <= now + lookahead`.
/// A hole whose end is not revealed therefore lasts longer than `lookahead` seconds. Holes that
/// open later stay hidden. A hole that lasts until the trace ends has no known end.
///
/// [`next`](PoolSteps::next) goes to the next step, [`advance`](Self::advance) to a moment between
/// steps. [`next_at_s`](Self::next_at_s) gives the time of the next step without taking it.
///
/// The walk reads the trace up to the first step beyond the bound, and its memory is bounded by
/// the events in that time. Without a bound a first walk collects all ends, eight bytes a hole.
/// With a bound of zero the trace is read no further than by its own walk.
pub struct OracleWalk<'a> {
    steps: Box<dyn PoolSteps + 'a>,
    lookahead_s: f64,
    /// The trace's length. A hole that is open then has no known end.
    length_s: f64,
    now_s: f64,
    /// Steps that are read and not yet given out. The last one may still be unprocessed.
    ahead: VecDeque<Ahead>,
    /// Number of steps in `ahead` that are processed.
    seen: usize,
    /// The number of the first step in `ahead`, counted from the start of the trace.
    first: u64,
    /// The opening of each node's hole, as far as steps are processed: step, and place in it.
    places: Vec<(u64, u32)>,
    /// The end of each node's present hole, if it is revealed, seconds since the start.
    ends: Vec<f64>,
    /// Without a bound: the end of each hole, in the order of openings.
    all: Option<std::vec::IntoIter<f64>>,
    /// The step that was given out last.
    current: Ahead,
    /// Empty steps whose memory is used again.
    spare: Vec<Ahead>,
    /// The error at which reading ended. It is returned after all steps before it.
    failed: Option<SimError>,
    finished: bool,
}

/// A step that is read ahead.
#[derive(Debug, Clone, Default)]
struct Ahead {
    at_s: f64,
    closed: Vec<u32>,
    opened: Vec<(u32, i64)>,
    planned: Vec<PlannedStartUpdate>,
    /// The end of each hole that opens, if it is known; NaN if the node has a hole already.
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

    fn as_step(&self) -> PoolStep<'_> {
        PoolStep {
            at_s: self.at_s,
            closed: &self.closed,
            opened: &self.opened,
            planned: &self.planned,
        }
    }
}

impl<'a> OracleWalk<'a> {
    /// Begins a walk. `lookahead` is in seconds and at least zero. `None` reveals every end from
    /// the first step on (clairvoyance).
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
            current: Ahead::default(),
            spare: Vec::new(),
            failed: None,
            finished: false,
        })
    }

    /// The present moment, seconds since the start: the time of the last step, or a later one
    /// reached by [`advance`](Self::advance).
    #[must_use]
    pub const fn now_s(&self) -> f64 {
        self.now_s
    }

    /// By node, the end of its present hole, seconds since the start. An end that is not revealed
    /// at the present moment is infinite, and so is that of a node without a hole.
    #[must_use]
    pub fn ends(&self) -> &[f64] {
        &self.ends
    }

    /// The time of the next step, seconds since the start; infinite at the end of the trace.
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

    /// Advances time, at most to the next step. Time never goes back, and a moment that is NaN
    /// changes nothing.
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

    /// Processes all steps that the lookahead reaches.
    fn look(&mut self) {
        if self.lookahead_s <= 0.0 {
            return;
        }
        // With all ends known beforehand, a step is processed as it comes, to match ends and nodes.
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

    /// Matches the ends of the newest step with their openings, and records its own openings.
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

    /// Reads one more step. False at the end of the trace.
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
    /// Goes to the next step. [`ends`](Self::ends) then holds the ends after this step.
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
        self.spare.push(std::mem::replace(&mut self.current, step));
        for &node in &self.current.closed {
            if let Some(end) = self.ends.get_mut(node as usize) {
                *end = UNKNOWN;
            }
        }
        for (&(node, _), &known) in self.current.opened.iter().zip(&self.current.ends) {
            if let Some(end) = self.ends.get_mut(node as usize)
                && !known.is_nan()
            {
                *end = known;
            }
        }
        Ok(Some(self.current.as_step()))
    }
}

/// The end of each hole of a trace, in the order of openings, seconds since the start.
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
