//! Hole lists: `node,idle_from,idle_until,censored`, one past hole a line.
//!
//! Times are Unix seconds (decimals allowed); a hole is the interval `[idle_from, idle_until)`;
//! `censored` is 1 if the hole was still open when the recording ended.

use std::collections::{HashMap, HashSet};
use std::io::BufRead;
use std::path::{Path, PathBuf};

use lacuna_model::{HoleRecord, NodeId, Timestamp};
use serde::{Deserialize, Serialize};

use crate::error::{excerpt, failed};
use crate::fields::{self, odd};
use crate::{FieldError, ReadError, open};

/// The first line of every hole list.
pub const HEADER: &str = "node,idle_from,idle_until,censored";

/// Seconds from 1970 to the year 10000: anything beyond is a slip, e.g. milliseconds.
const LATEST_S: f64 = 253_402_300_800.0;

/// Streams the records of a hole list in the order of the file. It checks each line by itself;
/// what concerns several lines is [`read_holes`]'s part. After an error it ends.
pub struct HoleReader<R> {
    path: PathBuf,
    stream: R,
    text: Vec<u8>,
    line: u64,
    names: Names,
    ended: bool,
}

impl<R: BufRead> HoleReader<R> {
    /// Checks the header. `path` is only named in errors.
    ///
    /// # Errors
    /// [`ReadError`] when there is no header or nothing can be read.
    pub fn new(path: &Path, stream: R) -> Result<Self, ReadError> {
        let mut reader = Self {
            path: path.to_owned(),
            stream,
            text: Vec::new(),
            line: 0,
            names: Names::default(),
            ended: false,
        };
        if !reader.advance()? {
            return Err(ReadError::Empty {
                path: reader.path,
                expected: HEADER,
            });
        }
        let found = String::from_utf8_lossy(&reader.text);
        let found = found.trim_start_matches('\u{feff}').trim();
        if found == HEADER {
            return Ok(reader);
        }
        Err(ReadError::Header {
            expected: HEADER,
            found: excerpt(found),
            path: reader.path,
        })
    }

    /// Reads the next line that is not blank; says whether there was one.
    fn advance(&mut self) -> Result<bool, ReadError> {
        loop {
            self.text.clear();
            let read = self.stream.read_until(b'\n', &mut self.text);
            if read.map_err(|source| failed(&self.path, self.line, source))? == 0 {
                return Ok(false);
            }
            self.line += 1;
            if !self.text.trim_ascii().is_empty() {
                return Ok(true);
            }
        }
    }

    fn record(&mut self) -> Result<HoleRecord, ReadError> {
        self.names
            .hole(&self.text)
            .map_err(|problem| match problem {
                Problem::Columns(found) => ReadError::Columns {
                    path: self.path.clone(),
                    line: self.line,
                    expected: COLUMNS,
                    header: HEADER,
                    found,
                },
                Problem::Field(at) => ReadError::Field {
                    path: self.path.clone(),
                    line: self.line,
                    at,
                },
            })
    }
}

/// How many columns a hole list has.
pub(crate) const COLUMNS: usize = 4;

/// What is wrong with one line of a hole list.
pub(crate) enum Problem {
    /// It has this many columns.
    Columns(usize),
    /// One value does not fit.
    Field(FieldError),
}

/// The names of nodes that were met, so that there is one allocation for each node, not for
/// each line.
#[derive(Debug, Default)]
pub(crate) struct Names(HashSet<NodeId>);

impl Names {
    /// Reads one line of a hole list.
    pub(crate) fn hole(&mut self, line: &[u8]) -> Result<HoleRecord, Problem> {
        let mut columns: [&[u8]; COLUMNS] = [&[]; COLUMNS];
        let mut found = 0;
        for column in line.split(|&byte| byte == b',') {
            if let Some(place) = columns.get_mut(found) {
                *place = column.trim_ascii();
            }
            found += 1;
        }
        if found != columns.len() {
            return Err(Problem::Columns(found));
        }
        self.record(columns).map_err(Problem::Field)
    }

    fn record(&mut self, columns: [&[u8]; COLUMNS]) -> Result<HoleRecord, FieldError> {
        let [node, from, until, censored] = columns;
        let node = node_id("column 1 (node)", node)?;
        let node = match self.0.get(&node) {
            Some(known) => known.clone(),
            None => {
                self.0.insert(node.clone());
                node
            }
        };
        Ok(HoleRecord {
            node,
            from: time("column 2 (idle_from)", from)?,
            until: time("column 3 (idle_until)", until)?,
            censored: match censored {
                b"0" => false,
                b"1" => true,
                other => return Err(odd("column 4 (censored)", "0 or 1", other)),
            },
        })
    }
}

