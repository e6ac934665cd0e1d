//! The descendants of a process, wherever they have gone.
//!
//! A program that calls `setsid` leaves its process group, and one that forks twice leaves its
//! parent. A guard is therefore a child subreaper (prctl(2), `PR_SET_CHILD_SUBREAPER`): an orphaned
//! descendant becomes its child. So all processes of a program are found below its guard while the
//! guard runs. The agent's process is a subreaper too: orphans of a dead guard become its children.

use std::io::Write as _;
use std::time::Duration;
use std::{fmt, fs};

use lacuna_runtime::Stopwatch;
use nix::sys::prctl;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::{Pid, getpid};

/// Most passes over the descendants. Each pass kills the processes that the pass before had not
/// found. Only processes that fork faster than they are killed remain.
const LOOKS: usize = 20;
/// Time between two checks whether killed processes have ended.
const PAUSE: Duration = Duration::from_millis(2);

/// Writes a message to the output of a guard's program. It may be closed, or its disk full.
pub(crate) fn complain(text: fmt::Arguments<'_>) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Makes this process the parent of its orphaned descendants.
pub(crate) fn adopt() {
    if let Err(error) = prctl::set_child_subreaper(true) {
        complain(format_args!(
            "orphaned processes cannot be followed: {error}"
        ));
    }
}

/// Sends SIGKILL to all descendants of a process, not to itself. Returns the killed processes.
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

/// The children of this process, running or not.
pub(crate) fn own_children() -> Vec<Pid> {
    children(getpid())
}

/// Sends SIGKILL to children of this process and to all their descendants. Returns the killed
/// processes. Ended ones are reaped.
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

/// Waits until killed processes have ended, but at most `limit`: a process with much memory, or in
/// a system call, takes its time. Blocks.
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

/// The children of all threads of a process (proc(5), `/proc/pid/task/tid/children`), including
/// zombies.
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

/// Whether a process runs. A process whose first thread has ended looks like a zombie, and runs on
/// in its other threads.
fn lives(process: Pid) -> bool {
    match state(process) {
        None => false,
        Some('Z' | 'X') => {
            fs::read_dir(format!("/proc/{process}/task")).is_ok_and(|threads| threads.count() > 1)
        }
        Some(_) => true,
    }
}

/// Whether a process is stopped, by a signal or by one that traces it.
pub(crate) fn is_stopped(process: Pid) -> bool {
    matches!(state(process), Some('T' | 't'))
}

/// The state of a process (proc(5), `/proc/pid/stat`); nothing if there is none.
fn state(process: Pid) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let rest = stat.rsplit(')').next()?;
    rest.trim().chars().next()
}
