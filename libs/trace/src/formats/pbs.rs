//! PBS: accounting records of OpenPBS, PBS Professional and Torque.
//!
//! Source: the PBS Professional Administrator's Guide, chapter "Accounting", and Torque's, "Job
//! accounting". A record is `MM/DD/YYYY HH:MM:SS;type;id;key=value ...` with local time in front
//! and Unix seconds in the values. Values with blanks are in quotes. A text of a user may hold line
//! ends, so a record may be several lines. Lines that begin with `;` or `#` are comments. Without a
//! configured time zone, records with both times of one moment give the zone of the local times.
//! Meaning of the types:
//!
//! - `Q`: a job waits. `S` and `T`: it starts. `s`: its nodes differ from those of the start.
//! - `E`: the job has ended. The record holds all its values.
//! - `R` and `C`: the job was requeued, which ends one of its lives.
//! - `D` and `A`: a user or the server cancels the job. Before its start this is its record. After
//!   its start an `E` follows, and the outcome is `Cancelled`.
//! - `M`: the job moved to another server and is forgotten.
//! - Other types (licences, reservations, provisioning, changes of a running job) are skipped.
//!   Nodes that a job releases early count as its own until its end.
//!
//! An array as a whole (`123[].server`), or a range of it, is skipped, since its jobs have records of
//! their own. A second start without an end between means that the end of the first life is missing.
//! That life lasts at most until the second start.
//!
//! Memory grows with the number of jobs that wait or run at a time. A job whose end is missing or
//! damaged counts as running at the end of the log.

use std::collections::HashMap;

use lacuna_model::{Span, Timestamp};
use lacuna_records::fields::{copy, signed, unexpected, unsigned};
use lacuna_records::pbs::{Attributes, Parts, hosts, joins, time, walltime};
use lacuna_records::times::{LocalTimes, civil};

use crate::formats::JobParser;
use crate::formats::front::{Order, ahead_s};
use crate::{FieldError, JobOutcome, JobRecord, Reading};

/// OpenPBS's exit status of a job that was killed because it reached its walltime
/// (`JOB_EXEC_KILL_WALLTIME` in `job.h`).
const KILLED_AT_WALLTIME: i64 = -29;

/// Longest time from a start to its record. A greater one is of a number that was cut short.
const LATE: Span = Span::from_secs(7 * 86_400);

/// Whether one of these first lines is a record. The comments before records look like those of
/// the Standard Workload Format.
pub(super) fn knows(lines: &[&[u8]]) -> bool {
    lines.iter().any(|line| Parts::of(line).is_some())
}

/// A job that waits or runs.
#[derive(Debug, Default, Clone)]
struct Job {
    submit: Option<Timestamp>,
    user: String,
    queue: String,
    name: String,
    account: String,
    walltime: Option<Span>,
    /// Requested number of nodes.
    asked: u32,
    run: Option<Run>,
    /// The job was cancelled while it ran.
    cancelled: bool,
}

#[derive(Debug, Default, Clone)]
struct Run {
    start: Timestamp,
    hosts: String,
    nodes: u32,
}

impl Job {
    /// Takes over the attributes of a record.
    fn learn(&mut self, attributes: &Attributes<'_>) -> Result<(), FieldError> {
        if let Some(submit) = attributes.submit()? {
            self.submit = Some(submit);
        }
        for (field, text) in [
            (&mut self.user, attributes.user),
            (&mut self.queue, attributes.queue),
            (&mut self.name, attributes.jobname),
            (&mut self.account, attributes.account),
        ] {
            if let Some(text) = text {
                field.clear();
                copy(field, text);
            }
        }
        if let Some(text) = attributes.walltime {
            self.walltime = Some(walltime(text).ok_or_else(|| {
                unexpected(
                    "Resource_List.walltime",
                    "a length of time as 02:00:00",
                    text,
                )
            })?);
        }
        if let Some(text) = attributes.nodect {
            self.asked = unsigned(text)
                .and_then(|nodes| u32::try_from(nodes).ok())
                .ok_or_else(|| unexpected("Resource_List.nodect", "a number of nodes", text))?;
        }
        Ok(())
    }

    fn fill(&self, id: &[u8], record: &mut JobRecord) {
        copy(&mut record.id, id);
        record.submit = self.submit;
        record.walltime = self.walltime;
        record.nodes = self.asked;
        record.user.clone_from(&self.user);
        record.queue.clone_from(&self.queue);
        record.name.clone_from(&self.name);
        record.account.clone_from(&self.account);
        if let Some(run) = &self.run {
            record.start = Some(run.start);
            record.hosts.clone_from(&run.hosts);
            record.nodes = if run.nodes > 0 { run.nodes } else { self.asked };
        }
    }
}

