//! Hole lists: `node,idle_from,idle_until,censored`, one past hole a line.
//!
//! Times are Unix seconds (decimals allowed). A hole is the interval `[idle_from, idle_until)`.
//! `censored` is 1 if the hole was still open at the end of the trace.

use std::collections::HashMap;
use std::io::BufRead;
use std::path::Path;

use lacuna_model::{HoleRecord, NodeId, Timestamp};
use lacuna_records::fields::unexpected;
use serde::{Deserialize, Serialize};

use crate::rows::{Names, Rows, time};
use crate::{FieldError, ReadError, open};

/// The first line of every hole list.
pub const HEADER: &str = "node,idle_from,idle_until,censored";

/// Streams the records of a hole list in the order of the file, and checks each line by itself.
/// [`read_holes`] checks several lines together. The stream ends after an error.
pub struct HoleReader<R> {
    rows: Rows<R, COLUMNS>,
    names: Names,
    ended: bool,
}

impl<R: BufRead> HoleReader<R> {
    /// Checks the header. `path` is only named in errors.
    ///
    /// # Errors
    /// [`ReadError`] if the header is missing, or the stream cannot be read.
    pub fn new(path: &Path, stream: R) -> Result<Self, ReadError> {
        Ok(Self {
            rows: Rows::new(path, stream, HEADER)?,
            names: Names::default(),
            ended: false,
        })
    }
}

/// Number of columns of a hole list.
pub(crate) const COLUMNS: usize = 4;

/// One row of a hole list.
pub(crate) fn hole(
    [node, from, until, censored]: [&[u8]; COLUMNS],
    names: &mut Names,
) -> Result<HoleRecord, FieldError> {
    Ok(HoleRecord {
        node: names.node("column 1 (node)", node)?,
        from: time("column 2 (idle_from)", from)?,
        until: time("column 3 (idle_until)", until)?,
        censored: match censored {
            b"0" => false,
            b"1" => true,
            other => return Err(unexpected("column 4 (censored)", "0 or 1", other)),
        },
    })
}

impl<R: BufRead> Iterator for HoleReader<R> {
    type Item = Result<HoleRecord, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let names = &mut self.names;
        let item = self.rows.next(|row| hole(row, names)).transpose();
        self.ended = !matches!(item, Some(Ok(_)));
        item
    }
}

/// Counts of refused records by reason, and of records out of order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Refused {
    /// Refused: the hole does not end after its start.
    pub not_positive: u64,
    /// Refused: a repetition of the same hole of the same node.
    pub duplicates: u64,
    /// Refused: the hole starts before the end of the node's hole before it.
    pub overlaps: u64,
    /// Accepted and sorted: the record starts earlier than the record of the line before.
    pub out_of_order: u64,
}

impl Refused {
    /// Number of refused records.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.not_positive + self.duplicates + self.overlaps
    }
}

/// A whole hole list, sorted by start, without overlaps within a node.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HoleList {
    /// The holes, sorted by start, then in the order of the file.
    pub records: Vec<HoleRecord>,
    /// Refused records.
    pub refused: Refused,
}

impl HoleList {
    /// Sorts records and refuses contradictions. The earlier of two contradicting records holds.
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

    /// End of the trace: the latest end of any hole.
    #[must_use]
    pub fn end(&self) -> Option<Timestamp> {
        self.records.iter().map(|record| record.until).max()
    }
}

/// Reads a whole hole list, plain, gzip or zstd.
///
/// # Errors
/// [`ReadError`] for the first damaged line. Contradicting holes are no error; they are counted in
/// [`HoleList::refused`].
pub fn read_holes(path: &Path) -> Result<HoleList, ReadError> {
    HoleList::collect(HoleReader::new(path, open(path)?)?)
}
