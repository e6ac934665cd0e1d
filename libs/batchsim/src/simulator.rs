//! The event loop.

use std::iter::Peekable;

use crate::conservative::Conservative;
use crate::easy;
use crate::job::{BatchError, BatchJob, Placement, Run};
use crate::machine::{Backfill, Layout, Machine, Starts};
use crate::named;
use crate::nodes::NodeSet;
use crate::outlook::{self, Outlook, Wanted};
use crate::profile::Count;
use crate::recorded::Recorded;
use crate::state::{Ended, State};
use crate::totals::Totals;

/// What happened at one moment. Nodes that are given back and taken again at the same moment
/// do not appear.
#[derive(Debug, Clone, Copy)]
pub struct Step<'a> {
    /// The moment, seconds.
    pub at: i64,
    /// Nodes that become a hole, ascending. The first step names all nodes that are idle from
    /// the beginning.
    pub freed: &'a [Run],
    /// Nodes that stop being one, ascending: a job starts there, or they are drained or
    /// reserved.
    pub taken: &'a [Run],
    /// Jobs that start.
    pub started: &'a [Placement],
    /// Jobs that end.
    pub ended: &'a [Ended],
}

/// Which jobs start now.
#[derive(Debug, Clone)]
pub(crate) enum Policy {
    Easy,
    Named,
    Counted(Conservative<Count>),
    Placed(Conservative<NodeSet>),
    Recorded(Recorded),
}

impl Policy {
    fn new(state: &State) -> Self {
        let machine = &state.machine;
        let alike = machine.layout == Layout::FirstFit && state.blocks.is_none();
        match (machine.starts, machine.backfill) {
            (Starts::Recorded, _) => Self::Recorded(Recorded::default()),
            (Starts::Simulated, Backfill::Conservative) if alike => {
                Self::Counted(Conservative::new(state))
            }
            (Starts::Simulated, Backfill::Conservative) => Self::Placed(Conservative::new(state)),
            (Starts::Simulated, Backfill::Easy | Backfill::None) if alike => Self::Easy,
            (Starts::Simulated, Backfill::Easy | Backfill::None) => Self::Named,
        }
    }

    fn schedule(&mut self, state: &mut State) {
        match self {
            Self::Easy => easy::schedule(state),
            Self::Named => named::schedule(state),
            Self::Counted(policy) => policy.schedule(state),
            Self::Placed(policy) => policy.schedule(state),
            Self::Recorded(policy) => policy.schedule(state),
        }
    }

    /// The next moment at which this wants to be asked, if nothing happens before.
    fn next_start(&self) -> Option<i64> {
        match self {
            Self::Easy | Self::Named => None,
            Self::Counted(policy) => policy.next_start(),
            Self::Placed(policy) => policy.next_start(),
            Self::Recorded(policy) => policy.next_start(),
        }
    }

    /// Jobs that wait here rather than in the queue.
    fn waiting(&self) -> usize {
        match self {
            Self::Easy | Self::Named => 0,
            Self::Counted(policy) => policy.reserved.len(),
            Self::Placed(policy) => policy.reserved.len(),
            Self::Recorded(policy) => policy.len(),
        }
    }
}

/// A batch scheduler in virtual time. Jobs come from an iterator, in order of submission; what
/// becomes of the nodes goes out step by step, and nothing of the past is kept: memory grows
/// with the jobs that wait and run at one time, not with the length of the log.
///
/// At one moment, jobs end first, then outages and reservations begin or end, then jobs are
/// submitted, then jobs start.
#[derive(Debug, Clone)]
pub struct Simulator<I: Iterator<Item = BatchJob>> {
    jobs: Peekable<I>,
    /// How many jobs have been taken from the iterator.
    given: u64,
    begun: bool,
    state: State,
    policy: Policy,
}

impl<I: Iterator<Item = BatchJob>> Simulator<I> {
    /// A machine on which nothing runs. Nothing is read from `jobs` yet.
    ///
    /// # Errors
    /// The machine has no nodes, or an outage or a reservation of it makes no sense.
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

    /// Goes on to the next moment at which a node changes or a job starts or ends. Nothing: all
    /// jobs have ended (or wait for ever, see [`Totals::waiting`]).
    ///
    /// # Errors
    /// A job makes no sense; the simulation cannot go on then.
    pub fn step(&mut self) -> Result<Option<Step<'_>>, BatchError> {
        while self.tick()?.is_some() {
            let state = &self.state;
            let quiet = state.freed.is_empty()
                && state.taken.is_empty()
                && state.started.is_empty()
                && state.ended.is_empty();
            if !quiet {
                // Borrowed anew: a loop that returns a borrow holds it too long.
                return Ok(Some(self.shown()));
            }
        }
        Ok(None)
    }

    /// Goes on to the next moment at which anything happens, even if it is only that a job is
    /// submitted and waits, so that no node changes but the outlook does.
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

    /// The next moment at which something may happen; [`step`](Self::step) may go on further.
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

    /// What has been counted up to the last step.
    #[must_use]
    pub fn totals(&self) -> &Totals {
        &self.state.totals
    }

    /// What an operator's tools would show of the future, as things are known now.
    ///
    /// Costs about as much as one decision of the scheduler: it walks once over the running
    /// jobs, and under conservative backfill over the waiting ones.
    #[must_use]
    pub fn outlook(&self) -> Outlook {
        outlook::of(&self.state, &self.policy)
    }

    /// When each present hole is wanted, as [`Outlook::wanted`] has it, at less cost.
    #[must_use]
    pub fn wanted(&self) -> Vec<Wanted> {
        outlook::wanted_of(&self.state, &self.policy)
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
            // A job that runs for no time ends at the moment at which it starts.
            if self.state.running.next_end().is_none_or(|end| end > at) {
                break;
            }
        }
        self.state.settle();
        self.state.totals.waiting = self.waiting() as u64;
        Ok(())
    }

    /// Takes the jobs that have been submitted by now.
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