pub(super) struct Pbs {
    times: LocalTimes,
    /// Seconds by which local times are ahead of UTC, by the records read so far; `None` if the
    /// zone is configured.
    ahead_s: Option<i64>,
    order: Order,
    has_starts: bool,
    /// Records whose texts may hold attributes, and starts without hosts.
    doubtful: u64,
    jobs: HashMap<Box<[u8]>, Job>,
    /// At the end of the log: ids of the jobs that still wait or run, in reverse order.
    rest: Option<Vec<Box<[u8]>>>,
}

impl Pbs {
    pub(super) fn new(reading: &Reading) -> Self {
        Self {
            times: LocalTimes::new(reading.zone()),
            ahead_s: reading.time_zone.is_none().then_some(0),
            order: Order::default(),
            has_starts: false,
            doubtful: 0,
            jobs: HashMap::new(),
            rest: None,
        }
    }

    /// The local time in front of a record. Without a configured zone, records with both times of
    /// one moment give the zone.
    fn at(
        &mut self,
        parts: &Parts<'_>,
        attributes: &Attributes<'_>,
    ) -> Result<Timestamp, FieldError> {
        let text = &parts.time;
        let number = |from: usize, to: usize| signed(text.get(from..to)?);
        let local = || {
            let (month, day, year) = (number(0, 2)?, number(3, 5)?, number(6, 10)?);
            let (hour, minute) = (number(11, 13)?, number(14, 16)?);
            civil(year, month, day, hour, minute, number(17, 19)?)
        };
        let damaged = || unexpected("time", "a time (12/21/2024 17:58:09)", text);
        let local = local().ok_or_else(damaged)?;
        let seconds = match &mut self.ahead_s {
            Some(ahead) => {
                let same = match parts.letter {
                    b'Q' => attributes.qtime,
                    b'S' => attributes.start,
                    b'E' => attributes.end,
                    _ => None,
                };
                let found = same.and_then(signed).and_then(|unix| ahead_s(local, unix));
                *ahead = found.unwrap_or(*ahead);
                local.checked_sub(*ahead)
            }
            None => self.times.unix_seconds(local),
        };
        let at = seconds.map(Timestamp::from_unix).ok_or_else(damaged)?;
        self.order.check(at, text)?;
        Ok(at)
    }

    fn started(
        &mut self,
        at: Timestamp,
        id: &[u8],
        attributes: &Attributes<'_>,
        record: &mut JobRecord,
    ) -> Result<bool, FieldError> {
        let mut run = Run {
            start: time("start", attributes.start)?.unwrap_or(at),
            ..Run::default()
        };
        if at.since(run.start) > LATE {
            let found = attributes.start.unwrap_or(&[]);
            return Err(unexpected("start", "a time near that of the record", found));
        }
        run.nodes = hosts(attributes, &mut run.hosts)?;
        let known = self.known(id);
        let unseen = match &known.run {
            // A repetition of the same start changes nothing.
            Some(before) if before.start == run.start => false,
            Some(_) => {
                known.fill(id, record);
                record.end = record.start.map(|start| start.max(run.start));
                true
            }
            None => false,
        };
        known.learn(attributes)?;
        (known.run, known.cancelled) = (Some(run), false);
        Ok(unseen)
    }

    fn known(&mut self, id: &[u8]) -> &mut Job {
        self.jobs.entry(id.into()).or_default()
    }

    fn ended(
        &mut self,
        at: Timestamp,
        id: &[u8],
        attributes: &Attributes<'_>,
        record: &mut JobRecord,
    ) -> Result<bool, FieldError> {
        if attributes.end.is_none() && attributes.exit_status.is_none() {
            let expected = "end and Exit_status, as in a record that is not cut short";
            return Err(unexpected("end", expected, b""));
        }
        let start = time("start", attributes.start)?;
        let end = time("end", attributes.end)?.unwrap_or(at);
        // A copy, so that a damaged record changes nothing.
        let known = self.jobs.get(id).cloned();
        let is_known = known.is_some();
        let mut job = known.unwrap_or_default();
        job.learn(attributes)?;
        let before = job.run.take();
        let Some(start) = start.or(before.as_ref().map(|run| run.start)) else {
            if !is_known {
                let expected = "a start, as the log has none of this job";
                return Err(unexpected("start", expected, b""));
            }
            // The job ended before it started.
            job.fill(id, record);
            record.outcome = JobOutcome::Cancelled;
            self.jobs.remove(id);
            return Ok(true);
        };
        let mut run = before.unwrap_or_default();
        run.start = start;
        if attributes.has_hosts() {
            run.nodes = hosts(attributes, &mut run.hosts)?;
        }
        if end < start {
            let found = attributes.end.unwrap_or(&[]);
            return Err(unexpected("end", "a time not before start", found));
        }
        job.run = Some(run);
        job.fill(id, record);
        record.end = Some(end);
        record.outcome = match attributes.exit_status {
            _ if job.cancelled => JobOutcome::Cancelled,
            None => JobOutcome::Unknown,
            Some(text) => {
                let status = signed(text)
                    .ok_or_else(|| unexpected("Exit_status", "a whole number", text))?;
                let at_limit = job.walltime.is_some_and(|limit| end.since(start) >= limit);
                match status {
                    0 => JobOutcome::Completed,
                    KILLED_AT_WALLTIME => JobOutcome::Timeout,
                    _ if at_limit => JobOutcome::Timeout,
                    _ => JobOutcome::Failed,
                }
            }
        };
        self.jobs.remove(id);
        Ok(true)
    }

