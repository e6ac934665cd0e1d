//! PBS: accounting records of OpenPBS, PBS Professional and Torque.
//!
//! Source: the PBS Professional Administrator's Guide, chapter "Accounting", and Torque's, "Job
//! accounting". A record is `MM/DD/YYYY HH:MM:SS;type;id;key=value ...` with local time in
//! front and Unix seconds in the values; values with blanks are in quotes. Lines that begin with
//! `;` or `#` are comments. If no zone is named, that of the times in front is told by the
//! records that have a time in Unix seconds for the same moment. What is made of the types:
//!
//! - `Q` a job waits; `S` and `T` it starts; `s` its nodes are others than the start said;
//! - `E` it has ended; the record says all;
//! - `R` and `C` it was put back into the queue, which ends one of its lives;
//! - `D` and `A` somebody or the server ended it: before its start this is its record, else an
//!   `E` follows, and its outcome is that it was cancelled;
//! - `M` it left for another server and is forgotten;
//! - all others (licences, reservations, provisioning, changes of a running job) are passed
//!   over; nodes that a job gives back early count as its own until its end.
//!
//! The array as a whole (`123[].server`) is passed over, since its jobs have records of their
//! own. A second start without an end between them means that the first was put back unseen:
//! its life then lasts to that start at the latest.
//!
//! Memory grows with the jobs that wait or run at a time; a job whose end is missing or damaged
//! is read as if it still ran when the log ended.

pub(crate) mod says;

use std::collections::HashMap;

use lacuna_model::{Span, Timestamp};

use self::says::{Parts, Says, hosts, time, walltime};
use crate::fields::{LocalTimes, civil, copy, odd, signed, unsigned};
use crate::formats::JobParser;
use crate::formats::front::{Order, ahead_s};
use crate::{FieldError, JobOutcome, JobRecord, Reading};

/// OpenPBS's exit status of a job that was killed because it reached its walltime
/// (`JOB_EXEC_KILL_WALLTIME` in `job.h`).
const KILLED_AT_WALLTIME: i64 = -29;

/// Whether one of these first lines is a record. (The comments before them look like those of
/// the Standard Workload Format.)
pub(super) fn knows(lines: &[&[u8]]) -> bool {
    lines.iter().any(|line| Parts::of(line).is_some())
}

/// A job that waits or runs.
#[derive(Debug, Default, Clone)]
struct Job {
    submit: Option<Timestamp>,
    user: String,
    queue: String,
    walltime: Option<Span>,
    /// How many nodes it asks for.
    asked: u32,
    run: Option<Run>,
    /// Somebody ended it while it ran.
    cancelled: bool,
}

#[derive(Debug, Default, Clone)]
struct Run {
    start: Timestamp,
    hosts: String,
    nodes: u32,
}

impl Job {
    /// Learns what a record says of it.
    fn learn(&mut self, says: &Says<'_>) -> Result<(), FieldError> {
        if let Some(submit) = says.submit()? {
            self.submit = Some(submit);
        }
        for (field, text) in [(&mut self.user, says.user), (&mut self.queue, says.queue)] {
            if let Some(text) = text {
                field.clear();
                copy(field, text);
            }
        }
        if let Some(text) = says.walltime {
            self.walltime = Some(walltime(text).ok_or_else(|| {
                odd(
                    "Resource_List.walltime",
                    "a length of time as 02:00:00",
                    text,
                )
            })?);
        }
        if let Some(text) = says.nodect {
            self.asked = unsigned(text)
                .and_then(|nodes| u32::try_from(nodes).ok())
                .ok_or_else(|| odd("Resource_List.nodect", "a number of nodes", text))?;
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
        if let Some(run) = &self.run {
            record.start = Some(run.start);
            record.hosts.clone_from(&run.hosts);
            record.nodes = if run.nodes > 0 { run.nodes } else { self.asked };
        }
    }
}

pub(super) struct Pbs {
    times: LocalTimes,
    /// How far the local times in front are ahead of UTC by what was read so far, seconds;
    /// nothing if a zone was named.
    ahead_s: Option<i64>,
    order: Order,
    tells_starts: bool,
    jobs: HashMap<Box<[u8]>, Job>,
    /// At the end of the log: what still waits or runs, the last first.
    rest: Option<Vec<Box<[u8]>>>,
}

impl Pbs {
    pub(super) fn new(reading: &Reading) -> Self {
        Self {
            times: LocalTimes::new(reading.zone()),
            ahead_s: reading.time_zone.is_none().then_some(0),
            order: Order::default(),
            tells_starts: false,
            jobs: HashMap::new(),
            rest: None,
        }
    }

