//! A log of any format as a stream of records.

use std::path::Path;

use lacuna_model::{HoleRecord, Timestamp};

use crate::formats::{HoleParser, JobParser};
use crate::lines::Lines;
use crate::{Damage, FieldError, Format, JobRecord, LogHeader, ReadError, Reading, open};

/// An open log, either of batch jobs or of holes.
pub enum Log {
    /// Records of batch jobs.
    Jobs(JobLog),
    /// Past holes.
    Holes(HoleLog),
}

impl Log {
    /// Opens a log. The first bytes decide between plain, gzip and zstd. The format is that of
    /// `reading`, or is recognised by the first lines.
    ///
    /// # Errors
    /// [`ReadError`] if the file cannot be read, or if its format is not recognised.
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
            None if head.trim_ascii_start().starts_with(b"{") => {
                return Err(ReadError::Unreadable {
                    path: path.to_owned(),
                    format: "a log",
                    reason: "it is JSON, as of sacct --json: print a table with sacct --allusers \
                             --duplicates --parsable2 --format=JobID,Submit,Start,End,State,NNodes,\
                             NodeList,Timelimit,JobName"
                        .to_owned(),
                });
            }
            // Given names of columns mean a table of `sacct`.
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

    /// Format of the log.
    #[must_use]
    pub const fn format(&self) -> Format {
        match self {
            Self::Jobs(log) => log.read.format,
            Self::Holes(log) => log.read.format,
        }
    }
}

/// Whether a text begins with the byte order mark of UTF-16, as redirected output of some shells.
fn is_utf_16(head: &[u8]) -> bool {
    matches!(head, [0xff, 0xfe, _, 0, ..] | [0xfe, 0xff, 0, _, ..])
}

/// The common part of both kinds of log.
struct Read {
    lines: Lines,
    format: Format,
    strict: bool,
    damage: Damage,
    /// Whether all lines have been read. The parser then returns the jobs that are under way.
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

    /// The error of a log that cannot be read after all, for this reason.
    fn unreadable(&mut self, reason: String) -> ReadError {
        self.finishing = true;
        ReadError::Unreadable {
            path: self.lines.path().to_owned(),
            format: self.format.name(),
            reason,
        }
    }
}

/// A stream of the batch jobs of a log, in the order in which its lines complete them.
pub struct JobLog {
    read: Read,
    parser: Box<dyn JobParser>,
}

impl JobLog {
    /// Reads the next record into `record`. Returns whether there was one. Memory grows with the
    /// number of jobs under way, not with the length of the log.
    ///
    /// # Errors
    /// [`ReadError`]. The log is then at its end. Damaged lines are errors only in a strict
    /// reading.
    pub fn read(&mut self, record: &mut JobRecord) -> Result<bool, ReadError> {
        let (mut read, mut parser) = (&mut self.read, &mut self.parser);
        while !read.finishing {
            record.clear();
            let Some(line) = read.lines.next().inspect_err(|_| read.finishing = true)? else {
                read.finishing = true;
                if let Some(reason) = parser.refusal(true) {
                    return Err(read.unreadable(reason));
                }
                break;
            };
            let looks_ahead = parser.looks_ahead();
            let result = match looks_ahead {
                false => parser.line(line, record),
                true => {
                    let ahead = read.lines.ahead().inspect_err(|_| read.finishing = true)?;
                    let more = parser.joins(ahead).unwrap_or(0);
                    parser.line(read.lines.join(more)?, record)
                }
            };
            read.damage.doubt(read.lines.line(), parser.doubtful());
            match result {
                Ok(true) => return Ok(true),
                Ok(false) => {}
                Err(at) => {
                    if let Some(reason) = parser.refusal(false) {
                        return Err(read.unreadable(reason));
                    }
                    if looks_ahead {
                        read.refuse(at)?;
                    } else if self.join(record, at)? {
                        return Ok(true);
                    }
                }
            }
            (read, parser) = (&mut self.read, &mut self.parser);
        }
        record.clear();
        Ok(parser.finish(record))
    }

    /// Reads a refused line together with those behind it, if they are one record; otherwise refuses
    /// it. Returns whether there is a record.
    #[cold]
    fn join(&mut self, record: &mut JobRecord, at: FieldError) -> Result<bool, ReadError> {
        let Self { read, parser } = self;
        let ahead = read.lines.ahead().inspect_err(|_| read.finishing = true)?;
        let joins = parser.joins(ahead);
        let result = joins.map(|more| {
            record.clear();
            Ok::<_, ReadError>(parser.line(read.lines.join(more)?, record))
        });
        read.damage.doubt(read.lines.line(), parser.doubtful());
        let Some(result) = result.transpose()? else {
            return read.refuse(at).map(|()| false);
        };
        match result {
            Ok(is_record) => Ok(is_record),
            Err(at) => match parser.refusal(false) {
                Some(reason) => Err(read.unreadable(reason)),
                None => read.refuse(at).map(|()| false),
            },
        }
    }

    /// Format of the log.
    #[must_use]
    pub const fn format(&self) -> Format {
        self.read.format
    }

    /// Header of the log, which is complete after the first record.
    #[must_use]
    pub fn header(&self) -> LogHeader {
        self.parser.header()
    }

    /// Damage and doubts found so far.
    #[must_use]
    pub const fn damage(&self) -> &Damage {
        &self.read.damage
    }

    /// Whether the log has events of starts (PBS, `lsb.events`, `slurmctld.log`), so that a job
    /// that still runs at its end has a record. Tables of jobs that are over lack such jobs, and
    /// their nodes seem idle.
    #[must_use]
    pub fn has_starts(&self) -> bool {
        self.parser.has_starts()
    }

    /// Number of valid lines that are no jobs of this machine: steps in Slurm's accounting, jobs of
    /// LSF in another cluster.
    #[must_use]
    pub fn skipped(&self) -> u64 {
        self.parser.skipped()
    }

    /// Number of lines read so far.
    #[must_use]
    pub const fn lines(&self) -> u64 {
        self.read.lines.line()
    }

    /// Number of bytes of plain text read so far.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.read.lines.bytes()
    }
}

/// A stream of the holes of a log, in the order of their ends.
pub struct HoleLog {
    read: Read,
    parser: Box<dyn HoleParser>,
    ready: std::collections::VecDeque<HoleRecord>,
}

impl HoleLog {
    /// First and last observation of nodes in the lines read so far. This is longer than the time
    /// from the first hole to the last, if the machine was full in between. `None` if the format
    /// does not contain it (a list of holes).
    #[must_use]
    pub fn span(&self) -> Option<(Timestamp, Timestamp)> {
        self.parser.span()
    }

    /// Number of nodes in the lines read so far, idle or not. `None` if the format names only idle
    /// nodes (`sinfo` as recorded, a list of holes).
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
                    if let Some(reason) = parser.refusal(true) {
                        return Err(read.unreadable(reason));
                    }
                    parser.finish(ready);
                }
                Some(line) => {
                    if let Err(at) = parser.line(line, ready) {
                        if let Some(reason) = parser.refusal(false) {
                            return Err(read.unreadable(reason));
                        }
                        read.refuse(at)?;
                    }
                }
            }
        }
    }

    /// Format of the log.
    #[must_use]
    pub const fn format(&self) -> Format {
        self.read.format
    }

    /// Damage found so far.
    #[must_use]
    pub const fn damage(&self) -> &Damage {
        &self.read.damage
    }

    /// Number of lines read so far.
    #[must_use]
    pub const fn lines(&self) -> u64 {
        self.read.lines.line()
    }

    /// Number of bytes of plain text read so far.
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