    /// The job was requeued.
    fn requeued(
        &mut self,
        at: Timestamp,
        id: &[u8],
        attributes: &Attributes<'_>,
        record: &mut JobRecord,
    ) -> Result<bool, FieldError> {
        let end = time("end", attributes.end)?.unwrap_or(at);
        let job = self.known(id);
        job.learn(attributes)?;
        if job.run.is_none()
            && let Some(start) = time("start", attributes.start)?
        {
            let mut run = Run {
                start,
                ..Run::default()
            };
            run.nodes = hosts(attributes, &mut run.hosts)?;
            job.run = Some(run);
        }
        job.fill(id, record);
        let Some(run) = job.run.take() else {
            return Ok(false);
        };
        record.end = Some(end.max(run.start));
        record.outcome = JobOutcome::Preempted;
        Ok(true)
    }

    /// A user or the server cancels the job.
    fn deleted(&mut self, id: &[u8], record: &mut JobRecord) -> bool {
        match self.jobs.get_mut(id) {
            None => false,
            Some(job) if job.run.is_some() => {
                job.cancelled = true;
                false
            }
            Some(job) => {
                job.fill(id, record);
                record.outcome = JobOutcome::Cancelled;
                self.jobs.remove(id);
                true
            }
        }
    }
}

impl JobParser for Pbs {
    fn line(&mut self, line: &[u8], record: &mut JobRecord) -> Result<bool, FieldError> {
        let line = line.trim_ascii();
        if matches!(line.first(), None | Some(b';' | b'#')) {
            return Ok(false);
        }
        let Some(parts) = Parts::of(line) else {
            let expected = "MM/DD/YYYY HH:MM:SS;type;id;key=value ...";
            return Err(unexpected("record", expected, line));
        };
        let (letter, id) = (parts.letter, parts.id);
        if !b"QSTsERCDAM".contains(&letter) || parts.is_array() {
            return Ok(false);
        }
        if id.is_empty() {
            return Err(unexpected("id", "the name of a job", id));
        }
        let attributes = Attributes::of(parts.message);
        let at = self.at(&parts, &attributes)?;
        let is_start = matches!(letter, b'S' | b'T');
        let is_doubtful = attributes.is_doubtful() || (is_start && !attributes.has_hosts());
        self.doubtful += u64::from(is_doubtful);
        match letter {
            b'Q' => {
                let job = self.known(id);
                job.submit = job.submit.or(Some(at));
                job.learn(&attributes)?;
                Ok(false)
            }
            b'S' | b'T' => {
                let unseen = self.started(at, id, &attributes, record)?;
                self.has_starts = true;
                Ok(unseen)
            }
            b's' => {
                if let Some(run) = self.jobs.get_mut(id).and_then(|job| job.run.as_mut()) {
                    let mut list = String::new();
                    run.nodes = hosts(&attributes, &mut list)?;
                    run.hosts = list;
                }
                Ok(false)
            }
            b'E' => self.ended(at, id, &attributes, record),
            b'R' | b'C' => self.requeued(at, id, &attributes, record),
            b'D' | b'A' => Ok(self.deleted(id, record)),
            _ => {
                self.jobs.remove(id);
                Ok(false)
            }
        }
    }

    fn joins(&mut self, ahead: &[u8]) -> Option<usize> {
        joins(ahead)
    }

    fn looks_ahead(&self) -> bool {
        true
    }

    fn doubtful(&self) -> u64 {
        self.doubtful
    }

    fn has_starts(&self) -> bool {
        self.has_starts
    }

    fn finish(&mut self, record: &mut JobRecord) -> bool {
        // In the order of their names, so that the same log gives the same records.
        let jobs = &self.jobs;
        let rest = self.rest.get_or_insert_with(|| {
            let mut rest: Vec<_> = jobs.keys().cloned().collect();
            rest.sort_unstable_by(|a, b| b.cmp(a));
            rest
        });
        let Some(id) = rest.pop() else {
            return false;
        };
        if let Some(job) = self.jobs.remove(&id) {
            job.fill(&id, record);
        }
        record.outcome = JobOutcome::Running;
        true
    }
}
