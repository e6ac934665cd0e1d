//! Batch jobs, where they ran, and why a workload is refused.

use serde::{Deserialize, Serialize};

/// Lengths beyond this (3,000 years, in seconds) count as this, and so do moments that far
/// beyond 1970 a million times over: a damaged log must not reach the end of the numbers.
pub(crate) const LONGEST_S: i64 = 100_000_000_000;

/// A rigid batch job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct BatchJob {
    /// Its number, for the caller's use.
    pub id: u64,
    /// When it is submitted, seconds.
    pub submit: i64,
    /// How many nodes it needs.
    pub nodes: u32,
    /// How long it runs, seconds. Some machines let jobs run beyond their walltime.
    pub runtime: i64,
    /// How long it asked for, seconds: all that the scheduler knows.
    pub walltime: i64,
    /// When it started by the log, seconds; used by [`Starts::Recorded`] alone.
    ///
    /// [`Starts::Recorded`]: crate::Starts::Recorded
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recorded_start: Option<i64>,
}

impl BatchJob {
    /// When it is submitted, within what can be reckoned with.
    pub(crate) fn submitted(&self) -> i64 {
        let far = LONGEST_S * 1_000_000;
        self.submit.clamp(-far, far)
    }

    /// The job with lengths and moments that can be reckoned with.
    pub(crate) fn bounded(self) -> Self {
        let far = LONGEST_S * 1_000_000;
        Self {
            submit: self.submitted(),
            runtime: self.runtime.min(LONGEST_S),
            walltime: self.walltime.min(LONGEST_S),
            recorded_start: self.recorded_start.map(|start| start.clamp(-far, far)),
            ..self
        }
    }

    /// Its end by its walltime if it starts at `start`; at the earliest one second later,
    /// since a job that asks for nothing is expected to end any second.
    pub(crate) fn asked_until(&self, start: i64) -> i64 {
        start.saturating_add(self.walltime.max(1))
    }
}

/// Why a machine or a workload was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BatchError {
    /// The machine has no nodes.
    #[error("a machine needs at least one node")]
    NoNodes,
    /// A job can never start.
    #[error("batch job {id} needs {needs} nodes: the machine has {has}, expected 1 to {has}")]
    Size {
        /// Which job.
        id: u64,
        /// What it needs.
        needs: u32,
        /// What there is.
        has: u32,
    },
    /// A length is negative.
    #[error("batch job {id}: {what} is {value} s: expected zero or more")]
    Negative {
        /// Which job.
        id: u64,
        /// Which length.
        what: &'static str,
        /// What was given.
        value: i64,
    },
    /// An outage or a reservation makes no sense.
    #[error(
        "{what} of nodes {first} to {last} from {from} until {until}: expected nodes below {has} \
         and a start before the end"
    )]
    Block {
        /// An outage, or which reservation.
        what: String,
        /// Its first node.
        first: u32,
        /// Its last node.
        last: u64,
        /// Its first second.
        from: i64,
        /// The first second after it.
        until: i64,
        /// How many nodes there are.
        has: u32,
    },
}

/// Adjacent nodes: `first..first + count`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Run {
    /// The first node.
    pub first: u32,
    /// How many.
    pub count: u32,
}

impl Run {
    /// The nodes, ascending.
    pub fn nodes(self) -> impl Iterator<Item = u32> {
        self.first..self.first.saturating_add(self.count)
    }
}

/// When and where a job ran.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placement {
    /// The job's place in the order of submission, from 0 (jobs that were left out count too);
    /// in a [`Schedule`](crate::Schedule) its place in the list that was given.
    pub job: usize,
    /// The job's number.
    pub id: u64,
    /// Its first second.
    pub start: i64,
    /// The first second after it.
    pub end: i64,
    /// When it would have ended after its walltime.
    pub asked_end: i64,
    /// Its nodes, ascending.
    pub runs: Vec<Run>,
    /// The start that was promised when it first got a reservation: under EASY as the head of
    /// the queue, under conservative backfill when it came. Nothing: it started without one.
    pub promised: Option<i64>,
}

impl Placement {
    /// How many nodes it has.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.runs.iter().map(|run| run.count).sum()
    }
}
