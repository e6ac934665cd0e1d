//! Any log as a stream of records.

use std::path::Path;

use lacuna_model::{HoleRecord, Timestamp};

use crate::formats::{HoleParser, JobParser};
use crate::lines::Lines;
use crate::{Damage, FieldError, Format, JobRecord, LogHeader, ReadError, Reading, open};

/// An opened log: either of batch jobs, or of the states of nodes, which are holes already.
pub enum Log {
    /// Records of batch jobs.
    Jobs(JobLog),
    /// Past holes.
    Holes(HoleLog),
}

impl Log {
    /// Opens a log: plain, gzip or zstd, told by its first bytes; its format as `reading` says,
    /// or told by its first lines.
    ///
    /// # Errors
    /// [`ReadError`] when it cannot be read or its format cannot be told.
    pub fn open(path: &Path, reading: &Reading) -> Result<Self, ReadError> {
        Self::from_stream(path, Box::new(open(path)?), reading)
    }

    /// As [`Log::open`], from a stream of plain bytes; `path` is only named in errors.
    ///
    /// # Errors
    /// As [`Log::open`].
    pub fn from_stream(
        path: &Path,
        stream: Box<dyn std::io::Read + Send>,
        reading: &Reading,
    ) -> Result<Self, ReadError> {
        let mut lines = Lines::new(path, stream);
        let head = lines.head()?;
        let format = match reading.format {
            Some(format) => format,
            None if head.trim_ascii().is_empty() => {
                return Err(ReadError::Empty {
                    path: path.to_owned(),
                    expected: "the log of a batch scheduler",
                });
            }
            None if is_utf_16(head) => {
                return Err(ReadError::Unreadable {
                    path: path.to_owned(),
                    format: "text",
                    reason: "it is in UTF-16: convert it with iconv -f UTF-16 -t UTF-8".to_owned(),
                });
            }
            // Names of columns say that it is a table.
            None => Format::detect(head)
                .or_else(|| reading.columns.as_ref().map(|_| Format::Sacct))
                .ok_or_else(|| ReadError::UnknownFormat {
                    path: path.to_owned(),
                    known: Format::names(),
                })?,
        };
        if let Some(reason) = crate::formats::refusal(format, head, reading) {
            return Err(ReadError::Unreadable {
                path: path.to_owned(),
                format: format.name(),
                reason,
            });
        }
        let read = Read {
            lines,
            format,
            strict: reading.strict,
            damage: Damage::default(),
            finishing: false,
        };
        Ok(match (format.entry().parser)(reading) {
            crate::formats::Parser::Jobs(parser) => Self::Jobs(JobLog { read, parser }),
            crate::formats::Parser::Holes(parser) => Self::Holes(HoleLog {
                read,
                parser,
                ready: std::collections::VecDeque::new(),
            }),
        })
    }

    /// Its format.
    #[must_use]
    pub const fn format(&self) -> Format {
        match self {
            Self::Jobs(log) => log.read.format,
            Self::Holes(log) => log.read.format,
        }
    }
}

/// Whether a text begins with the mark of UTF-16, as redirected output of some shells does.
fn is_utf_16(head: &[u8]) -> bool {
    matches!(head, [0xff, 0xfe, _, 0, ..] | [0xfe, 0xff, 0, _, ..])
}

/// What both kinds of log have in common.
struct Read {
    lines: Lines,
    format: Format,
    strict: bool,
    damage: Damage,
    /// All lines have been read; the parser hands out what it still keeps.
    finishing: bool,
}

impl Read {
    fn refuse(&mut self, at: FieldError) -> Result<(), ReadError> {
        let line = self.lines.line();
        if self.strict {
            self.finishing = true;
            return Err(ReadError::Field {
                path: self.lines.path().to_owned(),
                line,
                at,
            });
        }
        self.damage.add(line, at);
        Ok(())
    }
}

/// Streams the batch jobs of a log in the order in which its lines complete them.
pub struct JobLog {
    read: Read,
    parser: Box<dyn JobParser>,
}

