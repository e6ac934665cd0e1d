//! The files of one trainer on one node.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use lacuna_model::{NodeId, OutputLines, RunId, Timestamp, Token};
use lacuna_wire::token::escape;

use super::past::Past;
use crate::removal::Remover;
use crate::untrusted;
use lacuna_owner::Account;

/// Most bytes of an answer, and those that are read first at the end of a file for its last lines.
const TAIL: u64 = 256 << 10;
/// Most bytes that are read for the last lines: hours of a progress bar are one line.
const MOST: u64 = 64 << 20;
/// Bytes that are read at once.
const PART: usize = 64 << 10;

/// Longest text that an agent writes there itself, in bytes.
const OWN: u64 = 64;

/// The paths of a run's files.
#[derive(Debug, Clone)]
pub(crate) struct Files {
    work_dir: PathBuf,
    /// The folder of the trainer on the node.
    pub(crate) dir: PathBuf,
    /// The output of the program, of all runs in order.
    pub(crate) output: PathBuf,
    /// The file to which the program appends its progress.
    pub(crate) progress: PathBuf,
    /// The file into which the guard writes the deadline of a stop.
    pub(crate) deadline: PathBuf,
    /// The folder of the workers' output under torchrun, while they run.
    pub(crate) workers: PathBuf,
    /// The folder of what stands in front of torchrun, while it runs.
    pub(crate) front: PathBuf,
    /// The file with the last incarnation that was begun here. It outlives the run.
    begun: PathBuf,
}

impl Files {
    /// The paths. Names are escaped, so no path leads elsewhere.
    pub(crate) fn new(work_dir: &Path, trainer: &str, node: &NodeId, run: RunId) -> Self {
        let dir = work_dir.join(escape(trainer)).join(escape(node.as_str()));
        Self {
            output: output(work_dir, trainer, node),
            progress: dir.join(format!("progress-{}.jsonl", run.0)),
            deadline: dir.join(format!("deadline-{}", run.0)),
            workers: dir.join(format!("workers-{}", run.0)),
            front: dir.join(format!("front-{}", run.0)),
            begun: dir.join("begun"),
            dir,
            work_dir: work_dir.to_owned(),
        }
    }

    /// Makes the folder, removes files of this run from an earlier agent, and opens the output. An
    /// account, if one is named, may enter the folder, and gets the files that its program writes.
    pub(crate) fn prepare(&self, account: Option<&Account>, remover: &Remover) -> io::Result<File> {
        untrusted::work_folder(&self.work_dir)?;
        let below = self.dir.strip_prefix(&self.work_dir).unwrap_or(&self.dir);
        let mut folder = self.work_dir.clone();
        for name in below {
            folder.push(name);
            untrusted::folder(&folder)?;
        }
        if account.is_some() {
            let within = folder.ancestors().take(below.iter().count() + 1);
            within.into_iter().try_for_each(untrusted::open_to_entry)?;
        }
        self.clear(account, remover)?;
        // Anything but a regular file is removed and replaced.
        let output = untrusted::append(&self.output).or_else(|_| {
            untrusted::remove(&self.output)?;
            untrusted::append(&self.output)
        })?;
        if let Some(account) = account {
            account.give(&output)?;
            account.give(&untrusted::append(&self.progress)?)?;
            untrusted::folder(&self.workers)?;
            account.give_path(&self.workers)?;
        }
        Ok(output)
    }

    /// Records that a run has begun.
    pub(crate) fn begin(&self, run: RunId) -> io::Result<()> {
        untrusted::write(&self.begun, &format!("{}\n", run.0), None)
    }

    /// The last run that was begun here. Older agents wrote its process group behind the number.
    pub(crate) fn last_begun(&self) -> Option<RunId> {
        let text = untrusted::read(&self.begun, OWN).ok()?;
        text.split_whitespace().next()?.parse().ok().map(RunId)
    }

    /// Removes the files of this run only. The account's program may have written among those of its
    /// workers.
    ///
    /// # Errors
    /// If one is in the way for good.
    pub(crate) fn clear(&self, account: Option<&Account>, remover: &Remover) -> io::Result<()> {
        remover.set_aside(&self.workers, account)?;
        remover.set_aside(&self.front, None)?;
        untrusted::remove(&self.progress)?;
        untrusted::remove(&self.deadline)
    }
}

