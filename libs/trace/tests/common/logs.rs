//! Logs of batch jobs from texts and from the samples.

#![expect(clippy::panic, reason = "helpers of tests may panic")]

use std::io::Cursor;
use std::path::Path;

use lacuna_model::Timestamp;
use lacuna_trace::{Damage, Format, JobRecord, Log, ReadError, Reading};

/// A reading of one format.
pub(crate) fn as_format(format: Format) -> Reading {
    Reading {
        format: Some(format),
        ..Reading::default()
    }
}

/// Opens a text as a log.
pub(crate) fn text(text: &str, reading: &Reading) -> Result<Log, ReadError> {
    let stream = Cursor::new(text.as_bytes().to_vec());
    Log::from_stream(Path::new("log"), Box::new(stream), reading)
}

/// All batch jobs of a log, and its damage.
pub(crate) fn jobs(log: Log) -> Result<(Vec<JobRecord>, Damage), ReadError> {
    let Log::Jobs(mut log) = log else {
        panic!("a log of holes");
    };
    let mut records = Vec::new();
    let mut record = JobRecord::default();
    while log.read(&mut record)? {
        records.push(record.clone());
    }
    Ok((records, log.damage().clone()))
}

/// A record as one line: `id user@queue submit start end nodes walltime hosts outcome`. Times are
/// seconds after `zero`; an absent value is `-`.
pub(crate) fn shown(record: &JobRecord, zero: i64) -> String {
    let time = |time: Option<Timestamp>| match time {
        Some(time) => (time.unix_seconds() - zero as f64).to_string(),
        None => "-".to_owned(),
    };
    let walltime = record
        .walltime
        .map_or("-".to_owned(), |span| span.as_secs_f64().to_string());
    let hosts = if record.hosts.is_empty() {
        "-"
    } else {
        &record.hosts
    };
    format!(
        "{} {}@{} {} {} {} {} {walltime} {hosts} {:?}",
        record.id,
        record.user,
        record.queue,
        time(record.submit),
        time(record.start),
        time(record.end),
        record.nodes,
        record.outcome,
    )
}

/// Damage as lines: `line place`.
pub(crate) fn located(damage: &Damage) -> Vec<String> {
    assert!(damage.lines >= damage.first.len() as u64);
    let one = |line: &lacuna_trace::DamagedLine| format!("{} {}", line.line, line.at.place);
    damage.first.iter().map(one).collect()
}
