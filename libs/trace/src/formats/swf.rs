//! Standard Workload Format, version 2.2: one batch job a line, 18 numbers apart by white space.
//!
//! Source: the Parallel Workloads Archive's definition,
//! <https://www.cs.huji.ac.il/labs/parallel/workload/swf.html>. An unknown value is -1. Lines that
//! begin with `;` are comments. The first comments have fields `Key: value` of the whole log.
//!
//! - Times are seconds (decimals are allowed) from the header's `UnixStartTime`.
//! - Processors become nodes by `procs_per_node` of the reading, else by `MaxProcs` and `MaxNodes`
//!   of the header, else one processor is one node.
//! - A job that ran without a wait time comes from a model of a workload. It starts at its
//!   submission, so that its length is kept. A job without a run time never started.
//! - A job that was swapped out has a line of the whole job (status 0 or 1), then a line for each
//!   partial execution (status 2; the last 3 or 4) under the same number. Only the first of these
//!   has a submit time. The line of the whole job represents them, as the archive advises for
//!   studies of workloads. Without that line, each partial execution is a life of its own.

use lacuna_model::{Span, Timestamp};
use lacuna_records::fields::{self, LATEST_S, unexpected};

use crate::formats::JobParser;
use crate::{FieldError, JobOutcome, JobRecord, LogHeader, Reading};

/// Latest valid time, milliseconds.
const LATEST_MS: i64 = LATEST_S * 1000;

/// Number of fields of a job.
const FIELDS: usize = 18;

/// Keys by which a header of the archive's logs is recognised when no job is near.
const KEYS: [&str; 4] = ["UnixStartTime", "MaxNodes", "MaxProcs", "MaxJobs"];

pub(super) fn knows(lines: &[&[u8]]) -> bool {
    let is_comment = |line: &&[u8]| line.starts_with(b";");
    match lines.iter().find(|line| !is_comment(line)) {
        Some(line) => {
            let mut found = 0;
            for field in line
                .split(u8::is_ascii_whitespace)
                .filter(|field| !field.is_empty())
            {
                found += 1;
                if fields::signed(field).is_none() && fields::milliseconds(field).is_none() {
                    return false;
                }
            }
            found == FIELDS
        }
        None => lines
            .iter()
            .filter_map(|line| pair(line))
            .any(|(key, _)| KEYS.contains(&key)),
    }
}

/// Key and value of a header comment.
fn pair(comment: &[u8]) -> Option<(&str, &str)> {
    let text = std::str::from_utf8(comment).ok()?.trim_start_matches(';');
    let (key, value) = text.split_once(':')?;
    Some((key.trim_ascii(), value.trim_ascii()))
}

pub(super) struct Swf {
    procs_per_node: Option<u32>,
    header: LogHeader,
    /// The header's `UnixStartTime`, milliseconds.
    start_ms: i64,
    /// Number of the newest job with a line of the whole job.
    whole: i64,
    /// Number of the job of the newest partial execution, its submission, and the end.
    partial: Option<(i64, i64, i64)>,
}

impl Swf {
    pub(super) fn new(reading: &Reading) -> Self {
        Self {
            procs_per_node: reading.procs_per_node.filter(|&procs| procs > 0),
            header: LogHeader::default(),
            start_ms: 0,
            whole: -1,
            partial: None,
        }
    }

