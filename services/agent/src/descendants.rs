//! Processes below a process, wherever they have gone.
//!
//! A program that calls `setsid` leaves its process group, and one that forks twice leaves its
//! parent. A guard is therefore a child subreaper (prctl(2), `PR_SET_CHILD_SUBREAPER`): what loses
//! its parent below it becomes its own child, so that all that a program has started is found
//! below its guard for as long as the guard lives.

use std::fs;
use std::time::Duration;

use nix::sys::prctl;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Looks this often. Each look kills what the one before had not seen yet; only what forks faster
/// than it is killed is left.
const LOOKS: usize = 20;
/// Between two looks whether what was killed has ended.
const PAUSE: Duration = Duration::from_millis(2);

/// Makes this process the parent of what loses its parent below it.
pub(crate) fn adopt() {
    if let Err(error) = prctl::set_child_subreaper(true) {
        eprintln!("what leaves its parent cannot be followed: {error}");
    }
}

/// SIGKILL to all that a process has started and what that has started, not to itself. Returns
/// what was killed.
pub(crate) fn kill_below(process: Pid) -> Vec<Pid> {
    let mut killed = Vec::new();
    for _ in 0..LOOKS {
        let found = below(process);
        for pid in &found {
            let _ = kill(*pid, Signal::SIGKILL);
        }
        if found.is_empty() {
            break;
        }
        killed.extend(found);
    }
    killed
}

/// Waits until what was killed has ended, but no longer than this: a process with much memory, or
/// one in a system call, takes its time.
pub(crate) async fn gone(mut killed: Vec<Pid>, limit: Duration) {
    let _ = tokio::time::timeout(limit, async {
        loop {
            killed.retain(|pid| lives(pid.as_raw()));
            if killed.is_empty() {
                return;
            }
            tokio::time::sleep(PAUSE).await;
        }
    })
    .await;
}

fn below(process: Pid) -> Vec<Pid> {
    let (mut found, mut parents) = (Vec::new(), vec![process]);
    while let Some(parent) = parents.pop() {
        let children = children(parent);
        parents.extend(&children);
        found.extend(children);
    }
    found
}

/// The living children of a process, of all its threads (proc(5), `/proc/pid/task/tid/children`).
fn children(parent: Pid) -> Vec<Pid> {
    let Ok(threads) = fs::read_dir(format!("/proc/{parent}/task")) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for thread in threads.flatten() {
        let text = fs::read_to_string(thread.path().join("children")).unwrap_or_default();
        let pids = text.split_whitespace().filter_map(|pid| pid.parse().ok());
        found.extend(pids.filter(|pid| lives(*pid)).map(Pid::from_raw));
    }
    found
}

/// Whether a process is more than an entry that nobody has waited for.
fn lives(process: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let state = stat
        .rsplit(')')
        .next()
        .and_then(|rest| rest.trim().chars().next());
    state.is_some_and(|state| state != 'Z' && state != 'X')
}
