//! PBS: live accounting records, `pbsnodes -F json` and `qstat -f -F json`.
//!
//! Sources: the PBS Professional Administrator's Guide, chapter "Accounting"; the Reference
//! Guide, "pbsnodes", "Node attributes" and "Job attributes". Records mean the same as in the
//! parser of whole logs. A job holds its nodes from `S` or `T` to `E`, `R`, `C` or `M`. `s` changes
//! its nodes. `D` and `A` only announce an end.

use std::collections::BTreeMap;

use jiff::tz::TimeZone;
use lacuna_model::{NodeId, Timestamp};
use lacuna_records::fields::{signed, unexpected};
use lacuna_records::lenient::{self, Lenient};
use lacuna_records::pbs::{Attributes, Parts, hosts};
use lacuna_records::times::{LocalTimes, civil};
use lacuna_records::{FieldError, JobOutcome, excerpt};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::answer::{AnswerError, nodes};
use crate::job::JobState;
use crate::jobs::{RunningJob, RunningJobs};
use crate::node_status::NodeStatus;
use crate::shared::Marks;

/// Most bytes of a record that lacks its hosts.
const LONGEST: usize = 64 * 1024;

/// Reads accounting records and keeps the running jobs.
#[derive(Debug)]
pub struct PbsRecords {
    marks: Marks,
    times: LocalTimes,
    running: RunningJobs,
    /// The newest record if it lacks its hosts, which may be in the lines behind it.
    begun: Vec<u8>,
}

impl PbsRecords {
    /// A reader that starts with these running jobs. The times of records are local times of
    /// `zone`.
    #[must_use]
    pub fn new(marks: Marks, zone: TimeZone, running: RunningJobs) -> Self {
        Self {
            marks,
            times: LocalTimes::new(zone),
            running,
            begun: Vec::new(),
        }
    }

    /// The running jobs, to be changed.
    pub fn running(&mut self) -> &mut RunningJobs {
        &mut self.running
    }

    /// The running jobs.
    #[must_use]
    pub const fn jobs(&self) -> &RunningJobs {
        &self.running
    }

    /// Reads further records as local times of `zone`.
    pub fn set_zone(&mut self, zone: TimeZone) {
        self.times = LocalTimes::new(zone);
    }

    /// Takes a line. Returns the time of its record; comments and blank lines have none. A start
    /// whose texts hold line ends counts from the line with its hosts on.
    ///
    /// # Errors
    /// [`FieldError`] if the record is damaged. It then changes nothing.
    pub fn line(&mut self, line: &[u8]) -> Result<Option<Timestamp>, FieldError> {
        let line = line.trim_ascii();
        let mut begun = std::mem::take(&mut self.begun);
        if Parts::of(line).is_some() {
            return self.record(line);
        }
        if !begun.is_empty() && begun.len() < LONGEST {
            begun.push(b'\n');
            begun.extend_from_slice(line);
            return self.record(&begun);
        }
        if matches!(line.first(), None | Some(b';' | b'#')) {
            return Ok(None);
        }
        let expected = "MM/DD/YYYY HH:MM:SS;type;id;key=value ...";
        Err(unexpected("record", expected, line))
    }

    fn record(&mut self, text: &[u8]) -> Result<Option<Timestamp>, FieldError> {
        let Some(parts) = Parts::of(text) else {
            return Ok(None);
        };
        let at = self.at(&parts)?;
        let id = String::from_utf8_lossy(parts.id);
        match parts.letter {
            b'S' | b'T' | b's' if !parts.is_array() => {
                let attributes = Attributes::of(parts.message);
                if !attributes.has_hosts() {
                    self.begun = text.to_vec();
                    return Ok(Some(at));
                }
                let mut list = String::new();
                hosts(&attributes, &mut list)?;
                let nodes = nodes("exec_host", &list)?;
                // A change of nodes does not repeat the marks of the job.
                let before = (parts.letter == b's')
                    .then(|| self.running.job(&id))
                    .flatten();
                let ours = before.map_or_else(|| self.is_ours(&attributes), |job| job.ours);
                self.running.start(&id, RunningJob { nodes, ours });
            }
            b'E' | b'R' | b'C' | b'M' => self.running.end(&id),
            _ => {}
        }
        Ok(Some(at))
    }

