//! The event loop of the batch scheduler.

use std::iter::Peekable;

use crate::job::{BatchError, BatchJob, NodeRange, Placement};
use crate::machine::Machine;
use crate::policy::Policy;
use crate::preview::{self, PlannedHoles, Preview};
use crate::state::{Ended, State};
use crate::totals::Totals;

/// The changes of one moment. Nodes that are freed and taken at the same moment do not appear.
#[derive(Debug, Clone, Copy)]
pub struct Step<'a> {
    /// The time of the step, seconds.
    pub at: i64,
    /// Nodes that become holes, ascending. The first step lists all nodes that are idle at the
    /// start.
    pub freed: &'a [NodeRange],
    /// Nodes whose holes end, ascending: a job starts there, or they are drained or reserved.
    pub taken: &'a [NodeRange],
    /// Jobs that start.
    pub started: &'a [Placement],
    /// Jobs that end.
    pub ended: &'a [Ended],
}

/// A batch scheduler in virtual time. Jobs come from an iterator, in order of submission, and the
/// changes of the nodes are returned step by step. The past is not kept: memory grows with the
/// jobs that wait and run at one time, not with the length of the log.
///
/// At one moment, jobs end first. Then outages and reservations begin or end, then jobs are
/// submitted, then jobs start.
#[derive(Debug, Clone)]
pub struct Simulator<I: Iterator<Item = BatchJob>> {
    jobs: Peekable<I>,
    /// The number of jobs taken from the iterator.
    given: u64,
    begun: bool,
    state: State,
    policy: Policy,
}

impl<I: Iterator<Item = BatchJob>> Simulator<I> {
    /// A simulator of an empty machine. No job is read yet.
    ///
    /// # Errors
    /// [`BatchError`] if the machine has no nodes, or an invalid outage or reservation.
    pub fn new(machine: Machine, jobs: I) -> Result<Self, BatchError> {
        machine.check()?;
        let state = State::new(machine);
        Ok(Self {
            jobs: jobs.peekable(),
            given: 0,
            begun: false,
            policy: Policy::new(&state),
            state,
        })
    }

    /// Advances to the next moment at which a node changes or a job starts or ends. `None` once
    /// all jobs have ended or can never start (see [`Totals::waiting`]).
    ///
    /// # Errors
    /// [`BatchError`] if a job is invalid; the simulation cannot go on then.
    pub fn step(&mut self) -> Result<Option<Step<'_>>, BatchError> {
        while self.tick()?.is_some() {
            let state = &self.state;
            let quiet = state.freed.is_empty()
                && state.taken.is_empty()
                && state.started.is_empty()
                && state.ended.is_empty();
            if !quiet {
                // Borrowed again: a loop that returns a borrow holds it too long.
                return Ok(Some(self.shown()));
            }
        }
        Ok(None)
    }

    /// Advances to the next moment at which any event happens. A job may only be submitted and
    /// wait, which changes the preview but no node.
    ///
    /// # Errors
    /// As [`step`](Self::step).
    pub fn tick(&mut self) -> Result<Option<Step<'_>>, BatchError> {
        let Some(at) = self.next_at() else {
            return Ok(None);
        };
        self.moment(at)?;
        Ok(Some(self.shown()))
    }

    /// The next moment at which an event may happen; [`step`](Self::step) may advance further.
    pub fn next_at(&mut self) -> Option<i64> {
        let waiting = self.waiting() > 0;
        let arrival = self.jobs.peek().map(BatchJob::submitted);
        let end = self.state.running.next_end();
        let start = self.policy.next_start();
        let alive = arrival.is_some() || end.is_some() || waiting;
        let edge = match &self.state.blocks {
            Some(blocks) if self.begun && alive => blocks.next_edge(),
            _ => None,
        };
        let next = [arrival, end, start, edge].into_iter().flatten().min()?;
        Some(if self.begun {
            next.max(self.state.now)
        } else {
            next
        })
    }

    /// The totals up to the last step.
    #[must_use]
    pub fn totals(&self) -> &Totals {
        &self.state.totals
    }

    /// The planned starts and expected ends, as an operator's tools would show them now.
    ///
    /// The cost is about that of one decision of the scheduler: one walk over the running jobs,
    /// and under conservative backfill over the waiting ones.
    #[must_use]
    pub fn preview(&self) -> Preview {
        preview::of(&self.state, &self.policy)
    }

    /// The planned end of each present hole, as [`Preview::holes`] has it, at less cost.
    #[must_use]
    pub fn planned_holes(&self) -> Vec<PlannedHoles> {
        preview::holes_of(&self.state, &self.policy)
    }

    fn waiting(&self) -> usize {
        self.state.queue.len() + self.policy.waiting()
    }

    fn shown(&self) -> Step<'_> {
        Step {
            at: self.state.now,
            freed: &self.state.freed,
            taken: &self.state.taken,
            started: &self.state.started,
            ended: &self.state.ended,
        }
    }

    fn moment(&mut self, at: i64) -> Result<(), BatchError> {
        if !self.begun {
            self.begun = true;
            self.state.begin(at);
        }
        self.state.advance(at);
        loop {
            self.state.end_jobs();
            self.state.reach_edges();
            self.submit()?;
            self.policy.schedule(&mut self.state);
            // A job of length zero ends at the moment at which it starts.
            if self.state.running.next_end().is_none_or(|end| end > at) {
                break;
            }
        }
        self.state.settle();
        self.state.totals.waiting = self.waiting() as u64;
        Ok(())
    }

    /// Takes the jobs that are submitted by now from the iterator.
    fn submit(&mut self) -> Result<(), BatchError> {
        let now = self.state.now;
        while let Some(job) = self.jobs.next_if(|job| job.submitted() <= now) {
            let mut job = job.bounded();
            let index = self.given;
            self.given += 1;
            let totals = &mut self.state.totals;
            totals.submitted += 1;
            if job.submit < now {
                totals.late += 1;
                job.submit = now;
            }
            if self.state.machine.admits(&job)? {
                self.state.submit(index, job);
            } else {
                self.state.totals.skipped += 1;
            }
        }
        Ok(())
    }
}
