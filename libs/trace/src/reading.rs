//! How a log is to be read, and what was found damaged in it.

use jiff::tz::TimeZone;
use lacuna_model::Timestamp;
use serde::Serialize;

use crate::{FieldError, Format};

/// How a log is to be read. The default guesses what it can.
#[derive(Debug, Clone, Default)]
pub struct Reading {
    /// The format; guessed from the first lines if absent.
    pub format: Option<Format>,
    /// Names of the columns of a `sacct` table without a header line, separated by `|` or
    /// commas, as given to `sacct --format`.
    pub columns: Option<String>,
    /// The zone of times that name none (Slurm's and PBS's are local). UTC if absent.
    pub time_zone: Option<TimeZone>,
    /// How many processors a node has, where a log counts processors only (SWF). From the
    /// log's header if absent, else 1.
    pub procs_per_node: Option<u32>,
    /// Whether the first damaged line is an error; else damaged lines are counted and skipped.
    pub strict: bool,
}

impl Reading {
    /// The zone of times that name none.
    #[must_use]
    pub fn zone(&self) -> TimeZone {
        self.time_zone.clone().unwrap_or(TimeZone::UTC)
    }
}

/// A damaged line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DamagedLine {
    /// Which line, from 1.
    pub line: u64,
    /// Which value, and what is wrong with it.
    pub at: FieldError,
}

/// How many damaged lines are remembered with their place.
const REMEMBERED: usize = 10;

/// What was found damaged and skipped.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Damage {
    /// How many lines were skipped because of damage.
    pub lines: u64,
    /// The first of them.
    pub first: Vec<DamagedLine>,
}

impl Damage {
    pub(crate) fn add(&mut self, line: u64, at: FieldError) {
        self.lines += 1;
        if self.first.len() < REMEMBERED {
            self.first.push(DamagedLine { line, at });
        }
    }
}

/// What a log says of itself, as far as it has been read.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct LogHeader {
    /// The machine's name.
    pub computer: Option<String>,
    /// How many nodes the machine has.
    pub nodes: Option<u32>,
    /// How many processors the machine has.
    pub procs: Option<u32>,
    /// Second 0 of a log whose times are relative.
    pub start: Option<Timestamp>,
}
