//! `squeue`: jobs that wait or hold nodes, and, with `--states=all`, jobs that are over.

use jiff::tz::TimeZone;
use lacuna_model::{NodeId, Span, Timestamp};
use lacuna_records::fields::{length, unexpected, unix};
use lacuna_records::times::LocalTimes;
use lacuna_records::{FieldError, JobOutcome};

use crate::answer::{AnswerError, each, format, nodes, text};
use crate::job::JobState;

/// The requested fields, in this order. Comment and name are free text.
const FIELDS: [&str; 14] = [
    "JobArrayID",
    "SubmitTime",
    "ReqNodes",
    "State",
    "Partition",
    "Account",
    "UserName",
    "NodeList",
    "TimeLimit",
    "StartTime",
    "PreemptTime",
    "SchedNodes",
    "Comment",
    "Name",
];

impl JobState {
    /// Reads a state word of Slurm, in any case.
    #[must_use]
    pub fn parse(word: &str) -> Self {
        let word = word.trim().to_ascii_uppercase();
        if let Some(outcome) = JobOutcome::of_slurm(word.as_bytes()) {
            return Self::Over(outcome);
        }
        match word.as_str() {
            "PENDING" | "PD" | "REQUEUED" | "REQUEUE_HOLD" | "REQUEUE_FED" | "RESV_DEL_HOLD"
            | "SPECIAL_EXIT" => Self::Pending,
            "CONFIGURING" | "CF" => Self::Configuring,
            "RUNNING" | "R" => Self::Running,
            "COMPLETING" | "CG" | "STAGE_OUT" => Self::Completing,
            "SUSPENDED" | "STOPPED" | "RESIZING" | "SIGNALING" => Self::Suspended,
            _ => Self::Other,
        }
    }
}

/// A job in one answer of `squeue`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobReport {
    /// Job id: `17`, `17_3`.
    pub id: String,
    /// Time of submission, as Slurm prints it.
    pub submitted: String,
    /// The requested node, if the job requests exactly one by name.
    pub asked: Option<NodeId>,
    /// State of the job.
    pub state: JobState,
    /// Partition. A waiting job may have several, with commas between.
    pub partition: String,
    /// Account; empty without accounting.
    pub account: String,
    /// User who submitted the job.
    pub user: String,
    /// Nodes that the job holds.
    pub nodes: Vec<NodeId>,
    /// Time limit; `None` is unlimited.
    pub time_limit: Option<Span>,
    /// Start, or expected start of a waiting job.
    pub start: Option<Timestamp>,
    /// Time at which Slurm chose the job for preemption.
    pub preempted: Option<Timestamp>,
    /// Nodes on which a waiting job is expected to start.
    pub planned: Vec<NodeId>,
    /// Comment of the user.
    pub comment: String,
    /// Job name.
    pub name: String,
}

/// Arguments of `squeue` for all jobs that wait or hold nodes, of every partition. Expected starts
/// and nodes are those that `--start` shows.
#[must_use]
pub fn arguments() -> Vec<String> {
    ["-h", "-a", "-O"]
        .map(str::to_owned)
        .into_iter()
        .chain([format(&FIELDS)])
        .collect()
}

/// Reads an answer. Local times are in `zone`. An empty answer is an answer without jobs.
///
/// # Errors
/// [`AnswerError`] for any damaged record.
pub fn read(answer: &str, zone: &TimeZone) -> Result<Vec<JobReport>, AnswerError> {
    let mut times = LocalTimes::new(zone.clone());
    let mut jobs = Vec::new();
    each(answer, |fields| {
        let [
            id,
            submitted,
            asked,
            state,
            partition,
            account,
            user,
            held,
            limit,
            start,
            preempted,
            planned,
            comment,
            name,
        ] = fields;
        if id.is_empty() {
            return Err(FieldError::new("JobArrayID", "the name of a job", id));
        }
        jobs.push(JobReport {
            id: id.to_owned(),
            submitted: submitted.to_owned(),
            asked: NodeId::new(text(asked)).ok(),
            state: JobState::parse(state),
            partition: text(partition).to_owned(),
            account: text(account).to_owned(),
            user: text(user).to_owned(),
            nodes: nodes("NodeList", held)?,
            // The time limit does not affect the status of a node, so an unexpected one is no
            // error.
            time_limit: length(limit.as_bytes()).and_then(|length| length.span()),
            start: time(&mut times, "StartTime", start)?,
            preempted: time(&mut times, "PreemptTime", preempted)?,
            planned: nodes("SchedNodes", planned)?,
            comment: text(comment).to_owned(),
            name: name.to_owned(),
        });
        Ok(())
    })?;
    Ok(jobs)
}

/// A time in Unix seconds or in ISO 8601, or none.
fn time(times: &mut LocalTimes, place: &str, field: &str) -> Result<Option<Timestamp>, FieldError> {
    let field = text(field);
    if field.is_empty() || field == "0" {
        return Ok(None);
    }
    unix(field.as_bytes())
        .or_else(|| times.iso(field.as_bytes()))
        .map(Some)
        .ok_or_else(|| {
            unexpected(
                place,
                "a time (2026-11-20T19:46:33, or Unix seconds)",
                field.as_bytes(),
            )
        })
}
