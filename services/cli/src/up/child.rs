//! One child process: it is started, logged, restarted after its death, and ended in time.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use nix::sys::signal::Signal;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};
use tokio::process::Command;
use tokio::sync::Notify;
use tokio::sync::mpsc::UnboundedSender;
use tokio_util::sync::CancellationToken;

use lacuna_runtime::clock::Stopwatch;
use lacuna_runtime::command::ProcessGroup;

use super::find::sibling;
use super::log::Log;
use crate::error::{CliError, Exit, Result};

/// The definition of a child.
#[derive(Debug, Clone)]
pub(crate) struct ChildSpec {
    /// Its name in logs: `ingest`, `nats`.
    pub(crate) name: &'static str,
    /// The full path of the program.
    pub(crate) program: PathBuf,
    /// Its arguments.
    pub(crate) args: Vec<String>,
    /// Additional environment; variables that are set already stay.
    pub(crate) env: &'static [(&'static str, &'static str)],
    /// The log of its output.
    pub(crate) log: Log,
    /// The folder of its data, if it starts again once a full disk has room: nats-server remembers
    /// the first failed write of a stream, and keeps nothing more in it until its end.
    pub(crate) store: Option<PathBuf>,
}

/// An event of a child, for its supervisor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ChildEvent {
    /// The child has started, with this process id.
    Started {
        /// Which child.
        name: &'static str,
        /// Its process id.
        pid: u32,
    },
    /// The child has written a line.
    Line {
        /// Which child.
        name: &'static str,
        /// The line.
        line: String,
    },
    /// The child has died and will be restarted.
    Died {
        /// Which child.
        name: &'static str,
        /// The description of its end.
        how: String,
        /// The pause before its restart.
        pause: Duration,
    },
    /// The child finds no room on its disk.
    Full {
        /// Which child.
        name: &'static str,
        /// The folder of its data.
        store: PathBuf,
    },
    /// The disk has room again, and the child is started again.
    Renewed {
        /// Which child.
        name: &'static str,
    },
}

/// What a program writes when the disk or its quota is full (`ENOSPC`, `EDQUOT`).
const FULL: [&str; 2] = ["no space left on device", "disk quota exceeded"];

/// Whether a line says that the disk is full. nats-server puts into quotes what clients say of themselves;
/// words of a client start nothing again.
fn says_full(line: &str) -> bool {
    let own = line.rsplit('"').next().unwrap_or_default();
    FULL.iter().any(|text| own.contains(text))
}

/// The pause between looks for room.
const LOOK: Duration = Duration::from_secs(1);

/// Restarts. The pause before a restart doubles from `FIRST_PAUSE` to `LONGEST_PAUSE`; a child that
/// has run for `CALM` starts over. After `MOST_DEATHS` in a row without calm it is given up, unless
/// the disk is full: it may recover once there is room.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
const CALM: Duration = Duration::from_secs(30);
const MOST_DEATHS: u32 = 10;
/// Exit code of a service whose configuration is wrong. A restart changes nothing, unless the fault
/// is an address that was free when it was chosen and is `TAKEN` now.
const BAD_CONFIG: i32 = 64;
const TAKEN: &str = "Address already in use";
/// Exit code of a service that is no longer the active instance. A restart makes it a standby.
const LOST_LEAD: i32 = 75;

/// The time limit for the end of a child after SIGTERM.
pub(crate) const GRACE: Duration = Duration::from_secs(12);

/// The end of a process in words, for a log line.
#[must_use]
pub(crate) fn describe(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt as _;
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => Signal::try_from(signal)
            .map_or_else(|_| format!("signal {signal}"), |s| s.as_str().to_owned()),
        (None, None) => "unknown end".to_owned(),
    }
}

