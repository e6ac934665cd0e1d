//! LSF: live `lsb.events`.
//!
//! Source: IBM Spectrum LSF 10.1, "lsb.events" in the configuration reference. Events of jobs mean
//! the same as in the parser of whole logs. `HOST_CTRL` closes and opens hosts. The file does not
//! contain whether a host is down. LSF rewrites the file from time to time with the events of all
//! jobs that are not over. The rewritten events change nothing here.

use std::collections::{BTreeMap, BTreeSet};

use lacuna_model::{NodeId, Timestamp};
use lacuna_records::FieldError;
use lacuna_records::lsf::{self, Fields};
use serde::{Deserialize, Serialize};

use crate::answer::nodes;
use crate::jobs::{RunningJob, RunningJobs};
use crate::node_status::NodeStatus;
use crate::shared::Marks;

/// Bits of a job's status: pending, or pending and suspended.
const PENDING: i64 = 0x3;
/// Bits of a job's status: exited, done.
const OVER: i64 = 0x60;
/// Bits of a job's status for its post-execution command (`-Ep`).
const POST: i64 = 0x180;

/// The most bytes of an event over several lines.
const LONGEST: usize = 1 << 20;

/// Operation codes of `HOST_CTRL` (`lsbatch.h`).
const OPEN: i64 = 1;
const CLOSE: i64 = 2;

/// State of the machine, which survives a restart in the state file.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LsfState {
    /// The running jobs.
    #[serde(rename = "held")]
    pub running: RunningJobs,
    /// Waiting pilots by job number.
    waiting: BTreeMap<i64, bool>,
    /// Closed hosts, with the reason.
    closed: BTreeMap<NodeId, String>,
    /// The lines so far of an event whose last text is still open.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    open: Vec<u8>,
}

/// Reads events and keeps the state of the machine.
#[derive(Debug)]
pub struct LsfEvents {
    marks: Marks,
    state: LsfState,
    /// Nodes that were closed or opened since the newest call of `changes`.
    touched: BTreeSet<NodeId>,
}

impl LsfEvents {
    /// A reader that starts from a state.
    #[must_use]
    pub fn new(marks: Marks, state: LsfState) -> Self {
        Self {
            marks,
            state,
            touched: BTreeSet::new(),
        }
    }

    /// The state of the machine.
    #[must_use]
    pub fn state(&self) -> &LsfState {
        &self.state
    }

