//! The workers of a program on one node: one process, or several with local ranks. They end
//! together, so that the node is given back as one.
//!
//! | The first worker that ends | The others |
//! |---|---|
//! | with exit code 0 | have the grace to end |
//! | with [`LEFT`], on request | have the grace to end, and get SIGUSR1: the request for all |
//! | in any other way | are killed at once |
//!
//! The output of one worker is the guard's own. Of several workers each line begins with the local
//! rank in brackets, and the last line names the worker that failed.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::{self, BufRead as _, BufReader, PipeReader, Read as _, Write as _};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::{Pid, getpgrp, getpid};
use tokio::process::Command;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use super::{LOCAL_RANK, NOT_STARTED, Task, become_owner, code};
use crate::descendants::{complain, kill_below};

const LOCAL_WORLD_SIZE: &str = "LACUNA_LOCAL_WORLD_SIZE";
/// The exit code of a worker that has left on request (EX_TEMPFAIL of sysexits.h).
pub(crate) const LEFT: i32 = 75;
/// Longest part of a line that is printed at once, in bytes.
const LINE: u64 = 64 << 10;
/// Longest wait for the last lines of ended workers. A process that has left its worker may hold
/// the pipe open.
const PRINTED: Duration = Duration::from_millis(200);

/// The running workers.
pub(crate) struct Workers {
    grace: Duration,
    count: u32,
    ends: JoinSet<(u32, i32)>,
    running: BTreeMap<u32, Pid>,
    printers: Vec<Printer>,
    /// When the remaining workers are killed, after the end of the first.
    limit: Option<Instant>,
    /// The first worker that has failed or left, and its exit code.
    first: Option<(u32, i32)>,
    /// Whether they were asked to end.
    stopping: bool,
}

impl Workers {
    /// Starts `count` workers. `grace` is the time that the others have when one has ended.
    ///
    /// # Errors
    /// If one cannot be started. Those that were started run on.
    pub(crate) fn start(
        (program, arguments): (&OsStr, &[OsString]),
        task: &Task,
        count: u32,
        grace: Duration,
    ) -> io::Result<Self> {
        let mut made = Self {
            grace,
            count,
            ends: JoinSet::new(),
            running: BTreeMap::new(),
            printers: Vec::new(),
            limit: None,
            first: None,
            stopping: false,
        };
        let mut surroundings = None;
        if task.account.is_none() {
            let around = &task.surroundings;
            let folder = around.folder(&around.own, true).map_err(io::Error::other)?;
            surroundings = Some((folder, around.variables().map_err(io::Error::other)?));
        }
        for rank in 0..count {
            let mut command = command(program, task, surroundings.as_ref())?;
            command.args(arguments);
            if count > 1 {
                let (from, into) = io::pipe()?;
                command
                    .env(LOCAL_RANK, rank.to_string())
                    .env(LOCAL_WORLD_SIZE, count.to_string())
                    .stdout(into.try_clone()?)
                    .stderr(into);
                made.printers.push(Printer::start(rank, from));
            }
            let mut child = command.spawn()?;
            if let Some(pid) = child.id().and_then(|pid| i32::try_from(pid).ok()) {
                made.running.insert(rank, Pid::from_raw(pid));
            }
            made.ends
                .spawn(async move { (rank, child.wait().await.map_or(NOT_STARTED, code)) });
        }
        Ok(made)
    }

    /// Asks all processes of the group to end.
    pub(crate) fn stop(&mut self) {
        self.stopping = true;
        let _ = killpg(getpgrp(), Signal::SIGTERM);
    }

    /// Waits until all have ended. Returns the exit code of the first that has failed or left, or
    /// 0. A call that is dropped may be repeated.
    pub(crate) async fn end(&mut self) -> i32 {
        loop {
            let next = self.ends.join_next();
            let next = match self.limit {
                Some(limit) => timeout_at(limit, next).await,
                None => Ok(next.await),
            };
            match next {
                Ok(None) => break,
                Ok(Some(Ok((rank, code)))) => self.ended(rank, code),
                // The task of a worker neither panics nor is aborted.
                Ok(Some(Err(_))) => {}
                Err(_) => {
                    self.limit = None;
                    complain(format_args!(
                        "workers that did not end with the others are killed"
                    ));
                    kill_below(getpid());
                }
            }
        }
        self.printed().await;
        self.first.map_or(0, |(_, code)| code)
    }

    fn ended(&mut self, rank: u32, code: i32) {
        self.running.remove(&rank);
        if self.stopping {
            self.first = self.first.or(Some((rank, code)));
            return;
        }
        let now = Instant::now();
        self.limit = self.limit.or(Some(now + self.grace));
        if code == 0 || self.first.is_some() {
            return;
        }
        self.first = Some((rank, code));
        if code == LEFT {
            for pid in self.running.values() {
                let _ = kill(*pid, Signal::SIGUSR1);
            }
        } else if !self.running.is_empty() {
            kill_below(getpid());
        }
    }

    /// Waits for the last lines of all workers, and adds a line on the one that failed.
    async fn printed(&mut self) {
        let end = Instant::now() + PRINTED;
        for printer in &mut self.printers {
            if let Some(printed) = printer.printed.take() {
                let _ = timeout_at(end, printed).await;
            }
        }
        let Some((rank, code)) = self.first.filter(|(_, code)| *code != LEFT) else {
            return;
        };
        let Some(printer) = self.printers.get(rank as usize) else {
            return;
        };
        if !self.stopping {
            let last = printer.last();
            let of = self.count;
            complain(format_args!(
                "worker {rank} of {of} ended with exit code {code}: {last}"
            ));
        }
    }
}

/// The command of a worker, without its arguments.
fn command(
    program: &OsStr,
    task: &Task,
    surroundings: Option<&(PathBuf, Vec<(String, String)>)>,
) -> io::Result<Command> {
    let Some((folder, variables)) = surroundings else {
        return become_owner::command(program, task).map(Command::from);
    };
    let mut command = Command::new(program);
    command
        .envs(variables.iter().map(|(name, value)| (name, value)))
        .envs(&task.environment)
        .current_dir(folder)
        .stdin(Stdio::null());
    Ok(command)
}

/// The thread that prints what one worker prints. The output may hang, the guard may not.
struct Printer {
    last: Arc<Mutex<String>>,
    /// Ends with the thread.
    printed: Option<oneshot::Receiver<()>>,
}

impl Printer {
    fn start(rank: u32, from: PipeReader) -> Self {
        let last = Arc::new(Mutex::new(String::new()));
        let (done, printed) = oneshot::channel::<()>();
        let newest = Arc::clone(&last);
        std::thread::spawn(move || {
            let _done = done;
            let mut from = BufReader::new(from);
            let mut line = Vec::new();
            while let Ok(1..) = (&mut from).take(LINE).read_until(b'\n', &mut line) {
                let text = String::from_utf8_lossy(&line);
                let text = text.trim_end();
                // A full disk stops no worker.
                let _ = writeln!(io::stdout(), "[{rank}] {text}");
                if !text.is_empty() {
                    text.clone_into(&mut newest.lock().unwrap_or_else(PoisonError::into_inner));
                }
                line.clear();
            }
        });
        Self {
            last,
            printed: Some(printed),
        }
    }

    /// The last line that was not empty.
    fn last(&self) -> String {
        let last = self.last.lock();
        last.unwrap_or_else(PoisonError::into_inner).clone()
    }
}