/// Starts a child in its own process group. Ctrl-C reaches `lacuna` alone, which then ends the
/// children in order.
fn start(spec: &ChildSpec) -> Result<ProcessGroup> {
    let unset = |name: &str| std::env::var_os(name).is_none();
    let mut command = Command::new(sibling("lacuna")?);
    command
        .envs(spec.env.iter().copied().filter(|(name, _)| unset(name)))
        // Each child gets its identity as an argument.
        .env_remove(lacuna_runtime::identity::VARIABLE)
        .arg("child-of")
        .arg(std::process::id().to_string())
        .arg("--")
        .arg(&spec.program)
        .args(&spec.args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    ProcessGroup::start(command).map_err(|e| {
        CliError::new(
            "L0005",
            Exit::Failed,
            format!("cannot start {}: {e}", spec.name),
        )
    })
}

/// Copies lines to the log file and to the supervisor, until the stream ends.
async fn copy_lines(
    stream: impl AsyncRead + Unpin,
    name: &'static str,
    log: PathBuf,
    events: UnboundedSender<ChildEvent>,
    full: Arc<Notify>,
) {
    let mut lines = BufReader::new(stream).split(b'\n');
    let mut file = OpenOptions::new().create(true).append(true).open(&log).ok();
    while let Ok(Some(bytes)) = lines.next_segment().await {
        if let Some(file) = &mut file {
            // A full disk loses the log, but not the run.
            let _ = file.write_all(&bytes).and_then(|()| file.write_all(b"\n"));
        }
        let line = String::from_utf8_lossy(&bytes).into_owned();
        if says_full(&line) {
            full.notify_one();
        }
        if events.send(ChildEvent::Line { name, line }).is_err() {
            // The supervisor is gone; the log is still written.
        }
    }
}

/// Whether a folder lacks room for a few lines of a log or messages.
pub(crate) fn is_full(folder: &Path) -> bool {
    let probe = folder.join(".room");
    let full = lacks_room(File::create(&probe));
    // A file that is left over is overwritten the next time.
    let _ = std::fs::remove_file(&probe);
    full
}

fn lacks_room(file: std::io::Result<File>) -> bool {
    let written = file.and_then(|mut file| {
        file.write_all(&[b'x'; 1 << 16])?;
        file.sync_all()
    });
    let kind = written.err().map(|error| error.kind());
    matches!(
        kind,
        Some(ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
    )
}

/// Waits until a child has found its disk full, and then until there is room again.
async fn room_again(spec: &ChildSpec, full: &Notify, events: &UnboundedSender<ChildEvent>) {
    let Some(store) = &spec.store else {
        return std::future::pending().await;
    };
    full.notified().await;
    let (name, store) = (spec.name, store.clone());
    let _ = events.send(ChildEvent::Full {
        name,
        store: store.clone(),
    });
    loop {
        tokio::time::sleep(LOOK).await;
        if !is_full(&store) {
            return;
        }
    }
}

/// Keeps one child running until `stop`.
///
/// # Errors
/// `L0014` when it keeps dying, or its address stays taken; `L0003` when it reports a wrong
/// configuration.
pub(crate) async fn keep(
    spec: ChildSpec,
    events: UnboundedSender<ChildEvent>,
    stop: CancellationToken,
) -> Result<()> {
    let mut deaths = 0u32;
    let mut pause = FIRST_PAUSE;
    loop {
        let mut child = start(&spec)?;
        let alive = Stopwatch::start();
        let _ = events.send(ChildEvent::Started {
            name: spec.name,
            pid: child.id().unwrap_or(0),
        });
        let full = Arc::new(Notify::new());
        let log = || (spec.log.path.clone(), events.clone(), full.clone());
        let mut copies = Vec::new();
        if let Some(out) = child.stdout() {
            let (log, events, full) = log();
            copies.push(tokio::spawn(copy_lines(out, spec.name, log, events, full)));
        }
        if let Some(err) = child.stderr() {
            let (log, events, full) = log();
            copies.push(tokio::spawn(copy_lines(err, spec.name, log, events, full)));
        }
        let status = tokio::select! {
            () = stop.cancelled() => {
                child.stop(GRACE).await;
                return Ok(());
            }
            () = room_again(&spec, &full, &events) => {
                let _ = events.send(ChildEvent::Renewed { name: spec.name });
                child.stop(GRACE).await;
                (deaths, pause) = (0, FIRST_PAUSE);
                continue;
            }
            status = child.wait() => status,
        };
        for copy in copies {
            // A grandchild may hold the pipe open, so the wait is bounded.
            let _ = tokio::time::timeout(Duration::from_millis(200), copy).await;
        }
        if stop.is_cancelled() {
            return Ok(());
        }
        let mut how = status.map_or_else(|e| e.to_string(), describe);
        let code = status_code(&how);
        if code == Some(BAD_CONFIG) {
            let said = spec.log.newest_error().unwrap_or_default();
            if !said.contains(TAKEN) {
                return Err(bad_config(&spec, &how, &said));
            }
            how.push_str(", another program has its address");
        }
        // A service that has lost the leadership is sound.
        if alive.seconds() > CALM.as_secs_f64() || code == Some(LOST_LEAD) {
            (deaths, pause) = (0, FIRST_PAUSE);
        }
        deaths += 1;
        if deaths >= MOST_DEATHS && spec.log.path.parent().is_some_and(is_full) {
            how.push_str(", and the disk is full");
        } else if deaths >= MOST_DEATHS {
            let what = format!(
                "{} died {deaths} times in a row, last with {how}",
                spec.name
            );
            return Err(given_up(&spec, &what));
        }
        let _ = events.send(ChildEvent::Died {
            name: spec.name,
            how,
            pause,
        });
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            () = tokio::time::sleep(pause) => {}
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

fn status_code(how: &str) -> Option<i32> {
    how.strip_prefix("exit code ").and_then(|c| c.parse().ok())
}

fn given_up(spec: &ChildSpec, what: &str) -> CliError {
    CliError::new("L0014", Exit::Failed, what).remedy(spec.log.tail(5))
}

/// The error of a wrong configuration; its message is that of the child.
fn bad_config(spec: &ChildSpec, how: &str, said: &str) -> CliError {
    CliError::new(
        "L0003",
        Exit::Config,
        format!("{} does not start ({how}): {said}", spec.name),
    )
    .remedy(format!("its log is {}", spec.log.path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_described_and_read_back() {
        use std::os::unix::process::ExitStatusExt as _;
        assert_eq!(describe(ExitStatus::from_raw(9)), "SIGKILL");
        assert_eq!(describe(ExitStatus::from_raw(64 << 8)), "exit code 64");
        assert_eq!(status_code("exit code 64"), Some(64));
        assert_eq!(status_code("SIGKILL"), None);
    }

    #[test]
    fn words_of_a_client_do_not_say_that_the_disk_is_full() {
        let at = "[7] 2026/11/28 11:32:20.793470 [ERR] ";
        for (line, is_full) in [
            (
                "127.0.0.1:1 - cid:5 - authentication error - Nkey \"no space left on device\"",
                false,
            ),
            (
                "127.0.0.1:1 - cid:5 - \"v1:rust:no space left on device\" - Client parser ERROR, state=0, \
              i=91: proto='\"no space left on device\\r\"...'",
                false,
            ),
            (
                "JetStream failed to store a msg on stream 'A > S': write 7.blk: no space left on device",
                true,
            ),
            (
                "127.0.0.1:1 - cid:5 - \"v1:rust:control\" - write meta.inf: disk quota exceeded",
                true,
            ),
        ] {
            assert_eq!(says_full(&format!("{at}{line}")), is_full, "{line}");
        }
    }

    #[test]
    fn a_full_disk_is_distinguished_from_other_faults() {
        let dir = tempfile::tempdir().unwrap();
        assert!(!is_full(dir.path()));
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        assert!(!is_full(&dir.path().join("none")));
        if Path::new("/dev/full").exists() {
            assert!(lacks_room(OpenOptions::new().write(true).open("/dev/full")));
        }
    }
}
