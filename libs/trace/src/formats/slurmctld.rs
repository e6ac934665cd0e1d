//! Slurm: `slurmctld.log`, with messages about starts and ends of jobs.
//!
//! Source: the texts in Slurm's `src/slurmctld` (`job_mgr.c`, `job_scheduler.c`,
//! `node_scheduler.c`, `preempt.c`, `proc_req.c`) and `src/plugins/sched/backfill/backfill.c`,
//! releases 15 to 24, at the usual level `info`; see [`Message`]. A line is
//! `[2022-03-17T12:00:00.123] text`, in local time or with a zone of its own, with or without
//! milliseconds (`LogTimeFormat`). Other lines are skipped, also those of levels such as `error:`
//! and `debug:`.
//!
//! The log does not contain the user and the limit of a job, and whether a signal ended it. After a
//! request of `scancel` (`REQUEST_KILL_JOB`) usually no message of the job follows. But the same
//! line is written for `scancel --signal=USR1`. So the job counts as ended at that time, unless a
//! later message names it. The newest [`HELD`] such jobs are kept back for this purpose. A job
//! whose start is not in the log has no record.
//!
//! Memory grows with the number of jobs that wait or run at a time. A job whose end is missing or
//! damaged counts as running at the end of the log.

mod messages;

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};

use lacuna_model::Timestamp;

use self::messages::{Message, Name, message};
use lacuna_records::fields::{copy, unexpected};
use lacuna_records::hosts;
use lacuna_records::times::LocalTimes;

use crate::formats::JobParser;
use crate::formats::front::Order;
use crate::{FieldError, JobOutcome, JobRecord, Reading};

/// Number of jobs with a request to end that are kept back, since later messages may name them.
const HELD: usize = 4096;

/// Whether one of these first lines is of slurmctld: a time in brackets, then a text that only
/// slurmctld writes.
pub(super) fn knows(lines: &[&[u8]]) -> bool {
    let words: [&[u8]; 8] = [
        b"slurmctld",
        b"_slurm_rpc_",
        b"sched: ",
        b"backfill",
        b"job_complete: JobI",
        b"prolog_running_decr: ",
        b"update_node: ",
        b"Requeuing JobId=",
    ];
    lines.iter().any(|line| {
        parts(line).is_some_and(|(_, text)| {
            words
                .iter()
                .any(|word| memchr::memmem::find(text, word).is_some())
        })
    })
}

/// The time and the text of a line.
fn parts(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let inside = line.strip_prefix(b"[")?;
    // A time with milliseconds and a zone has 29 letters.
    let end = memchr::memchr(b']', inside.get(..40).unwrap_or(inside))?;
    let (time, rest) = inside.split_at_checked(end)?;
    Some((time, rest.get(1..)?.trim_ascii_start()))
}

/// A job that waits or runs.
#[derive(Debug, Default)]
struct Job {
    /// `15_3`, `5+0` or `15`.
    name: String,
    /// Number of the array or heterogeneous job, if it is a part of one.
    group: Option<u32>,
    submit: Option<Timestamp>,
    run: Option<Run>,
    /// Time of a request to end.
    killed: Option<Timestamp>,
}

#[derive(Debug)]
struct Run {
    start: Timestamp,
    hosts: String,
    nodes: u32,
    queue: String,
    /// Outcome by the messages so far.
    outcome: JobOutcome,
}

pub(super) struct Slurmctld {
    times: LocalTimes,
    order: Order,
    /// Jobs by the number that Slurm gives each task and component.
    jobs: HashMap<u32, Job>,
    /// Parts of arrays and heterogeneous jobs: number of the whole, number of the part.
    parts: BTreeSet<(u32, u32)>,
    /// Jobs with a request to end, the oldest first. Later messages may have named them.
    held: VecDeque<(u32, Timestamp)>,
    /// At the end of the log: numbers of the jobs that still wait or run, in reverse order.
    rest: Vec<u32>,
}

impl Slurmctld {
    pub(super) fn new(reading: &Reading) -> Self {
        Self {
            times: LocalTimes::new(reading.zone()),
            order: Order::default(),
            jobs: HashMap::new(),
            parts: BTreeSet::new(),
            held: VecDeque::new(),
            rest: Vec::new(),
        }
    }

    fn submitted(&mut self, number: u32, at: Timestamp, record: &mut JobRecord) -> bool {
        // The numbering restarts on a new cluster, or after the largest number. The end of a job
        // that still ran under this number is missing.
        let unseen = self.unseen_end(number, at, record);
        self.forget(number);
        let job = Job {
            name: number.to_string(),
            submit: Some(at),
            ..Job::default()
        };
        self.jobs.insert(number, job);
        unseen
    }

