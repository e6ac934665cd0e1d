//! Fields of an accounting record of PBS.
//!
//! Source: the PBS Professional Administrator's Guide, chapter "Accounting".

use lacuna_model::{Span, Timestamp};

use crate::FieldError;
use crate::fields::{signed, unexpected, unix};
use crate::slots::distinct;

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
    /// Cuts a line into its parts; `None` if it is no record. Decimals of the second are ignored.
    pub fn of(line: &'a [u8]) -> Option<Self> {
        let (time, rest) = line.split_first_chunk::<19>()?;
        let rest = match rest.strip_prefix(b".") {
            Some(decimals) => decimals.get(memchr::memchr(b';', decimals)?..)?,
            None => rest,
        };
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

    /// Whether the record is of an array as a whole (`123[].server`) or of a range of its jobs
    /// (`123[1-5].server`). Each job of an array has records of its own.
    #[must_use]
    pub fn is_array(&self) -> bool {
        let inside = self.id.split(|&byte| byte == b'[').nth(1);
        let inside = inside.and_then(|rest| rest.split(|&byte| byte == b']').next());
        inside.is_some_and(|index| index.is_empty() || !index.iter().all(u8::is_ascii_digit))
    }
}

/// Most lines of a record behind the first.
const MOST_LINES: usize = 64;

/// Number of lines behind the first of `ahead` that belong to its record, since texts may hold line
/// ends: those up to the end of a text in quotes, or those with attributes that the record lacks.
/// Such an attribute is evidence enough only if no other one is repeated.
pub fn joins(ahead: &[u8]) -> Option<usize> {
    let mut lines = ahead.split_inclusive(|&byte| byte == b'\n');
    let first = lines.next()?;
    let is_record = |line: &&[u8]| Parts::of(line.trim_ascii()).is_some();
    if lines.clone().next().as_ref().is_none_or(is_record) {
        return None;
    }
    let of = |text: &'_ [u8]| {
        let parts = Parts::of(text.trim_ascii())?;
        let attributes = Attributes::of(parts.message);
        Some((attributes.is_open, attributes.found, attributes.is_repeated))
    };
    let (mut is_open, mut known, _) = of(first)?;
    let (mut until, mut joined) = (first.len(), None);
    let behind = lines.take_while(|line| !is_record(line)).take(MOST_LINES);
    for (number, line) in (1..).zip(behind) {
        until += line.len();
        // A line with several semicolons may be a damaged record.
        let semicolons = memchr::memchr_iter(b';', line).count();
        if !is_open && semicolons > 1 {
            break;
        }
        let (still_open, found, is_repeated) = of(ahead.get(..until)?)?;
        if is_repeated {
            break;
        }
        if !still_open && (is_open || found > known) {
            (joined, known) = (Some(number), found);
        }
        is_open &= still_open;
    }
    joined
}

/// Attributes in the message of a record, as text. The first of a repeated key holds.
#[derive(Debug, Default)]
pub struct Attributes<'a> {
    /// Number of attributes that are read.
    found: u32,
    /// Whether one of these is repeated.
    is_repeated: bool,
    /// Whether a value begins with a quote that no other one ends.
    is_open: bool,
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
            attributes.is_open |= is_open(value);
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
            match place {
                Some(_) => attributes.is_repeated = true,
                None => {
                    *place = Some(value);
                    attributes.found += 1;
                }
            }
        }
        attributes
    }

    /// Whether a text may be taken for attributes, or attributes for a text: a quote has no end, or an
    /// attribute is repeated.
    #[must_use]
    pub fn is_doubtful(&self) -> bool {
        self.is_open || self.is_repeated
    }

    /// Whether the record names hosts.
    #[must_use]
    pub fn has_hosts(&self) -> bool {
        self.exec_host.is_some() || self.exec_vnode.is_some()
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

/// Whether a value begins with a quote that it does not end with.
fn is_open(value: &[u8]) -> bool {
    match value {
        [quote @ (b'"' | b'\''), .., last] => quote != last,
        [b'"' | b'\''] => true,
        _ => false,
    }
}

/// End of a quoted text: behind the quote that a blank follows, or that ends the message.
fn quoted(text: &[u8], quote: u8) -> Option<usize> {
    let mut quotes = memchr::memchr_iter(quote, text).skip(1);
    let end = quotes.find(|&at| text.get(at + 1).is_none_or(|&next| next == b' '))?;
    Some(end + 1)
}

/// A time of an attribute, Unix seconds; 0 is none.
///
/// # Errors
/// [`FieldError`] at `key` if it is damaged.
pub fn time(key: &'static str, text: Option<&[u8]>) -> Result<Option<Timestamp>, FieldError> {
    match text {
        None | Some(b"0") => Ok(None),
        Some(text) => match unix(text) {
            Some(time) => Ok(Some(time)),
            None => Err(unexpected(key, "a time in Unix seconds", text)),
        },
    }
}

/// `HH:MM:SS`, `DD:HH:MM:SS`, `MM:SS` or seconds.
pub fn walltime(text: &[u8]) -> Option<Span> {
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
