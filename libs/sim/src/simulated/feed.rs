//! The records of a log become the jobs of the simulator.

use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;

use lacuna_batchsim::BatchJob;
use lacuna_model::{Span, Timestamp};
use lacuna_trace::{
    Damage, Format, JobLog, JobOutcome, JobRecord, Log, LogHeader, ReadError, Reading,
};
use serde::Serialize;

use crate::SimError;

/// Counts of a log's records by their use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct JobCounts {
    /// Records in the log.
    pub records: u64,
    /// Jobs that go to the simulator.
    pub jobs: u64,
    /// Left out: cancelled while they waited.
    pub cancelled: u64,
    /// Left out: never started, and not recorded as cancelled.
    pub never_started: u64,
    /// Left out: without submission and start, or without a number of nodes.
    pub incomplete: u64,
    /// Still running at the end of the log; they run until their walltime.
    pub running: u64,
    /// Left out: still running at the end of the log, without a walltime.
    pub endless: u64,
    /// Jobs without a walltime in the log.
    pub without_walltime: u64,
    /// Submitted before a job that comes earlier in the log.
    pub late: u64,
    /// Nodes of the smallest job.
    pub smallest: u32,
    /// Nodes of the largest job.
    pub largest: u32,
    /// Recorded waiting time of all jobs, seconds; 0 if the log has no starts.
    pub recorded_wait_s: u64,
}

/// State that the feed, owned by the simulator, shares with the owner of the simulation.
#[derive(Debug, Default)]
pub(super) struct Shared {
    /// The error at which reading ended.
    pub(super) error: Option<ReadError>,
    pub(super) counts: JobCounts,
    pub(super) first_submit: Option<i64>,
    pub(super) last_submit: Option<i64>,
    /// Lines and bytes of plain text read so far.
    pub(super) lines: u64,
    pub(super) bytes: u64,
    /// Known at the end of the log.
    pub(super) format: Option<Format>,
    pub(super) header: LogHeader,
    pub(super) damage: Damage,
}

/// Reads jobs from a log until its end.
pub(super) struct Feed {
    log: JobLog,
    record: JobRecord,
    walltime: Option<Span>,
    shared: Rc<RefCell<Shared>>,
}

impl Feed {
    /// Opens the log.
    pub(super) fn open(
        path: &Path,
        reading: &Reading,
        walltime: Option<Span>,
        shared: Rc<RefCell<Shared>>,
    ) -> Result<Self, SimError> {
        match Log::open(path, reading)? {
            Log::Jobs(log) => Ok(Self {
                log,
                record: JobRecord::default(),
                walltime,
                shared,
            }),
            Log::Holes(log) => Err(SimError::NotJobs {
                path: path.to_owned(),
                format: log.format().name(),
            }),
        }
    }

    fn finish(&self, shared: &mut Shared) {
        shared.format = Some(self.log.format());
        shared.header = self.log.header();
        shared.damage = self.log.damage().clone();
    }
}

impl Iterator for Feed {
    type Item = BatchJob;

    fn next(&mut self) -> Option<BatchJob> {
        let shared = self.shared.clone();
        let mut shared = shared.borrow_mut();
        loop {
            match self.log.read(&mut self.record) {
                Ok(true) => {}
                Ok(false) => {
                    self.finish(&mut shared);
                    return None;
                }
                Err(error) => {
                    self.finish(&mut shared);
                    shared.error = Some(error);
                    return None;
                }
            }
            (shared.lines, shared.bytes) = (self.log.lines(), self.log.bytes());
            let Some(job) = batch_job(&self.record, self.walltime, &mut shared.counts) else {
                continue;
            };
            shared.first_submit = Some(shared.first_submit.unwrap_or(i64::MAX).min(job.submit));
            let last = shared.last_submit.unwrap_or(i64::MIN);
            shared.counts.late += u64::from(job.submit < last);
            shared.last_submit = Some(last.max(job.submit));
            return Some(job);
        }
    }
}

/// The job of a record, if it ran.
fn batch_job(
    record: &JobRecord,
    walltime: Option<Span>,
    counts: &mut JobCounts,
) -> Option<BatchJob> {
    counts.records += 1;
    let Some(start) = record.start.map(seconds) else {
        match record.outcome {
            JobOutcome::Cancelled => counts.cancelled += 1,
            _ => counts.never_started += 1,
        }
        return None;
    };
    if record.nodes == 0 {
        counts.incomplete += 1;
        return None;
    }
    let asked = record.walltime.or(walltime);
    // Schedulers count whole seconds; a shorter walltime counts as one second.
    let asked = asked.map(|span| span.as_ms().saturating_add(999).div_euclid(1000).max(0));
    let runtime = match record.end.map(seconds) {
        Some(end) => end.saturating_sub(start).max(0),
        None => {
            let Some(asked) = asked else {
                counts.endless += 1;
                return None;
            };
            counts.running += 1;
            asked
        }
    };
    counts.without_walltime += u64::from(record.walltime.is_none());
    // No job starts before its submission, even if the log's clocks differ.
    let submit = record.submit.map_or(start, seconds).min(start);
    counts.recorded_wait_s = counts
        .recorded_wait_s
        .saturating_add(start.abs_diff(submit));
    let job = BatchJob {
        id: counts.records,
        submit,
        nodes: record.nodes,
        runtime,
        walltime: asked.unwrap_or(runtime),
        recorded_start: Some(start),
    };
    counts.smallest = match counts.jobs {
        0 => job.nodes,
        _ => counts.smallest.min(job.nodes),
    };
    counts.largest = counts.largest.max(job.nodes);
    counts.jobs += 1;
    Some(job)
}

/// Whole seconds since the Unix epoch, rounded down.
fn seconds(at: Timestamp) -> i64 {
    at.unix_ms().div_euclid(1000)
}
