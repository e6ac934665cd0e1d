//! Processes that keep a device open after the end of a program.
//!
//! A process counts if it belongs to the program's user, started after the program's guard, and
//! belongs to no other run. An older process (a monitor of the centre, for example) is no remnant.
//! The open files of a process (proc(5), `/proc/pid/fd`) are checked. A device is known by its
//! path.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, getpid};

use super::orphans::{processes, progress_file};
use crate::descendants::kill_below;

/// The devices and processes to check after the end of one program.
#[derive(Debug, Clone)]
pub(super) struct Devices {
    patterns: Vec<String>,
    /// The run's progress file, as in the environment of its processes.
    mark: PathBuf,
    /// When its guard started, in ticks since the machine's start.
    since: u64,
    /// The user of its processes.
    uid: u32,
}

/// A process that keeps a device open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Holder {
    pub(super) pid: Pid,
    pub(super) device: PathBuf,
}

impl Devices {
    /// The devices of a program whose guard runs. `None` if the machine has no such device, or the
    /// guard has ended.
    pub(super) fn of(patterns: &[String], mark: &Path, guard: Pid, uid: u32) -> Option<Self> {
        let here = patterns.iter().filter(|pattern| exists(pattern));
        let patterns: Vec<String> = here.cloned().collect();
        if patterns.is_empty() {
            return None;
        }
        Some(Self {
            patterns,
            mark: mark.to_owned(),
            since: started(guard)?,
            uid,
        })
    }

    /// The processes that keep a device open. Processes of the run, by their environment, are
    /// killed first.
    pub(super) fn holders(&self) -> Vec<Holder> {
        let mut found = Vec::new();
        for pid in processes().filter(|pid| *pid != getpid()) {
            let theirs =
                fs::metadata(format!("/proc/{pid}")).is_ok_and(|meta| meta.uid() == self.uid);
            if !theirs || started(pid).is_none_or(|at| at < self.since) {
                continue;
            }
            let Some(device) = self.open(pid) else {
                continue;
            };
            match progress_file(pid) {
                Some(file) if file == self.mark => {
                    kill_below(pid);
                    let _ = kill(pid, Signal::SIGKILL);
                }
                Some(_) => continue,
                None => {}
            }
            found.push(Holder { pid, device });
        }
        found
    }

    /// A device that a process has open.
    fn open(&self, pid: Pid) -> Option<PathBuf> {
        let files = fs::read_dir(format!("/proc/{pid}/fd")).ok()?;
        let mut files = files
            .flatten()
            .filter_map(|file| fs::read_link(file.path()).ok());
        files.find(|file| self.patterns.iter().any(|pattern| fits(pattern, file)))
    }
}

/// Whether a path matches a pattern.
fn fits(pattern: &str, path: &Path) -> bool {
    match (pattern.strip_suffix('*'), path.to_str()) {
        (Some(start), Some(path)) => path.starts_with(start),
        _ => path == Path::new(pattern),
    }
}

/// Whether any file matches a pattern.
fn exists(pattern: &str) -> bool {
    let path = Path::new(pattern);
    let Some(folder) = path.parent().filter(|_| pattern.ends_with('*')) else {
        return path.exists();
    };
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.path())
        .any(|path| fits(pattern, &path))
}

/// When a process started, in ticks since the machine's start (proc(5), field 22 of `stat`).
fn started(pid: Pid) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is the name, which may contain any character.
    stat.rsplit(')')
        .next()?
        .split_whitespace()
        .nth(19)?
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_a_path_or_a_prefix() {
        assert!(fits("/dev/nvidia*", Path::new("/dev/nvidia0")));
        assert!(fits(
            "/dev/nvidia*",
            Path::new("/dev/nvidia-caps/nvidia-cap1")
        ));
        assert!(fits("/dev/kfd", Path::new("/dev/kfd")));
        assert!(!fits("/dev/kfd", Path::new("/dev/kfd2")));
        assert!(!fits("/dev/nvidia*", Path::new("/tmp/dev/nvidia0")));
        let dir = tempfile::tempdir().unwrap();
        let pattern = format!("{}/gpu*", dir.path().display());
        assert!(!exists(&pattern) && !exists("/no/such/folder/gpu*"));
        fs::write(dir.path().join("gpu0"), "").unwrap();
        assert!(exists(&pattern));
    }
}
