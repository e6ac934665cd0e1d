//! A file that is appended to, renamed, copied, truncated and replaced, in memory.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "helpers of tests may panic"
)]

use lacuna_trace::tail::{BEFORE, FileView, HEAD, LONGEST, Order, Position, Tail};
use proptest::prelude::*;

/// A folder.
#[derive(Debug, Clone, Default)]
struct Disk {
    /// Name, inode and content; older files first, the present one last.
    files: Vec<(String, u64, Vec<u8>)>,
    inodes: u64,
}

impl Disk {
    fn file(&mut self, name: &str, content: &[u8]) {
        self.inodes += 1;
        self.files
            .push((name.to_owned(), self.inodes, content.to_vec()));
    }

    fn append(&mut self, text: &str) {
        self.files
            .last_mut()
            .unwrap()
            .2
            .extend_from_slice(text.as_bytes());
    }

    fn seen(&self, tail: &Tail) -> Vec<FileView> {
        let offset = tail
            .position()
            .map_or(0, |p| usize::try_from(p.offset).unwrap());
        let seen = |(name, inode, content): &(String, u64, Vec<u8>)| FileView {
            name: name.clone(),
            inode: *inode,
            length: content.len() as u64,
            head: content[..content.len().min(HEAD)].to_vec(),
            before: match content.get(..offset) {
                Some(upto) => upto[upto.len().saturating_sub(BEFORE)..].to_vec(),
                None => Vec::new(),
            },
        };
        self.files.iter().map(seen).collect()
    }

    /// One look, and what is read; the lines.
    fn look(&self, tail: &mut Tail, most: usize) -> Vec<String> {
        let mut lines = Vec::new();
        let Some(next) = tail.look(&self.seen(tail)) else {
            return lines;
        };
        let content = &self.files.iter().find(|f| f.1 == next.inode).unwrap().2;
        let from = usize::try_from(next.from).unwrap();
        let upto = content.len().min(from + most.min(next.most));
        let bytes = &content[from..upto];
        let mut each = |line: &[u8]| lines.push(String::from_utf8_lossy(line).into_owned());
        if next.ends && upto == content.len() {
            tail.take_rest(bytes, &mut each);
        } else {
            tail.take(bytes, &mut each);
        }
        lines
    }

    fn looks(&self, tail: &mut Tail, count: usize) -> Vec<String> {
        (0..count)
            .flat_map(|_| self.look(tail, usize::MAX))
            .collect()
    }
}

fn begun(order: Order, text: &str) -> (Disk, Tail) {
    let mut disk = Disk::default();
    disk.file("log", text.as_bytes());
    (disk, Tail::new(order, None))
}

#[test]
fn a_torn_line_waits_for_its_end() {
    let (mut disk, mut tail) = begun(Order::Rotated, "one\r\ntwo\nthr");
    assert_eq!(disk.look(&mut tail, usize::MAX), ["one", "two"]);
    assert_eq!(disk.looks(&mut tail, 5), [""; 0]);
    disk.append("ee\nfo");
    assert_eq!(disk.look(&mut tail, usize::MAX), ["three"]);
    // A restart reads only the torn line again.
    let mut again = Tail::new(Order::Rotated, tail.position().cloned());
    disk.append("ur\n");
    assert_eq!(disk.looks(&mut again, 3), ["four"]);
    assert_eq!(again.counts(), Default::default());
}

