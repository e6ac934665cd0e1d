//! Errors of reading.

use std::io;
use std::path::{Path, PathBuf};

use lacuna_records::FieldError;

/// Why a file could not be read in the expected format.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The file could not be opened.
    #[error("cannot open {}: {source}", path.display())]
    Open {
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// Reading stopped in the middle.
    #[error("{}: cannot read on after line {line}: {source}", path.display())]
    Io {
        /// Path of the file.
        path: PathBuf,
        /// The last line that was read, 0 before the first.
        line: u64,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The compressed stream ends too early.
    #[error(
        "{}: the compressed file is cut short after line {line}: copy or download it again",
        path.display()
    )]
    Truncated {
        /// Path of the file.
        path: PathBuf,
        /// The last line that was read, 0 before the first.
        line: u64,
    },
    /// The compressed stream is damaged.
    #[error(
        "{}: the compressed file is damaged after line {line} ({source}): copy or download it \
         again",
        path.display()
    )]
    Corrupt {
        /// Path of the file.
        path: PathBuf,
        /// The last line that was read, 0 before the first.
        line: u64,
        /// Error of the decompressor.
        source: io::Error,
    },
    /// The first line is not the header.
    #[error("{}: line 1: expected the header {expected:?}, found {found:?}", path.display())]
    Header {
        /// Path of the file.
        path: PathBuf,
        /// The expected header.
        expected: &'static str,
        /// The found line, cut after 60 characters.
        found: String,
    },
    /// A line has too few or too many columns.
    #[error(
        "{}: line {line}: expected {expected} columns ({header}), found {found}",
        path.display()
    )]
    Columns {
        /// Path of the file.
        path: PathBuf,
        /// Number of the line, from 1.
        line: u64,
        /// Expected number of columns.
        expected: usize,
        /// Names of the columns.
        header: &'static str,
        /// Found number of columns.
        found: usize,
    },
    /// A value of a line is wrong.
    #[error("{}: line {line}, {at}", path.display())]
    Field {
        /// Path of the file.
        path: PathBuf,
        /// Number of the line, from 1.
        line: u64,
        /// The value and its fault.
        at: FieldError,
    },
    /// No parser recognises the format.
    #[error(
        "{}: cannot tell its format from the first lines: name it with --format ({known})",
        path.display()
    )]
    UnknownFormat {
        /// Path of the file.
        path: PathBuf,
        /// The names of all formats.
        known: String,
    },
    /// The format is known, but the file lacks a part without which no line can be read.
    #[error("{}: cannot be read as {format}: {reason}", path.display())]
    Unreadable {
        /// Path of the file.
        path: PathBuf,
        /// The format's name.
        format: &'static str,
        /// The missing part, and the remedy.
        reason: String,
    },
    /// A line is too long: not a text file.
    #[error("{}: line {line} is longer than {} MiB: is this a text file?", path.display(), limit >> 20)]
    LongLine {
        /// Path of the file.
        path: PathBuf,
        /// Number of the line, from 1.
        line: u64,
        /// Longest line that is read, bytes.
        limit: usize,
    },
    /// The file is empty.
    #[error("{}: the file is empty: expected {expected}", path.display())]
    Empty {
        /// Path of the file.
        path: PathBuf,
        /// Expected content.
        expected: &'static str,
    },
}

impl ReadError {
    /// The error of a failed read after a line: a compressed stream that is cut short or damaged, or
    /// another failure.
    #[must_use]
    pub fn interrupted(path: &Path, line: u64, source: io::Error) -> Self {
        let path = path.to_owned();
        match source.kind() {
            io::ErrorKind::UnexpectedEof => Self::Truncated { path, line },
            // Kinds of errors of decompressors; file systems have other kinds.
            io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData | io::ErrorKind::Other => {
                Self::Corrupt { path, line, source }
            }
            _ => Self::Io { path, line, source },
        }
    }
}
