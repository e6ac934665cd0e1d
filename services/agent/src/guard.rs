//! The guard between an agent and a program. Whatever happens to the agent, all processes of the
//! program end.
//!
//! The agent starts `lacuna-agent <GUARD> <grace ms> <workers> <file> <program> <args>...` as the
//! leader of a new process group, with an environment of its own, and holds its standard input open.
//! The first line of the input is a JSON object: the program's environment in addition to the
//! guard's, where it runs (`surroundings`), and the account under which it runs, if that is not the
//! agent's (`become_owner`). The
//! program starts only then, as this number of workers (`workers`).
//!
//! The input ends when the agent stops the program, or has ended itself. Then the guard writes the
//! deadline to the file. The group gets SIGTERM, and SIGKILL after the grace. When the program ends
//! by itself, its remaining processes are killed, including those that have left the group
//! (`descendants`). The guard's exit code is the program's.
//!
//! A program of the agent's user can kill its guard. So the agent does not rely on the guard alone:
//! orphans of a dead guard become children of the agent, which kills them (`safety`).
//!
//! An agent that is suspended (SIGSTOP) ends nothing. Its guards continue it, and end their programs. Such
//! a guard ends by [`SUSPENDED`]: of several programs one may have done it, and nothing says which.
//!
//! The end of a program is reported only when none of its processes is left.

mod become_owner;
mod surroundings;
mod workers;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{ExitCode, ExitStatus};
use std::time::Duration;

use lacuna_model::Span;
use nix::sys::signal::{Signal, kill, raise};
use nix::unistd::{getpid, getppid};
use serde::{Deserialize, Serialize};
use tokio::signal::unix::{SignalKind, signal};

use crate::descendants::{adopt, complain, is_stopped, kill_below, wait_for};
use crate::untrusted;
use lacuna_owner::Account;
use workers::Workers;

pub use become_owner::{OWNER, become_owner};
pub(crate) use surroundings::Surroundings;

/// The first argument of the agent's program when it runs as a guard.
pub const GUARD: &str = "guard-process-group";

/// The variables that tell a worker its place on its node.
const LOCAL_RANK: &str = "LACUNA_LOCAL_RANK";
/// The variable by which the processes of a run are recognised: the file of its progress.
pub(crate) const PROGRESS_FILE: &str = "LACUNA_PROGRESS_FILE";
/// The exit code of a guard that could not start the program, as in shells.
pub(crate) const NOT_STARTED: i32 = 127;
/// Longest first line of the input, in bytes.
const LINE: u64 = 4 << 20;
/// The signal by which a guard ends that has ended its program because the agent was suspended.
pub(crate) const SUSPENDED: Signal = Signal::SIGALRM;
/// Time between two looks at the agent, and how many in a row find it suspended before its program ends.
/// Where a whole job is suspended and goes on, its processes do so within moments of each other.
const LOOK: Duration = Duration::from_secs(1);
const LOOKS: u32 = 3;
/// Most time that a program then has: it may have suspended its agent.
const SUSPENDED_GRACE: Span = Span::from_secs(3);
/// How long killed processes are waited for.
const DYING: Duration = Duration::from_secs(2);

/// What the command line of a guard does not show.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Task {
    /// The program's environment, in addition to the guard's.
    pub(crate) environment: BTreeMap<String, String>,
    /// The account under which the program runs; the guard's own if absent.
    pub(crate) account: Option<Account>,
    /// Where it runs.
    pub(crate) surroundings: Surroundings,
}

/// A program to watch.
struct Watched {
    grace: Span,
    workers: u32,
    deadline: PathBuf,
    program: OsString,
    arguments: Vec<OsString>,
    task: Task,
}

/// Runs a program under guard; `arguments` are those after [`GUARD`].
pub fn guard(mut arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let mut next = || arguments.next();
    let (Some(grace), Some(workers), Some(deadline), Some(program)) =
        (next(), next(), next(), next())
    else {
        eprintln!("lacuna-agent {GUARD}: expected <grace ms> <workers> <file> <program> <args>...");
        return ExitCode::from(64);
    };
    let grace = grace
        .to_str()
        .and_then(|ms| ms.parse().ok())
        .unwrap_or(20_000);
    let workers = workers
        .to_str()
        .and_then(|count| count.parse::<u32>().ok())
        .filter(|count| *count > 0);
    adopt();
    let mut line = String::new();
    let input = BufReader::new(std::io::stdin().lock());
    let read = input.take(LINE).read_line(&mut line);
    let (Ok(_), Ok(task)) = (read, serde_json::from_str(&line)) else {
        // The agent has ended, or has withdrawn the start.
        return ExitCode::from(70);
    };
    let watched = Watched {
        grace: Span::from_ms(grace),
        workers: workers.unwrap_or(1),
        deadline: deadline.into(),
        program,
        arguments: arguments.collect(),
        task,
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let Ok(runtime) = runtime else {
        return ExitCode::from(70);
    };
    let end = runtime.block_on(watch(watched));
    // Remaining processes of the program must not train on.
    wait_for(kill_below(getpid()), DYING);
    // The program's last act may have been to stop it.
    let agent = getppid();
    if is_stopped(agent) {
        let _ = kill(agent, Signal::SIGCONT);
    }
    let code = match end {
        End::Code(code) => code,
        End::Suspended => {
            let _ = raise(SUSPENDED);
            128 + SUSPENDED as i32
        }
    };
    ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX))
}

/// How a program has ended.
enum End {
    /// With this exit code.
    Code(i32),
    /// By its guard, since the agent was suspended.
    Suspended,
}

async fn watch(watched: Watched) -> End {
    // Signals to the group are meant for the program. The guard ignores them.
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
    let workers = Workers::start(
        (&watched.program, &watched.arguments),
        &watched.task,
        watched.workers,
        watched.grace.to_std(),
    );
    let mut workers = match workers {
        Ok(workers) => workers,
        Err(error) => {
            complain(format_args!(
                "cannot start {}: {error}",
                watched.program.display()
            ));
            return End::Code(NOT_STARTED);
        }
    };
    let (grace, is_suspended) = tokio::select! {
        code = workers.end() => return End::Code(code),
        () = end_of_input() => (watched.grace, false),
        () = agent_is_suspended() => {
            complain(format_args!("the agent is suspended: its program ends"));
            (watched.grace.min(SUSPENDED_GRACE), true)
        }
    };
    let end = lacuna_runtime::clock::wall() + grace;
    let text = format!("{:.3}\n", end.unix_seconds());
    let account = watched.task.account.as_ref();
    if let Err(error) = untrusted::write(&watched.deadline, &text, account) {
        complain(format_args!("deadline not written: {error}"));
    }
    workers.stop();
    let ended = tokio::time::timeout(grace.to_std(), workers.end()).await;
    match is_suspended {
        true => End::Suspended,
        false => End::Code(ended.unwrap_or(128 + Signal::SIGKILL as i32)),
    }
}

/// Waits until the agent is suspended for some time, and continues it.
async fn agent_is_suspended() {
    let agent = getppid();
    let mut found = 0;
    while found < LOOKS {
        tokio::time::sleep(LOOK).await;
        found = if is_stopped(agent) { found + 1 } else { 0 };
    }
    let _ = kill(agent, Signal::SIGCONT);
}

/// Waits for the end of the input on a separate thread, which ends with the process.
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