    /// Status of each of these nodes.
    #[must_use]
    pub fn statuses<'a>(
        &self,
        nodes: impl IntoIterator<Item = &'a NodeId>,
    ) -> Vec<(NodeId, NodeStatus)> {
        let running = self.state.running.nodes();
        let judge = |node: &NodeId| (node.clone(), self.judge(node, &running));
        nodes.into_iter().map(judge).collect()
    }

    /// Nodes that have changed since the call before, with their status.
    pub fn changes(&mut self) -> Vec<(NodeId, NodeStatus)> {
        let mut touched = std::mem::take(&mut self.touched);
        let changed = self.state.running.changes();
        touched.extend(changed.into_iter().map(|(node, _)| node));
        self.statuses(&touched)
    }

    fn judge(&self, node: &NodeId, running: &BTreeMap<&NodeId, NodeStatus>) -> NodeStatus {
        match self.state.closed.get(node) {
            Some(reason) => NodeStatus::Unusable {
                reason: reason.clone(),
            },
            None => running.get(node).cloned().unwrap_or(NodeStatus::Hole),
        }
    }

    /// Takes a line. Returns the time of its event, if the event affects jobs or hosts. Texts may hold line
    /// ends: such an event is taken with its last line.
    ///
    /// # Errors
    /// [`FieldError`] if the event, or the one before whose text was never closed, is damaged. It then
    /// changes nothing.
    pub fn line(&mut self, line: &[u8]) -> Result<Option<Timestamp>, FieldError> {
        if self.state.open.is_empty() {
            return self.begin(line);
        }
        if lsf::begins(line) || self.state.open.len() + line.len() > LONGEST {
            // The text was never closed. The line is an event of its own.
            let cut = std::mem::take(&mut self.state.open);
            let damaged = self.event(&cut);
            return self.begin(line).and_then(|at| damaged.map(|_| at));
        }
        self.state.open.push(b'\n');
        self.state.open.extend_from_slice(line);
        if !lsf::is_open(line) {
            return Ok(None);
        }
        let whole = std::mem::take(&mut self.state.open);
        self.event(&whole)
    }

    fn begin(&mut self, line: &[u8]) -> Result<Option<Timestamp>, FieldError> {
        if lsf::begins(line) && lsf::is_open(line) {
            self.state.open = line.to_vec();
            return Ok(None);
        }
        self.event(line)
    }

    fn event(&mut self, line: &[u8]) -> Result<Option<Timestamp>, FieldError> {
        let line = line.trim_ascii();
        if matches!(line.first(), None | Some(b'#')) {
            return Ok(None);
        }
        let mut fields = Fields::of(line);
        let kind = fields.text("event type")?;
        let matters: [&[u8]; 6] = [
            b"JOB_NEW",
            b"JOB_START",
            b"JOB_STATUS",
            b"JOB_REQUEUE",
            b"JOB_CLEAN",
            b"HOST_CTRL",
        ];
        if !matters.contains(&kind) {
            return Ok(None);
        }
        fields.text("version")?;
        let Some(at) = fields.time("event time")? else {
            return Err(fields.unexpected("event time", "a time in Unix seconds", b"0"));
        };
        match kind {
            b"JOB_NEW" => self.new_job(&mut fields)?,
            b"JOB_START" => self.started(&mut fields)?,
            b"JOB_STATUS" => self.status(&mut fields)?,
            b"HOST_CTRL" => self.host(&mut fields)?,
            _ => {
                let number = fields.number("jobId")?;
                let id = name(number, fields.number("idx")?);
                self.state.running.end(&id);
                if kind == b"JOB_CLEAN" {
                    self.state.waiting.remove(&number);
                }
            }
        }
        Ok(Some(at))
    }

    fn new_job(&mut self, fields: &mut Fields<'_>) -> Result<(), FieldError> {
        let number = fields.number("jobId")?;
        fields.skip_numbers(&["userId", "options", "numProcessors"])?;
        fields.time("submitTime")?;
        fields.skip_numbers(&["beginTime", "termTime", "sigValue"])?;
        fields.skip_numbers(&["chkpntPeriod", "restartPid"])?;
        let user = text(fields.text("userName")?);
        fields.skip_numbers(&["rLimits"; 11])?;
        fields.skip_texts(&["hostSpec"])?;
        fields.skip_real("hostFactor")?;
        fields.skip_numbers(&["umask"])?;
        let queue = text(fields.text("queue")?);
        fields.skip_texts(&["resReq", "fromHost", "cwd", "chkpntDir"])?;
        fields.skip_texts(&["inFile", "outFile", "errFile", "subHomeDir", "jobFile"])?;
        fields.skip_list("numAskedHosts", "askedHosts")?;
        fields.skip_texts(&["dependCond", "preExecCmd"])?;
        let job = text(fields.text("jobName")?);
        let ours = self.marks.fit_texts(&queue, "", &user, None, &job);
        // Only pilots are remembered: an unknown job is foreign.
        if ours {
            self.state.waiting.insert(number, true);
        } else {
            self.state.waiting.remove(&number);
        }
        Ok(())
    }

    fn started(&mut self, fields: &mut Fields<'_>) -> Result<(), FieldError> {
        let number = fields.number("jobId")?;
        fields.skip_numbers(&["jStatus", "jobPid", "jobPGid"])?;
        fields.skip_real("hostFactor")?;
        let mut list = String::new();
        let here = fields.hosts(&mut list)?;
        fields.skip_texts(&["queuePreCmd", "queuePostCmd"])?;
        fields.skip_numbers(&["jFlags"])?;
        fields.skip_texts(&["userGroup"])?;
        let id = name(number, fields.number("idx")?);
        let nodes = nodes("execHosts", &list)?;
        match here {
            Some(_) => {
                let ours = self.state.waiting.get(&number).copied().unwrap_or(false);
                self.state.running.start(&id, RunningJob { nodes, ours });
            }
            // The job runs in another cluster.
            None => self.state.running.end(&id),
        }
        Ok(())
    }

    fn status(&mut self, fields: &mut Fields<'_>) -> Result<(), FieldError> {
        let number = fields.number("jobId")?;
        let status = fields.number("jStatus")?;
        fields.skip_numbers(&["reason", "subreasons"])?;
        fields.skip_real("cpuTime")?;
        fields.time("endTime")?;
        if fields.number("ru")? != 0 {
            fields.skip_usage()?;
        }
        fields.skip_numbers(&["exitStatus"])?;
        let id = name(number, fields.number("idx")?);
        if status & POST == 0 && status & (PENDING | OVER) != 0 {
            self.state.running.end(&id);
        }
        Ok(())
    }

    fn host(&mut self, fields: &mut Fields<'_>) -> Result<(), FieldError> {
        let code = fields.number("opCode")?;
        let host = text(fields.text("host")?);
        let node =
            NodeId::new(&host).map_err(|error| FieldError::new("host", error.expected, &host))?;
        match code {
            OPEN => {
                self.state.closed.remove(&node);
            }
            CLOSE => {
                fields.skip_numbers(&["userId"])?;
                let by = text(fields.text("userName")?);
                self.state
                    .closed
                    .insert(node.clone(), format!("closed by {by}"));
            }
            _ => return Ok(()),
        }
        self.touched.insert(node);
        Ok(())
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn name(number: i64, index: i64) -> String {
    match index {
        0 => number.to_string(),
        index => format!("{number}[{index}]"),
    }
}
