//! `flux jobs --json`: jobs that wait, run or are over.
//!
//! Source: flux-jobs(1), "--json", "JOB STATUS" and "OUTPUT FORMAT"; RFC 19 (ids), RFC 21 (states). A job
//! lacks the keys whose values are not known yet.

use std::collections::BTreeMap;

use lacuna_model::{NodeId, Timestamp};
use lacuna_records::{FieldError, JobOutcome};
use serde::Deserialize;

use super::resources::FluxNode;
use crate::answer::{AnswerError, nodes};
use crate::job::JobState;
use crate::node_status::NodeStatus;
use crate::shared::Marks;

/// Most jobs of an answer; without it `flux jobs` lists a thousand.
const MOST: &str = "--count=1000000";

/// A job in one answer.
#[derive(Debug, Clone, PartialEq)]
pub struct FluxJob {
    /// Job id, a number.
    pub id: u64,
    /// Job name.
    pub name: String,
    /// User who submitted the job.
    pub user: String,
    /// Queue; empty where Flux has no named queues.
    pub queue: String,
    /// State of the job.
    pub state: JobState,
    /// Nodes that the job has or had.
    pub nodes: Vec<NodeId>,
    /// Time of submission, as Flux prints it.
    pub submitted: String,
    /// Time at which the job ends at the latest; `None` for a job without a limit, or one that waits.
    pub expiration: Option<Timestamp>,
}

/// Arguments of `flux` for the jobs of all users that wait or hold nodes.
#[must_use]
pub fn arguments() -> Vec<String> {
    ["jobs", "-A", "--json", MOST].map(str::to_owned).into()
}

/// Arguments of `flux jobs` for jobs that are not over, or since some minutes only.
#[must_use]
pub fn recent(all_users: bool) -> Vec<String> {
    let first = ["--json", MOST, "--since=-10m"].into_iter();
    let all = all_users.then_some("-A");
    first.chain(all).map(str::to_owned).collect()
}

#[derive(Deserialize)]
struct Answer {
    jobs: Vec<Described>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Exception {
    #[serde(rename = "type")]
    kind: String,
}

#[derive(Deserialize)]
struct Described {
    id: u64,
    state: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    username: String,
    #[serde(default)]
    queue: String,
    #[serde(default)]
    result: String,
    #[serde(default)]
    nodelist: String,
    #[serde(default)]
    t_submit: f64,
    #[serde(default)]
    expiration: f64,
    #[serde(default)]
    exception: Exception,
}

/// Reads an answer, which may hold no job.
///
/// # Errors
/// [`AnswerError`] if the answer is no such JSON or holds a damaged job.
pub fn read(answer: &str) -> Result<Vec<FluxJob>, AnswerError> {
    let answer: Answer = serde_json::from_str(answer).map_err(|error| AnswerError::Unreadable {
        reason: error.to_string(),
    })?;
    let jobs = (1..).zip(answer.jobs);
    jobs.map(|(record, job)| job.read().map_err(|at| AnswerError::Field { record, at }))
        .collect()
}

impl Described {
    fn read(self) -> Result<FluxJob, FieldError> {
        Ok(FluxJob {
            state: self.state(),
            nodes: nodes("nodelist", &self.nodelist)?,
            submitted: format!("{:.3}", self.t_submit),
            expiration: (self.expiration > 0.0)
                .then(|| Timestamp::from_unix_ms((self.expiration * 1000.0) as i64)),
            id: self.id,
            name: self.name,
            user: self.username,
            queue: self.queue,
        })
    }

    fn state(&self) -> JobState {
        match self.state.as_str() {
            "NEW" | "DEPEND" | "PRIORITY" | "SCHED" => JobState::Pending,
            "RUN" => JobState::Running,
            "CLEANUP" => JobState::Completing,
            "INACTIVE" => JobState::Over(match self.result.as_str() {
                _ if self.exception.kind == "preempt" => JobOutcome::Preempted,
                "COMPLETED" => JobOutcome::Completed,
                "FAILED" => JobOutcome::Failed,
                "CANCELED" => JobOutcome::Cancelled,
                "TIMEOUT" => JobOutcome::Timeout,
                _ => JobOutcome::Unknown,
            }),
            _ => JobState::Other,
        }
    }
}

impl Marks {
    /// Whether a job is one of our own pilots.
    fn fit_flux(&self, job: &FluxJob) -> bool {
        self.fit_texts(&job.queue, "", &job.user, None, &job.name)
    }
}

/// Classifies nodes by their state and the jobs that name them. A node whose jobs are hidden from this
/// user (`access.private-mode`), or that is cleaned behind a job (housekeeping), is allocated without
/// a job, and counts as taken.
#[must_use]
pub fn node_statuses(
    all: &BTreeMap<NodeId, FluxNode>,
    jobs: &[FluxJob],
    marks: &Marks,
) -> Vec<(NodeId, NodeStatus)> {
    // Whether only pilots are on a node.
    let mut on: BTreeMap<&NodeId, bool> = BTreeMap::new();
    for job in jobs {
        let ours = match job.state {
            JobState::Over(_) | JobState::Pending => continue,
            JobState::Running => marks.fit_flux(job),
            _ => false,
        };
        for node in &job.nodes {
            *on.entry(node).or_insert(true) &= ours;
        }
    }
    let of = |(name, node): (&NodeId, &FluxNode)| {
        let is_open = |queue: &String| marks.has(queue).unwrap_or(true);
        let is_ours = match node.queues.is_empty() {
            true => marks.has("").unwrap_or(true),
            false => node.queues.iter().any(is_open),
        };
        let unusable = |reason: &str| NodeStatus::Unusable {
            reason: reason.to_owned(),
        };
        let status = match on.get(name) {
            _ if !node.up => unusable("down, drained or torpid: flux resource status"),
            _ if !is_ours => unusable("in no queue of ours"),
            Some(true) => NodeStatus::Hole,
            None if !node.allocated => NodeStatus::Hole,
            _ => NodeStatus::Taken,
        };
        (name.clone(), status)
    };
    all.iter().map(of).collect()
}

/// The digits of F58 (RFC 19), which are those of Bitcoin.
const DIGITS: &[u8] = b"123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";

/// The number of a job id in F58, as in `ƒLUv` or `fLUv`, or of a plain number.
#[must_use]
pub fn id(text: &str) -> Option<u64> {
    if text.bytes().all(|b| b.is_ascii_digit()) {
        return text.parse().ok();
    }
    let digits = text.strip_prefix('ƒ').or_else(|| text.strip_prefix('f'))?;
    if digits.is_empty() {
        return None;
    }
    digits.bytes().try_fold(0_u64, |number, byte| {
        let digit = DIGITS.iter().position(|known| *known == byte)?;
        number.checked_mul(58)?.checked_add(digit as u64)
    })
}