    fn is_ours(&self, attributes: &Attributes<'_>) -> bool {
        let plain = |text: Option<&[u8]>| {
            let text = String::from_utf8_lossy(text.unwrap_or_default()).into_owned();
            text.trim_matches(['"', '\'']).to_owned()
        };
        let (queue, name) = (plain(attributes.queue), plain(attributes.jobname));
        let (user, account) = (plain(attributes.user), plain(attributes.account));
        self.marks.fit_texts(&queue, &account, &user, None, &name)
    }

    fn at(&mut self, parts: &Parts<'_>) -> Result<Timestamp, FieldError> {
        let text = &parts.time;
        let number = |from: usize, to: usize| signed(text.get(from..to)?);
        let local = || {
            let (month, day, year) = (number(0, 2)?, number(3, 5)?, number(6, 10)?);
            let (hour, minute) = (number(11, 13)?, number(14, 16)?);
            civil(year, month, day, hour, minute, number(17, 19)?)
        };
        local()
            .and_then(|local| self.times.unix_seconds(local))
            .map(Timestamp::from_unix)
            .ok_or_else(|| unexpected("time", "a time (12/21/2024 17:58:09)", text))
    }
}

/// Whether silence is the only obstacle of a node. After a restart of the PBS server all nodes are
/// `state-unknown,down` until they have answered.
fn is_unclear(state: &str) -> bool {
    let mut words = state.split(',').map(str::trim);
    let only = ["free", "job-busy", "job-exclusive", "down", "state-unknown"];
    state.contains("state-unknown") && words.all(|word| only.contains(&word))
}

impl PbsNode {
    /// See [`crate::slurm::NodeFlags::is_unclear`].
    #[must_use]
    pub fn is_unclear(&self) -> bool {
        is_unclear(&self.state)
    }
}

/// A node in one answer of `pbsnodes`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PbsNode {
    /// The node.
    pub node: NodeId,
    /// State, as in `free`, `job-busy`, `down,offline`.
    pub state: String,
    /// Ids of the jobs on the node, each once.
    pub jobs: Vec<String>,
    /// The queue, if the node serves only one.
    pub queue: Option<String>,
    /// Comment of an administrator or of PBS.
    pub comment: String,
}

/// Nodes in one answer of `pbsnodes`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PbsAnswer {
    /// The nodes that can be read.
    pub nodes: Vec<PbsNode>,
    /// What is wrong in the answer: texts that are no strict JSON, and nodes that cannot be read.
    /// Such a node counts as missing.
    pub flaws: Vec<String>,
}

/// Reads the answer of `pbsnodes -a -F json`. A damaged text costs that text at most, a damaged node
/// that node.
///
/// # Errors
/// [`AnswerError`] if the answer is no JSON, ends too early, or holds no node.
pub fn read(answer: &str) -> Result<PbsAnswer, AnswerError> {
    let Lenient { value, flaw } = json(answer)?;
    let mut flaws: Vec<String> = flaw.into_iter().collect();
    let mut found = Vec::new();
    let described = value.get("nodes").and_then(Value::as_object);
    for (name, described) in described.into_iter().flatten() {
        match node(name, described) {
            Ok(node) => found.push(node),
            Err(at) => flaws.push(format!("node {}: {at}", excerpt(name))),
        }
    }
    if found.is_empty() {
        return Err(match flaws.into_iter().next() {
            Some(reason) => AnswerError::Unreadable { reason },
            None => AnswerError::Empty {
                expected: "a node at least",
            },
        });
    }
    let nodes = found;
    Ok(PbsAnswer { nodes, flaws })
}

fn node(name: &str, described: &Value) -> Result<PbsNode, FieldError> {
    let node = NodeId::new(name).map_err(|error| FieldError::new("node", error.expected, name))?;
    let field = |key| described.get(key).map(text).unwrap_or_default();
    let state = field("state");
    if state.is_empty() {
        return Err(FieldError::new("state", "a state, as in free", "nothing"));
    }
    let mut jobs: Vec<String> = Vec::new();
    let listed = described.get("jobs").and_then(Value::as_array);
    for job in listed.into_iter().flatten() {
        // `12.server/3`: a job and its slot on the node.
        let text = text(job);
        let id = text.split('/').next().unwrap_or_default().trim();
        if !id.is_empty() && !jobs.iter().any(|known| known == id) {
            jobs.push(id.to_owned());
        }
    }
    Ok(PbsNode {
        node,
        state,
        jobs,
        queue: Some(field("queue")).filter(|queue| !queue.is_empty()),
        comment: field("comment"),
    })
}