    fn started(&mut self, name: &Name<'_>, run: Run, record: &mut JobRecord) -> bool {
        let at = run.start;
        let unseen = self.unseen_end(name.number, at, record);
        let group = name.group;
        // A task is submitted with its array, a component with its heterogeneous job.
        let whole = group.and_then(|whole| self.jobs.get(&whole)?.submit);
        let job = self.jobs.entry(name.number).or_default();
        job.name.clear();
        copy(&mut job.name, name.shown);
        (job.submit, job.killed) = (job.submit.or(whole), None);
        (job.group, job.run) = (group, Some(run));
        if let Some(whole) = group {
            self.parts.insert((whole, name.number));
        }
        unseen
    }

    /// Ends the present life of a job without a message of its end: at the request to end, or else
    /// at `latest`.
    fn unseen_end(&mut self, number: u32, latest: Timestamp, record: &mut JobRecord) -> bool {
        match self.jobs.get(&number).and_then(|job| job.killed) {
            Some(killed) => self.close(number, killed, JobOutcome::Cancelled, record),
            None => self.close(number, latest, JobOutcome::Unknown, record),
        }
    }

    /// Ends the present life of a job. Returns whether there was one, which is then in `record`.
    /// The job waits again.
    fn close(
        &mut self,
        number: u32,
        end: Timestamp,
        outcome: JobOutcome,
        record: &mut JobRecord,
    ) -> bool {
        let Some(job) = self.jobs.get_mut(&number) else {
            return false;
        };
        let Some(run) = job.run.take() else {
            return false;
        };
        job.killed = None;
        record.id.clone_from(&job.name);
        record.submit = job.submit;
        run.fill(record);
        // Lines may be out of order by milliseconds.
        record.end = Some(end.max(run.start));
        record.outcome = outcome;
        true
    }

    /// As [`Slurmctld::close`], for a job that does not wait again.
    fn over(
        &mut self,
        number: u32,
        end: Timestamp,
        outcome: JobOutcome,
        record: &mut JobRecord,
    ) -> bool {
        let ended = self.close(number, end, outcome, record);
        if ended {
            self.forget(number);
        }
        ended
    }

    fn forget(&mut self, number: u32) {
        if let Some(job) = self.jobs.remove(&number)
            && let Some(whole) = job.group
        {
            self.parts.remove(&(whole, number));
        }
    }

    /// All jobs of a name such as `15`, `15_3`, `15_[3-5]` or `5+1`.
    fn meant(&self, name: &Name<'_>) -> Vec<u32> {
        let Some(whole) = name.group else {
            let mut all: Vec<u32> = self.parts_of(name.number).collect();
            if !self.parts.contains(&(name.number, name.number)) {
                all.push(name.number);
            }
            return all;
        };
        if name.is_numbered {
            return vec![name.number];
        }
        let shown = String::from_utf8_lossy(name.shown);
        let mut names = HashSet::new();
        let mut add = |name: &str| {
            names.insert(name.to_owned());
        };
        if hosts::expand(&shown, &mut add).is_err() {
            return Vec::new();
        }
        let is_meant = |number: &u32| {
            let job = self.jobs.get(number);
            job.is_some_and(|job| shown.ends_with('*') || names.contains(&job.name))
        };
        self.parts_of(whole).filter(is_meant).collect()
    }

    fn parts_of(&self, whole: u32) -> impl Iterator<Item = u32> {
        let all = self.parts.range((whole, 0)..=(whole, u32::MAX));
        all.map(|&(_, number)| number)
    }

    fn killed(&mut self, name: &Name<'_>, at: Timestamp) {
        for number in self.meant(name) {
            if let Some(job) = self.jobs.get_mut(&number)
                && job.killed.is_none()
            {
                job.killed = Some(at);
                self.held.push_back((number, at));
            }
        }
    }

    fn spared(&mut self, name: &Name<'_>) {
        for number in self.meant(name) {
            if let Some(job) = self.jobs.get_mut(&number) {
                job.killed = None;
            }
        }
    }