#[test]
fn a_renamed_file_is_read_to_its_end_before_the_next() {
    let (mut disk, mut tail) = begun(Order::Rotated, "a1 ------------------------------\n");
    assert_eq!(disk.looks(&mut tail, 1).len(), 1);
    disk.append("a2\n");
    disk.files[0].0 = "log.1".to_owned();
    disk.file("log", b"b1\n");
    assert_eq!(disk.look(&mut tail, usize::MAX), ["a2"]);
    // The writer still writes into the renamed file.
    disk.files[0].2.extend_from_slice(b"a3\nlast");
    assert_eq!(disk.look(&mut tail, usize::MAX), ["a3"]);
    assert_eq!(disk.look(&mut tail, usize::MAX), [""; 0]);
    assert_eq!(
        disk.looks(&mut tail, 3),
        ["last", "b1"],
        "a line without its end, then the next file"
    );
    assert_eq!(tail.counts().rotated, 1);
    // Two rotations between two looks.
    disk.append("b2\n");
    disk.files[1].0 = "log.2".to_owned();
    disk.file("log.1", b"c1\n");
    disk.file("log", b"d1\n");
    assert_eq!(disk.looks(&mut tail, 9), ["b2", "c1", "d1"]);
    assert_eq!((tail.counts().rotated, tail.counts().lost), (3, 0));
}

#[test]
fn a_copy_of_a_truncated_file_is_read_on() {
    let (mut disk, mut tail) = begun(Order::Rotated, "first line of a file that will be copied\n");
    assert_eq!(disk.looks(&mut tail, 1).len(), 1);
    disk.append("second\n");
    // copytruncate: the file is copied to a new inode, then emptied.
    let copy = disk.files[0].2.clone();
    disk.inodes += 1;
    disk.files.insert(0, ("log.1".to_owned(), 99, copy));
    disk.files[1].2.clear();
    disk.append("third\n");
    assert_eq!(disk.looks(&mut tail, 9), ["second", "third"]);
    assert_eq!(
        (
            tail.counts().rotated,
            tail.counts().lost,
            tail.counts().truncated
        ),
        (1, 0, 0)
    );
}

#[test]
fn truncated_replaced_and_reused_files_are_new_ones() {
    let (mut disk, mut tail) = begun(Order::Rotated, "aaaa\nbbbb\n");
    assert_eq!(disk.looks(&mut tail, 1), ["aaaa", "bbbb"]);
    // Truncated and shorter.
    disk.files[0].2 = b"cc\n".to_vec();
    assert_eq!(disk.looks(&mut tail, 2), ["cc"]);
    // Truncated and already longer than before, with the same beginning.
    disk.files[0].2 = b"cc\ndd\n".to_vec();
    assert_eq!(disk.looks(&mut tail, 2), ["dd"]);
    disk.files[0].2 = b"cc\nee\nff\n".to_vec();
    assert_eq!(disk.looks(&mut tail, 2), ["cc", "ee", "ff"]);
    assert_eq!(tail.counts().truncated, 2);
    // Deleted, and a new file with another inode: the rest behind the position is lost.
    disk.files[0] = ("log".to_owned(), 1234, b"gg\n".to_vec());
    assert_eq!(disk.looks(&mut tail, 2), ["gg"]);
    assert_eq!(tail.counts().lost, 1);
    // The file is absent for a while.
    let gone = Disk::default();
    assert_eq!(gone.looks(&mut tail, 3), [""; 0]);
    disk.append("hh\n");
    assert_eq!(disk.looks(&mut tail, 1), ["hh"]);
}

#[test]
fn files_by_day_follow_each_other() {
    let mut disk = Disk::default();
    disk.file("20261118", b"old\n");
    disk.file("20261119", b"a\n");
    let mut tail = Tail::new(Order::Dated, None);
    assert_eq!(disk.looks(&mut tail, 2), ["a"], "older files are past");
    disk.file("20261120", b"c\n");
    disk.files[1].2.extend_from_slice(b"b\n");
    assert_eq!(disk.looks(&mut tail, 6), ["b", "c"]);
    // Stopped for days; yesterday's file is gone when it goes on.
    let mut again = Tail::new(Order::Dated, tail.position().cloned());
    disk.files.clear();
    disk.file("20261121", b"d\n");
    disk.file("20261122", b"e\n");
    assert_eq!(disk.looks(&mut again, 6), ["d", "e"]);
    assert_eq!(again.counts().lost, 1);
}

