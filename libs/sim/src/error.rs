//! Errors of replays, walks and statistics.

use std::path::PathBuf;

use lacuna_model::{Timestamp, TrainerId};
use lacuna_planner::check::Violation;
use lacuna_planner::objective::ObjectiveError;
use lacuna_schedlog::ReadError;
use lacuna_timeline::batch::BatchError;

/// Why a replay could not be run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SimError {
    /// The log cannot be read.
    #[error(transparent)]
    Log(#[from] ReadError),
    /// The machine or its jobs make no sense.
    #[error(transparent)]
    Batch(#[from] BatchError),
    /// A log of holes, where one of batch jobs is needed.
    #[error("{path}: it is of format {format}, which tells of nodes: expected batch jobs", path = path.display())]
    NotJobs {
        /// Which log.
        path: PathBuf,
        /// Its format.
        format: &'static str,
    },
    /// No job of the log ran.
    #[error("{path}: none of its {records} records is of a job that ran", path = path.display())]
    NoJobs {
        /// Which log.
        path: PathBuf,
        /// How many records it has.
        records: u64,
    },
    /// There is no trainer.
    #[error("there are no trainers to replay")]
    NoTrainers,
    /// The first trainer comes after the end.
    #[error("nothing to replay: the recording ends at {end}, before the start at {start}", end = end.unix_seconds(), start = start.unix_seconds())]
    NothingLeft {
        /// Where the replay should start.
        start: Timestamp,
        /// Where the trace ends.
        end: Timestamp,
    },
    /// Dates so far apart can only be damage.
    #[error("the recording is {years:.0} years long, from {start} to {end} in seconds since 1970: expected at most 1,000; is a date damaged?", start = start.unix_seconds(), end = end.unix_seconds())]
    TooLong {
        /// How long it is.
        years: f64,
        /// Where it starts.
        start: Timestamp,
        /// Where it ends.
        end: Timestamp,
    },
    /// A trainer that is larger or slower to change than any can be.
    #[error("trainer {id}: {what} is {value}: expected at most {most}")]
    Trainer {
        /// Which.
        id: TrainerId,
        /// Which field of it.
        what: &'static str,
        /// What it is.
        value: f64,
        /// What would have been accepted.
        most: f64,
    },
    /// Trainers of an endless list are done so fast that time does not go on.
    #[error(
        "{events} trainers end within a second, {at_s} s after the start: in an endless list, or on the dedicated nodes that efficiency is measured by, each needs more work"
    )]
    Standstill {
        /// How many ended.
        events: u64,
        /// When, seconds since the start.
        at_s: f64,
    },
    /// A decision breaks an invariant: a bug. Trainers and nodes are those of the decision.
    #[error(
        "the decision at event {event}, {at_s} s after the start, breaks an invariant: {violation}"
    )]
    Unsound {
        /// The number of the event, from 0.
        event: u64,
        /// When, seconds since the start.
        at_s: f64,
        /// The first invariant that it breaks.
        violation: Violation<u32, u32>,
    },
    /// The planner made no decision: a bug.
    #[error("there is no decision at event {event}, {at_s} s after the start: {what}")]
    Internal {
        /// The number of the event, from 0.
        event: u64,
        /// When, seconds since the start.
        at_s: f64,
        /// What is wrong, in words.
        what: String,
    },
    /// What is to be maximised makes no sense for a trainer.
    #[error(transparent)]
    Objective(#[from] ObjectiveError),
    /// A setting makes no sense.
    #[error("{what}: expected {expected}")]
    Setting {
        /// Which.
        what: &'static str,
        /// What would have been accepted.
        expected: &'static str,
    },
}
