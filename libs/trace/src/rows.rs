//! Lists with a fixed header: rows of columns separated by commas.

use std::collections::HashSet;
use std::io::BufRead;
use std::path::{Path, PathBuf};

use lacuna_model::{NodeId, Timestamp};
use lacuna_records::excerpt;
use lacuna_records::fields::{self, unexpected};

use crate::{FieldError, ReadError};

/// Seconds from 1970 to the year 10000. A greater number is an error, as milliseconds taken for
/// seconds.
const LATEST_S: f64 = 253_402_300_800.0;

/// Streams the rows of a list with `N` columns; blank lines are skipped.
pub(crate) struct Rows<R, const N: usize> {
    path: PathBuf,
    stream: R,
    header: &'static str,
    text: Vec<u8>,
    line: u64,
}

impl<R: BufRead, const N: usize> Rows<R, N> {
    /// Checks the header. `path` is only named in errors.
    pub(crate) fn new(path: &Path, stream: R, header: &'static str) -> Result<Self, ReadError> {
        let mut rows = Self {
            path: path.to_owned(),
            stream,
            header,
            text: Vec::new(),
            line: 0,
        };
        if !rows.advance()? {
            return Err(ReadError::Empty {
                path: rows.path,
                expected: header,
            });
        }
        let found = String::from_utf8_lossy(&rows.text);
        let found = found.trim_start_matches('\u{feff}').trim();
        if found == header {
            return Ok(rows);
        }
        Err(ReadError::Header {
            expected: header,
            found: excerpt(found),
            path: rows.path,
        })
    }

    /// Reads the next line that is not blank. Returns whether there was one.
    fn advance(&mut self) -> Result<bool, ReadError> {
        loop {
            self.text.clear();
            let read = self.stream.read_until(b'\n', &mut self.text);
            if read.map_err(|source| ReadError::interrupted(&self.path, self.line, source))? == 0 {
                return Ok(false);
            }
            self.line += 1;
            if !self.text.trim_ascii().is_empty() {
                return Ok(true);
            }
        }
    }

    /// The next row, read by `parse`; `None` at the end.
    pub(crate) fn next<T>(
        &mut self,
        parse: impl FnOnce([&[u8]; N]) -> Result<T, FieldError>,
    ) -> Result<Option<T>, ReadError> {
        if !self.advance()? {
            return Ok(None);
        }
        let columns = columns(&self.text).map_err(|found| ReadError::Columns {
            path: self.path.clone(),
            line: self.line,
            expected: N,
            header: self.header,
            found,
        })?;
        parse(columns).map(Some).map_err(|at| ReadError::Field {
            path: self.path.clone(),
            line: self.line,
            at,
        })
    }
}

/// The columns of a row.
///
/// # Errors
/// The number of columns if it is not `N`.
pub(crate) fn columns<const N: usize>(line: &[u8]) -> Result<[&[u8]; N], usize> {
    let mut columns: [&[u8]; N] = [&[]; N];
    let mut found = 0;
    for column in line.split(|&byte| byte == b',') {
        if let Some(place) = columns.get_mut(found) {
            *place = column.trim_ascii();
        }
        found += 1;
    }
    if found == N { Ok(columns) } else { Err(found) }
}

/// Names of nodes seen so far, so that each node has one allocation, not each line.
#[derive(Debug, Default)]
pub(crate) struct Names(HashSet<NodeId>);

impl Names {
    /// The name of a node.
    pub(crate) fn node(&mut self, place: &str, text: &[u8]) -> Result<NodeId, FieldError> {
        let node = node_id(place, text)?;
        if let Some(known) = self.0.get(&node) {
            return Ok(known.clone());
        }
        self.0.insert(node.clone());
        Ok(node)
    }
}

/// The name of a node.
pub(crate) fn node_id(place: &str, text: &[u8]) -> Result<NodeId, FieldError> {
    std::str::from_utf8(text)
        .ok()
        .and_then(|name| NodeId::new(name).ok())
        .ok_or_else(|| {
            let expected = "a node name of 1 to 255 of A-Z a-z 0-9 _ - . and no - or . in front";
            unexpected(place, expected, text)
        })
}

/// A time in Unix seconds.
pub(crate) fn time(place: &str, text: &[u8]) -> Result<Timestamp, FieldError> {
    if let Some(time) = fields::unix(text) {
        return Ok(time);
    }
    // Rarer notations of the same number, as 1e9.
    std::str::from_utf8(text)
        .ok()
        .and_then(|number| number.parse::<f64>().ok())
        .filter(|seconds| (0.0..LATEST_S).contains(seconds))
        .map(|seconds| Timestamp::from_unix_ms((seconds * 1000.0).round() as i64))
        .ok_or_else(|| unexpected(place, "a time in Unix seconds", text))
}
