//! The first jobs of a log, which decide how it is read.

use std::path::Path;

use lacuna_trace::{Format, JobLog, JobRecord, LogHeader};

use super::error::unreadable;
use super::options::LogOptions;
use super::ours::Ours;
use crate::error::{CliError, Result};

/// The number of jobs that decides whether a log names the nodes of jobs.
const SAMPLE: u64 = 1_000;

/// What the first jobs of a log say.
#[derive(Debug)]
pub(super) struct Sample {
    /// Whether most of those that ran have names of nodes.
    pub(super) names_nodes: bool,
    /// Pilots of Lacuna among those that ran.
    pub(super) pilots: u64,
    /// The header of the log.
    pub(super) header: LogHeader,
    /// The format of the log.
    pub(super) format: Format,
}

impl Sample {
    /// Reads the first jobs that ran. The log is used up by it, and must be opened again.
    ///
    /// # Errors
    /// The log is a pipe, or no job could be read from it.
    pub(super) fn take(options: &LogOptions, mut log: JobLog) -> Result<Self> {
        require_regular_file(&options.file)?;
        let ours = options.ours.as_ref();
        let mut record = JobRecord::default();
        let (mut records, mut pilots, mut named, mut unnamed) = (0_u64, 0, 0, 0);
        while named + unnamed < SAMPLE && log.read(&mut record).map_err(unreadable)? {
            records += 1;
            pilots += u64::from(record.start.is_some() && Ours::has(ours, &record));
            match (record.start, record.hosts.is_empty()) {
                (None, _) => {}
                (Some(_), true) => unnamed += 1,
                (Some(_), false) => named += 1,
            }
        }
        if records == 0 {
            return Err(unreadable_jobs(&options.file, &log));
        }
        Ok(Self {
            names_nodes: named > unnamed,
            pilots,
            header: log.header(),
            format: log.format(),
        })
    }
}

/// Refuses a pipe: a log of jobs is read more than once, and a second reading would lack the
/// beginning.
fn require_regular_file(path: &Path) -> Result<()> {
    if std::fs::metadata(path).is_ok_and(|file| !file.is_file()) {
        let path = path.display();
        return Err(CliError::failed(format!(
            "{path} is no regular file, and a log of batch jobs is read more than once"
        ))
        .remedy("write it to a file first (it may be compressed with gzip or zstd)"));
    }
    Ok(())
}

/// The error of a log without a readable job.
fn unreadable_jobs(path: &Path, log: &JobLog) -> CliError {
    let (path, format) = (path.display(), log.format());
    let damage = log.damage();
    let what = match damage.first.first() {
        Some(first) => format!(
            "{} damaged lines, the first: line {}, {}",
            damage.lines, first.line, first.at
        ),
        None => format!("{} lines", log.lines()),
    };
    CliError::failed(format!(
        "{path}: no job could be read from it as {format}: {what}"
    ))
    .remedy("name its format with --format, or the columns of a table with --columns")
}
