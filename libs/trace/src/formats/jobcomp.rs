//! Slurm: the job completion plugin `jobcomp/filetxt`: a line for each life of a job when it is
//! over, of `Key=value` in a fixed order.
//!
//! Source: Slurm's `src/plugins/jobcomp/filetxt/jobcomp_filetxt.c`: `JobId UserId GroupId Name
//! JobState Partition TimeLimit StartTime EndTime NodeList NodeCnt ProcCnt WorkDir ... SubmitTime
//! EligibleTime ...`. Values are not quoted, so a name or a folder may contain any text, even a
//! key or a line end. So keys are searched only at their places, and keys behind the folder from the
//! end of the record. Old versions end with the folder and lack the time of submission. A job without nodes
//! never started, even with a start time (that of its end, or an estimate). Tasks of arrays have
//! their own numbers. A job that changes its size has a line for each size (`RESIZING`, with
//! unknown outcome).

use lacuna_model::Timestamp;
use lacuna_records::fields::{Length, copy, length, unexpected, unsigned};
use lacuna_records::hosts;
use lacuna_records::times::LocalTimes;
use memchr::memmem::{find, rfind};

use crate::formats::JobParser;
use crate::{FieldError, JobOutcome, JobRecord, Reading};

/// Whether one of these first lines is a record.
pub(super) fn knows(lines: &[&[u8]]) -> bool {
    let keys = [&b" JobState="[..], b" EndTime="];
    lines
        .iter()
        .any(|line| begins(line) && keys.iter().all(|key| find(line, key).is_some()))
}

/// Whether a line begins a record.
fn begins(line: &[u8]) -> bool {
    let rest = line.strip_prefix(b"JobId=").unwrap_or(&[]);
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    // `scontrol show job` has the same keys in another order.
    let is_next = |rest: &[u8]| digits > 0 && rest.starts_with(b" UserId=");
    rest.get(digits..).is_some_and(is_next)
}

pub(super) struct Jobcomp {
    times: LocalTimes,
    /// Whether records have the keys behind the folder, as in the record before.
    is_long: bool,
    /// Records whose texts hold keys of the format.
    doubtful: u64,
}

impl Jobcomp {
    pub(super) fn new(reading: &Reading) -> Self {
        Self {
            times: LocalTimes::new(reading.zone()),
            is_long: false,
            doubtful: 0,
        }
    }

    /// A time; `None` for `Unknown`.
    fn time(
        &mut self,
        key: &'static str,
        text: &[u8],
        earliest: Option<Timestamp>,
    ) -> Result<Option<Timestamp>, FieldError> {
        if matches!(text, b"Unknown" | b"None") {
            return Ok(None);
        }
        match self.times.iso_after(text, earliest) {
            Some(time) => Ok(Some(time)),
            None => Err(unexpected(
                key,
                "a time (2022-03-17T12:00:00) or Unknown",
                text,
            )),
        }
    }
}

/// A cursor over the keys of a line.
struct Keys<'a> {
    rest: &'a [u8],
}

