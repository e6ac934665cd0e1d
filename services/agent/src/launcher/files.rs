//! The files of one trainer on one node.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use lacuna_model::{NodeId, RunId};
use lacuna_wire::token::escape;

use crate::untrusted;

/// At most so much of the end of a file is read for its last lines.
const TAIL: u64 = 256 << 10;

/// Longest text that an agent has written there itself, in bytes.
const OWN: u64 = 64;

/// Where the files of a run lie.
#[derive(Debug, Clone)]
pub(crate) struct Files {
    work_dir: PathBuf,
    /// The folder of the trainer on the node.
    pub(crate) dir: PathBuf,
    /// What the program prints, all runs one after the other.
    pub(crate) output: PathBuf,
    /// Where the program appends its progress.
    pub(crate) progress: PathBuf,
    /// Where the guard writes the deadline of a stop.
    pub(crate) deadline: PathBuf,
    /// Where torchrun keeps what its workers print, while they run.
    pub(crate) workers: PathBuf,
    /// The last run that was begun here; outlives the run.
    begun: PathBuf,
}

impl Files {
    /// Names the files; names are escaped, so that none leads elsewhere.
    pub(crate) fn new(work_dir: &Path, trainer: &str, node: &NodeId, run: RunId) -> Self {
        let dir = work_dir.join(escape(trainer)).join(escape(node.as_str()));
        Self {
            output: output(work_dir, trainer, node),
            progress: dir.join(format!("progress-{}.jsonl", run.0)),
            deadline: dir.join(format!("deadline-{}", run.0)),
            workers: dir.join(format!("workers-{}", run.0)),
            begun: dir.join("begun"),
            dir,
            work_dir: work_dir.to_owned(),
        }
    }

    /// Makes the folder, clears what an earlier agent may have left of this run, and opens the
    /// output.
    pub(crate) fn prepare(&self) -> io::Result<File> {
        untrusted::work_folder(&self.work_dir)?;
        let below = self.dir.strip_prefix(&self.work_dir).unwrap_or(&self.dir);
        let mut folder = self.work_dir.clone();
        for name in below {
            folder.push(name);
            untrusted::folder(&folder)?;
        }
        untrusted::remove(&self.progress)?;
        untrusted::remove(&self.deadline)?;
        // What is no file of output stands in its way.
        untrusted::append(&self.output).or_else(|_| {
            untrusted::remove(&self.output)?;
            untrusted::append(&self.output)
        })
    }

    /// Says that a run is begun.
    pub(crate) fn begin(&self, run: RunId) -> io::Result<()> {
        untrusted::write(&self.begun, &format!("{}\n", run.0))
    }

    /// The last run that was begun here. Older agents wrote its process group after it.
    pub(crate) fn last_begun(&self) -> Option<RunId> {
        let text = untrusted::read(&self.begun, OWN).ok()?;
        text.split_whitespace().next()?.parse().ok().map(RunId)
    }

    /// Removes the files of this run alone.
    pub(crate) fn clear(&self) {
        for file in [&self.progress, &self.deadline] {
            let _ = untrusted::remove(file);
        }
        let _ = fs::remove_dir_all(&self.workers);
    }
}

/// What a trainer's program prints on a node.
pub(crate) fn output(work_dir: &Path, trainer: &str, node: &NodeId) -> PathBuf {
    work_dir
        .join(escape(trainer))
        .join(escape(node.as_str()))
        .join("output.log")
}

/// The last lines of a file, oldest first.
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
    all.into_iter().skip(skip).map(ToOwned::to_owned).collect()
}