    /// Takes a field of the header from a comment. The first value of a key holds.
    #[cold]
    fn comment(&mut self, line: &[u8]) -> Result<(), FieldError> {
        let Some((key, value)) = pair(line) else {
            return Ok(());
        };
        match key {
            "Computer" if self.header.computer.is_none() && !value.is_empty() => {
                // Values of the header have a limit of length.
                self.header.computer = Some(value.chars().take(200).collect());
            }
            "UnixStartTime" if self.header.start.is_none() => {
                let start = fields::unix(first_word(value)).ok_or_else(|| {
                    unexpected(
                        "header UnixStartTime",
                        "a time in Unix seconds",
                        value.as_bytes(),
                    )
                })?;
                self.start_ms = start.unix_ms();
                self.header.start = Some(start);
            }
            "MaxNodes" if self.header.nodes.is_none() => {
                self.header.nodes = count(key, value)?;
            }
            "MaxProcs" if self.header.procs.is_none() => {
                self.header.procs = count(key, value)?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Number of nodes for a number of processors.
    fn nodes(&self, procs: u32) -> u32 {
        let (nodes, of_procs) = match (self.procs_per_node, self.header.nodes, self.header.procs) {
            (Some(per_node), _, _) => (1, u64::from(per_node)),
            (None, Some(nodes), Some(procs)) if 0 < nodes && nodes <= procs => {
                (u64::from(nodes), u64::from(procs))
            }
            _ => return procs,
        };
        // Below 2^64, since both factors are below 2^32, and at most `procs`.
        let nodes = (u64::from(procs) * nodes).div_ceil(of_procs);
        u32::try_from(nodes).unwrap_or(procs)
    }

    fn job(&mut self, fields: &Job<'_>, record: &mut JobRecord) -> Result<bool, FieldError> {
        let number = fields::signed(fields.number)
            .filter(|&number| number >= 0)
            .ok_or_else(|| unexpected("field 1 (job number)", "a whole number", fields.number))?;
        let status = status(fields.status)?;
        let is_partial = (2..=4).contains(&status);
        if is_partial && number == self.whole {
            return Ok(false);
        }
        let submit = seconds("field 2 (submit time)", fields.submit)?;
        let wait = seconds("field 3 (wait time)", fields.wait)?;
        let run = seconds("field 4 (run time)", fields.run)?;
        let (submit, ready) = match (submit, self.partial) {
            (Some(submit), _) => {
                let at = submit.saturating_add(self.start_ms);
                (at, at)
            }
            // The wait of a later execution counts from the end of the one before.
            (None, Some((of, submit, end))) if is_partial && of == number => (submit, end),
            (None, _) => {
                let expected = "seconds, zero or more";
                return Err(unexpected("field 2 (submit time)", expected, fields.submit));
            }
        };
        let times = run.and_then(|run| match wait {
            Some(wait) => Some((ready.saturating_add(wait), run)),
            None if run > 0 && status != 5 => Some((ready, run)),
            None => None,
        });
        let times = times.map(|(start, run)| (start, start.saturating_add(run)));
        let (latest, place, text) = match times {
            Some((_, end)) => (end, "field 4 (run time)", fields.run),
            None => (submit, "field 2 (submit time)", fields.submit),
        };
        if latest > LATEST_MS {
            return Err(unexpected(
                place,
                "a job that ends before the year 10000",
                text,
            ));
        }
        let walltime = seconds("field 9 (requested time)", fields.requested_time)?;
        let allocated = processors("field 5 (allocated processors)", fields.allocated)?;
        let requested = processors("field 8 (requested processors)", fields.requested)?;
        let procs = allocated.or(requested);

        fields::copy(&mut record.id, fields.number);
        record.submit = Some(Timestamp::from_unix_ms(submit));
        // The job was cancelled before it had a processor: a run time of 0 is no start.
        let none_had = status == 5 && run == Some(0) && allocated.is_none();
        if let Some((start, end)) = times.filter(|_| !none_had) {
            record.start = Some(Timestamp::from_unix_ms(start));
            record.end = Some(Timestamp::from_unix_ms(end));
        }
        record.nodes = self.nodes(procs.unwrap_or(0));
        record.walltime = walltime.filter(|&ms| ms > 0).map(Span::from_ms);
        record.outcome = match status {
            0 | 4 => JobOutcome::Failed,
            1 | 3 => JobOutcome::Completed,
            2 => JobOutcome::Preempted,
            5 => JobOutcome::Cancelled,
            _ => JobOutcome::Unknown,
        };
        for (place, text) in [
            (&mut record.user, fields.user),
            (&mut record.queue, fields.queue),
        ] {
            if !text.starts_with(b"-") {
                fields::copy(place, text);
            }
        }
        if is_partial {
            let end = times.map_or(ready, |(_, end)| end);
            self.partial = Some((number, submit, end));
        } else {
            self.whole = number;
        }
        Ok(true)
    }
}

impl JobParser for Swf {
    fn line(&mut self, line: &[u8], record: &mut JobRecord) -> Result<bool, FieldError> {
        if line.first() == Some(&b';') {
            self.comment(line)?;
            return Ok(false);
        }
        let mut fields: [&[u8]; FIELDS] = [&[]; FIELDS];
        let found = split(line, &mut fields);
        if found != FIELDS {
            if found == 0 {
                return Ok(false);
            }
            if line.trim_ascii_start().starts_with(b";") {
                self.comment(line.trim_ascii_start())?;
                return Ok(false);
            }
            let found = format!("{found}");
            return Err(FieldError::new("line", "18 fields", found));
        }
        let [
            number,
            submit,
            wait,
            run,
            allocated,
            _,
            _,
            requested,
            requested_time,
            _,
            status,
            user,
            _,
            _,
            queue,
            _,
            _,
            _,
        ] = fields;
        let job = Job {
            number,
            submit,
            wait,
            run,
            allocated,
            requested,
            requested_time,
            status,
            user,
            queue,
        };
        self.job(&job, record)
    }

    fn header(&self) -> LogHeader {
        let mut header = self.header.clone();
        if header.nodes.is_none() {
            header.nodes = header.procs.map(|procs| self.nodes(procs));
        }
        header
    }
}

/// The used fields of a job.
struct Job<'a> {
    number: &'a [u8],
    submit: &'a [u8],
    wait: &'a [u8],
    run: &'a [u8],
    allocated: &'a [u8],
    requested: &'a [u8],
    requested_time: &'a [u8],
    status: &'a [u8],
    user: &'a [u8],
    queue: &'a [u8],
}

/// Cuts a line at white space. Returns the number of all fields, also of unused ones.
fn split<'a>(line: &'a [u8], fields: &mut [&'a [u8]; FIELDS]) -> usize {
    let mut found = 0;
    let mut from = 0;
    let mut inside = false;
    let mut put = |from: usize, until: usize| {
        if let (Some(place), Some(text)) = (fields.get_mut(found), line.get(from..until)) {
            *place = text;
        }
        found += 1;
    };
    for (at, &byte) in line.iter().enumerate() {
        let blank = byte == b' ' || byte == b'\t';
        if inside == blank {
            if inside {
                put(from, at);
            }
            from = at;
            inside = !blank;
        }
    }
    if inside {
        put(from, line.len());
    }
    found
}

fn first_word(text: &str) -> &[u8] {
    text.split_ascii_whitespace()
        .next()
        .unwrap_or("")
        .as_bytes()
}

/// A count of the header, which further words may follow; `None` for 0 and -1.
fn count(key: &str, value: &str) -> Result<Option<u32>, FieldError> {
    fields::signed(first_word(value).trim_ascii_end())
        .map(|number| u32::try_from(number).ok().filter(|&number| number > 0))
        .ok_or_else(|| unexpected(format!("header {key}"), "a whole number", value.as_bytes()))
}

/// Seconds as milliseconds; `None` for -1.
#[inline]
fn seconds(place: &str, text: &[u8]) -> Result<Option<i64>, FieldError> {
    if text == b"-1" {
        return Ok(None);
    }
    let ms = match fields::unsigned(text) {
        Some(seconds) if seconds <= LATEST_S.unsigned_abs() => i64::try_from(seconds * 1000).ok(),
        Some(_) => None,
        None => fields::milliseconds(text),
    };
    match ms {
        Some(-1000) => Ok(None),
        Some(ms) if (0..=LATEST_MS).contains(&ms) => Ok(Some(ms)),
        _ => Err(unexpected(place, "seconds, zero or more, or -1", text)),
    }
}

/// Number of processors; `None` for 0 and -1.
#[inline]
fn processors(place: &str, text: &[u8]) -> Result<Option<u32>, FieldError> {
    match fields::signed(text) {
        Some(-1 | 0) => Some(None),
        Some(number) => u32::try_from(number).ok().map(Some),
        None => None,
    }
    .ok_or_else(|| unexpected(place, "a number of processors, or -1", text))
}

#[inline]
fn status(text: &[u8]) -> Result<i64, FieldError> {
    fields::signed(text)
        .filter(|status| (-1..=5).contains(status))
        .ok_or_else(|| unexpected("field 11 (status)", "a status from 0 to 5, or -1", text))
}
