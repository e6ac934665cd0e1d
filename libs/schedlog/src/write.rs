//! Writes hole lists.

use std::io::{self, Write};

use flate2::write::GzEncoder;
use lacuna_model::{HoleRecord, Timestamp};

use crate::HEADER;

/// Whether to compress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// Text as it is.
    Plain,
    /// gzip.
    Gzip,
}

enum Sink<W: Write> {
    Plain(W),
    Gzip(GzEncoder<W>),
}

/// Writes a hole list that [`crate::HoleReader`] reads back. Call [`HoleWriter::finish`], or the
/// end of a compressed list is missing.
pub struct HoleWriter<W: Write> {
    sink: Sink<W>,
}

impl<W: Write> HoleWriter<W> {
    /// Writes the header.
    ///
    /// # Errors
    /// What the stream says.
    pub fn new(stream: W, compression: Compression) -> io::Result<Self> {
        let sink = match compression {
            Compression::Plain => Sink::Plain(stream),
            Compression::Gzip => Sink::Gzip(GzEncoder::new(stream, flate2::Compression::default())),
        };
        let mut writer = Self { sink };
        writer.line(format_args!("{HEADER}\n"))?;
        Ok(writer)
    }

    fn line(&mut self, text: std::fmt::Arguments<'_>) -> io::Result<()> {
        match &mut self.sink {
            Sink::Plain(stream) => stream.write_fmt(text),
            Sink::Gzip(stream) => stream.write_fmt(text),
        }
    }

    /// Writes one hole.
    ///
    /// # Errors
    /// What the stream says; also for a node name with a comma, which a hole list cannot hold.
    pub fn write(&mut self, record: &HoleRecord) -> io::Result<()> {
        let node = &record.node;
        if node.as_str().contains(',') {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("a hole list cannot hold the node name {node:?}: it has a comma"),
            ));
        }
        let (from, until) = (Seconds(record.from), Seconds(record.until));
        let censored = u8::from(record.censored);
        self.line(format_args!("{node},{from},{until},{censored}\n"))
    }

    /// Writes what is still to be written and gives the stream back.
    ///
    /// # Errors
    /// What the stream says.
    pub fn finish(self) -> io::Result<W> {
        let mut stream = match self.sink {
            Sink::Plain(stream) => stream,
            Sink::Gzip(stream) => stream.finish()?,
        };
        stream.flush()?;
        Ok(stream)
    }
}

/// Unix seconds, with decimals only if there are any.
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