impl JobLog {
    /// Reads the next record into `record`; says whether there was one. Memory does not grow
    /// with the log, but with the jobs that are under way at a time.
    ///
    /// # Errors
    /// [`ReadError`]; after one the log is at its end. Damaged lines are errors only if the
    /// reading is strict.
    pub fn read(&mut self, record: &mut JobRecord) -> Result<bool, ReadError> {
        let Self { read, parser } = self;
        while !read.finishing {
            record.clear();
            let Some(line) = read.lines.next().inspect_err(|_| read.finishing = true)? else {
                read.finishing = true;
                break;
            };
            match parser.line(line, record) {
                Ok(true) => return Ok(true),
                Ok(false) => {}
                Err(at) => read.refuse(at)?,
            }
        }
        record.clear();
        Ok(parser.finish(record))
    }

    /// Its format.
    #[must_use]
    pub const fn format(&self) -> Format {
        self.read.format
    }

    /// What it says of itself; whole only after the first record has been read.
    #[must_use]
    pub fn header(&self) -> LogHeader {
        self.parser.header()
    }

    /// What was damaged so far.
    #[must_use]
    pub const fn damage(&self) -> &Damage {
        &self.read.damage
    }

    /// Whether the log has told of starts as they happened (PBS, `lsb.events`, `slurmctld.log`), so
    /// that a job which still ran at its end has a record. Tables of jobs that are over lack such
    /// jobs, and the nodes on which they ran seem idle.
    #[must_use]
    pub fn tells_starts(&self) -> bool {
        self.parser.tells_starts()
    }

    /// How many lines were in order but no jobs of this machine: steps in Slurm's accounting, jobs
    /// of LSF that ran in another cluster.
    #[must_use]
    pub fn passed_over(&self) -> u64 {
        self.parser.passed_over()
    }

    /// Lines read so far.
    #[must_use]
    pub const fn lines(&self) -> u64 {
        self.read.lines.line()
    }

    /// Bytes of plain text read so far.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.read.lines.bytes()
    }
}

/// Streams the holes of a log in the order of their end.
pub struct HoleLog {
    read: Read,
    parser: Box<dyn HoleParser>,
    ready: std::collections::VecDeque<HoleRecord>,
}

impl HoleLog {
    /// From when to when the nodes were watched, as far as it has been read, which is longer
    /// than from the first hole to the last where the machine was full; nothing if the format
    /// does not say (a list of holes).
    #[must_use]
    pub fn span(&self) -> Option<(Timestamp, Timestamp)> {
        self.parser.span()
    }

    /// How many nodes were named so far, idle or not; nothing if the format names nodes only
    /// when they are idle (`sinfo` as recorded, a list of holes).
    #[must_use]
    pub fn nodes(&self) -> Option<u32> {
        self.parser.nodes()
    }

    fn advance(&mut self) -> Result<Option<HoleRecord>, ReadError> {
        let Self {
            read,
            parser,
            ready,
        } = self;
        loop {
            if let Some(record) = ready.pop_front() {
                return Ok(Some(record));
            }
            if read.finishing {
                return Ok(None);
            }
            match read.lines.next().inspect_err(|_| read.finishing = true)? {
                None => {
                    read.finishing = true;
                    parser.finish(ready);
                }
                Some(line) => {
                    if let Err(at) = parser.line(line, ready) {
                        read.refuse(at)?;
                    }
                }
            }
        }
    }

    /// Its format.
    #[must_use]
    pub const fn format(&self) -> Format {
        self.read.format
    }

    /// What was damaged so far.
    #[must_use]
    pub const fn damage(&self) -> &Damage {
        &self.read.damage
    }

    /// Lines read so far.
    #[must_use]
    pub const fn lines(&self) -> u64 {
        self.read.lines.line()
    }

    /// Bytes of plain text read so far.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.read.lines.bytes()
    }
}

impl Iterator for HoleLog {
    type Item = Result<HoleRecord, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.advance().transpose()
    }
}
