//! Follows a file that another program appends to and replaces from time to time. No I/O: the
//! caller lists the files, reads the requested bytes, and passes them in.
//!
//! The caller looks at the files repeatedly, since network file systems report no changes. Inode
//! numbers are reused. So a file is identified by its first bytes and the last bytes before the
//! position. Its inode only decides between copies.
//!
//! - T1 A line is returned once, when its end has been written. The saved position is behind the
//!   last whole line, so a restart reads a torn line again.
//! - T2 A renamed file is read to its end, under its new name, before the next file begins. The
//!   same holds for a copy of a file that was then truncated. A file has ended when it has not
//!   grown in two looks while a later file existed. A rest without a line end then counts as a
//!   line.
//! - T3 A file that is shorter than the position, or whose bytes differ, is a new file and is read
//!   from its beginning.
//! - T4 If the file that was read has disappeared, its rest behind the position is lost. The loss
//!   is counted, and the next file begins.
//! - T5 Bytes of zero are blocks that have not reached the file yet, or never will. They are waited
//!   for, and skipped after ten looks.

use serde::{Deserialize, Serialize};

/// Number of bytes at the beginning of a file that identify it.
pub const HEAD: usize = 256;

/// Number of bytes before the position that identify a file.
pub const BEFORE: usize = 64;

/// Longest line, and most bytes read at once. Longer lines are skipped.
pub const LONGEST: usize = 4 << 20;

/// In a file with another inode, this many bytes before the position must be the same.
const SURE: usize = 32;

/// Looks without growth after which a file with a later one behind it has ended.
const QUIET: u32 = 2;

/// Looks after which zeros are skipped.
const ZEROS: u32 = 10;

/// A file as the caller sees it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FileView {
    /// Name of the file, for the caller.
    pub name: String,
    /// Inode of the file.
    pub inode: u64,
    /// Length of the file, bytes.
    pub length: u64,
    /// The first [`HEAD`] bytes, or all.
    pub head: Vec<u8>,
    /// The last [`BEFORE`] bytes (or all) before the offset of [`Tail::position`], if the file
    /// reaches it.
    pub before: Vec<u8>,
}

/// The position that was read to, which survives a restart.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Position {
    /// Name of the file at the newest look.
    pub name: String,
    /// Inode of the file.
    pub inode: u64,
    /// Offset behind the last returned line, bytes.
    pub offset: u64,
    /// The first [`HEAD`] bytes of the file, up to the offset.
    pub head: Vec<u8>,
    /// The last [`BEFORE`] bytes before the offset.
    pub before: Vec<u8>,
}

/// A request to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Next {
    /// Name of the file.
    pub name: String,
    /// Inode of the file. The caller reads nothing if the name belongs to another file by now.
    pub inode: u64,
    /// Offset of the first byte.
    pub from: u64,
    /// Largest number of bytes.
    pub most: usize,
    /// Whether the file has ended, so that a rest without a line end is a line: see
    /// [`Tail::take_rest`].
    pub ends: bool,
}

/// The file that begins after the file that was read has disappeared, and at the first look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Older files are renamed: the last file of the list.
    Rotated,
    /// Names rise with time (`20261120`): the next name.
    Dated,
}

/// Counts of changes of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TailCounts {
    /// Files that were read to their end and followed by another file.
    pub rotated: u64,
    /// Files that were truncated or replaced in place.
    pub truncated: u64,
    /// Files that disappeared before they had been read to their end.
    pub lost: u64,
    /// Lines longer than [`LONGEST`], and runs of zeros, that were skipped.
    #[serde(rename = "passed")]
    pub skipped: u64,
}

/// Follows a file (T1 to T5).
#[derive(Debug, Clone)]
pub struct Tail {
    order: Order,
    position: Option<Position>,
    /// Length of the file at which the newest read found no further whole line.
    read_to: Option<u64>,
    quiet: u32,
    /// Looks in a row that found only zeros.
    zeros: u32,
    /// Whether the rest of a line that is too long is being skipped.
    skipping: bool,
    counts: TailCounts,
}

impl Tail {
    /// A tail that continues at `position`, or begins.
    #[must_use]
    pub fn new(order: Order, position: Option<Position>) -> Self {
        Self {
            order,
            position,
            read_to: None,
            quiet: 0,
            zeros: 0,
            skipping: false,
            counts: TailCounts::default(),
        }
    }

    /// The position that was read to. It is saved once the results of the lines are stored.
    #[must_use]
    pub fn position(&self) -> Option<&Position> {
        self.position.as_ref()
    }

