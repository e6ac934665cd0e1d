//! One parser for each format. A parser takes one line at a time and returns records. It never
//! reads files.
//!
//! **One more format** needs:
//!
//! | file | what the format needs there |
//! |---|---|
//! | `formats/<format>.rs` | a [`JobParser`] or a [`HoleParser`], and `knows`, which tells it by the first lines of a log; `holes.rs` and `jobcomp.rs` are short |
//! | `formats.rs` | the module, and a row in `Format::entry`: name, `knows`, parser |
//! | `format.rs` | the variant, its place in `Format::ALL`, and `has_local_times` if no line tells the zone |
//! | `tests/` | its first lines in `records/opening.rs`, damaged lines in `fuzz_more.rs`, a file of its own |
//! | `deploy/errors.md` | a line of at most 88 letters in the page L0018, which a test demands |
//! | each file of `grep -rl jobcomp deploy services/cli/src`, `CHANGELOG.md` | a word in the lists for people |
//! | `integration-tests/README.md` | the test with damaged lines, in promise 13 |
//!
//! Every command takes its formats from `Format::ALL`; the first one there that knows a log reads it.
//! A [`JobRecord`] is one life of a batch job: without `start` it never ran, without `end` it still
//! runs, and without `hosts` (Slurm's notation, [`lacuna_records::hosts`]) a simulated batch scheduler places
//! it. [`crate::fields`] and [`crate::times`] read values and make the error that names a damaged one.

mod clusters;
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
    /// Takes one line, without its end; it may be blank. Returns whether the line completes a
    /// record, which is then in `record`. The caller passes an empty `record`, and ignores its
    /// content unless the line completes a record.
    ///
    /// # Errors
    /// [`FieldError`] for a damaged value. The parser can go on with the next line.
    fn line(&mut self, line: &[u8], record: &mut JobRecord) -> Result<bool, FieldError>;

    /// After the last line: returns one job that is still under way. The caller repeats the call
    /// until there is none.
    fn finish(&mut self, record: &mut JobRecord) -> bool {
        let _ = record;
        false
    }

    /// Whether the log has events of starts, so that jobs that still run at its end are known. A
    /// log of jobs that are over lacks such jobs.
    fn has_starts(&self) -> bool {
        false
    }

    /// Number of valid lines that are no jobs of this machine: steps of jobs, jobs in another
    /// cluster.
    fn skipped(&self) -> u64 {
        0
    }

    /// Number of lines behind a refused one that belong to its record, since texts of users may
    /// hold line ends; `None` if the line is damaged. `ahead` begins with the refused line and ends
    /// with a whole one. The caller passes the joined lines to [`JobParser::line`] again.
    fn joins(&mut self, ahead: &[u8]) -> Option<usize> {
        let _ = ahead;
        None
    }

    /// Whether [`JobParser::joins`] is asked about each line before it is read, since the first line
    /// of a record may be no damage by itself.
    fn looks_ahead(&self) -> bool {
        false
    }

    /// Number of records that can be read in several ways, with different results.
    fn doubtful(&self) -> u64 {
        0
    }

    /// Why the log cannot be read after all: asked behind a refused line, and at the end.
    fn refusal(&self, is_end: bool) -> Option<String> {
        let _ = is_end;
        None
    }

    /// Header of the log, as far as it has been read.
    fn header(&self) -> LogHeader {
        LogHeader::default()
    }
}

/// Makes past holes from lines.
pub(crate) trait HoleParser: Send {
    /// Takes one line, and appends the holes that it completes to `ready`.
    ///
    /// # Errors
    /// [`FieldError`] for a damaged value.
    fn line(&mut self, line: &[u8], ready: &mut VecDeque<HoleRecord>) -> Result<(), FieldError>;

    /// After the last line: appends the open holes as censored.
    fn finish(&mut self, ready: &mut VecDeque<HoleRecord>) {
        let _ = ready;
    }

    /// As [`JobParser::refusal`].
    fn refusal(&self, is_end: bool) -> Option<String> {
        let _ = is_end;
        None
    }

    /// First and last observation of nodes so far, idle or not; `None` if the format does not
    /// contain them.
    fn span(&self) -> Option<(Timestamp, Timestamp)> {
        None
    }

    /// Number of nodes in the log so far, idle or not; `None` if the format names only idle nodes.
    fn nodes(&self) -> Option<u32> {
        None
    }
}

/// A parser of either kind.
pub(crate) enum Parser {
    Jobs(Box<dyn JobParser>),
    Holes(Box<dyn HoleParser>),
}

/// A row of the table of formats: how a format is recognised and parsed.
pub(crate) struct Entry {
    /// Name of the format on the command line.
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

/// Reason why a log with these first bytes cannot be read in this format at all, if there is one.
pub(crate) fn refusal(format: Format, head: &[u8], reading: &Reading) -> Option<String> {
    match (format, &reading.cluster) {
        (Format::Sacct, _) => sacct::refusal(head, reading),
        (Format::Sinfo, _) | (_, None) => None,
        (_, Some(cluster)) => Some(format!(
            "logs of this format name no clusters, so that --cluster {cluster} selects nothing: \
             leave the option out"
        )),
    }
}