impl<R: BufRead> Iterator for HoleReader<R> {
    type Item = Result<HoleRecord, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let item = match self.advance() {
            Ok(false) => None,
            Ok(true) => Some(self.record()),
            Err(error) => Some(Err(error)),
        };
        self.ended = !matches!(item, Some(Ok(_)));
        item
    }
}

/// The name of a node.
pub(crate) fn node_id(place: &str, text: &[u8]) -> Result<NodeId, FieldError> {
    std::str::from_utf8(text)
        .ok()
        .and_then(|name| NodeId::new(name).ok())
        .ok_or_else(|| {
            let expected = "a node name of 1 to 255 printable characters without white space";
            odd(place, expected, text)
        })
}

fn time(place: &str, text: &[u8]) -> Result<Timestamp, FieldError> {
    if let Some(time) = fields::unix(text) {
        return Ok(time);
    }
    // Rarer notations of the same number, as 1e9.
    std::str::from_utf8(text)
        .ok()
        .and_then(|number| number.parse::<f64>().ok())
        .filter(|seconds| (0.0..LATEST_S).contains(seconds))
        .map(|seconds| Timestamp::from_unix_ms((seconds * 1000.0).round() as i64))
        .ok_or_else(|| odd(place, "a time in Unix seconds", text))
}

/// Records that were read but not taken, by reason, and what else is odd about a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Refused {
    /// The hole ends when it starts or before: refused.
    pub not_positive: u64,
    /// The same hole of the same node once more: refused.
    pub duplicates: u64,
    /// The hole starts before the node's hole before it has ended: refused.
    pub overlaps: u64,
    /// The record starts earlier than the one on the line before: taken, and put in order.
    pub out_of_order: u64,
}

impl Refused {
    /// How many records were not taken.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.not_positive + self.duplicates + self.overlaps
    }
}

/// A whole hole list: sorted by start, and for each node without overlaps.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HoleList {
    /// The holes, sorted by start, then in the order of the file.
    pub records: Vec<HoleRecord>,
    /// What was refused.
    pub refused: Refused,
}

impl HoleList {
    /// Sorts records and refuses those that cannot be true together; of two that contradict
    /// each other the earlier one stands.
    pub fn collect<E>(records: impl IntoIterator<Item = Result<HoleRecord, E>>) -> Result<Self, E> {
        let mut list = Self::default();
        let mut previous = Timestamp::from_unix_ms(i64::MIN);
        for record in records {
            let record = record?;
            list.refused.out_of_order += u64::from(record.from < previous);
            previous = record.from;
            if record.until <= record.from {
                list.refused.not_positive += 1;
            } else {
                list.records.push(record);
            }
        }
        if list.refused.out_of_order > 0 {
            list.records.sort_by_key(|record| record.from);
        }
        list.refuse_overlaps();
        list.records.shrink_to_fit();
        Ok(list)
    }

    fn refuse_overlaps(&mut self) {
        let mut newest: HashMap<NodeId, (Timestamp, Timestamp)> = HashMap::new();
        let refused = &mut self.refused;
        self.records.retain(|record| {
            let hole = (record.from, record.until);
            match newest.get_mut(&record.node) {
                Some(before) if *before == hole => {
                    refused.duplicates += 1;
                    false
                }
                Some(before) if record.from < before.1 => {
                    refused.overlaps += 1;
                    false
                }
                Some(before) => {
                    *before = hole;
                    true
                }
                None => {
                    newest.insert(record.node.clone(), hole);
                    true
                }
            }
        });
    }

    /// The end of the recording: the latest end of any hole.
    #[must_use]
    pub fn end(&self) -> Option<Timestamp> {
        self.records.iter().map(|record| record.until).max()
    }
}

/// Reads a whole hole list, plain, gzip or zstd.
///
/// # Errors
/// [`ReadError`] for the first line that does not fit; holes that contradict each other are
/// counted in [`HoleList::refused`] instead.
pub fn read_holes(path: &Path) -> Result<HoleList, ReadError> {
    HoleList::collect(HoleReader::new(path, open(path)?)?)
}
