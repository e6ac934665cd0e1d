//! The guard between an agent and a program: whatever happens to the agent, the program's
//! whole process group ends.
//!
//! The agent starts `lacuna-agent <GUARD> <grace ms> <file> <program> <args>...` as the leader
//! of a new process group and holds its standard input open. When that input ends (the agent
//! wants the program to stop, or is gone), the group gets SIGTERM, and SIGKILL after the
//! grace. When the program ends by itself, the guard writes its exit code to the file and
//! kills what the program left behind, also what has left the group (`descendants`).

use std::ffi::OsString;
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{ExitCode, ExitStatus, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::{getpgrp, getpid};
use tokio::signal::unix::{SignalKind, signal};

use crate::descendants::{adopt, kill_below};

/// First argument of the agent's program when it is a guard.
pub const GUARD: &str = "guard-process-group";

/// Exit code of a guard that could not start the program, as in shells.
const NOT_STARTED: i32 = 127;

/// Runs a program under guard; `arguments` are those after [`GUARD`].
pub fn guard(mut arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let (Some(grace), Some(file), Some(program)) =
        (arguments.next(), arguments.next(), arguments.next())
    else {
        eprintln!("lacuna-agent {GUARD}: expected <grace ms> <file> <program> <args>...");
        return ExitCode::from(64);
    };
    let grace = grace
        .to_str()
        .and_then(|ms| ms.parse().ok())
        .unwrap_or(20_000);
    adopt();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let Ok(runtime) = runtime else {
        return ExitCode::from(70);
    };
    let watched = watch(Duration::from_millis(grace), program, arguments.collect());
    let code = runtime.block_on(watched);
    write_code(Path::new(&file), code);
    // What the program left behind must not train on. The second ends the guard as well.
    kill_below(getpid());
    let _ = killpg(getpgrp(), Signal::SIGKILL);
    ExitCode::from(70)
}

async fn watch(grace: Duration, program: OsString, arguments: Vec<OsString>) -> i32 {
    // Signals to the group are for the program; the guard outlives them.
    let kinds = [
        SignalKind::terminate(),
        SignalKind::interrupt(),
        SignalKind::hangup(),
        SignalKind::user_defined1(),
        SignalKind::user_defined2(),
    ];
    let _handled: Vec<_> = kinds
        .into_iter()
        .filter_map(|kind| signal(kind).ok())
        .collect();
    let child = tokio::process::Command::new(&program)
        .args(arguments)
        .stdin(Stdio::null())
        .spawn();
    let mut child = match child {
        Ok(child) => child,
        Err(error) => {
            eprintln!("cannot start {}: {error}", program.display());
            return NOT_STARTED;
        }
    };
    tokio::select! {
        status = child.wait() => return status.map_or(NOT_STARTED, code),
        () = end_of_input() => {}
    }
    let _ = killpg(getpgrp(), Signal::SIGTERM);
    match tokio::time::timeout(grace, child.wait()).await {
        Ok(status) => status.map_or(NOT_STARTED, code),
        Err(_) => 128 + Signal::SIGKILL as i32,
    }
}

/// Waits for it on a thread of its own, which ends with the process.
async fn end_of_input() {
    let (tell, ended) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        let mut input = std::io::stdin().lock();
        let mut buffer = [0; 64];
        while input.read(&mut buffer).is_ok_and(|n| n > 0) {}
        let _ = tell.send(());
    });
    let _ = ended.await;
}

/// The exit code, or 128 + the signal's number.
pub(crate) fn code(status: ExitStatus) -> i32 {
    status
        .code()
        .unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}

/// Written beside and renamed, so that a half-written code is never read.
fn write_code(file: &Path, code: i32) {
    let beside = file.with_extension("new");
    let written = std::fs::File::create(&beside)
        .and_then(|mut f| write!(f, "{code}"))
        .and_then(|()| std::fs::rename(&beside, file));
    if let Err(error) = written {
        eprintln!("cannot write {}: {error}", file.display());
    }
}
