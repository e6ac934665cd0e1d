//! `lsb.events`: events of jobs.
//!
//! - `JOB_NEW`: a job waits; an array waits as a whole, with index 0.
//! - `JOB_START`: the job starts.
//! - `JOB_STATUS`: with a status of done or exited, the job ends. With pending, it was requeued,
//!   which ends one of its lives, as `JOB_REQUEUE` does.
//! - `JOB_SWITCH`: the job moves to another queue. `JOB_CLEAN`: it is forgotten.
//! - Other events are skipped. Later changes of limits (`JOB_MODIFY2`) do not count. A job that
//!   changes its size keeps the hosts of its start. Suspended jobs keep their nodes.
//!
//! A second start without an end between means that the first life ended at that start at the
//! latest.
//!
//! Memory grows with the number of jobs that wait or run at a time. A job whose end is missing or
//! damaged counts as running at the end of the log.

use std::collections::HashMap;

use lacuna_model::{Span, Timestamp};
use lacuna_records::fields::copy;
use lacuna_records::lsf::{Fields, copy_text, joins};

use super::{DONE, EXIT, outcome};
use crate::formats::JobParser;
use crate::{FieldError, JobOutcome, JobRecord, Reading};

/// Bits of a job's status: pending, or pending and suspended.
const PENDING: i64 = 0x3;

/// Bits of a job's status for its post-execution command (`-Ep`).
const POST: i64 = 0x180;

/// Events by which the format is recognised.
const KINDS: [&[u8]; 9] = [
    b"\"JOB_NEW\" \"",
    b"\"JOB_START\" \"",
    b"\"JOB_STATUS\" \"",
    b"\"JOB_START_ACCEPT\" \"",
    b"\"JOB_EXECUTE\" \"",
    b"\"JOB_CLEAN\" \"",
    b"\"MBD_START\" \"",
    b"\"LOAD_INDEX\" \"",
    b"\"QUEUE_CTRL\" \"",
];

/// Whether one of these first lines is an event.
pub(in crate::formats) fn knows(lines: &[&[u8]]) -> bool {
    lines
        .iter()
        .any(|line| KINDS.iter().any(|kind| line.starts_with(kind)))
}

/// Whether a job of this name is an array: `name[1-10]`, or `name[1-10]%5`, with at most five
/// running jobs.
fn is_array(name: &[u8]) -> bool {
    let (list, most) = match memchr::memrchr(b'%', name).and_then(|at| name.split_at_checked(at)) {
        Some((list, most)) if most.len() > 1 => (list, most.get(1..).unwrap_or(&[])),
        _ => (name, &b""[..]),
    };
    list.ends_with(b"]") && most.iter().all(u8::is_ascii_digit)
}

/// Number of a job, and its index in an array or 0.
type Id = (i64, i64);

/// A job that waits or runs.
#[derive(Debug, Default)]
struct Job {
    submit: Option<Timestamp>,
    user: String,
    queue: String,
    name: String,
    walltime: Option<Span>,
    /// Whether this is an array as a whole, whose jobs start one by one.
    is_array: bool,
    /// Whether the job runs in another cluster, and so has no record here.
    elsewhere: bool,
    run: Option<Run>,
}

#[derive(Debug)]
struct Run {
    start: Timestamp,
    hosts: String,
    nodes: u32,
}

impl Job {
    fn fill(&self, id: Id, record: &mut JobRecord) {
        record.id = match id {
            (number, 0) => number.to_string(),
            (number, index) => format!("{number}[{index}]"),
        };
        record.submit = self.submit;
        record.walltime = self.walltime;
        record.user.clone_from(&self.user);
        record.queue.clone_from(&self.queue);
        record.name.clone_from(&self.name);
        if let Some(run) = &self.run {
            record.start = Some(run.start);
            record.hosts.clone_from(&run.hosts);
            record.nodes = run.nodes;
        }
    }
}

pub(in crate::formats) struct Events {
    jobs: HashMap<Id, Job>,
    /// Jobs that ended in another cluster.
    elsewhere: u64,
    /// At the end of the log: ids of the jobs that still wait or run, in reverse order.
    rest: Option<Vec<Id>>,
}

impl Events {
    pub(in crate::formats) fn new(_reading: &Reading) -> Self {
        Self {
            jobs: HashMap::new(),
            elsewhere: 0,
            rest: None,
        }
    }