/// The output file of a trainer's program on a node.
pub(crate) fn output(work_dir: &Path, trainer: &str, node: &NodeId) -> PathBuf {
    work_dir
        .join(escape(trainer))
        .join(escape(node.as_str()))
        .join("output.log")
}

/// What is asked for of an output.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Wanted {
    /// Number of lines.
    pub(crate) lines: usize,
    /// The place in the output after which the text is wanted, instead of the last lines.
    pub(crate) after: Option<u64>,
    /// Only what was written since then, by the node's clock.
    pub(crate) since: Option<Timestamp>,
    /// The bytes as the program has written them.
    pub(crate) is_raw: bool,
}

/// The text of an output, without tokens, and where it ends: all after a place, or else the last
/// lines, also where the output does not have that place. A text that is too long loses its
/// beginning. Between starts of the program stands a rule.
pub(crate) fn text_of(path: &Path, node: &NodeId, wanted: Wanted) -> (String, u64) {
    let nothing = (String::new(), wanted.after.unwrap_or_default());
    let Ok(mut file) = untrusted::open(path) else {
        return nothing;
    };
    let Ok(found) = file.metadata() else {
        return nothing;
    };
    let length = found.len();
    if wanted.after == Some(length) {
        // A follower asks each second, and the notes of a long run are megabytes.
        return nothing;
    }
    let past = Past::of(path);
    let rules = match wanted.is_raw {
        true => Vec::new(),
        false => past.rules(node.as_str()),
    };
    let read = match wanted.after.filter(|after| *after <= length) {
        Some(after) => text_after(&mut file, after, length, &rules),
        None => {
            let floor = wanted.since.map_or(0, |since| past.length_at(since));
            let is_old = |since: Timestamp| since.unix_ms() > (found.mtime() + 1) * 1000;
            if wanted.since.is_some_and(is_old) {
                return (String::new(), length);
            }
            let span = (floor.min(length), length);
            let lines = match wanted.is_raw {
                true => raw_lines(&mut file, span, wanted.lines),
                false => drawn_lines(&mut file, span, wanted.lines, &rules),
            };
            lines.map(|text| (text, length))
        }
    };
    let (text, upto) = read.unwrap_or(nothing);
    (Token::hide_in(&text), upto)
}

/// The text after a place, with the rules that begin in it.
fn text_after(
    file: &mut File,
    after: u64,
    length: u64,
    rules: &[(u64, String)],
) -> io::Result<(String, u64)> {
    let from = after.max(length.saturating_sub(TAIL));
    let mut bytes = part(file, from)?;
    // The rest of a letter is still being written.
    if let Err(error) = std::str::from_utf8(&bytes)
        && error.error_len().is_none()
    {
        bytes.truncate(error.valid_up_to());
    }
    let upto = from + bytes.len() as u64;
    let (mut text, mut at) = (String::new(), from);
    let within = rules
        .iter()
        .filter(|(place, _)| (from..upto).contains(place));
    for (place, rule) in within {
        text.push_str(&String::from_utf8_lossy(cut(
            &bytes,
            at - from,
            place - from,
        )));
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(rule);
        text.push('\n');
        at = *place;
    }
    text.push_str(&String::from_utf8_lossy(cut(
        &bytes,
        at - from,
        upto - from,
    )));
    let text = match text.split_once('\n') {
        Some((_, rest)) if from > after => rest.to_owned(),
        _ => text,
    };
    Ok((text, upto))
}

fn cut(bytes: &[u8], from: u64, to: u64) -> &[u8] {
    bytes.get(from as usize..to as usize).unwrap_or_default()
}

fn part(file: &mut File, from: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(from))?;
    file.take(TAIL).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The last lines of a part of a file as the program has written them.
fn raw_lines(file: &mut File, (floor, length): (u64, u64), lines: usize) -> io::Result<String> {
    let from = floor.max(length.saturating_sub(TAIL));
    let bytes = part(file, from)?;
    let text = String::from_utf8_lossy(&bytes);
    let text = match text.split_once('\n') {
        Some((_, rest)) if from > floor => rest,
        _ => &*text,
    };
    Ok(end_of(text, lines).to_owned())
}

