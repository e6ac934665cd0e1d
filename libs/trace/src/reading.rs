//! Options for reading a log, and the damage found in it.

use jiff::tz::TimeZone;
use lacuna_model::Timestamp;
use serde::Serialize;

use crate::{FieldError, Format};

/// Options for reading a log. By default they are derived from the log.
#[derive(Debug, Clone, Default)]
pub struct Reading {
    /// Format of the log; recognised by the first lines if absent.
    pub format: Option<Format>,
    /// Names of the columns of a `sacct` table without a header line, separated by `|` or
    /// commas, as given to `sacct --format`.
    pub columns: Option<String>,
    /// The cluster that is read, of a log that may have several (`sacct -L`, `sinfo -M`). Without
    /// it, a second cluster in the log is an error.
    pub cluster: Option<String>,
    /// Time zone of times without one (times of Slurm and PBS are local); UTC if absent.
    pub time_zone: Option<TimeZone>,
    /// Processors of a node, for a log that counts only processors (SWF). If absent: by the header
    /// of the log, else 1.
    pub procs_per_node: Option<u32>,
    /// Whether the first damaged line is an error. Otherwise damaged lines are counted and skipped.
    pub strict: bool,
}

impl Reading {
    /// Time zone of times without one.
    #[must_use]
    pub fn zone(&self) -> TimeZone {
        self.time_zone.clone().unwrap_or(TimeZone::UTC)
    }
}

/// A damaged line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DamagedLine {
    /// Number of the line, from 1.
    pub line: u64,
    /// The value and its fault.
    pub at: FieldError,
}

/// Number of damaged lines that are kept with their place.
const REMEMBERED: usize = 10;

/// Damaged lines that were skipped, and records that can be read in several ways.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Damage {
    /// Number of damaged lines.
    pub lines: u64,
    /// The first damaged lines.
    pub first: Vec<DamagedLine>,
    /// Number of records that can be read in several ways, with different results. The likeliest
    /// was taken.
    pub doubtful: u64,
    /// Last lines of the first of these records.
    pub first_doubtful: Vec<u64>,
}

impl Damage {
    pub(crate) fn add(&mut self, line: u64, at: FieldError) {
        self.lines += 1;
        if self.first.len() < REMEMBERED {
            self.first.push(DamagedLine { line, at });
        }
    }

    /// Records that the parser has found `doubtful` records, with this line as the newest.
    pub(crate) fn doubt(&mut self, line: u64, doubtful: u64) {
        if doubtful > self.doubtful && self.first_doubtful.len() < REMEMBERED {
            self.first_doubtful.push(line);
        }
        self.doubtful = doubtful;
    }
}

/// Header of a log, as far as it has been read.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct LogHeader {
    /// Name of the machine.
    pub computer: Option<String>,
    /// Number of nodes of the machine.
    pub nodes: Option<u32>,
    /// Number of processors of the machine.
    pub procs: Option<u32>,
    /// Second 0 of a log whose times are relative.
    pub start: Option<Timestamp>,
}