impl<'a> Keys<'a> {
    /// The value of the key at the cursor, up to the next blank.
    fn value(&mut self, key: &'static str) -> Result<&'a [u8], FieldError> {
        let text = self.open(key)?;
        let end = memchr::memchr(b' ', text).unwrap_or(text.len());
        Ok(self.cut(text, end))
    }

    /// As [`Keys::value`], but up to another key (given with the blank before it), which must
    /// follow.
    fn value_until(&mut self, key: &'static str, next: &str) -> Result<&'a [u8], FieldError> {
        let text = self.open(key)?;
        match find(text, next.as_bytes()) {
            Some(end) => Ok(self.cut(text, end)),
            None => Err(unexpected(key, &format!("a value and then{next}"), text)),
        }
    }

    fn open(&self, key: &'static str) -> Result<&'a [u8], FieldError> {
        self.rest
            .strip_prefix(key.as_bytes())
            .and_then(|text| text.strip_prefix(b"="))
            .ok_or_else(|| unexpected(key, "this key here", self.rest))
    }

    fn cut(&mut self, text: &'a [u8], end: usize) -> &'a [u8] {
        let (value, after) = text.split_at_checked(end).unwrap_or((text, &[]));
        self.rest = after.strip_prefix(b" ").unwrap_or(after);
        value
    }

    /// The value of the last of these keys (given with the blank before it) on the line.
    fn last(&self, key: &str) -> Option<&'a [u8]> {
        let at = rfind(self.rest, key.as_bytes())?;
        let text = self.rest.get(at.checked_add(key.len())?..)?;
        text.split(|&byte| byte == b' ').next()
    }
}

impl JobParser for Jobcomp {
    fn line(&mut self, line: &[u8], record: &mut JobRecord) -> Result<bool, FieldError> {
        if line.trim_ascii().is_empty() {
            return Ok(false);
        }
        let found = self.record(line, record)?;
        let keys = [&b" JobState="[..], b" StartTime=", b" SubmitTime="];
        let is_repeated = |key: &&[u8]| find(line, key) != rfind(line, key);
        self.doubtful += u64::from(keys.iter().any(is_repeated));
        Ok(found)
    }

    fn doubtful(&self) -> u64 {
        self.doubtful
    }

    fn joins(&mut self, ahead: &[u8]) -> Option<usize> {
        let mut lines = ahead.split_inclusive(|&byte| byte == b'\n');
        let mut length = lines.next().filter(|line| begins(line))?.len();
        let mut record = JobRecord::default();
        for (number, line) in (1..).zip(lines.take_while(|line| !begins(line))) {
            length += line.len();
            let joined = ahead.get(..length).unwrap_or(ahead);
            record.clear();
            if self.record(joined.trim_ascii_end(), &mut record).is_ok() {
                return Some(number);
            }
        }
        std::mem::take(&mut self.is_long).then_some(0)
    }
}

impl Jobcomp {
    /// Reads a record.
    fn record(&mut self, line: &[u8], record: &mut JobRecord) -> Result<bool, FieldError> {
        let mut keys = Keys { rest: line };
        let id = keys.value("JobId")?;
        if unsigned(id).is_none() {
            return Err(unexpected("JobId", "a number", id));
        }
        copy(&mut record.id, id);
        let user = keys.value_until("UserId", " GroupId=")?;
        let name = memchr::memrchr(b'(', user).and_then(|at| user.get(..at));
        copy(&mut record.user, name.unwrap_or(user));
        keys.value_until("GroupId", " Name=")?;
        copy(&mut record.name, keys.value_until("Name", " JobState=")?);
        let state = keys.value_until("JobState", " Partition=")?;
        record.outcome = outcome(state);
        copy(&mut record.queue, keys.value("Partition")?);
        let limit = keys.value("TimeLimit")?;
        record.walltime = match limit {
            b"Partition_Limit" => None,
            _ => length(limit)
                .map(Length::span)
                .ok_or_else(|| unexpected("TimeLimit", "minutes or UNLIMITED", limit))?,
        };
        let (start_text, end_text) = (keys.value("StartTime")?, keys.value("EndTime")?);
        let start = self.time("StartTime", start_text, None)?;
        let end = self.time("EndTime", end_text, start)?;
        let list = keys.value("NodeList")?;
        if !matches!(list, b"(null)" | b"None") {
            copy(&mut record.hosts, list);
        }
        let count = keys.value("NodeCnt")?;
        let nodes = unsigned(count)
            .and_then(|count| u32::try_from(count).ok())
            .ok_or_else(|| unexpected("NodeCnt", "a number of nodes", count))?;
        let listed = hosts::count(&record.hosts).map_err(|error| FieldError {
            place: "NodeList".to_owned(),
            ..error
        })?;
        match keys.last(" SubmitTime=") {
            Some(submit) => record.submit = self.time("SubmitTime", submit, None)?,
            // A line end in the name of the folder.
            None if self.is_long => return Err(unexpected("SubmitTime", "this key", keys.rest)),
            None => {}
        }
        self.is_long = record.submit.is_some();
        copy(&mut record.account, keys.last(" Account=").unwrap_or(&[]));
        if listed == 0 && nodes == 0 {
            // The job never started. The resources contain its request.
            record.nodes = keys.last(" Tres=").and_then(asked).unwrap_or(0);
            return Ok(true);
        }
        record.nodes = if listed > 0 { listed } else { nodes };
        let (Some(start), Some(end)) = (start, end) else {
            let (key, text) = match start {
                None => ("StartTime", start_text),
                Some(_) => ("EndTime", end_text),
            };
            return Err(unexpected(key, "a time, since the job had nodes", text));
        };
        if end < start {
            return Err(unexpected(
                "EndTime",
                "a time not before StartTime",
                end_text,
            ));
        }
        (record.start, record.end) = (Some(start), Some(end));
        Ok(true)
    }
}

/// The nodes of `cpu=4,mem=400M,node=4,billing=4`.
fn asked(resources: &[u8]) -> Option<u32> {
    let count = resources
        .split(|&byte| byte == b',')
        .find_map(|resource| resource.strip_prefix(b"node="))?;
    u32::try_from(unsigned(count)?).ok()
}

/// The outcome of a state.
fn outcome(state: &[u8]) -> JobOutcome {
    let name = state.split(|&byte| byte == b' ').next().unwrap_or(state);
    JobOutcome::of_slurm(name).unwrap_or(match name {
        b"REQUEUED" | b"REQUEUE" | b"REQUEUE_HOLD" => JobOutcome::Preempted,
        _ => JobOutcome::Unknown,
    })
}
