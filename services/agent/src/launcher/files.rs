//! The files of one trainer on one node.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use lacuna_model::{NodeId, RunId};
use lacuna_wire::token::escape;

/// At most so much of the end of a file is read for its last lines.
const TAIL: u64 = 256 << 10;

/// The file that says which run was begun last.
pub(crate) const BEGUN: &str = "begun";

/// Where the files of a run lie.
#[derive(Debug, Clone)]
pub(crate) struct Files {
    /// The folder of the trainer on the node.
    pub(crate) dir: PathBuf,
    /// What the program prints, all runs one after the other.
    pub(crate) output: PathBuf,
    /// Where the program appends its progress.
    pub(crate) progress: PathBuf,
    /// Where the deadline of a stop is written.
    pub(crate) deadline: PathBuf,
    /// Where torchrun keeps what its workers print, while they run.
    pub(crate) workers: PathBuf,
    /// Where the guard writes the exit code.
    pub(crate) code: PathBuf,
    /// The last run that was begun here and its process group; outlives the run.
    pub(crate) begun: PathBuf,
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
            code: dir.join(format!("exit-{}", run.0)),
            begun: dir.join(BEGUN),
            dir,
        }
    }

    /// Makes the folder, for its owner alone (the next batch job's user may look around on this
    /// node), clears what an earlier agent may have left of this run, and opens
    /// the output.
    pub(crate) fn prepare(&self) -> io::Result<File> {
        let mut folder = fs::DirBuilder::new();
        folder.recursive(true).mode(0o700).create(&self.dir)?;
        for stale in [&self.progress, &self.deadline, &self.code] {
            match fs::remove_file(stale) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        OpenOptions::new()
            .create(true)
            .append(true)
            .open(&self.output)
    }

    /// Says that a run is begun, in a process group if it is known yet (0 if not).
    pub(crate) fn begin(&self, run: RunId, group: u32) -> io::Result<()> {
        let beside = self.begun.with_extension("new");
        fs::write(&beside, format!("{} {group}\n", run.0))?;
        fs::rename(beside, &self.begun)
    }

    /// The last run that was begun here, and its process group.
    pub(crate) fn last_begun(&self) -> Option<(RunId, i32)> {
        read_begun(&self.begun)
    }

    /// Removes the files of this run alone.
    pub(crate) fn clear(&self) {
        for file in [&self.progress, &self.deadline, &self.code] {
            let _ = fs::remove_file(file);
        }
        let _ = fs::remove_dir_all(&self.workers);
    }

    /// The exit code that the guard wrote, if it came to that.
    pub(crate) fn exit_code(&self) -> Option<i32> {
        fs::read_to_string(&self.code).ok()?.trim().parse().ok()
    }
}

/// The run and the process group that a file of the name [`BEGUN`] tells of.
pub(crate) fn read_begun(path: &Path) -> Option<(RunId, i32)> {
    let text = fs::read_to_string(path).ok()?;
    let (run, group) = text.trim().split_once(' ')?;
    Some((RunId(run.parse().ok()?), group.parse().ok()?))
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
    let Ok(mut file) = File::open(path) else {
        return Vec::new();
    };
    let length = file.metadata().map_or(0, |m| m.len());
    let from = length.saturating_sub(TAIL);
    let mut bytes = Vec::new();
    if file.seek(SeekFrom::Start(from)).is_err() || file.read_to_end(&mut bytes).is_err() {
        return Vec::new();
    }
    let text = String::from_utf8_lossy(&bytes);
    let all: Vec<&str> = text.lines().skip(usize::from(from > 0)).collect();
    let skip = all.len().saturating_sub(lines);
    all.into_iter().skip(skip).map(ToOwned::to_owned).collect()
}