    /// Returns the oldest job with a request to end, if there are more than `keep`.
    fn release(&mut self, keep: usize, record: &mut JobRecord) -> bool {
        while self.held.len() > keep {
            let Some((number, at)) = self.held.pop_front() else {
                break;
            };
            let Some(job) = self.jobs.get(&number) else {
                continue;
            };
            if job.killed != Some(at) {
                continue;
            }
            if !self.close(number, at, JobOutcome::Cancelled, record) {
                self.unstarted(number, record);
                record.outcome = JobOutcome::Cancelled;
            }
            self.forget(number);
            return true;
        }
        false
    }

    /// A job that has not started.
    fn unstarted(&self, number: u32, record: &mut JobRecord) {
        if let Some(job) = self.jobs.get(&number) {
            record.id.clone_from(&job.name);
            record.submit = job.submit;
        }
    }

    fn take(
        &mut self,
        at: Timestamp,
        message: &Message<'_>,
        record: &mut JobRecord,
    ) -> Result<bool, FieldError> {
        Ok(match message {
            Message::Submitted(name) => self.submitted(name.number, at, record),
            Message::Allocated { name, nodes } => {
                // An interactive job waits or starts at once.
                let run = match *nodes {
                    b"(null)" | b"" => None,
                    nodes => Some(Run::new(at, nodes, b"")?),
                };
                let unseen = self.submitted(name.number, at, record);
                if let Some(run) = run {
                    self.started(name, run, &mut JobRecord::default());
                }
                unseen
            }
            Message::Started { name, nodes, queue } => {
                self.started(name, Run::new(at, nodes, queue)?, record)
            }
            Message::Exited { name, outcome } => {
                if let Some(job) = self.jobs.get_mut(&name.number)
                    && let Some(run) = &mut job.run
                {
                    run.outcome = *outcome;
                }
                false
            }
            Message::Done(name) => {
                let job = self.jobs.get(&name.number);
                let run = job.and_then(|job| job.run.as_ref());
                // The message also follows a requeue.
                run.map(|run| run.outcome)
                    .is_some_and(|outcome| self.over(name.number, at, outcome, record))
            }
            Message::Ended { name, outcome } => self.over(name.number, at, *outcome, record),
            Message::Requeued { name, outcome } => {
                let ended = self.close(name.number, at, *outcome, record);
                if let Some(job) = self.jobs.get_mut(&name.number) {
                    // Slurm counts a requeued job as submitted again.
                    (job.submit, job.killed) = (Some(at), None);
                }
                ended
            }
            Message::Killed(name) => {
                self.killed(name, at);
                false
            }
            Message::Spared(name) => {
                self.spared(name);
                false
            }
        })
    }
}

impl Run {
    fn new(start: Timestamp, list: &[u8], queue: &[u8]) -> Result<Self, FieldError> {
        let mut run = Self {
            start,
            hosts: String::new(),
            nodes: 0,
            queue: String::new(),
            outcome: JobOutcome::Unknown,
        };
        copy(&mut run.hosts, list);
        copy(&mut run.queue, queue);
        run.nodes = hosts::count(&run.hosts)?;
        match run.nodes {
            0 => Err(unexpected("NodeList", "nodes", list)),
            _ => Ok(run),
        }
    }

    /// The start of a job in a record.
    fn fill(&self, record: &mut JobRecord) {
        record.start = Some(self.start);
        record.nodes = self.nodes;
        record.hosts.clone_from(&self.hosts);
        record.queue.clone_from(&self.queue);
    }
}

impl JobParser for Slurmctld {
    fn line(&mut self, line: &[u8], record: &mut JobRecord) -> Result<bool, FieldError> {
        let mut done = false;
        if let Some((time, text)) = parts(line)
            && let Some(message) = message(text)?
        {
            let at = self
                .times
                .iso(time)
                .ok_or_else(|| unexpected("time", "a time (2022-03-17T12:00:00.123)", time))?;
            self.order.check(at, time)?;
            done = self.take(at, &message, record)?;
        }
        Ok(done || self.release(HELD, record))
    }

    fn has_starts(&self) -> bool {
        true
    }

    fn finish(&mut self, record: &mut JobRecord) -> bool {
        if self.release(0, record) {
            return true;
        }
        // In the order of their numbers, so that the same log gives the same records.
        if self.rest.is_empty() {
            self.rest = self.jobs.keys().copied().collect();
            self.rest.sort_unstable_by(|a, b| b.cmp(a));
        }
        let Some(number) = self.rest.pop() else {
            return false;
        };
        self.unstarted(number, record);
        if let Some(run) = self.jobs.get(&number).and_then(|job| job.run.as_ref()) {
            run.fill(record);
        }
        record.outcome = JobOutcome::Running;
        self.forget(number);
        true
    }
}
