//! Fields of a record of `lsb.events` or `lsb.acct`, one after the other.
//!
//! Source: IBM Spectrum LSF 10.1, "lsb.acct" and "lsb.events" in the configuration reference. A
//! method that reads a field returns [`FieldError`] with the column and name of a damaged field.

use lacuna_model::Timestamp;

use crate::FieldError;
use crate::fields::{copy, signed, unexpected, unix};
use crate::slots::distinct;

/// Number of fields of resource usage in a record (`lsfRusage`).
const USAGE: usize = 19;

/// A cursor over the fields of a record.
#[derive(Clone)]
pub struct Fields<'a> {
    rest: &'a [u8],
    column: usize,
}

impl<'a> Fields<'a> {
    /// A cursor at the first field of a line.
    #[must_use]
    pub const fn of(line: &'a [u8]) -> Self {
        Self {
            rest: line,
            column: 0,
        }
    }

    /// Whether no field follows.
    #[must_use]
    pub fn is_at_end(&self) -> bool {
        self.rest.trim_ascii_start().is_empty()
    }

    /// An error about the newest field.
    #[cold]
    #[must_use]
    pub fn unexpected(&self, name: &str, expected: &str, found: &[u8]) -> FieldError {
        unexpected(format!("column {} ({name})", self.column), expected, found)
    }

    /// The next field without its quotes, and whether it is in quotes.
    #[inline]
    fn next(&mut self, name: &str) -> Result<(&'a [u8], bool), FieldError> {
        let text = self.rest.trim_ascii_start();
        self.column += 1;
        let Some(inside) = text.strip_prefix(b"\"") else {
            let end = memchr::memchr(b' ', text).unwrap_or(text.len());
            let (field, rest) = text.split_at_checked(end).unwrap_or((text, &[]));
            self.rest = rest;
            if field.is_empty() {
                return Err(self.unexpected(name, "a field", b"the end of the line"));
            }
            return Ok((field, false));
        };
        let mut from = 0;
        loop {
            let at = inside
                .get(from..)
                .and_then(|rest| memchr::memchr(b'"', rest))
                .map(|at| from + at);
            let Some(at) = at else {
                return Err(self.unexpected(name, "a quote at the end of the text", text));
            };
            match inside.get(at + 1) {
                Some(b'"') => from = at + 2,
                None | Some(b' ') => {
                    let (field, rest) = inside.split_at_checked(at).unwrap_or((inside, &[]));
                    self.rest = rest.get(1..).unwrap_or(&[]);
                    return Ok((field, true));
                }
                Some(_) => return Err(self.unexpected(name, "a blank behind the text", text)),
            }
        }
    }

