//! Programs that an earlier agent has left behind.
//!
//! A process group's number may have gone to others since: only a group with a process that
//! has the run's own progress file in its environment is the run's.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use lacuna_model::{NodeId, RunId};
use lacuna_wire::token::escape;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use super::files::{BEGUN, read_begun};
use crate::descendants::kill_below;

/// Kills the process groups of all runs that were begun on these nodes (on all if `None`) and
/// live still. Returns how many.
pub(super) fn end(work_dir: &Path, nodes: Option<&BTreeSet<NodeId>>) -> usize {
    let begun = begun(work_dir, nodes);
    if begun.is_empty() {
        return 0;
    }
    let groups = groups();
    let mut killed = 0;
    for (dir, run, group) in begun {
        let progress = dir.join(format!("progress-{}.jsonl", run.0));
        let progress = std::path::absolute(&progress).unwrap_or(progress);
        let mark = format!("LACUNA_PROGRESS_FILE={}", progress.display());
        let ours = groups
            .get(&group)
            .is_some_and(|pids| pids.iter().any(|pid| has_in_environment(*pid, &mark)));
        if !ours {
            continue;
        }
        kill_below(Pid::from_raw(group));
        if killpg(Pid::from_raw(group), Signal::SIGKILL).is_ok() {
            tracing::warn!(group, run = run.0, dir = %dir.display(),
                "program of an earlier agent killed");
            killed += 1;
        }
    }
    killed
}

/// Folder, run and process group of the last run begun of each trainer on each node.
fn begun(work_dir: &Path, nodes: Option<&BTreeSet<NodeId>>) -> Vec<(PathBuf, RunId, i32)> {
    let wanted: Option<BTreeSet<String>> =
        nodes.map(|nodes| nodes.iter().map(|node| escape(node.as_str())).collect());
    let mut found = Vec::new();
    for trainer in entries(work_dir) {
        for dir in entries(&trainer) {
            let name = dir.file_name().unwrap_or_default().to_string_lossy();
            if wanted
                .as_ref()
                .is_some_and(|wanted| !wanted.contains(name.as_ref()))
            {
                continue;
            }
            // Groups 0 and 1 are never a program's.
            if let Some((run, group)) = read_begun(&dir.join(BEGUN)).filter(|(_, g)| *g > 1) {
                found.push((dir, run, group));
            }
        }
    }
    found
}

fn entries(dir: &Path) -> Vec<PathBuf> {
    fs::read_dir(dir)
        .map(|all| all.flatten().map(|entry| entry.path()).collect())
        .unwrap_or_default()
}

/// All processes by their group (`/proc/<pid>/stat`, proc(5): the third field after the name).
fn groups() -> BTreeMap<i32, Vec<i32>> {
    let mut groups: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
    for entry in entries(Path::new("/proc")) {
        let name = entry.file_name().unwrap_or_default().to_string_lossy();
        let Ok(pid) = name.parse() else { continue };
        let stat = fs::read_to_string(entry.join("stat")).unwrap_or_default();
        let after_name = stat.rsplit(')').next().unwrap_or_default();
        let group = after_name.split_whitespace().nth(2);
        if let Some(group) = group.and_then(|g| g.parse().ok()) {
            groups.entry(group).or_default().push(pid);
        }
    }
    groups
}

fn has_in_environment(pid: i32, mark: &str) -> bool {
    fs::read(format!("/proc/{pid}/environ"))
        .is_ok_and(|bytes| bytes.split(|b| *b == 0).any(|one| one == mark.as_bytes()))
}
