//! Writes hole lists and lists of planned starts.

use std::io::{self, Write};

use flate2::write::GzEncoder;
use lacuna_model::{HoleRecord, PlannedStart, Timestamp};

use crate::{HEADER, PLANNED_HEADER};

/// Compression of a written list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// Plain text.
    Plain,
    /// Compressed by gzip.
    Gzip,
}

/// A stream of lines, compressed or not.
enum Sink<W: Write> {
    Plain(W),
    Gzip(GzEncoder<W>),
}

impl<W: Write> Sink<W> {
    /// Writes the header.
    fn new(stream: W, compression: Compression, header: &str) -> io::Result<Self> {
        let mut sink = match compression {
            Compression::Plain => Self::Plain(stream),
            Compression::Gzip => Self::Gzip(GzEncoder::new(stream, flate2::Compression::default())),
        };
        sink.line(format_args!("{header}\n"))?;
        Ok(sink)
    }

    fn line(&mut self, text: std::fmt::Arguments<'_>) -> io::Result<()> {
        match self {
            Self::Plain(stream) => stream.write_fmt(text),
            Self::Gzip(stream) => stream.write_fmt(text),
        }
    }

    fn finish(self) -> io::Result<W> {
        let mut stream = match self {
            Self::Plain(stream) => stream,
            Self::Gzip(stream) => stream.finish()?,
        };
        stream.flush()?;
        Ok(stream)
    }
}

/// Writes a hole list that [`crate::HoleReader`] reads. Without a call of [`HoleWriter::finish`],
/// the end of a compressed list is missing.
pub struct HoleWriter<W: Write>(Sink<W>);

impl<W: Write> HoleWriter<W> {
    /// Writes the header.
    ///
    /// # Errors
    /// Errors of the stream.
    pub fn new(stream: W, compression: Compression) -> io::Result<Self> {
        Ok(Self(Sink::new(stream, compression, HEADER)?))
    }

    /// Writes one hole.
    ///
    /// # Errors
    /// Errors of the stream.
    pub fn write(&mut self, record: &HoleRecord) -> io::Result<()> {
        let node = &record.node;
        let (from, until) = (Seconds(record.from), Seconds(record.until));
        let censored = u8::from(record.censored);
        self.0
            .line(format_args!("{node},{from},{until},{censored}\n"))
    }

    /// Writes the rest and returns the stream.
    ///
    /// # Errors
    /// Errors of the stream.
    pub fn finish(self) -> io::Result<W> {
        self.0.finish()
    }
}

/// Writes a list of planned starts that [`crate::read_planned`] reads. Without a call of
/// [`PlannedWriter::finish`], the end of a compressed list is missing.
pub struct PlannedWriter<W: Write>(Sink<W>);

impl<W: Write> PlannedWriter<W> {
    /// Writes the header.
    ///
    /// # Errors
    /// Errors of the stream.
    pub fn new(stream: W, compression: Compression) -> io::Result<Self> {
        Ok(Self(Sink::new(stream, compression, PLANNED_HEADER)?))
    }

    /// Writes one planned start.
    ///
    /// # Errors
    /// Errors of the stream.
    pub fn write(&mut self, planned: &PlannedStart) -> io::Result<()> {
        let (at, node) = (Seconds(planned.at), &planned.node);
        match planned.start.map(Seconds) {
            Some(start) => self.0.line(format_args!("{at},{node},{start}\n")),
            None => self.0.line(format_args!("{at},{node},\n")),
        }
    }

    /// Writes the rest and returns the stream.
    ///
    /// # Errors
    /// Errors of the stream.
    pub fn finish(self) -> io::Result<W> {
        self.0.finish()
    }
}

/// Unix seconds, with decimals only if needed.
struct Seconds(Timestamp);

impl std::fmt::Display for Seconds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ms = self.0.unix_ms();
        match ms % 1000 {
            0 => write!(f, "{}", ms / 1000),
            _ => write!(f, "{}", self.0.unix_seconds()),
        }
    }
}