/// The last lines of a text, with their line ends.
fn end_of(text: &str, lines: usize) -> &str {
    let from = match text.lines().count().saturating_sub(lines) {
        0 => Some(0),
        more => text.match_indices('\n').nth(more - 1).map(|(at, _)| at + 1),
    };
    from.and_then(|from| text.get(from..)).unwrap_or_default()
}

/// The last lines of a part of a file as a terminal would show them. Rules do not count as lines.
fn drawn_lines(
    file: &mut File,
    (floor, length): (u64, u64),
    lines: usize,
    rules: &[(u64, String)],
) -> io::Result<String> {
    let mut window = TAIL;
    loop {
        let from = floor.max(length.saturating_sub(window));
        let mut drawn = Drawn::new(lines, from > floor);
        let rules = rules
            .iter()
            .filter(|(place, _)| (from..length).contains(place));
        let mut rules = rules.peekable();
        let mut at = from;
        file.seek(SeekFrom::Start(from))?;
        let mut buffer = vec![0; PART];
        while at < length {
            while let Some((_, rule)) = rules.next_if(|(place, _)| *place <= at) {
                drawn.rule(rule);
            }
            let end = rules.peek().map_or(length, |(place, _)| *place);
            let most = usize::try_from(end - at).unwrap_or(PART).min(PART);
            let read = file.read(buffer.get_mut(..most).unwrap_or_default())?;
            if read == 0 {
                break;
            }
            drawn.feed(buffer.get(..read).unwrap_or_default());
            at += read as u64;
        }
        if from == floor || drawn.is_enough() || window >= MOST {
            return Ok(drawn.text());
        }
        window = (window * 16).min(MOST);
    }
}

/// The last lines of what is fed.
struct Drawn {
    most: usize,
    open: OutputLines,
    kept: VecDeque<(String, bool)>,
    /// Lines among them that are no rules, and bytes of all.
    lines: usize,
    bytes: usize,
    /// Whether the first line has lost its beginning.
    is_partial: bool,
    has_dropped: bool,
}

impl Drawn {
    fn new(most: usize, is_partial: bool) -> Self {
        Self {
            most,
            open: OutputLines::default(),
            kept: VecDeque::new(),
            lines: 0,
            bytes: 0,
            is_partial,
            has_dropped: false,
        }
    }

    fn feed(&mut self, bytes: &[u8]) {
        let mut open = std::mem::take(&mut self.open);
        open.feed(bytes, |text| self.keep(text, false));
        self.open = open;
    }

    fn rule(&mut self, rule: &str) {
        for text in self.open.end() {
            self.keep(text, false);
        }
        self.keep(rule.to_owned(), true);
    }

    fn keep(&mut self, text: String, is_rule: bool) {
        if std::mem::take(&mut self.is_partial) && !is_rule {
            return;
        }
        self.bytes += text.len() + 1;
        self.lines += usize::from(!is_rule);
        self.kept.push_back((text, is_rule));
        self.shrink();
    }

    /// Drops what is too much. A rule stays before the line that it stood before.
    fn shrink(&mut self) {
        while self.lines > self.most || self.bytes > TAIL as usize {
            let Some((text, is_rule)) = self.kept.pop_front() else {
                return;
            };
            self.bytes -= text.len() + 1;
            self.lines -= usize::from(!is_rule);
            self.has_dropped = true;
        }
    }

    /// Whether nothing before could be among the last lines.
    fn is_enough(&self) -> bool {
        self.has_dropped || self.lines + self.open.states().len() >= self.most
    }

    fn text(mut self) -> String {
        let mut open = self.open.states();
        open.drain(..open.len().saturating_sub(self.most));
        self.most -= open.len();
        self.shrink();
        let lines = self.kept.into_iter().map(|(text, _)| text + "\n");
        lines.chain([open.join("\n")]).collect()
    }
}

/// The last lines of a file as a terminal would show them, oldest first, without tokens.
pub(crate) fn last_lines(path: &Path, lines: usize) -> Vec<String> {
    let Ok(mut file) = untrusted::open(path) else {
        return Vec::new();
    };
    let length = file.metadata().map_or(0, |m| m.len());
    let text = drawn_lines(&mut file, (0, length), lines, &[]);
    let text = text.unwrap_or_default();
    text.lines().map(Token::hide_in).collect()
}

