//! `squeue`: jobs that wait or hold nodes, and, where all states are asked for, those that are
//! over.

use jiff::tz::TimeZone;
use lacuna_model::{NodeId, Span, Timestamp};

use super::records::{AnswerError, each, format, nodes, text};
use crate::fields::{LocalTimes, length, odd, unix};
use crate::{FieldError, JobOutcome};

/// The fields asked for, in this order. Comment and name are free text.
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

/// What a job does, as far as it matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum JobState {
    /// It waits.
    Pending,
    /// Its nodes are being made ready.
    Configuring,
    /// It runs.
    Running,
    /// It has ended, its nodes are not free yet.
    Completing,
    /// It stands still, or changes its size, on its nodes.
    Suspended,
    /// It is over.
    Over(JobOutcome),
    /// A word of a later release: what nodes it names it holds.
    Other,
}

impl JobState {
    /// Reads a word of Slurm's, in any case.
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

/// A job, as one answer of `squeue` shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobReport {
    /// Its name in the scheduler's words: `17`, `17_3`.
    pub id: String,
    /// When it was submitted, in the scheduler's words.
    pub submitted: String,
    /// The node that it asks for by name, if that is one alone.
    pub asked: Option<NodeId>,
    /// What it does.
    pub state: JobState,
    /// Its partition; several with commas between, while it waits.
    pub partition: String,
    /// Its account; empty without accounting.
    pub account: String,
    /// Who submitted it.
    pub user: String,
    /// The nodes that it holds.
    pub nodes: Vec<NodeId>,
    /// How long it may run; nothing: for ever.
    pub time_limit: Option<Span>,
    /// When it started, or is expected to.
    pub start: Option<Timestamp>,
    /// When it was chosen to be preempted, if it was.
    pub preempted: Option<Timestamp>,
    /// While it waits: the nodes that it is expected to start on.
    pub planned: Vec<NodeId>,
    /// A comment of its owner.
    pub comment: String,
    /// Its name.
    pub name: String,
}

/// The arguments for `squeue`: all jobs that wait or hold nodes, of every partition. Expected
/// starts and nodes stand there as `--start` would show them.
#[must_use]
pub fn arguments() -> Vec<String> {
    ["-h", "-a", "-O"]
        .map(str::to_owned)
        .into_iter()
        .chain([format(&FIELDS)])
        .collect()
}

/// Reads an answer; `zone` is that of times that are local. No job at all is an answer too.
///
/// # Errors
/// [`AnswerError`] if anything in it is not as asked for.
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
            // Not needed to judge a node, so that an odd one does no harm.
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

/// A time in Unix seconds or as ISO 8601 writes it, or none.
fn time(times: &mut LocalTimes, place: &str, field: &str) -> Result<Option<Timestamp>, FieldError> {
    let field = text(field);
    if field.is_empty() || field == "0" {
        return Ok(None);
    }
    unix(field.as_bytes())
        .or_else(|| times.iso(field.as_bytes()))
        .map(Some)
        .ok_or_else(|| {
            odd(
                place,
                "a time (2026-11-20T19:46:33, or Unix seconds)",
                field.as_bytes(),
            )
        })
}