    /// Counts of changes of files.
    #[must_use]
    pub const fn counts(&self) -> TailCounts {
        self.counts
    }

    /// The next request. `files`: all files that may hold lines, older files first.
    pub fn look(&mut self, files: &[FileView]) -> Option<Next> {
        let last = files.last()?;
        let Some(position) = &mut self.position else {
            // At the first look, older files are past.
            self.begin(last);
            return self.rest_of(last, false);
        };
        let Some(at) = found(files, position) else {
            let in_place = files.iter().find(|f| f.inode == position.inode);
            let next = match (in_place, self.order) {
                (Some(file), _) if position.offset > 0 => {
                    self.counts.truncated += 1;
                    file
                }
                (_, Order::Dated) => {
                    self.counts.lost += 1;
                    files
                        .iter()
                        .find(|f| f.name > position.name)
                        .unwrap_or(last)
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
        position.name.clone_from(&file.name);
        position.inode = file.inode;
        if self.read_to != Some(file.length) {
            self.quiet = 0;
            return self.rest_of(file, false);
        }
        let later = files.get(at.saturating_add(1))?;
        self.quiet = self.quiet.saturating_add(1);
        if self.quiet < QUIET {
            return None;
        }
        if file.length > position.offset && !self.skipping {
            return self.rest_of(file, true);
        }
        self.counts.rotated += 1;
        self.begin(later);
        self.rest_of(later, false)
    }

    /// Takes bytes that were read at the position, and calls `each` with every whole line, without
    /// its end.
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
        let offset = self.position.as_ref().map_or(0, |position| position.offset);
        if let Some(zero) = zero {
            self.wait_for_zeros(left, zero.saturating_sub(taken), taken > 0);
            return;
        }
        if left.len() >= LONGEST {
            self.counts.skipped += u64::from(!self.skipping);
            self.skipping = true;
            self.advance(left);
            self.read_to = None;
            return;
        }
        let left = u64::try_from(left.len()).unwrap_or(u64::MAX);
        self.read_to = Some(offset.saturating_add(left));
    }

    /// Takes the last bytes of a file that has ended. A rest without a line end is a line too.
    pub fn take_rest(&mut self, bytes: &[u8], each: &mut dyn FnMut(&[u8])) {
        self.take(bytes, each);
        let offset = self.position.as_ref().map_or(0, |position| position.offset);
        let Some(read_to) = self.read_to else { return };
        let left = usize::try_from(read_to.saturating_sub(offset)).unwrap_or(usize::MAX);
        let rest = bytes.get(bytes.len().saturating_sub(left)..).unwrap_or(&[]);
        if !rest.is_empty() {
            each(rest);
            self.advance(rest);
        }
    }

    /// The rest of the file has zeros after `ahead` bytes.
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
        self.counts.skipped += 1;
        let zeros = left.get(ahead..).unwrap_or(&[]);
        let run = zeros.iter().take_while(|byte| **byte == 0).count();
        self.advance(left.get(..ahead.saturating_add(run)).unwrap_or(left));
    }

    fn begin(&mut self, file: &FileView) {
        self.position = Some(Position {
            name: file.name.clone(),
            inode: file.inode,
            offset: 0,
            head: Vec::new(),
            before: Vec::new(),
        });
        (self.read_to, self.quiet, self.zeros, self.skipping) = (None, 0, 0, false);
    }

    /// The request for the rest of a file, if it has one.
    fn rest_of(&mut self, file: &FileView, ends: bool) -> Option<Next> {
        let from = self.position.as_ref()?.offset;
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
        let Some(position) = &mut self.position else {
            return;
        };
        let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        // Bytes that are not returned yet may still change, so they do not identify a file.
        let room = HEAD.saturating_sub(position.head.len()).min(bytes.len());
        position
            .head
            .extend_from_slice(bytes.get(..room).unwrap_or(bytes));
        position.offset = position.offset.saturating_add(length);
        position.before.extend_from_slice(bytes);
        let older = position.before.len().saturating_sub(BEFORE);
        position.before.drain(..older);
    }
}

/// Index of the file that was read.
fn found(files: &[FileView], position: &Position) -> Option<usize> {
    let same = |file: &FileView| {
        file.length >= position.offset
            && file.head.starts_with(&position.head)
            && file.before == position.before
    };
    let exact = |file: &FileView| file.inode == position.inode && same(file);
    // A copy, or a file that was moved to another file system.
    let sure = position.before.len() >= SURE;
    files
        .iter()
        .position(exact)
        .or_else(|| files.iter().position(|file| sure && same(file)))
}
