//! Follows a file that another program appends to and replaces from time to time. No I/O: the
//! caller lists the files with what it sees of them, reads where it is told to, and hands the
//! bytes in.
//!
//! Files are looked at again and again, since network file systems tell nobody of a change, and
//! inode numbers are used again. So a file is known by what was read of it: its first bytes and
//! the last ones before the place that was read to; its inode only decides between copies.
//!
//! - T1 A line is handed out once, when its end is there; the place that is kept is behind the
//!   last whole line, so that a restart reads a torn one again.
//! - T2 A file that was renamed is read to its end, under its new name, before the next begins,
//!   and so is a copy of a file that was then truncated. It has ended when it has not grown in two
//!   looks while a later file was there; what is left in it without an end counts as a line.
//! - T3 A file that is shorter than the place, or other than what was read, is a new one and is
//!   read from its beginning.
//! - T4 If the file that was read is not to be found, what was in it behind the place is lost:
//!   that is counted, and the next begins.
//! - T5 Bytes of zero are blocks that have not reached the file yet, or never will: they are
//!   waited for, and after ten looks passed over.

use serde::{Deserialize, Serialize};

/// So many bytes of a file's beginning are looked at.
pub const HEAD: usize = 256;

/// So many bytes before the place are looked at.
pub const BEFORE: usize = 64;

/// The longest line, bytes, and the most to be read at once. Longer lines are passed over.
pub const LONGEST: usize = 4 << 20;

/// Of a file with another inode so many bytes before the place must be the same.
const SURE: usize = 32;

/// Looks without growth after which a file with a later one behind it has ended.
const QUIET: u32 = 2;

/// Looks after which zeros are passed over.
const ZEROS: u32 = 10;

/// What the caller sees of a file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Seen {
    /// Its name, for the caller.
    pub name: String,
    /// Its inode.
    pub inode: u64,
    /// Its length, bytes.
    pub length: u64,
    /// Its first [`HEAD`] bytes, or all.
    pub head: Vec<u8>,
    /// The [`BEFORE`] bytes (or all) before the offset of [`Tail::place`], if it is so long.
    pub before: Vec<u8>,
}

/// How far has been read, to be kept over a restart.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Place {
    /// The file's name when it was last seen.
    pub name: String,
    /// Its inode.
    pub inode: u64,
    /// Everything before has been handed out, bytes.
    pub offset: u64,
    /// Its first [`HEAD`] bytes, as far as they have been handed out.
    pub head: Vec<u8>,
    /// The bytes before the offset.
    pub before: Vec<u8>,
}

/// What to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Next {
    /// Of which file.
    pub name: String,
    /// Its inode; the caller reads nothing if the name now means another file.
    pub inode: u64,
    /// From where, bytes.
    pub from: u64,
    /// How much at most, bytes.
    pub most: usize,
    /// Whether what is left without a line's end is to be taken as a line: see
    /// [`Tail::take_rest`].
    pub ends: bool,
}

/// Which file comes first when the one that was read is gone, or at the very first look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// One name whose older files get other names: the last of the list.
    Rotated,
    /// Names that rise with time (`20261120`): the next name.
    Dated,
}

/// What has happened besides lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TailCounts {
    /// Files that were read to their end and followed by another.
    pub rotated: u64,
    /// Files that were truncated or replaced in place.
    pub truncated: u64,
    /// Files that were gone before they had been read to their end, as far as is known.
    pub lost: u64,
    /// Lines longer than [`LONGEST`], and runs of zeros, passed over.
    pub passed: u64,
}

/// Follows a file.
#[derive(Debug, Clone)]
pub struct Tail {
    order: Order,
    place: Option<Place>,
    /// The length at which the last read found no whole line more.
    read_to: Option<u64>,
    quiet: u32,
    /// Looks at which nothing but zeros stood there.
    zeros: u32,
    /// Whether the rest of a too long line is being passed over.
    skipping: bool,
    counts: TailCounts,
}

impl Tail {
    /// Goes on at a place, or begins.
    #[must_use]
    pub fn new(order: Order, place: Option<Place>) -> Self {
        Self {
            order,
            place,
            read_to: None,
            quiet: 0,
            zeros: 0,
            skipping: false,
            counts: TailCounts::default(),
        }
    }

    /// How far has been read; to be kept once all that came of the lines is kept.
    #[must_use]
    pub fn place(&self) -> Option<&Place> {
        self.place.as_ref()
    }

    /// What has happened besides lines.
    #[must_use]
    pub const fn counts(&self) -> TailCounts {
        self.counts
    }

