//! One parser for each format. A parser gets one line at a time and hands out records; it never
//! sees files.

mod front;
mod holes;
mod jobcomp;
mod lsf;
mod node_states;
mod pbs;
mod sacct;
mod sinfo;
mod slurmctld;
mod swf;

use std::collections::VecDeque;

use lacuna_model::{HoleRecord, Timestamp};

use crate::{FieldError, Format, JobRecord, LogHeader, Reading};

/// Makes records of batch jobs from lines.
pub(crate) trait JobParser: Send {
    /// Takes one line (without its end; it may be blank). Says whether it completed a record,
    /// which then stands in `record`; `record` is empty at the call, and what is left in it
    /// without a record counts for nothing.
    ///
    /// # Errors
    /// [`FieldError`] names the value that does not fit. The parser can go on with the next
    /// line.
    fn line(&mut self, line: &[u8], record: &mut JobRecord) -> Result<bool, FieldError>;

    /// After the last line: hands out one job that was still under way; called until there is
    /// none.
    fn finish(&mut self, record: &mut JobRecord) -> bool {
        let _ = record;
        false
    }

    /// Whether the log has told of starts as they happened, so that a job which still ran at its
    /// end is known. A log of jobs that are over lacks such jobs.
    fn tells_starts(&self) -> bool {
        false
    }

    /// How many lines were in order but no jobs of this machine: steps of jobs, jobs that ran in
    /// another cluster.
    fn passed_over(&self) -> u64 {
        0
    }

    /// What the log says of itself, as far as it has been read.
    fn header(&self) -> LogHeader {
        LogHeader::default()
    }
}

/// Makes past holes from lines.
pub(crate) trait HoleParser: Send {
    /// Takes one line; holes that it completes go to the end of `ready`.
    ///
    /// # Errors
    /// [`FieldError`] names the value that does not fit.
    fn line(&mut self, line: &[u8], ready: &mut VecDeque<HoleRecord>) -> Result<(), FieldError>;

    /// After the last line: holes that were still open, as censored.
    fn finish(&mut self, ready: &mut VecDeque<HoleRecord>) {
        let _ = ready;
    }

    /// The first and the last moment at which the nodes were looked at so far, whether any was
    /// idle then or not; nothing if the format does not say.
    fn span(&self) -> Option<(Timestamp, Timestamp)> {
        None
    }

    /// How many nodes the log has named so far, idle or not; nothing if the format names nodes
    /// only when they are idle.
    fn nodes(&self) -> Option<u32> {
        None
    }
}

/// A parser of either kind.
pub(crate) enum Parser {
    Jobs(Box<dyn JobParser>),
    Holes(Box<dyn HoleParser>),
}

/// What a format is known by and read with.
pub(crate) struct Entry {
    /// Its name on the command line.
    pub(crate) name: &'static str,
    /// Whether these first lines (trimmed, none blank) are of this format.
    pub(crate) knows: fn(&[&[u8]]) -> bool,
    /// A parser for a log of this format.
    pub(crate) parser: fn(&Reading) -> Parser,
}

impl Entry {
    const fn new(
        name: &'static str,
        knows: fn(&[&[u8]]) -> bool,
        parser: fn(&Reading) -> Parser,
    ) -> Self {
        Self {
            name,
            knows,
            parser,
        }
    }
}

impl Format {
    /// The row of this format. A new one has its row here, and its place in [`Format::ALL`].
    pub(crate) const fn entry(self) -> Entry {
        use Parser::{Holes, Jobs};
        match self {
            Self::Swf => Entry::new("swf", swf::knows, |reading| {
                Jobs(Box::new(swf::Swf::new(reading)))
            }),
            Self::Sacct => Entry::new("sacct", sacct::knows, |reading| {
                Jobs(Box::new(sacct::Sacct::new(reading)))
            }),
            Self::Jobcomp => Entry::new("jobcomp", jobcomp::knows, |reading| {
                Jobs(Box::new(jobcomp::Jobcomp::new(reading)))
            }),
            Self::Slurmctld => Entry::new("slurmctld", slurmctld::knows, |reading| {
                Jobs(Box::new(slurmctld::Slurmctld::new(reading)))
            }),
            Self::Sinfo => Entry::new("sinfo", sinfo::knows, |reading| {
                Holes(Box::new(sinfo::Sinfo::new(reading)))
            }),
            Self::Pbs => Entry::new("pbs", pbs::knows, |reading| {
                Jobs(Box::new(pbs::Pbs::new(reading)))
            }),
            Self::LsbAcct => Entry::new("lsb.acct", lsf::knows_acct, |reading| {
                Jobs(Box::new(lsf::Acct::new(reading)))
            }),
            Self::LsbEvents => Entry::new("lsb.events", lsf::knows_events, |reading| {
                Jobs(Box::new(lsf::Events::new(reading)))
            }),
            Self::Holes => Entry::new("holes", holes::knows, |reading| {
                Holes(Box::new(holes::Holes::new(reading)))
            }),
            Self::NodeStates => Entry::new("node-states", node_states::knows, |reading| {
                Holes(Box::new(node_states::NodeStates::new(reading)))
            }),
        }
    }
}

/// Says why a log with these first bytes cannot be read in this format at all, however its
/// lines are; nothing if it can.
pub(crate) fn refusal(format: Format, head: &[u8], reading: &Reading) -> Option<String> {
    match format {
        Format::Sacct => sacct::refusal(head, reading),
        _ => None,
    }
}
