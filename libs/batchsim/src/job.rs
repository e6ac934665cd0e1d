//! Batch jobs, their placements, and the errors of a workload.

use lacuna_model::Timestamp;
use serde::{Deserialize, Serialize};

/// The longest length, seconds (3,000 years); longer ones count as this. Times are bounded to a
/// million times as much around 1970. So a damaged log cannot overflow the numbers.
pub(crate) const LONGEST_S: i64 = 100_000_000_000;

/// A rigid batch job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct BatchJob {
    /// The number of the job, for the caller's use.
    pub id: u64,
    /// The submission, seconds.
    pub submit: i64,
    /// The number of nodes that the job needs.
    pub nodes: u32,
    /// The true length, seconds. Some machines let jobs run beyond their walltime.
    pub runtime: i64,
    /// The requested length, seconds: all that the scheduler knows.
    pub walltime: i64,
    /// The start in the log, seconds; only [`Starts::Recorded`] uses it.
    ///
    /// [`Starts::Recorded`]: crate::Starts::Recorded
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recorded_start: Option<i64>,
}

impl BatchJob {
    /// The submission, bounded against overflow.
    pub(crate) fn submitted(&self) -> i64 {
        let far = LONGEST_S * 1_000_000;
        self.submit.clamp(-far, far)
    }

    /// The job with lengths and times bounded against overflow.
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

    /// The end by walltime of a job that starts at `start`. It is at least one second later, since
    /// a job with walltime zero is expected to end any second.
    pub(crate) fn asked_until(&self, start: i64) -> i64 {
        start.saturating_add(self.walltime.max(1))
    }
}

/// The reason why a machine or a workload is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BatchError {
    /// The machine has no nodes.
    #[error("a machine needs at least one node")]
    NoNodes,
    /// The job can never start.
    #[error("batch job {id} needs {needs} nodes: the machine has {has}, expected 1 to {has}")]
    Size {
        /// The number of the job.
        id: u64,
        /// The nodes that the job needs.
        needs: u32,
        /// The nodes of the machine.
        has: u32,
    },
    /// A length of a job is negative.
    #[error("batch job {id}: {what} is {value} s: expected zero or more")]
    Negative {
        /// The number of the job.
        id: u64,
        /// The name of the length.
        what: &'static str,
        /// The given length, seconds.
        value: i64,
    },
    /// An outage or a reservation is invalid.
    #[error(
        "{what} of nodes {first} to {last} from {} until {}: expected nodes below {has} \
         and a start before the end",
        Timestamp::from_unix(*from),
        Timestamp::from_unix(*until)
    )]
    Block {
        /// `an outage`, or the name of the reservation.
        what: String,
        /// The first node.
        first: u32,
        /// The last node.
        last: u64,
        /// The first second.
        from: i64,
        /// The first second after it.
        until: i64,
        /// The nodes of the machine.
        has: u32,
    },
}

/// Adjacent nodes: `first..first + count`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct NodeRange {
    /// The first node.
    pub first: u32,
    /// The number of nodes.
    pub count: u32,
}

impl NodeRange {
    /// The numbers of the nodes, ascending.
    pub fn nodes(self) -> impl Iterator<Item = u32> {
        self.first..self.first.saturating_add(self.count)
    }
}

/// The time and the nodes of a job that started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placement {
    /// The job's place in the order of submission, from 0; jobs that were left out count too. In a
    /// [`Schedule`](crate::Schedule) it is the place in the given list.
    pub job: usize,
    /// The job's number.
    pub id: u64,
    /// The first second of the job.
    pub start: i64,
    /// The first second after it.
    pub end: i64,
    /// The end by walltime, seconds.
    pub asked_end: i64,
    /// The nodes of the job, ascending.
    pub ranges: Vec<NodeRange>,
    /// The start in the job's first reservation, seconds. Under EASY it gets one as the head of the
    /// queue, under conservative backfill when it is submitted. `None` if it started without.
    pub reserved_start: Option<i64>,
}

impl Placement {
    /// The number of nodes.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.ranges.iter().map(|range| range.count).sum()
    }
}