fn json(answer: &str) -> Result<Lenient, AnswerError> {
    lenient::read(answer).map_err(|reason| AnswerError::Unreadable { reason })
}

/// A job in one answer of `qstat`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct PbsJob {
    /// Job id: `12.server`.
    #[serde(skip)]
    pub id: String,
    /// Job name.
    #[serde(rename = "Job_Name", default, deserialize_with = "any_text")]
    pub name: String,
    /// Time of submission, as PBS prints it.
    #[serde(rename = "ctime", default, deserialize_with = "any_text")]
    pub submitted: String,
    #[serde(rename = "Job_Owner", default, deserialize_with = "any_text")]
    owner: String,
    #[serde(rename = "job_state", default, deserialize_with = "any_text")]
    letter: String,
    #[serde(rename = "exec_host", default, deserialize_with = "any_text")]
    exec_host: String,
    #[serde(rename = "Variable_List", default)]
    variables: Value,
}

impl PbsJob {
    /// State of the job.
    #[must_use]
    pub fn state(&self) -> JobState {
        match self.letter.as_str() {
            "Q" | "H" | "W" | "T" | "M" => JobState::Pending,
            "R" | "B" => JobState::Running,
            "S" | "U" => JobState::Suspended,
            "E" => JobState::Completing,
            // Only with a job history, which no command here requests.
            "F" | "X" => JobState::Over(JobOutcome::Unknown),
            _ => JobState::Other,
        }
    }

    /// User who submitted the job.
    #[must_use]
    pub fn user(&self) -> &str {
        self.owner.split('@').next().unwrap_or_default()
    }

    /// First host of the job; empty while the job waits.
    #[must_use]
    pub fn host(&self) -> &str {
        self.exec_host.split('/').next().unwrap_or_default()
    }

    /// A variable of the job's environment; empty if it is not set.
    #[must_use]
    pub fn variable(&self, name: &str) -> String {
        self.variables.get(name).map(text).unwrap_or_default()
    }
}

/// A text. `qstat` writes a text that looks like a number as a number.
fn any_text<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    Value::deserialize(from).map(|value| text(&value))
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

#[derive(Deserialize)]
struct Listing {
    #[serde(rename = "Jobs", default)]
    jobs: BTreeMap<String, PbsJob>,
}

/// Reads the answer of `qstat -f -F json`, which may hold no job.
///
/// # Errors
/// [`AnswerError`] if the answer is no such JSON.
pub fn read_jobs(answer: &str) -> Result<Vec<PbsJob>, AnswerError> {
    let unreadable = |error: serde_json::Error| AnswerError::Unreadable {
        reason: error.to_string(),
    };
    let Listing { jobs } = serde_json::from_value(json(answer)?.value).map_err(unreadable)?;
    Ok(jobs
        .into_iter()
        .map(|(id, job)| PbsJob { id, ..job })
        .collect())
}

/// Classifies a node by its state and its jobs. `running` knows which jobs are our own pilots. A
/// job without a record is foreign.
#[must_use]
pub fn pbs_node_status(node: &PbsNode, running: &RunningJobs, marks: &Marks) -> NodeStatus {
    let mut taken = false;
    for word in node.state.split(',').map(str::trim) {
        match word.to_ascii_lowercase().as_str() {
            "free" | "job-busy" | "job-exclusive" | "job-sharing" | "" => {}
            // Load that is not of jobs, and reservations.
            "busy" | "resv-exclusive" | "resv" => taken = true,
            // Down, offline, state-unknown, provisioning, sleep, and words of later releases.
            _ => {
                let reason = match node.comment.as_str() {
                    "" => node.state.clone(),
                    comment => format!("{}: {comment}", node.state),
                };
                return NodeStatus::Unusable { reason };
            }
        }
    }
    if let Some(queue) = &node.queue
        && marks.has(queue) == Some(false)
    {
        return NodeStatus::Unusable {
            reason: format!("serves queue {queue} alone"),
        };
    }
    let ours = |id: &String| running.job(id).is_some_and(|job| job.ours);
    let is_free = node
        .state
        .split(',')
        .any(|word| word.trim().eq_ignore_ascii_case("free"));
    if taken || !node.jobs.iter().all(ours) || (node.jobs.is_empty() && !is_free) {
        return NodeStatus::Taken;
    }
    NodeStatus::Hole
}