#[test]
fn zeros_are_waited_for_and_long_lines_skipped() {
    let (mut disk, mut tail) = begun(Order::Rotated, "a\nb");
    disk.append("\0\0\0\0");
    assert_eq!(disk.looks(&mut tail, 4), ["a"]);
    // The block arrives.
    disk.files[0].2 = b"a\nbb\nc\n".to_vec();
    assert_eq!(disk.looks(&mut tail, 2), ["bb", "c"]);
    // A block that never arrives.
    disk.append("\0\0\0d\n");
    assert_eq!(disk.looks(&mut tail, 30), ["d"]);
    assert_eq!(tail.counts().skipped, 1);
    let long = "x".repeat(LONGEST + 10);
    disk.append(&long);
    disk.append("\ne\n");
    assert_eq!(disk.looks(&mut tail, 5), ["e"]);
    assert_eq!(tail.counts().skipped, 2);
}

/// What happens to the file between looks.
#[derive(Debug, Clone)]
enum Change {
    /// This many bytes of the writer's output arrive.
    Write(usize),
    Look(usize),
    Rename,
    CopyTruncate,
    /// The reader restarts at its saved position.
    Restart,
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    let change = prop_oneof![
        6 => (1..80_usize).prop_map(Change::Write),
        6 => (1..200_usize).prop_map(Change::Look),
        1 => Just(Change::Rename),
        1 => Just(Change::CopyTruncate),
        2 => Just(Change::Restart),
    ];
    prop::collection::vec(change, 1..80)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    /// Every line is returned once and in order.
    #[test]
    fn nothing_is_read_twice_or_lost(changes in changes()) {
        // Numbered lines, long enough that the first one identifies the file.
        let mut output = Vec::new();
        for n in 0..4000 {
            output.extend_from_slice(format!("line {n:06} of the log that is followed\n").as_bytes());
        }
        let (mut disk, mut tail) = begun(Order::Rotated, "");
        let (mut written, mut lines): (usize, Vec<String>) = (0, Vec::new());
        for change in &changes {
            match change {
                Change::Write(count) => {
                    let upto = (written + count).min(output.len());
                    let text = String::from_utf8_lossy(&output[written..upto]).into_owned();
                    disk.append(&text);
                    written = upto;
                }
                Change::Look(most) => lines.extend(disk.look(&mut tail, *most)),
                // Whole lines only: a writer does not rename a file within one.
                Change::Rename | Change::CopyTruncate => {
                    let rest = 40 - written % 40;
                    let upto = (written + rest % 40).min(output.len());
                    let text = String::from_utf8_lossy(&output[written..upto]).into_owned();
                    disk.append(&text);
                    written = upto;
                    // A copy cannot be recognised before its first bytes have been read.
                    let sure = tail.position().is_some_and(|p| p.offset >= 64);
                    match change {
                        Change::CopyTruncate if sure => {
                            let content = disk.files.last().unwrap().2.clone();
                            disk.inodes += 1;
                            let (name, inode) = (format!("log.{}", disk.inodes), disk.inodes);
                            let at = disk.files.len() - 1;
                            disk.files.insert(at, (name, inode, content));
                            disk.files.last_mut().unwrap().2.clear();
                        }
                        Change::Rename if sure => {
                            let name = format!("log.{}", disk.inodes);
                            disk.files.last_mut().unwrap().0 = name;
                            disk.file("log", b"");
                        }
                        _ => {}
                    }
                }
                Change::Restart => {
                    let kept = serde_json::to_string(&tail.position()).unwrap();
                    let position: Option<Position> = serde_json::from_str(&kept).unwrap();
                    tail = Tail::new(Order::Rotated, position);
                }
            }
        }
        for _ in 0..400 {
            lines.extend(disk.look(&mut tail, usize::MAX));
        }
        let whole = written / 40;
        let expected: Vec<String> = (0..whole).map(|n| format!("line {n:06} of the log that is followed")).collect();
        prop_assert_eq!(lines, expected);
        prop_assert_eq!((tail.counts().lost, tail.counts().truncated), (0, 0));
    }
}
