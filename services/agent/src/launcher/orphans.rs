//! Programs that an earlier agent has left behind.
//!
//! A process belongs to a run if the run's progress file is in its environment. Ids of processes
//! and groups prove nothing, since they may have been reused.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use lacuna_model::NodeId;
use lacuna_wire::token::escape;
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, getpid};

use crate::descendants::kill_below;
use crate::guard::PROGRESS_FILE;

/// Kills all running programs that were begun on these nodes (on all if `None`) with this work
/// folder, with all their descendants. Returns the number of their runs.
pub(super) fn end(work_dir: &Path, nodes: Option<&BTreeSet<NodeId>>) -> usize {
    let work_dir = std::path::absolute(work_dir).unwrap_or_else(|_| work_dir.to_owned());
    let wanted: Option<BTreeSet<String>> =
        nodes.map(|nodes| nodes.iter().map(|node| escape(node.as_str())).collect());
    let mut runs = BTreeSet::new();
    for pid in processes().filter(|pid| *pid != getpid()) {
        let Some(file) = progress_file(pid) else {
            continue;
        };
        if !is_below(&file, &work_dir, wanted.as_ref()) {
            continue;
        }
        kill_below(pid);
        let _ = kill(pid, Signal::SIGKILL);
        if runs.insert(file.clone()) {
            tracing::warn!(progress = %file.display(), "program of an earlier agent killed");
        }
    }
    runs.len()
}

/// Whether a progress file belongs to a trainer on one of these nodes.
fn is_below(file: &Path, work_dir: &Path, wanted: Option<&BTreeSet<String>>) -> bool {
    let Ok(below) = file.strip_prefix(work_dir) else {
        return false;
    };
    let node = below.iter().nth(1).unwrap_or_default();
    let node = node.to_string_lossy();
    below.iter().count() == 3 && wanted.is_none_or(|wanted| wanted.contains(node.as_ref()))
}

/// All processes.
pub(super) fn processes() -> impl Iterator<Item = Pid> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| {
        let number = entry.file_name().to_str()?.parse().ok()?;
        Some(Pid::from_raw(number))
    })
}

/// The progress file in the environment of a process, as far as this user may read it.
pub(super) fn progress_file(pid: Pid) -> Option<PathBuf> {
    let bytes = fs::read(format!("/proc/{pid}/environ")).ok()?;
    let named = |one: &[u8]| {
        let value = one
            .strip_prefix(PROGRESS_FILE.as_bytes())?
            .strip_prefix(b"=")?;
        Some(PathBuf::from(OsStr::from_bytes(value)))
    };
    bytes.split(|b| *b == 0).find_map(named)
}
