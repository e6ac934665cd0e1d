//! Errors of replays, walks and statistics.

use std::path::PathBuf;

use lacuna_batchsim::BatchError;
use lacuna_forecast::Unfit;
use lacuna_model::{KindName, MOST_KINDS, Timestamp, TrainerId};
use lacuna_planner::check::Violation;
use lacuna_planner::objective::ObjectiveError;
use lacuna_trace::ReadError;

/// Errors of replays, walks and statistics.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SimError {
    /// A log that cannot be read.
    #[error(transparent)]
    Log(#[from] ReadError),
    /// A machine that is invalid, or jobs that it cannot run.
    #[error(transparent)]
    Batch(#[from] BatchError),
    /// A log of holes where a log of batch jobs is needed.
    #[error("{path}: format {format} has records of nodes: expected batch jobs", path = path.display())]
    NotJobs {
        /// Path of the log.
        path: PathBuf,
        /// Format of the log.
        format: &'static str,
    },
    /// A log without a batch job that ran.
    #[error("{path}: none of its {records} records is of a job that ran", path = path.display())]
    NoJobs {
        /// Path of the log.
        path: PathBuf,
        /// Number of its records.
        records: u64,
    },
    /// An empty list of trainers.
    #[error("there are no trainers to replay")]
    NoTrainers,
    /// A trace that ends before the replay starts.
    #[error("nothing to replay: the trace ends at {end}, before the start at {start}")]
    NothingLeft {
        /// Requested start of the replay.
        start: Timestamp,
        /// End of the trace.
        end: Timestamp,
    },
    /// A model that forecasts cannot start with.
    #[error(transparent)]
    Model(#[from] Unfit),
    /// A trace from which no forecasts can be learnt.
    #[error("nothing to learn: {what}")]
    NothingToLearn {
        /// The reason, in words, with a remedy.
        what: String,
    },
    /// A trace of more than 1,000 years, which only a damaged date explains.
    #[error(
        "the trace is {years:.0} years long, from {start} to {end}: expected at most 1,000; is a date damaged?"
    )]
    TooLong {
        /// Length of the trace, years.
        years: f64,
        /// Start of the trace.
        start: Timestamp,
        /// End of the trace.
        end: Timestamp,
    },
    /// A trainer beyond the limits of sizes and costs.
    #[error("trainer {id}: {what} is {value}: expected at most {most}")]
    Trainer {
        /// The trainer.
        id: TrainerId,
        /// Name of the field.
        what: &'static str,
        /// Value of the field.
        value: f64,
        /// Largest accepted value.
        most: f64,
    },
    /// A node without a kind, where kinds are given.
    #[error("node {node} has no kind: add it to the list of kinds, as {node},KIND")]
    NoKind {
        /// The node.
        node: String,
    },
    /// Nodes of more than [`MOST_KINDS`] kinds.
    #[error(
        "the nodes are of {} kinds ({}): a replay plans {MOST_KINDS} kinds at most; name two of them \
         alike, or leave the nodes of the others out", kinds.len(), list(kinds)
    )]
    ManyKinds {
        /// The kinds.
        kinds: Vec<KindName>,
    },
    /// A trainer that names a kind of which there is no node.
    #[error(
        "trainer {id} names kind {kind}, and no node is of it: the nodes are of kind {}; correct \
         the name in the list of trainers or of kinds",
        list(kinds)
    )]
    UnknownKind {
        /// The trainer.
        id: TrainerId,
        /// The kind.
        kind: KindName,
        /// The kinds of the nodes.
        kinds: Vec<KindName>,
    },
    /// A trainer with kinds, where the kinds of nodes are not known.
    #[error(
        "trainer {id} has kinds, and the kinds of nodes are not known: give them as --kinds FILE \
         (node,kind)"
    )]
    KindsUnknown {
        /// The trainer.
        id: TrainerId,
    },
    /// Trainers of an endless list that end too fast for time to advance.
    #[error(
        "{events} trainers end within a second, {at_s} s after the start: in an endless list, or on the dedicated nodes that efficiency is measured by, each needs more work"
    )]
    Standstill {
        /// Number of trainers that ended.
        events: u64,
        /// Time, seconds since the start.
        at_s: f64,
    },
    /// A decision that breaks an invariant: a bug. Trainers and nodes are those of the decision.
    #[error(
        "the decision at event {event}, {at_s} s after the start, breaks an invariant: {violation}"
    )]
    Unsound {
        /// The number of the event, from 0.
        event: u64,
        /// Time, seconds since the start.
        at_s: f64,
        /// The first violation.
        violation: Violation<u32, u32>,
    },
    /// An event without a decision of the planner: a bug.
    #[error("there is no decision at event {event}, {at_s} s after the start: {what}")]
    Internal {
        /// The number of the event, from 0.
        event: u64,
        /// Time, seconds since the start.
        at_s: f64,
        /// The fault, in words.
        what: String,
    },
    /// An objective that is invalid for a trainer.
    #[error(transparent)]
    Objective(#[from] ObjectiveError),
    /// An invalid setting.
    #[error("{what}: expected {expected}")]
    Setting {
        /// Name of the setting.
        what: &'static str,
        /// Accepted values.
        expected: &'static str,
    },
}

/// Names in a row.
fn list(kinds: &[KindName]) -> String {
    let names: Vec<&str> = kinds.iter().map(KindName::as_str).collect();
    names.join(", ")
}