    fn new_job(
        &mut self,
        at: Timestamp,
        fields: &mut Fields<'_>,
        record: &mut JobRecord,
    ) -> Result<bool, FieldError> {
        let number = fields.number("jobId")?;
        fields.skip_numbers(&["userId", "options", "numProcessors"])?;
        let mut job = Job {
            submit: fields.time("submitTime")?,
            ..Job::default()
        };
        fields.skip_numbers(&["beginTime", "termTime", "sigValue"])?;
        fields.skip_numbers(&["chkpntPeriod", "restartPid"])?;
        copy(&mut job.user, fields.text("userName")?);
        let mut limits = [0_i64; 11];
        for limit in &mut limits {
            *limit = fields.number("rLimits")?;
        }
        let [.., run, _processes] = limits;
        job.walltime = (run > 0).then(|| Span::from_secs(run));
        fields.skip_texts(&["hostSpec"])?;
        fields.skip_real("hostFactor")?;
        fields.skip_numbers(&["umask"])?;
        copy(&mut job.queue, fields.text("queue")?);
        fields.skip_texts(&["resReq", "fromHost", "cwd", "chkpntDir"])?;
        fields.skip_texts(&["inFile", "outFile", "errFile", "subHomeDir", "jobFile"])?;
        fields.skip_list("numAskedHosts", "askedHosts")?;
        fields.skip_texts(&["dependCond", "preExecCmd"])?;
        let name = fields.text("jobName")?;
        copy_text(&mut job.name, name);
        job.is_array = is_array(name);
        // LSF rewrites the file from time to time, with the events of jobs that are not over. The
        // numbering may restart too.
        let id = (number, 0);
        let is_same = |known: &Job| known.submit == job.submit;
        if self.jobs.get(&id).is_some_and(is_same) {
            return Ok(false);
        }
        let unseen = self.close(id, at, JobOutcome::Unknown, record, None);
        self.jobs.insert(id, job);
        Ok(unseen)
    }

    fn started(
        &mut self,
        at: Timestamp,
        fields: &mut Fields<'_>,
        record: &mut JobRecord,
    ) -> Result<bool, FieldError> {
        let number = fields.number("jobId")?;
        fields.skip_numbers(&["jStatus", "jobPid", "jobPGid"])?;
        fields.skip_real("hostFactor")?;
        let mut hosts = String::new();
        let nodes = fields.hosts(&mut hosts)?;
        fields.skip_texts(&["queuePreCmd", "queuePostCmd"])?;
        fields.skip_numbers(&["jFlags"])?;
        fields.skip_texts(&["userGroup"])?;
        let id = (number, fields.number("idx")?);
        let unseen = self.close(id, at, JobOutcome::Unknown, record, Some(at));
        let known = self.jobs.remove(&id);
        let mut job = known.unwrap_or_else(|| self.member(id));
        job.elsewhere = nodes.is_none();
        job.run = nodes.map(|nodes| Run {
            start: at,
            hosts,
            nodes,
        });
        self.jobs.insert(id, job);
        Ok(unseen)
    }

    /// A job of an array without earlier events of its own.
    fn member(&self, (number, _): Id) -> Job {
        let mut job = Job::default();
        if let Some(array) = self.jobs.get(&(number, 0)) {
            job.submit = array.submit;
            job.walltime = array.walltime;
            job.user.clone_from(&array.user);
            job.queue.clone_from(&array.queue);
            job.name.clone_from(&array.name);
        }
        job
    }

    /// Ends the present life of a job, unless it began at `unless`. Returns whether there was one,
    /// which is then in `record`. The job waits again.
    fn close(
        &mut self,
        id: Id,
        end: Timestamp,
        outcome: JobOutcome,
        record: &mut JobRecord,
        unless: Option<Timestamp>,
    ) -> bool {
        let Some(job) = self.jobs.get_mut(&id) else {
            return false;
        };
        if job.run.is_none() || job.run.as_ref().map(|run| run.start) == unless {
            return false;
        }
        job.fill(id, record);
        job.run = None;
        record.end = record.start.map(|start| start.max(end));
        record.outcome = outcome;
        true
    }

