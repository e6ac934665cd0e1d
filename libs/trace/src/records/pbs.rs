//! Fields of an accounting record of PBS.
//!
//! Source: the PBS Professional Administrator's Guide, chapter "Accounting".

use lacuna_model::{Span, Timestamp};

use super::hosts::distinct;
use crate::FieldError;
use crate::fields::{signed, unexpected, unix};

/// The four parts of a record.
pub struct Parts<'a> {
    /// Local time, `MM/DD/YYYY HH:MM:SS`.
    pub time: [u8; 19],
    /// Type of the record.
    pub letter: u8,
    /// Job id.
    pub id: &'a [u8],
    /// `key=value` with blanks between.
    pub message: &'a [u8],
}

impl<'a> Parts<'a> {
    /// Cuts a line into its parts; `None` if it is no record.
    pub fn of(line: &'a [u8]) -> Option<Self> {
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

/// Attributes in the message of a record, as text. The first of a repeated key holds.
#[derive(Debug, Default)]
pub struct Attributes<'a> {
    /// `user`: owner of the job.
    pub user: Option<&'a [u8]>,
    /// `account`: account of the job.
    pub account: Option<&'a [u8]>,
    /// `jobname`: name of the job.
    pub jobname: Option<&'a [u8]>,
    /// `queue`: queue of the job.
    pub queue: Option<&'a [u8]>,
    /// `ctime`: creation of the job, Unix seconds.
    pub ctime: Option<&'a [u8]>,
    /// `qtime`: entry into the queue, Unix seconds.
    pub qtime: Option<&'a [u8]>,
    /// `start`: start of the job, Unix seconds.
    pub start: Option<&'a [u8]>,
    /// `end`: end of the job, Unix seconds.
    pub end: Option<&'a [u8]>,
    /// `exec_host`: hosts with slots.
    pub exec_host: Option<&'a [u8]>,
    /// `exec_vnode`: virtual nodes with resources.
    pub exec_vnode: Option<&'a [u8]>,
    /// `Resource_List.walltime`: requested walltime.
    pub walltime: Option<&'a [u8]>,
    /// `Resource_List.nodect`: requested number of nodes.
    pub nodect: Option<&'a [u8]>,
    /// `Exit_status`: exit status of the job.
    pub exit_status: Option<&'a [u8]>,
}

impl<'a> Attributes<'a> {
    /// Reads the attributes of a message.
    #[must_use]
    pub fn of(message: &'a [u8]) -> Self {
        let mut attributes = Self::default();
        let mut rest = message;
        while let Some((key, value)) = next(&mut rest) {
            let place = match key {
                b"user" => &mut attributes.user,
                b"account" => &mut attributes.account,
                b"jobname" => &mut attributes.jobname,
                b"queue" => &mut attributes.queue,
                b"ctime" => &mut attributes.ctime,
                b"qtime" => &mut attributes.qtime,
                b"start" => &mut attributes.start,
                b"end" => &mut attributes.end,
                b"exec_host" => &mut attributes.exec_host,
                b"exec_vnode" => &mut attributes.exec_vnode,
                b"Resource_List.walltime" => &mut attributes.walltime,
                b"Resource_List.nodect" => &mut attributes.nodect,
                b"Exit_status" => &mut attributes.exit_status,
                _ => continue,
            };
            place.get_or_insert(value);
        }
        attributes
    }

    /// Time of submission: `ctime`, or `qtime` without it.
    ///
    /// # Errors
    /// [`FieldError`] if the time is damaged.
    pub fn submit(&self) -> Result<Option<Timestamp>, FieldError> {
        match time("ctime", self.ctime)? {
            None => time("qtime", self.qtime),
            found => Ok(found),
        }
    }
}

/// Cuts the next `key=value` off a message. Words without `=` are skipped.
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

/// End of a quoted text: behind the quote that a blank follows, or that ends the message.
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
            None => Err(unexpected(key, "a time in Unix seconds", text)),
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
        let unit = match (parts, memchr::memchr_iter(b':', text).count()) {
            (1, 3) => 24,
            _ => 60,
        };
        seconds = seconds.checked_mul(unit)?.checked_add(number)?;
        parts += 1;
    }
    (parts <= 4).then(|| Span::from_secs(seconds))
}

/// Writes the hosts of a record into `list`, with commas between. Returns their number.
///
/// # Errors
/// [`FieldError`] if a name is empty or damaged.
pub fn hosts(attributes: &Attributes<'_>, list: &mut String) -> Result<u32, FieldError> {
    list.clear();
    // `n1/0*12+n2/3`, with a port in some releases (`n1:15002/0`).
    if let Some(text) = attributes.exec_host {
        let name = |slot: &'_ [u8]| slot.iter().position(|byte| b"/:*".contains(byte));
        let names = text
            .split(|&byte| byte == b'+')
            .map(|slot| name(slot).and_then(|end| slot.get(..end)).unwrap_or(slot));
        return distinct("exec_host", names, list);
    }
    // `(n1:ncpus=2+n1:mem=4kb)+(n2:ncpus=2)`; a host's parts are `n1[0]`.
    if let Some(text) = attributes.exec_vnode {
        let names = text.split(|&byte| byte == b'+').map(|chunk| {
            let chunk = chunk.strip_prefix(b"(").unwrap_or(chunk);
            let end = chunk.iter().position(|byte| b":[)".contains(byte));
            end.and_then(|end| chunk.get(..end)).unwrap_or(chunk)
        });
        return distinct("exec_vnode", names, list);
    }
    Ok(0)
}
