//! The files of one trainer on one node.

use std::fs::{self, File, Permissions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use lacuna_model::{NodeId, RunId, Token};
use lacuna_wire::token::escape;
use tempfile::TempDir;

use crate::untrusted;
use lacuna_account::Account;

/// Most bytes that are read at the end of a file for its last lines.
const TAIL: u64 = 256 << 10;

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
    pub(crate) fn prepare(&self, account: Option<&Account>) -> io::Result<File> {
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
        untrusted::remove(&self.progress)?;
        untrusted::remove(&self.deadline)?;
        // Anything but a regular file is removed and replaced.
        let output = untrusted::append(&self.output).or_else(|_| {
            untrusted::remove(&self.output)?;
            untrusted::append(&self.output)
        })?;
        if let Some(account) = account {
            account.give(&output)?;
            account.give(&untrusted::append(&self.progress)?)?;
            let _ = fs::remove_dir_all(&self.workers);
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

    /// Removes the files of this run only.
    pub(crate) fn clear(&self) {
        for file in [&self.progress, &self.deadline] {
            let _ = untrusted::remove(file);
        }
        for folder in [&self.workers, &self.front] {
            let _ = fs::remove_dir_all(folder);
        }
    }
}

/// Makes a temporary folder that only the account, or without one the agent, may enter. Its path is
/// short, since the name of a Unix socket in it has at most 107 bytes.
pub(super) fn private_folder(account: Option<&Account>) -> io::Result<TempDir> {
    let folder = tempfile::Builder::new()
        .prefix("lacuna-")
        .permissions(Permissions::from_mode(0o700))
        .tempdir()?;
    if let Some(account) = account {
        account.give_path(folder.path())?;
    }
    Ok(folder)
}

/// The output file of a trainer's program on a node.
pub(crate) fn output(work_dir: &Path, trainer: &str, node: &NodeId) -> PathBuf {
    work_dir
        .join(escape(trainer))
        .join(escape(node.as_str()))
        .join("output.log")
}

/// The text of a file, without tokens, after a place, or without a place its last lines, and where it ends. A text
/// that is too long, or after a place that the file does not have, loses its beginning.
pub(crate) fn text_after(path: &Path, lines: usize, after: Option<u64>) -> (String, u64) {
    let nothing = (String::new(), after.unwrap_or_default());
    let Ok(mut file) = untrusted::open(path) else {
        return nothing;
    };
    let length = file.metadata().map_or(0, |m| m.len());
    let after = after.filter(|after| *after <= length);
    let from = after.unwrap_or(0).max(length.saturating_sub(TAIL));
    let mut bytes = Vec::new();
    if file.seek(SeekFrom::Start(from)).is_err() || file.take(TAIL).read_to_end(&mut bytes).is_err()
    {
        return nothing;
    }
    // The rest of a letter is still being written.
    if let Err(error) = std::str::from_utf8(&bytes)
        && error.error_len().is_none()
    {
        bytes.truncate(error.valid_up_to());
    }
    let upto = from + bytes.len() as u64;
    let text = String::from_utf8_lossy(&bytes);
    let is_whole = from == 0 || after == Some(from);
    let text = match text.split_once('\n') {
        Some((_, rest)) if !is_whole => rest,
        _ => &*text,
    };
    let text = match after {
        Some(_) => text,
        None => end_of(text, lines),
    };
    (Token::hide_in(text), upto)
}

/// The last lines of a text, with their line ends.
fn end_of(text: &str, lines: usize) -> &str {
    let from = match text.lines().count().saturating_sub(lines) {
        0 => Some(0),
        more => text.match_indices('\n').nth(more - 1).map(|(at, _)| at + 1),
    };
    from.and_then(|from| text.get(from..)).unwrap_or_default()
}

/// The last lines of a file, oldest first, without tokens.
pub(crate) fn last_lines(path: &Path, lines: usize) -> Vec<String> {
    let Ok(mut file) = untrusted::open(path) else {
        return Vec::new();
    };
    let length = file.metadata().map_or(0, |m| m.len());
    let from = length.saturating_sub(TAIL);
    let mut bytes = Vec::new();
    if file.seek(SeekFrom::Start(from)).is_err() || file.take(TAIL).read_to_end(&mut bytes).is_err()
    {
        return Vec::new();
    }
    let text = String::from_utf8_lossy(&bytes);
    let all: Vec<&str> = text.lines().skip(usize::from(from > 0)).collect();
    let skip = all.len().saturating_sub(lines);
    all.into_iter().skip(skip).map(Token::hide_in).collect()
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

    #[test]
    fn output_is_followed_from_place_to_place() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("output.log");
        assert_eq!(text_after(&path, 2, None), (String::new(), 0));
        assert_eq!(text_after(&path, 2, Some(7)), (String::new(), 7));
        let said = |text: &str| std::fs::write(&path, text).unwrap();
        let follow = |after| text_after(&path, 2, after);
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
}