    fn status(
        &mut self,
        at: Timestamp,
        fields: &mut Fields<'_>,
        record: &mut JobRecord,
    ) -> Result<bool, FieldError> {
        let number = fields.number("jobId")?;
        let status = fields.number("jStatus")?;
        fields.skip_numbers(&["reason", "subreasons"])?;
        fields.skip_real("cpuTime")?;
        let end = fields.time("endTime")?.unwrap_or(at);
        if fields.number("ru")? != 0 {
            fields.skip_usage()?;
        }
        fields.skip_numbers(&["exitStatus"])?;
        let id = (number, fields.number("idx")?);
        if status & POST != 0 {
            return Ok(false);
        }
        if status & PENDING != 0 {
            if let Some(job) = self.jobs.get_mut(&id) {
                job.elsewhere = false;
            }
            return Ok(self.close(id, at, JobOutcome::Preempted, record, None));
        }
        if status & (DONE | EXIT) == 0 {
            return Ok(false);
        }
        // Releases before 6 do not write the reason.
        let reason = match fields.is_at_end() {
            true => 0,
            false => fields.number("exitInfo")?,
        };
        let ended = self.close(id, end, outcome(status, reason), record, None);
        let is_array = self.jobs.get(&id).is_some_and(|job| job.is_array);
        if is_array {
            // The jobs of the array may still run, and have their own ends.
            return Ok(ended);
        }
        match self.jobs.remove(&id) {
            Some(job) if !ended && !job.elsewhere => {
                job.fill(id, record);
                record.outcome = JobOutcome::Cancelled;
                Ok(true)
            }
            Some(_) if !ended => {
                self.elsewhere += 1;
                Ok(false)
            }
            _ => Ok(ended),
        }
    }
}

impl JobParser for Events {
    fn joins(&mut self, ahead: &[u8]) -> Option<usize> {
        joins(ahead)
    }

    fn looks_ahead(&self) -> bool {
        true
    }

    fn line(&mut self, line: &[u8], record: &mut JobRecord) -> Result<bool, FieldError> {
        let line = line.trim_ascii();
        if matches!(line.first(), None | Some(b'#')) {
            return Ok(false);
        }
        let mut fields = Fields::of(line);
        let kind = fields.text("event type")?;
        let matters = matches!(
            kind,
            b"JOB_NEW"
                | b"JOB_START"
                | b"JOB_STATUS"
                | b"JOB_SWITCH"
                | b"JOB_REQUEUE"
                | b"JOB_CLEAN"
        );
        if !matters {
            return Ok(false);
        }
        fields.text("version")?;
        let Some(at) = fields.time("event time")? else {
            return Err(fields.unexpected("event time", "a time in Unix seconds", b"0"));
        };
        match kind {
            b"JOB_NEW" => self.new_job(at, &mut fields, record),
            b"JOB_START" => self.started(at, &mut fields, record),
            b"JOB_STATUS" => self.status(at, &mut fields, record),
            b"JOB_SWITCH" => {
                fields.skip_numbers(&["userId"])?;
                let number = fields.number("jobId")?;
                let queue = fields.text("queue")?;
                let id = (number, fields.number("idx")?);
                if let Some(job) = self.jobs.get_mut(&id) {
                    job.queue.clear();
                    copy(&mut job.queue, queue);
                }
                Ok(false)
            }
            _ => {
                let id = (fields.number("jobId")?, fields.number("idx")?);
                if kind == b"JOB_REQUEUE" {
                    return Ok(self.close(id, at, JobOutcome::Preempted, record, None));
                }
                let unseen = self.close(id, at, JobOutcome::Unknown, record, None);
                self.jobs.remove(&id);
                Ok(unseen)
            }
        }
    }

    fn skipped(&self) -> u64 {
        self.elsewhere
    }

    fn has_starts(&self) -> bool {
        true
    }

    fn finish(&mut self, record: &mut JobRecord) -> bool {
        // In the order of their numbers, so that the same log gives the same records.
        let jobs = &self.jobs;
        let rest = self.rest.get_or_insert_with(|| {
            let mut rest: Vec<_> = jobs.keys().copied().collect();
            rest.sort_unstable_by(|a, b| b.cmp(a));
            rest
        });
        while let Some(id) = rest.pop() {
            let is_ours = |job: &Job| !job.is_array && !job.elsewhere;
            let Some(job) = self.jobs.remove(&id).filter(is_ours) else {
                continue;
            };
            job.fill(id, record);
            record.outcome = JobOutcome::Running;
            return true;
        }
        false
    }
}
