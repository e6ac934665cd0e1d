//! Lines of a stream, as slices of one buffer without copies.

use std::io::Read;
use std::path::{Path, PathBuf};

use crate::ReadError;

/// Bytes read at a time.
const BLOCK: usize = 256 * 1024;

/// Longest line of a text, bytes. A job that names every node of a large machine twice stays far
/// below.
const LONGEST: usize = 16 * 1024 * 1024;

/// Bytes that are looked through for the end of a record.
const AHEAD: usize = 64 * 1024;

/// Byte order mark of UTF-8, which some editors write before the first line of a file. Files may be
/// joined.
const MARK: &[u8] = b"\xef\xbb\xbf";

/// Returns the lines of a stream one after another.
pub(crate) struct Lines {
    path: PathBuf,
    stream: Box<dyn Read + Send>,
    buffer: Vec<u8>,
    /// Part of the buffer that has not been returned.
    from: usize,
    until: usize,
    /// Beginning of the newest returned line.
    newest: usize,
    line: u64,
    bytes: u64,
    ended: bool,
}

impl Lines {
    /// Reads from a stream; `path` is only named in errors.
    pub(crate) fn new(path: &Path, stream: Box<dyn Read + Send>) -> Self {
        Self {
            path: path.to_owned(),
            stream,
            buffer: vec![0; BLOCK],
            from: 0,
            until: 0,
            newest: 0,
            line: 0,
            bytes: 0,
            ended: false,
        }
    }

    /// Path of the file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Number of the newest returned line, from 1.
    pub(crate) const fn line(&self) -> u64 {
        self.line
    }

    /// Bytes of plain text of the lines returned so far.
    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The beginning of the stream, at most a block, without consuming it.
    pub(crate) fn head(&mut self) -> Result<&[u8], ReadError> {
        while self.until < BLOCK && self.fill()? {}
        let head = self.buffer.get(self.from..self.until).unwrap_or(&[]);
        Ok(head.strip_prefix(MARK).unwrap_or(head))
    }

    /// The next line without its end (`\n` or `\r\n`); `None` at the end of the stream.
    pub(crate) fn next(&mut self) -> Result<Option<&[u8]>, ReadError> {
        let mut looked = self.from;
        let (end, next) = loop {
            let rest = self.buffer.get(looked..self.until).unwrap_or(&[]);
            if let Some(at) = memchr::memchr(b'\n', rest) {
                break (looked + at, looked + at + 1);
            }
            let seen = self.until - self.from;
            if !self.fill()? {
                if seen == 0 {
                    return Ok(None);
                }
                break (self.until, self.until);
            }
            looked = self.from + seen;
        };
        let start = self.from;
        self.newest = start;
        self.from = next;
        self.line += 1;
        self.bytes += (next - start) as u64;
        let text = self.buffer.get(start..end).unwrap_or(&[]);
        let text = text.strip_prefix(MARK).unwrap_or(text);
        Ok(Some(text.strip_suffix(b"\r").unwrap_or(text)))
    }

    /// The newest returned line and whole lines behind it, at most about [`AHEAD`] bytes, without
    /// consuming them.
    pub(crate) fn ahead(&mut self) -> Result<&[u8], ReadError> {
        let length = self.from - self.newest;
        self.from = self.newest;
        let filled = loop {
            if self.until - self.from >= AHEAD {
                break Ok(());
            }
            match self.fill() {
                Ok(true) => {}
                Ok(false) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        self.newest = self.from;
        self.from += length;
        filled?;
        let all = self.buffer.get(self.newest..self.until).unwrap_or(&[]);
        let whole = match self.ended {
            true => all.len(),
            false => memchr::memrchr(b'\n', all).map_or(0, |at| at + 1),
        };
        Ok(all.get(..whole.max(length)).unwrap_or(all))
    }

    /// The newest returned line and the `more` behind it, which [`Lines::ahead`] has shown, as one.
    pub(crate) fn join(&mut self, more: usize) -> Result<&[u8], ReadError> {
        let start = self.newest;
        for _ in 0..more {
            self.next()?;
        }
        self.newest = start;
        let joined = self.buffer.get(start..self.from).unwrap_or(&[]);
        let joined = joined.strip_prefix(MARK).unwrap_or(joined);
        let joined = joined.strip_suffix(b"\n").unwrap_or(joined);
        Ok(joined.strip_suffix(b"\r").unwrap_or(joined))
    }

    /// Appends more bytes to the buffer. Returns whether there were any.
    fn fill(&mut self) -> Result<bool, ReadError> {
        if self.ended {
            return Ok(false);
        }
        if self.from > 0 && self.until == self.buffer.len() {
            self.buffer.copy_within(self.from..self.until, 0);
            self.until -= self.from;
            self.from = 0;
        }
        if self.until == self.buffer.len() {
            if self.buffer.len() >= LONGEST {
                return Err(ReadError::LongLine {
                    path: self.path.clone(),
                    line: self.line + 1,
                    limit: LONGEST,
                });
            }
            self.buffer.resize(self.buffer.len() * 2, 0);
        }
        let space = self.buffer.get_mut(self.until..).unwrap_or(&mut []);
        loop {
            match self.stream.read(space) {
                Ok(0) => {
                    self.ended = true;
                    return Ok(false);
                }
                Ok(read) => {
                    self.until += read;
                    return Ok(true);
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(ReadError::interrupted(&self.path, self.line, error)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &'static [u8], step: usize) -> Vec<String> {
        struct Slow(&'static [u8], usize);
        impl Read for Slow {
            fn read(&mut self, space: &mut [u8]) -> std::io::Result<usize> {
                let n = self.1.min(self.0.len()).min(space.len());
                let (now, later) = self.0.split_at(n);
                space[..n].copy_from_slice(now);
                self.0 = later;
                Ok(n)
            }
        }
        let mut lines = Lines::new(Path::new("test"), Box::new(Slow(text, step)));
        let mut found = Vec::new();
        while let Some(line) = lines.next().unwrap() {
            found.push(String::from_utf8(line.to_vec()).unwrap());
        }
        assert_eq!(lines.bytes(), text.len() as u64);
        assert_eq!(lines.line(), found.len() as u64);
        found
    }

    #[test]
    fn lines_come_whole_however_the_stream_is_cut() {
        for step in 1..20 {
            assert_eq!(
                all(b"one\r\n\ntwo\nthree", step),
                ["one", "", "two", "three"]
            );
            assert_eq!(all(b"one\n", step), ["one"]);
            assert!(all(b"", step).is_empty());
        }
    }

    #[test]
    fn a_line_without_end_is_an_error_and_not_all_memory() {
        let endless = std::io::repeat(b'x');
        let mut lines = Lines::new(Path::new("test"), Box::new(endless));
        let error = lines.next().unwrap_err().to_string();
        assert!(
            error.contains("line 1") && error.contains("16 MiB"),
            "{error}"
        );
    }

    #[test]
    fn lines_longer_than_a_block_are_whole() {
        let mut text = vec![b'a'; 3 * BLOCK + 17];
        text.extend_from_slice(b"\nnext\n");
        let mut lines = Lines::new(Path::new("test"), Box::new(std::io::Cursor::new(text)));
        assert_eq!(lines.head().unwrap().len(), BLOCK);
        assert_eq!(lines.next().unwrap().unwrap().len(), 3 * BLOCK + 17);
        assert_eq!(lines.next().unwrap().unwrap(), b"next");
        assert!(lines.next().unwrap().is_none());
    }
}