    /// What to read, by what is there: all files that may hold lines, older ones first.
    pub fn look(&mut self, files: &[Seen]) -> Option<Next> {
        let last = files.last()?;
        let Some(place) = &mut self.place else {
            // The very first look: what older files hold is past.
            self.begin(last);
            return self.rest_of(last, false);
        };
        let Some(at) = found(files, place) else {
            let in_place = files.iter().find(|f| f.inode == place.inode);
            let next = match (in_place, self.order) {
                (Some(file), _) if place.offset > 0 => {
                    self.counts.truncated += 1;
                    file
                }
                (_, Order::Dated) => {
                    self.counts.lost += 1;
                    files.iter().find(|f| f.name > place.name).unwrap_or(last)
                }
                (_, Order::Rotated) => {
                    self.counts.lost += 1;
                    last
                }
            };
            self.begin(next);
            return self.rest_of(next, false);
        };
        let file = files.get(at)?;
        place.name.clone_from(&file.name);
        place.inode = file.inode;
        if self.read_to != Some(file.length) {
            self.quiet = 0;
            return self.rest_of(file, false);
        }
        let later = files.get(at.saturating_add(1))?;
        self.quiet = self.quiet.saturating_add(1);
        if self.quiet < QUIET {
            return None;
        }
        if file.length > place.offset && !self.skipping {
            return self.rest_of(file, true);
        }
        self.counts.rotated += 1;
        self.begin(later);
        self.rest_of(later, false)
    }

    /// Takes bytes that were read at the place, and hands out the whole lines in them, without
    /// their ends.
    pub fn take(&mut self, bytes: &[u8], each: &mut dyn FnMut(&[u8])) {
        let zero = memchr::memchr(0, bytes);
        let mut rest = bytes.get(..zero.unwrap_or(bytes.len())).unwrap_or(bytes);
        let mut taken = 0_usize;
        while let Some(end) = memchr::memchr(b'\n', rest) {
            let (line, after) = rest.split_at_checked(end).unwrap_or((rest, &[]));
            if !std::mem::take(&mut self.skipping) {
                each(line.strip_suffix(b"\r").unwrap_or(line));
            }
            rest = after.get(1..).unwrap_or(&[]);
            taken = taken.saturating_add(end).saturating_add(1);
        }
        self.advance(bytes.get(..taken).unwrap_or(bytes));
        let left = bytes.get(taken..).unwrap_or(&[]);
        let offset = self.place.as_ref().map_or(0, |place| place.offset);
        if let Some(zero) = zero {
            self.wait_for_zeros(left, zero.saturating_sub(taken), taken > 0);
            return;
        }
        if left.len() >= LONGEST {
            self.counts.passed += u64::from(!self.skipping);
            self.skipping = true;
            self.advance(left);
            self.read_to = None;
            return;
        }
        let left = u64::try_from(left.len()).unwrap_or(u64::MAX);
        self.read_to = Some(offset.saturating_add(left));
    }

    /// Takes the last bytes of a file that has ended: what is left without an end is a line, too.
    pub fn take_rest(&mut self, bytes: &[u8], each: &mut dyn FnMut(&[u8])) {
        self.take(bytes, each);
        let offset = self.place.as_ref().map_or(0, |place| place.offset);
        let Some(read_to) = self.read_to else { return };
        let left = usize::try_from(read_to.saturating_sub(offset)).unwrap_or(usize::MAX);
        let rest = bytes.get(bytes.len().saturating_sub(left)..).unwrap_or(&[]);
        if !rest.is_empty() {
            each(rest);
            self.advance(rest);
        }
    }

    /// Zeros stand `ahead` bytes into what is left.
    fn wait_for_zeros(&mut self, left: &[u8], ahead: usize, some: bool) {
        self.read_to = None;
        self.zeros = if some {
            0
        } else {
            self.zeros.saturating_add(1)
        };
        if self.zeros < ZEROS {
            return;
        }
        self.zeros = 0;
        self.counts.passed += 1;
        let zeros = left.get(ahead..).unwrap_or(&[]);
        let run = zeros.iter().take_while(|byte| **byte == 0).count();
        self.advance(left.get(..ahead.saturating_add(run)).unwrap_or(left));
    }

    fn begin(&mut self, file: &Seen) {
        self.place = Some(Place {
            name: file.name.clone(),
            inode: file.inode,
            offset: 0,
            head: Vec::new(),
            before: Vec::new(),
        });
        (self.read_to, self.quiet, self.zeros, self.skipping) = (None, 0, 0, false);
    }

    /// What is left in a file, if anything is.
    fn rest_of(&mut self, file: &Seen, ends: bool) -> Option<Next> {
        let from = self.place.as_ref()?.offset;
        if file.length <= from {
            self.read_to = Some(file.length);
            return None;
        }
        Some(Next {
            name: file.name.clone(),
            inode: file.inode,
            from,
            most: LONGEST,
            ends,
        })
    }

    fn advance(&mut self, bytes: &[u8]) {
        let Some(place) = &mut self.place else { return };
        let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        // What is not handed out yet may still change, so that it is no sign of a file.
        let room = HEAD.saturating_sub(place.head.len()).min(bytes.len());
        place
            .head
            .extend_from_slice(bytes.get(..room).unwrap_or(bytes));
        place.offset = place.offset.saturating_add(length);
        place.before.extend_from_slice(bytes);
        let older = place.before.len().saturating_sub(BEFORE);
        place.before.drain(..older);
    }
}

/// Which file is the one that was read.
fn found(files: &[Seen], place: &Place) -> Option<usize> {
    let same = |file: &Seen| {
        file.length >= place.offset
            && file.head.starts_with(&place.head)
            && file.before == place.before
    };
    let exact = |file: &Seen| file.inode == place.inode && same(file);
    // A copy, or a file that has come to another file system.
    let sure = place.before.len() >= SURE;
    files
        .iter()
        .position(exact)
        .or_else(|| files.iter().position(|file| sure && same(file)))
}