    /// A text in quotes. Doubled quotes inside are left as they are.
    pub fn text(&mut self, name: &str) -> Result<&'a [u8], FieldError> {
        match self.next(name)? {
            (text, true) => Ok(text),
            (found, false) => Err(self.unexpected(name, "a text in quotes", found)),
        }
    }

    /// A text, in quotes or not.
    pub fn word(&mut self, name: &str) -> Result<&'a [u8], FieldError> {
        Ok(self.next(name)?.0)
    }

    /// A whole number.
    pub fn number(&mut self, name: &str) -> Result<i64, FieldError> {
        let (text, is_text) = self.next(name)?;
        // LSF writes no leading zeros: `02` is a damaged `0 2`.
        let is_odd = is_text || matches!(text, [b'0', _, ..]);
        signed(text)
            .filter(|_| !is_odd)
            .ok_or_else(|| self.unexpected(name, "a whole number", text))
    }

    /// A count of fields that follow.
    pub fn count(&mut self, name: &str) -> Result<usize, FieldError> {
        let number = self.number(name)?;
        // A field needs at least a letter and a blank.
        usize::try_from(number)
            .ok()
            .filter(|&count| count <= self.rest.len() / 2)
            .ok_or_else(|| {
                let found = number.to_string();
                self.unexpected(name, "a number of fields that follow", found.as_bytes())
            })
    }

    /// Skips a number with or without decimals.
    pub fn skip_real(&mut self, name: &str) -> Result<(), FieldError> {
        let (found, is_text) = self.next(name)?;
        let plain = |byte: &u8| byte.is_ascii_digit() || b"+-.eE".contains(byte);
        match !is_text && found.iter().all(plain) {
            true => Ok(()),
            false => Err(self.unexpected(name, "a number", found)),
        }
    }

    /// Skips whole numbers.
    pub fn skip_numbers(&mut self, names: &[&str]) -> Result<(), FieldError> {
        names
            .iter()
            .try_for_each(|name| self.number(name).map(drop))
    }

    /// Skips texts.
    pub fn skip_texts(&mut self, names: &[&str]) -> Result<(), FieldError> {
        names.iter().try_for_each(|name| self.text(name).map(drop))
    }

    /// Skips the resource usage.
    pub fn skip_usage(&mut self) -> Result<(), FieldError> {
        (0..USAGE).try_for_each(|_| self.skip_real("lsfRusage"))
    }

    /// Skips a list: the number of its texts, then the texts.
    pub fn skip_list(&mut self, count: &str, name: &str) -> Result<(), FieldError> {
        (0..self.count(count)?).try_for_each(|_| self.text(name).map(drop))
    }

    /// A time in Unix seconds; `None` for 0.
    pub fn time(&mut self, name: &str) -> Result<Option<Timestamp>, FieldError> {
        let (text, is_text) = self.next(name)?;
        if text == b"0" {
            return Ok(None);
        }
        unix(text)
            .filter(|_| !is_text)
            .map(Some)
            .ok_or_else(|| self.unexpected(name, "a time in Unix seconds", text))
    }

    /// The number of execution hosts, then the hosts. Writes the hosts of this cluster into `list`,
    /// each once, and returns their number; `None` if all hosts are of another cluster.
    pub fn hosts(&mut self, list: &mut String) -> Result<Option<u32>, FieldError> {
        let count = self.count("numExHosts")?;
        let mut names = Vec::with_capacity(count);
        let mut elsewhere = false;
        for _ in 0..count {
            let name = self.text("execHosts")?;
            // `16*host`: a host with its number of slots.
            let name = match memchr::memchr(b'*', name).and_then(|at| name.split_at_checked(at)) {
                Some((slots, host)) if signed(slots).is_some() => host.get(1..).unwrap_or(&[]),
                _ => name,
            };
            if memchr::memchr(b'@', name).is_some() {
                elsewhere = true;
            } else {
                names.push(name);
            }
        }
        let place = format!("column {} (execHosts)", self.column);
        let nodes = distinct(&place, names.into_iter(), list)?;
        Ok((nodes > 0 || !elsewhere).then_some(nodes))
    }
}

/// Number of lines behind the first of `ahead` that belong to its record, since texts in quotes may
/// hold line ends. A record has an even number of quotes, as quotes inside texts are doubled. So a
/// text has no line that begins like a record.
pub fn joins(ahead: &[u8]) -> Option<usize> {
    let mut lines = ahead.split_inclusive(|&byte| byte == b'\n');
    let first = lines.next().filter(|line| begins(line))?;
    if lines.clone().next().is_none_or(begins) || !is_open(first) {
        return None;
    }
    let behind = (1..).zip(lines.take_while(|line| !begins(line)));
    let mut closing = behind.filter(|(_, line)| is_open(line));
    closing.next().map(|(number, _)| number)
}

/// Whether a line is the first of a record.
#[must_use]
pub const fn begins(line: &[u8]) -> bool {
    matches!(line, [b'"', b'A'..=b'Z', ..])
}

/// Whether a line opens a text without closing it, or closes one that is open.
#[must_use]
pub fn is_open(line: &[u8]) -> bool {
    memchr::memchr_iter(b'"', line).count() % 2 == 1
}

/// Appends a text, whose inner quotes are doubled, to a field of a record.
pub fn copy_text(field: &mut String, text: &[u8]) {
    copy(field, text);
    if field.contains("\"\"") {
        *field = field.replace("\"\"", "\"");
    }
}

/// The version of a record: `10.108` is major 10, minor 108.
pub fn version(text: &[u8]) -> Option<(i64, i64)> {
    let at = memchr::memchr(b'.', text)?;
    let (major, minor) = text.split_at_checked(at)?;
    Some((signed(major)?, signed(minor.get(1..)?)?))
}
