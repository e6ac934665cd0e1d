//! Processes below a process, wherever they have gone.
//!
//! A program that calls `setsid` leaves its process group, and one that forks twice leaves its
//! parent. A guard is therefore a child subreaper (prctl(2), `PR_SET_CHILD_SUBREAPER`): what loses
//! its parent below it becomes its own child, so that all that a program has started is found
//! below its guard for as long as the guard lives. The agent's process is one too: what loses its
//! guard becomes a child of the agent.

use std::io::Write as _;
use std::time::Duration;
use std::{fmt, fs};

use lacuna_runtime::Stopwatch;
use nix::sys::prctl;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::{Pid, getpid};

/// Looks this often. Each look kills what the one before had not seen yet; only what forks faster
/// than it is killed is left.
const LOOKS: usize = 20;
/// Between two looks whether what was killed has ended.
const PAUSE: Duration = Duration::from_millis(2);

/// Says it where a guard's program has its output. That may be closed, or its disk full.
pub(crate) fn complain(text: fmt::Arguments<'_>) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Makes this process the parent of what loses its parent below it.
pub(crate) fn adopt() {
    if let Err(error) = prctl::set_child_subreaper(true) {
        complain(format_args!(
            "what leaves its parent cannot be followed: {error}"
        ));
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

/// The children of this process, living or not.
pub(crate) fn own_children() -> Vec<Pid> {
    children(getpid())
}

/// SIGKILL to children of this process and to all below them. Returns what was killed. Those that
/// have ended are buried.
pub(crate) fn kill_children(which: impl IntoIterator<Item = Pid>) -> Vec<Pid> {
    let mut killed = Vec::new();
    for child in which {
        if lives(child) {
            killed.extend(kill_below(child));
            let _ = kill(child, Signal::SIGKILL);
            killed.push(child);
        } else {
            let _ = waitpid(child, Some(WaitPidFlag::WNOHANG));
        }
    }
    killed
}

/// Waits until what was killed has ended, but no longer than this: a process with much memory, or
/// one in a system call, takes its time. Blocks.
pub(crate) fn wait_for(mut killed: Vec<Pid>, limit: Duration) {
    let watch = Stopwatch::start();
    loop {
        killed.retain(|pid| lives(*pid));
        if killed.is_empty() || watch.seconds() > limit.as_secs_f64() {
            return;
        }
        std::thread::sleep(PAUSE);
    }
}

fn below(process: Pid) -> Vec<Pid> {
    let (mut found, mut parents) = (Vec::new(), vec![process]);
    while let Some(parent) = parents.pop() {
        let mut children = children(parent);
        children.retain(|child| lives(*child));
        parents.extend(&children);
        found.extend(children);
    }
    found
}

/// The children of a process, of all its threads (proc(5), `/proc/pid/task/tid/children`), also
/// those that have ended and that nobody has waited for.
fn children(parent: Pid) -> Vec<Pid> {
    let Ok(threads) = fs::read_dir(format!("/proc/{parent}/task")) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for thread in threads.flatten() {
        let text = fs::read_to_string(thread.path().join("children")).unwrap_or_default();
        let pids = text.split_whitespace().filter_map(|pid| pid.parse().ok());
        found.extend(pids.map(Pid::from_raw));
    }
    found
}

/// Whether a process is more than an entry that nobody has waited for. One whose first thread has
/// ended looks like such an entry, and lives on in its others.
fn lives(process: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let state = stat
        .rsplit(')')
        .next()
        .and_then(|rest| rest.trim().chars().next());
    match state {
        None => false,
        Some('Z' | 'X') => {
            fs::read_dir(format!("/proc/{process}/task")).is_ok_and(|threads| threads.count() > 1)
        }
        Some(_) => true,
    }
}
