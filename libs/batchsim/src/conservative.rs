//! Conservative backfill: every waiting job has a reservation.
//!
//! The variant is that of Mu'alem and Feitelson (IEEE TPDS 12(6), 2001). A job gets the earliest
//! start that delays no job submitted before it. When a job ends before its walltime, the schedule
//! is compressed: in order of submission, each reservation is lifted and placed again at the
//! earliest time, with all others unchanged. Here this is done at every end, since a job that
//! moves may leave room for an earlier one. So a later job never delays a start. A reserved start
//! is missed only if a job overruns its walltime or nodes fail.
//!
//! A compression costs (waiting jobs) x (times in the profile). So only the first
//! [`Machine::depth`](field@crate::Machine::depth) jobs of the queue have a reservation. Jobs
//! behind them wait without one and cannot start.

use crate::nodes::NodeSet;
use crate::profile::{Count, Profile, Room};
use crate::queue::Waiting;
use crate::state::State;

/// A kind of room in which this policy places jobs.
pub(crate) trait Ahead: Room {
    /// The free room over time, by walltimes.
    fn ahead(state: &State) -> Profile<Self>;
    /// The nodes on which a job with this part starts now; `None` if they are not free.
    fn nodes(state: &State, part: &Self::Part) -> Option<Vec<crate::job::NodeRange>>;
}

impl Ahead for Count {
    fn ahead(state: &State) -> Profile<Self> {
        state.counts()
    }

    fn nodes(state: &State, part: &u32) -> Option<Vec<crate::job::NodeRange>> {
        state.free.lowest(*part)
    }
}

impl Ahead for NodeSet {
    fn ahead(state: &State) -> Profile<Self> {
        state.sets()
    }

    fn nodes(state: &State, part: &Self::Part) -> Option<Vec<crate::job::NodeRange>> {
        state.free.contains(part).then(|| part.clone())
    }
}

/// A reserved start and its nodes.
#[derive(Debug, Clone)]
pub(crate) struct Slot<P> {
    pub(crate) start: i64,
    pub(crate) part: P,
}

/// A waiting job with its reservation, which is missing if the job fits at no known time.
#[derive(Debug, Clone)]
pub(crate) struct Reserved<P> {
    pub(crate) waiting: Waiting,
    pub(crate) slot: Option<Slot<P>>,
}

/// The reservations of the first jobs of the queue.
#[derive(Debug, Clone)]
pub(crate) struct Conservative<R: Room> {
    pub(crate) reserved: Vec<Reserved<R::Part>>,
    /// The room that running jobs and reservations leave free.
    profile: Profile<R>,
    /// The next reserved start, which is an event of its own.
    next_start: Option<i64>,
}

impl<R: Ahead> Conservative<R> {
    pub(crate) fn new(state: &State) -> Self {
        Self {
            reserved: Vec::new(),
            profile: R::ahead(state),
            next_start: None,
        }
    }

    /// The next reserved start. `None` while the next start waits for a job beyond its walltime,
    /// since it would be planned for the next second again and again.
    pub(crate) fn next_start(&self) -> Option<i64> {
        self.next_start
    }

    /// Starts every job that may start now.
    pub(crate) fn schedule(&mut self, state: &mut State) {
        let now = state.now;
        let missed = self.next_start.is_some_and(|start| start < now);
        let overdue = state.running.overdue(now);
        if state.disturbed || missed || overdue {
            self.renew(state);
            self.compress(state);
            state.disturbed = false;
        } else {
            self.profile.advance(now);
        }
        loop {
            self.admit(state);
            let starts = self.start_due(state);
            if !starts || state.queue.len() == 0 {
                break;
            }
        }
        let slots = self.reserved.iter().filter_map(|e| e.slot.as_ref());
        let next = slots
            .map(|slot| slot.start)
            .filter(|&start| start > now)
            .min();
        self.next_start = next.filter(|&start| !overdue || start > now.saturating_add(1));
    }

    /// Gives reservations to jobs from the queue, as many as the depth allows.
    fn admit(&mut self, state: &mut State) {
        while self.reserved.len() < state.machine.depth() {
            let Some(waiting) = state.queue.pop_front() else {
                break;
            };
            let mut reserved = Reserved {
                waiting,
                slot: None,
            };
            self.place(state, &mut reserved);
            let start = reserved.slot.as_ref().map(|slot| slot.start);
            reserved.waiting.reserved_start = start;
            self.reserved.push(reserved);
        }
    }

    /// Reserves the earliest start of a job.
    fn place(&mut self, state: &State, reserved: &mut Reserved<R::Part>) {
        let job = &reserved.waiting.job;
        let length = job.walltime.max(1);
        let found = self.profile.find(job.nodes, length, state.machine.layout);
        reserved.slot = found.map(|(start, part)| {
            self.profile.take(start, job.asked_until(start), &part);
            Slot { start, part }
        });
    }

    /// Builds the profile again from running jobs and blocks, and keeps every reserved start that
    /// still fits.
    fn renew(&mut self, state: &mut State) {
        self.profile = R::ahead(state);
        let mut reserved = std::mem::take(&mut self.reserved);
        let mut broken = Vec::new();
        for (place, entry) in reserved.iter_mut().enumerate() {
            let job = &entry.waiting.job;
            let kept = entry.slot.as_ref().is_some_and(|slot| {
                let end = job.asked_until(slot.start);
                let holds =
                    slot.start >= state.now && self.profile.holds(slot.start, end, &slot.part);
                if holds {
                    self.profile.take(slot.start, end, &slot.part);
                }
                holds
            });
            if !kept {
                broken.push(place);
            }
        }
        for place in broken {
            if let Some(entry) = reserved.get_mut(place) {
                let before = entry.slot.as_ref().map(|slot| slot.start);
                self.place(state, entry);
                let after = entry.slot.as_ref().map_or(i64::MAX, |slot| slot.start);
                if before.is_some_and(|before| after > before) {
                    state.totals.broken += 1;
                }
            }
        }
        self.reserved = reserved;
    }

    /// Moves each job in turn to its earliest start, with all others unchanged.
    fn compress(&mut self, state: &State) {
        let mut reserved = std::mem::take(&mut self.reserved);
        for entry in &mut reserved {
            let job = entry.waiting.job;
            let Some(slot) = &entry.slot else {
                self.place(state, entry);
                continue;
            };
            if !self.profile.room_before(slot.start, job.nodes) {
                continue;
            }
            let (start, end) = (slot.start, job.asked_until(slot.start));
            self.profile.give(start, end, &slot.part);
            let found = self
                .profile
                .find(job.nodes, job.walltime.max(1), state.machine.layout)
                .filter(|found| found.0 < start);
            let slot = match found {
                Some((start, part)) => Slot { start, part },
                None => slot.clone(),
            };
            self.profile
                .take(slot.start, job.asked_until(slot.start), &slot.part);
            entry.slot = Some(slot);
        }
        self.reserved = reserved;
    }

    /// Starts the jobs whose reserved start has come, and tells whether there were any.
    fn start_due(&mut self, state: &mut State) -> bool {
        let before = self.reserved.len();
        self.reserved.retain(|entry| {
            let due = entry.slot.as_ref().filter(|slot| slot.start <= state.now);
            let Some(ranges) = due.and_then(|slot| R::nodes(state, &slot.part)) else {
                return true;
            };
            state.start(&entry.waiting, ranges);
            false
        });
        self.reserved.len() < before
    }
}