    /// The time in front of a record, which is local. If no zone was named, records that tell of
    /// one thing in both kinds of time tell the zone.
    fn at(&mut self, parts: &Parts<'_>, says: &Says<'_>) -> Result<Timestamp, FieldError> {
        let text = &parts.time;
        let number = |from: usize, to: usize| signed(text.get(from..to)?);
        let local = || {
            let (month, day, year) = (number(0, 2)?, number(3, 5)?, number(6, 10)?);
            let (hour, minute) = (number(11, 13)?, number(14, 16)?);
            civil(year, month, day, hour, minute, number(17, 19)?)
        };
        let damaged = || odd("time", "a time (12/21/2024 17:58:09)", text);
        let local = local().ok_or_else(damaged)?;
        let seconds = match &mut self.ahead_s {
            Some(ahead) => {
                let same = match parts.letter {
                    b'Q' => says.qtime,
                    b'S' => says.start,
                    b'E' => says.end,
                    _ => None,
                };
                let told = same.and_then(signed).and_then(|unix| ahead_s(local, unix));
                *ahead = told.unwrap_or(*ahead);
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
        says: &Says<'_>,
        record: &mut JobRecord,
    ) -> Result<bool, FieldError> {
        let mut run = Run {
            start: time("start", says.start)?.unwrap_or(at),
            ..Run::default()
        };
        run.nodes = hosts(says, &mut run.hosts)?;
        let known = self.known(id);
        let unseen = match &known.run {
            // The same start once more says nothing new.
            Some(before) if before.start == run.start => false,
            Some(_) => {
                known.fill(id, record);
                record.end = record.start.map(|start| start.max(run.start));
                true
            }
            None => false,
        };
        known.learn(says)?;
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
        says: &Says<'_>,
        record: &mut JobRecord,
    ) -> Result<bool, FieldError> {
        let start = time("start", says.start)?;
        let end = time("end", says.end)?.unwrap_or(at);
        // A copy, so that a damaged record changes nothing.
        let known = self.jobs.get(id).cloned();
        let is_known = known.is_some();
        let mut job = known.unwrap_or_default();
        job.learn(says)?;
        let before = job.run.take();
        let Some(start) = start.or(before.as_ref().map(|run| run.start)) else {
            // It ended before it started; of what is unknown nothing can be said.
            job.fill(id, record);
            record.outcome = JobOutcome::Cancelled;
            self.jobs.remove(id);
            return Ok(is_known);
        };
        let mut run = before.unwrap_or_default();
        run.start = start;
        if says.exec_host.is_some() || says.exec_vnode.is_some() {
            run.nodes = hosts(says, &mut run.hosts)?;
        }
        if end < start {
            let found = says.end.unwrap_or(&[]);
            return Err(odd("end", "a time not before start", found));
        }
        job.run = Some(run);
        job.fill(id, record);
        record.end = Some(end);
        record.outcome = match says.exit_status {
            _ if job.cancelled => JobOutcome::Cancelled,
            None => JobOutcome::Unknown,
            Some(text) => {
                let status =
                    signed(text).ok_or_else(|| odd("Exit_status", "a whole number", text))?;
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

    /// It was put back into the queue.
    fn requeued(
        &mut self,
        at: Timestamp,
        id: &[u8],
        says: &Says<'_>,
        record: &mut JobRecord,
    ) -> Result<bool, FieldError> {
        let end = time("end", says.end)?.unwrap_or(at);
        let job = self.known(id);
        job.learn(says)?;
        if job.run.is_none()
            && let Some(start) = time("start", says.start)?
        {
            let mut run = Run {
                start,
                ..Run::default()
            };
            run.nodes = hosts(says, &mut run.hosts)?;
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

    /// Somebody or the server ended it.
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
            return Err(odd("record", expected, line));
        };
        let (letter, id) = (parts.letter, parts.id);
        if !b"QSTsERCDAM".contains(&letter) || memchr::memmem::find(id, b"[]").is_some() {
            return Ok(false);
        }
        if id.is_empty() {
            return Err(odd("id", "the name of a job", id));
        }
        let says = Says::of(parts.message);
        let at = self.at(&parts, &says)?;
        match letter {
            b'Q' => {
                let job = self.known(id);
                job.submit = job.submit.or(Some(at));
                job.learn(&says)?;
                Ok(false)
            }
            b'S' | b'T' => {
                let unseen = self.started(at, id, &says, record)?;
                self.tells_starts = true;
                Ok(unseen)
            }
            b's' => {
                if let Some(run) = self.jobs.get_mut(id).and_then(|job| job.run.as_mut()) {
                    let mut list = String::new();
                    run.nodes = hosts(&says, &mut list)?;
                    run.hosts = list;
                }
                Ok(false)
            }
            b'E' => self.ended(at, id, &says, record),
            b'R' | b'C' => self.requeued(at, id, &says, record),
            b'D' | b'A' => Ok(self.deleted(id, record)),
            _ => {
                self.jobs.remove(id);
                Ok(false)
            }
        }
    }

    fn tells_starts(&self) -> bool {
        self.tells_starts
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