/// The line of an output that says why a program ended: the last with a letter or a digit. torchrun ends
/// with a ruled report that names no cause. Before it stands the last exception, or else the exit code.
pub(super) fn telling(lines: &[String]) -> String {
    let says = |line: &str| line.contains(char::is_alphanumeric);
    let mut last = lines.iter().rev().map(|line| line.trim_end());
    let is_ruled = last
        .find(|line| !line.is_empty())
        .is_some_and(|line| line.len() > 20 && line.bytes().all(|byte| byte == b'='));
    let mut lines = lines.iter().rev().map(|line| line.trim_end());
    let exit = |line: &&str| line.trim_start().starts_with("exitcode");
    let cause = if is_ruled {
        let found = lines.clone().find(|line| is_exception(line));
        found.or_else(|| lines.clone().find(exit))
    } else {
        None
    };
    let last = cause.or_else(|| lines.find(|line| says(line)));
    last.unwrap_or_default().trim().to_owned()
}

/// Whether a line names an exception as Python does, but none of torchrun's own.
fn is_exception(line: &str) -> bool {
    // Lines of workers may begin with "[default0]:".
    let line = match line
        .strip_prefix('[')
        .and_then(|rest| rest.split_once("]:"))
    {
        Some((_, rest)) => rest,
        None => line,
    };
    let name = line.split(':').next().unwrap_or_default();
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
    let ends = ["Error", "Exception", "Interrupt"];
    name.chars().all(is_name)
        && ends.iter().any(|end| name.ends_with(end))
        && !name.starts_with("torch.distributed.elastic.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_that_tells_why_a_program_ended_is_found() {
        let telling = |text: &str| telling(&text.lines().map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(telling(""), "");
        assert_eq!(
            telling("loss 3\nKeyError: 'x'\ngoing on\n---\n\n"),
            "going on"
        );
        let report = format!(
            "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n{0}\n/t.py FAILED\n{0}\n  \
             rank      : 0 (local_rank: 0)\n  exitcode  : 3 (pid: 7)\n{0}\n",
            "=".repeat(60)
        );
        let after = |text: &str| telling(&format!("{text}{report}"));
        assert_eq!(
            after("  raise\nValueError: batch_size=0\n"),
            "ValueError: batch_size=0"
        );
        assert_eq!(
            after("[default1]:a.b.OddError\n"),
            "[default1]:a.b.OddError"
        );
        assert_eq!(after("no error: none\n"), "exitcode  : 3 (pid: 7)");
    }

    /// The last two lines of a file, or its text after a place.
    fn follow(path: &Path, after: Option<u64>) -> (String, u64) {
        let wanted = Wanted {
            lines: 2,
            after,
            ..Wanted::default()
        };
        text_of(path, &NodeId::new("n1").unwrap(), wanted)
    }

    #[test]
    fn output_is_followed_from_place_to_place() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("output.log");
        let follow = |after| follow(&path, after);
        assert_eq!(follow(None), (String::new(), 0));
        assert_eq!(follow(Some(7)), (String::new(), 7));
        let said = |text: &str| std::fs::write(&path, text).unwrap();
        said("a\nb\nc\n");
        assert_eq!(follow(None), ("b\nc\n".to_owned(), 6));
        assert_eq!(follow(Some(6)), (String::new(), 6));
        said("a\nb\nc\nd");
        assert_eq!(follow(None), ("c\nd".to_owned(), 7));
        assert_eq!(follow(Some(6)), ("d".to_owned(), 7));
        assert_eq!(follow(Some(0)).0, "a\nb\nc\nd");
        // A letter of two bytes is not divided.
        std::fs::write(&path, b"a\n\xc3").unwrap();
        assert_eq!(follow(Some(2)), (String::new(), 2));
        std::fs::write(&path, b"a\n\xc3\xa4\n").unwrap();
        assert_eq!(follow(Some(2)), ("\u{e4}\n".to_owned(), 5));
        // The file is another one: its end is shown.
        said("new\n");
        assert_eq!(follow(Some(5)), ("new\n".to_owned(), 4));
        // Others read what leaves the node.
        let token = Token::new(7);
        said(&format!("failed: '{}'\n", token.reveal()));
        assert_eq!(follow(None).0, "failed: '***'\n");
        assert_eq!(last_lines(&path, 1), ["failed: '***'"]);
        // More than fits into an answer.
        let line = "0123456789\n";
        said(&line.repeat(30_000));
        let (text, upto) = follow(Some(11));
        assert_eq!(upto, 330_000);
        assert!(text.starts_with(line) && text.len() as u64 <= TAIL);
        assert_eq!(follow(None).0, line.repeat(2));
    }

    #[test]
    fn a_long_line_and_hours_of_a_progress_bar_hide_no_line_before_them() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("output.log");
        let lines = |text: &[u8], lines: usize| {
            std::fs::write(&path, text).unwrap();
            last_lines(&path, lines)
        };
        let bar = "\rstep 17 of 40 |#####     | loss=0.3".repeat(60_000);
        let text = format!("a\nbegin\n{bar}");
        assert_eq!(
            lines(text.as_bytes(), 2),
            ["begin", "step 17 of 40 |#####     | loss=0.3"]
        );
        let text = format!("a\nbegin\n{}\nend\n", "x".repeat(300_000));
        let found = lines(text.as_bytes(), 3);
        assert_eq!((found[0].as_str(), found[2].as_str()), ("begin", "end"));
        assert!(found[1].ends_with("(cut: the line has 300000 bytes)"));
        assert_eq!(lines(text.as_bytes(), 100)[..2], ["a", "begin"]);
        assert_eq!(
            lines(b"a\xff\r\n\x1b[31mred\x1b[0m\n", 9),
            ["a\u{fffd}", "red"]
        );
        assert_eq!(lines(b"", 9), [""; 0]);
        let inner = "\n\rstep 17 of 40 |#####     |\x1b[A".repeat(60_000);
        let text = format!("a\nbegin\n\repoch 1{inner}\repoch 2");
        let nested = ["epoch 2", "step 17 of 40 |#####     |"];
        assert_eq!(lines(text.as_bytes(), 2), nested);
        assert_eq!(lines(text.as_bytes(), 3)[1..], nested);
        assert_eq!(lines(text.as_bytes(), 1), nested[1..]);
        let many = "0123456789\n".repeat(100_000);
        assert_eq!(lines(many.as_bytes(), 3), ["0123456789"; 3]);
        let wanted = Wanted {
            lines: 3,
            is_raw: true,
            ..Wanted::default()
        };
        let node = NodeId::new("n1").unwrap();
        std::fs::write(&path, "begin\n\r1\r2").unwrap();
        assert_eq!(text_of(&path, &node, wanted).0, "begin\n\r1\r2");
    }

    #[test]
    fn starts_of_a_program_are_told_apart_and_output_has_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("output.log");
        let node = NodeId::new("n1").unwrap();
        std::fs::write(&path, "one\nhalf two\nthree\n").unwrap();
        let notes = "1000000 0 start 3\n1010000 4 \n1011000 8 end exit code 1\n1021000 8 start 4\n\
                     nonsense\n1030000 13 \n";
        std::fs::write(path.with_extension("notes"), notes).unwrap();
        let of = |lines, after, since: Option<i64>| {
            let wanted = Wanted {
                lines,
                after,
                since: since.map(Timestamp::from_unix),
                is_raw: false,
            };
            text_of(&path, &node, wanted)
        };
        let rule = "--- run 3 ended 1970-01-01T00:16:51Z: exit code 1; run 4 on n1 from \
                    1970-01-01T00:17:01Z ---\n";
        let all = format!("one\nhalf\n{rule} two\nthree\n");
        assert_eq!(of(9, None, None), (all.clone(), 19));
        assert_eq!(of(9, Some(0), None), (all, 19));
        assert_eq!(of(1, None, None).0, "three\n");
        assert_eq!(of(9, Some(13), None).0, "three\n");
        assert_eq!(of(9, None, Some(1015)).0, format!("{rule} two\nthree\n"));
        assert_eq!(of(9, None, Some(1030)).0, "three\n");
        assert_eq!(
            of(9, None, Some(i64::from(u32::MAX))).0,
            "",
            "it was written before"
        );
    }
}
