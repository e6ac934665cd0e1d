//! What stands in a record, by key.

use lacuna_model::{Span, Timestamp};

use crate::FieldError;
use crate::fields::{odd, signed, unix};
use crate::formats::lsf::hosts::distinct;

/// The four parts of a record.
pub(crate) struct Parts<'a> {
    /// Local time, `MM/DD/YYYY HH:MM:SS`.
    pub(crate) time: [u8; 19],
    /// The type.
    pub(crate) letter: u8,
    pub(crate) id: &'a [u8],
    /// `key=value` with blanks between.
    pub(crate) message: &'a [u8],
}

impl<'a> Parts<'a> {
    /// The parts of a line, if it is a record.
    pub(crate) fn of(line: &'a [u8]) -> Option<Self> {
        let (time, rest) = line.split_first_chunk::<19>()?;
        let [b';', letter, b';', rest @ ..] = rest else {
            return None;
        };
        let shape = matches!(
            time,
            [
                _,
                _,
                b'/',
                _,
                _,
                b'/',
                _,
                _,
                _,
                _,
                b' ',
                _,
                _,
                b':',
                _,
                _,
                b':',
                _,
                _
            ]
        );
        if !shape || !letter.is_ascii_alphabetic() {
            return None;
        }
        let end = memchr::memchr(b';', rest)?;
        let (id, message) = rest.split_at_checked(end)?;
        Some(Self {
            time: *time,
            letter: *letter,
            id,
            message: message.get(1..)?,
        })
    }
}

/// What a message says, of what matters here. Of a key that stands there twice the first holds.
#[derive(Debug, Default)]
pub(crate) struct Says<'a> {
    pub(crate) user: Option<&'a [u8]>,
    pub(crate) account: Option<&'a [u8]>,
    pub(crate) jobname: Option<&'a [u8]>,
    pub(crate) queue: Option<&'a [u8]>,
    pub(crate) ctime: Option<&'a [u8]>,
    pub(crate) qtime: Option<&'a [u8]>,
    pub(crate) start: Option<&'a [u8]>,
    pub(crate) end: Option<&'a [u8]>,
    pub(crate) exec_host: Option<&'a [u8]>,
    pub(crate) exec_vnode: Option<&'a [u8]>,
    pub(crate) walltime: Option<&'a [u8]>,
    pub(crate) nodect: Option<&'a [u8]>,
    pub(crate) exit_status: Option<&'a [u8]>,
}

impl<'a> Says<'a> {
    pub(crate) fn of(message: &'a [u8]) -> Self {
        let mut says = Self::default();
        let mut rest = message;
        while let Some((key, value)) = next(&mut rest) {
            let place = match key {
                b"user" => &mut says.user,
                b"account" => &mut says.account,
                b"jobname" => &mut says.jobname,
                b"queue" => &mut says.queue,
                b"ctime" => &mut says.ctime,
                b"qtime" => &mut says.qtime,
                b"start" => &mut says.start,
                b"end" => &mut says.end,
                b"exec_host" => &mut says.exec_host,
                b"exec_vnode" => &mut says.exec_vnode,
                b"Resource_List.walltime" => &mut says.walltime,
                b"Resource_List.nodect" => &mut says.nodect,
                b"Exit_status" => &mut says.exit_status,
                _ => continue,
            };
            place.get_or_insert(value);
        }
        says
    }

    /// When the job was submitted.
    pub(crate) fn submit(&self) -> Result<Option<Timestamp>, FieldError> {
        match time("ctime", self.ctime)? {
            None => time("qtime", self.qtime),
            found => Ok(found),
        }
    }
}

/// Cuts the next `key=value` off a message. Words without `=` are passed over.
fn next<'a>(rest: &mut &'a [u8]) -> Option<(&'a [u8], &'a [u8])> {
    loop {
        *rest = rest.trim_ascii_start();
        let at = memchr::memchr2(b'=', b' ', rest)?;
        let (key, after) = rest.split_at_checked(at)?;
        let (separator, text) = after.split_first()?;
        if *separator == b' ' {
            *rest = text;
            continue;
        }
        let end = match text.first() {
            Some(quote @ (b'"' | b'\'')) => quoted(text, *quote),
            _ => None,
        }
        .unwrap_or_else(|| memchr::memchr(b' ', text).unwrap_or(text.len()));
        let (value, after) = text.split_at_checked(end)?;
        *rest = after;
        return Some((key, value));
    }
}

/// Where a text in quotes ends: behind the quote that a blank or nothing follows.
fn quoted(text: &[u8], quote: u8) -> Option<usize> {
    let mut quotes = memchr::memchr_iter(quote, text).skip(1);
    let end = quotes.find(|&at| text.get(at + 1).is_none_or(|&next| next == b' '))?;
    Some(end + 1)
}

pub(crate) fn time(
    key: &'static str,
    text: Option<&[u8]>,
) -> Result<Option<Timestamp>, FieldError> {
    match text {
        None | Some(b"0") => Ok(None),
        Some(text) => match unix(text) {
            Some(time) => Ok(Some(time)),
            None => Err(odd(key, "a time in Unix seconds", text)),
        },
    }
}

/// `HH:MM:SS`, `DD:HH:MM:SS`, `MM:SS` or seconds.
pub(crate) fn walltime(text: &[u8]) -> Option<Span> {
    let mut seconds = 0_i64;
    let mut parts = 0_usize;
    for part in text.split(|&byte| byte == b':') {
        let number = signed(part).filter(|number| (0..=1_000_000_000).contains(number))?;
        // Days hold 24 hours, all else 60 of what follows.
        let worth = match (parts, memchr::memchr_iter(b':', text).count()) {
            (1, 3) => 24,
            _ => 60,
        };
        seconds = seconds.checked_mul(worth)?.checked_add(number)?;
        parts += 1;
    }
    (parts <= 4).then(|| Span::from_secs(seconds))
}

/// Writes the hosts of a record; says how many there are.
pub(crate) fn hosts(says: &Says<'_>, list: &mut String) -> Result<u32, FieldError> {
    list.clear();
    // `n1/0*12+n2/3`, with a port in some releases (`n1:15002/0`).
    if let Some(text) = says.exec_host {
        let name = |slot: &'_ [u8]| slot.iter().position(|byte| b"/:*".contains(byte));
        let names = text
            .split(|&byte| byte == b'+')
            .map(|slot| name(slot).and_then(|end| slot.get(..end)).unwrap_or(slot));
        return distinct("exec_host", names, list);
    }
    // `(n1:ncpus=2+n1:mem=4kb)+(n2:ncpus=2)`; a host's parts are `n1[0]`.
    if let Some(text) = says.exec_vnode {
        let names = text.split(|&byte| byte == b'+').map(|chunk| {
            let chunk = chunk.strip_prefix(b"(").unwrap_or(chunk);
            let end = chunk.iter().position(|byte| b":[)".contains(byte));
            end.and_then(|end| chunk.get(..end)).unwrap_or(chunk)
        });
        return distinct("exec_vnode", names, list);
    }
    Ok(0)
}
