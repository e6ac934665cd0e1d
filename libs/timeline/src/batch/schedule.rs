//! Batch jobs in, their placements and the holes between them out.

use lacuna_model::{HoleRecord, NodeId, Span, Timestamp};
use serde::{Deserialize, Serialize};

/// A rigid batch job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
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
}

/// Why a workload was refused.
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
}

/// Adjacent nodes: `first..first + count`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// The first node.
    pub first: u32,
    /// How many.
    pub count: u32,
}

/// When and where a job ran.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placement {
    /// The job's place in the list that was given.
    pub job: usize,
    /// Its first second.
    pub start: i64,
    /// The first second after it.
    pub end: i64,
    /// When it would have ended after its walltime.
    pub asked_end: i64,
    /// Its nodes, ascending.
    pub runs: Vec<Run>,
    /// The start that was promised when it first became the head of the queue, if it waited
    /// there.
    pub promised: Option<i64>,
}

impl Placement {
    /// How many nodes it has.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.runs.iter().map(|run| run.count).sum()
    }
}

/// A time during which one node had no job: `[from, until)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeHole {
    /// The node's number, from 0.
    pub node: u32,
    /// Its first second.
    pub from: i64,
    /// The first second after it.
    pub until: i64,
    /// Whether the schedule ended first.
    pub censored: bool,
}

/// What the scheduler made of a workload.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Schedule {
    /// How many nodes the machine has.
    pub nodes: u32,
    /// The first second: the first submission.
    pub start: i64,
    /// The first second that is not covered.
    pub end: i64,
    /// Jobs in order of their start.
    pub placements: Vec<Placement>,
    /// Holes in order of their end.
    pub holes: Vec<NodeHole>,
    /// Jobs that had not started at the end.
    pub waiting: usize,
}

impl Schedule {
    /// The part of the schedule's holes within `[from, until)`: holes that began before are
    /// cut at `from`, holes that ended after are cut at `until` and marked as censored.
    #[must_use]
    pub fn window(&self, from: i64, until: i64) -> Vec<NodeHole> {
        let until = until.min(self.end);
        self.holes
            .iter()
            .filter(|hole| hole.until > from && hole.from < until)
            .map(|hole| NodeHole {
                from: hole.from.max(from),
                until: hole.until.min(until),
                censored: hole.until > until || (hole.censored && hole.until == until),
                ..*hole
            })
            .collect()
    }

    /// Share of the node-time in `[from, until)` during which nodes had a job.
    #[must_use]
    pub fn utilisation(&self, from: i64, until: i64) -> f64 {
        let until = until.min(self.end);
        let offered = (until - from) as f64 * f64::from(self.nodes);
        let idle: i64 = self
            .window(from, until)
            .iter()
            .map(|hole| hole.until - hole.from)
            .sum();
        if offered > 0.0 {
            1.0 - idle as f64 / offered
        } else {
            0.0
        }
    }
}

/// Holes as a recording has them: named nodes, second 0 at `origin`, sorted by start and node.
/// Numbers without a name are left out.
#[must_use]
pub fn records(holes: &[NodeHole], names: &[NodeId], origin: Timestamp) -> Vec<HoleRecord> {
    let mut holes: Vec<&NodeHole> = holes.iter().collect();
    holes.sort_unstable_by_key(|hole| (hole.from, hole.node));
    holes
        .into_iter()
        .filter_map(|hole| {
            Some(HoleRecord {
                node: names.get(hole.node as usize)?.clone(),
                from: origin + Span::from_secs(hole.from),
                until: origin + Span::from_secs(hole.until),
                censored: hole.censored,
            })
        })
        .collect()
}
