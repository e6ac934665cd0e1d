//! What can be wrong with a recording.

use std::io;
use std::path::{Path, PathBuf};

use lacuna_model::SpecError;

/// Why a file could not be read as what it should be.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The file could not be opened.
    #[error("cannot open {}: {source}", path.display())]
    Open {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Reading stopped in the middle.
    #[error("{}: cannot read on after line {line}: {source}", path.display())]
    Io {
        /// Which file.
        path: PathBuf,
        /// The last line that was read, 0 before the first.
        line: u64,
        /// Why.
        source: io::Error,
    },
    /// The compressed stream ends too early.
    #[error(
        "{}: the compressed file is cut short after line {line}: copy or download it again",
        path.display()
    )]
    Truncated {
        /// Which file.
        path: PathBuf,
        /// The last line that was read, 0 before the first.
        line: u64,
    },
    /// The compressed stream is not what was written.
    #[error(
        "{}: the compressed file is damaged after line {line} ({source}): copy or download it \
         again",
        path.display()
    )]
    Corrupt {
        /// Which file.
        path: PathBuf,
        /// The last line that was read, 0 before the first.
        line: u64,
        /// What the decompressor says.
        source: io::Error,
    },
    /// The first line is not the header.
    #[error("{}: line 1: expected the header {expected:?}, found {found:?}", path.display())]
    Header {
        /// Which file.
        path: PathBuf,
        /// The header that should stand there.
        expected: &'static str,
        /// What stands there, cut after 60 characters.
        found: String,
    },
    /// A line has too few or too many columns.
    #[error(
        "{}: line {line}: expected {expected} columns ({header}), found {found}",
        path.display()
    )]
    Columns {
        /// Which file.
        path: PathBuf,
        /// Which line, from 1.
        line: u64,
        /// How many columns there should be.
        expected: usize,
        /// Their names.
        header: &'static str,
        /// How many there are.
        found: usize,
    },
    /// One value of a line is not what it should be.
    #[error("{}: line {line}, {at}", path.display())]
    Field {
        /// Which file.
        path: PathBuf,
        /// Which line, from 1.
        line: u64,
        /// Which value and what is wrong with it.
        at: FieldError,
    },
    /// A line is a trainer that makes no sense.
    #[error("{}: line {line}: {source}", path.display())]
    Trainer {
        /// Which file.
        path: PathBuf,
        /// Which line, from 1.
        line: u64,
        /// What is wrong with it.
        source: SpecError,
    },
    /// Nobody knows this format.
    #[error(
        "{}: cannot tell its format from the first lines: name it with --format ({known})",
        path.display()
    )]
    UnknownFormat {
        /// Which file.
        path: PathBuf,
        /// The names of all formats.
        known: String,
    },
    /// It is of a known format, but something is missing without which no line can be read.
    #[error("{}: cannot be read as {format}: {reason}", path.display())]
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// The format's name.
        format: &'static str,
        /// What is missing, and what to do.
        reason: String,
    },
    /// A line that does not end: not a text file.
    #[error("{}: line {line} is longer than {} MiB: is this a text file?", path.display(), limit >> 20)]
    LongLine {
        /// Which file.
        path: PathBuf,
        /// Which line, from 1.
        line: u64,
        /// The longest that is read, bytes.
        limit: usize,
    },
    /// There is nothing in the file.
    #[error("{}: the file is empty: expected {expected}", path.display())]
    Empty {
        /// Which file.
        path: PathBuf,
        /// What should stand there.
        expected: &'static str,
    },
}

/// A value that is not what it should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: expected {expected}, found {found}")]
pub struct FieldError {
    /// Column number and name, or field name.
    pub place: String,
    /// What would have been accepted.
    pub expected: String,
    /// What stands there, cut after 60 characters.
    pub found: String,
}

impl FieldError {
    pub(crate) fn new(
        place: impl Into<String>,
        expected: impl Into<String>,
        found: impl AsRef<str>,
    ) -> Self {
        Self {
            place: place.into(),
            expected: expected.into(),
            found: excerpt(found.as_ref()),
        }
    }
}

/// At most 60 characters of a text, so that a binary file does not flood the terminal.
pub(crate) fn excerpt(text: &str) -> String {
    let mut short: String = text.chars().take(60).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}

/// Tells a compressed stream that ends too early, or is damaged, from other failures.
pub(crate) fn failed(path: &Path, line: u64, source: io::Error) -> ReadError {
    let path = path.to_owned();
    match source.kind() {
        io::ErrorKind::UnexpectedEof => ReadError::Truncated { path, line },
        // What decompressors say; a file system has codes of its own.
        io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData | io::ErrorKind::Other => {
            ReadError::Corrupt { path, line, source }
        }
        _ => ReadError::Io { path, line, source },
    }
}
