//! One child process: started, logged, started again when it dies, ended in time.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use nix::sys::signal::Signal;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};
use tokio::process::Command;
use tokio::sync::mpsc::UnboundedSender;
use tokio_util::sync::CancellationToken;

use lacuna_runtime::clock::Stopwatch;
use lacuna_runtime::command::ProcessGroup;

use super::find::sibling;
use super::log::Log;
use crate::error::{CliError, Exit, Result};

/// What to run.
#[derive(Debug, Clone)]
pub(crate) struct ChildSpec {
    /// Its name in logs: `ingest`, `nats`.
    pub(crate) name: &'static str,
    /// The program, by its full path.
    pub(crate) program: PathBuf,
    /// Its arguments.
    pub(crate) args: Vec<String>,
    /// Environment for it; what is set already stands.
    pub(crate) env: &'static [(&'static str, &'static str)],
    /// Where its output goes.
    pub(crate) log: Log,
}

/// What a child does, for whoever watches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ChildEvent {
    /// It runs, as this process.
    Started {
        /// Which child.
        name: &'static str,
        /// Its process id.
        pid: u32,
    },
    /// It wrote a line.
    Line {
        /// Which child.
        name: &'static str,
        /// The line.
        line: String,
    },
    /// It ended unasked and will be started again.
    Died {
        /// Which child.
        name: &'static str,
        /// How it ended.
        how: String,
        /// After how long it is started again.
        pause: Duration,
    },
}

/// When a child that died is started again: after a pause that doubles from `FIRST_PAUSE` to
/// `LONGEST_PAUSE`; one that has run for `CALM` starts over. After `MOST_DEATHS` in a row
/// without calm it is given up, but for a disk that is full: it may be well once there is room.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
const CALM: Duration = Duration::from_secs(30);
const MOST_DEATHS: u32 = 10;
/// Exit code of a service whose configuration is wrong: starting it again changes nothing, but
/// where its address was free when it was chosen and is `TAKEN` now.
const BAD_CONFIG: i32 = 64;
const TAKEN: &str = "Address already in use";
/// Exit code of a service that is not the active instance any more: started again, it stands by.
const LOST_LEAD: i32 = 75;

/// How long a child may take to end by itself after SIGTERM.
pub(crate) const GRACE: Duration = Duration::from_secs(12);

/// How an end reads in a log line.
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

/// Starts a child in its own group: Ctrl-C reaches `lacuna` alone, which then ends the children in
/// order.
fn start(spec: &ChildSpec) -> Result<ProcessGroup> {
    let unset = |name: &str| std::env::var_os(name).is_none();
    let mut command = Command::new(sibling("lacuna")?);
    command
        .envs(spec.env.iter().copied().filter(|(name, _)| unset(name)))
        // Each child has its own, by argument.
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

/// Copies lines into the log file and to the watcher, until the stream ends.
async fn copy_lines(
    stream: impl AsyncRead + Unpin,
    name: &'static str,
    log: PathBuf,
    events: UnboundedSender<ChildEvent>,
) {
    let mut lines = BufReader::new(stream).split(b'\n');
    let mut file = OpenOptions::new().create(true).append(true).open(&log).ok();
    while let Ok(Some(bytes)) = lines.next_segment().await {
        if let Some(file) = &mut file {
            // A full disk costs the log, not the run.
            let _ = file.write_all(&bytes).and_then(|()| file.write_all(b"\n"));
        }
        let line = String::from_utf8_lossy(&bytes).into_owned();
        if events.send(ChildEvent::Line { name, line }).is_err() {
            // Nobody watches; the log is still wanted.
        }
    }
}

/// Whether a folder has no room for so much as a few lines of a log.
fn is_full(folder: &Path) -> bool {
    let probe = folder.join(".room");
    let full = lacks_room(File::create(&probe));
    // One that is left over is written over the next time.
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

/// Keeps one child running until `stop`.
///
/// # Errors
/// `L0014` when it keeps dying, or its address stays taken; `L0003` when it says that its
/// configuration is wrong.
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
        let mut copies = Vec::new();
        if let Some(out) = child.stdout() {
            copies.push(tokio::spawn(copy_lines(
                out,
                spec.name,
                spec.log.path.clone(),
                events.clone(),
            )));
        }
        if let Some(err) = child.stderr() {
            copies.push(tokio::spawn(copy_lines(
                err,
                spec.name,
                spec.log.path.clone(),
                events.clone(),
            )));
        }
        let status = tokio::select! {
            () = stop.cancelled() => {
                child.stop(GRACE).await;
                return Ok(());
            }
            status = child.wait() => status,
        };
        for copy in copies {
            // A grandchild may hold the pipe open: do not wait for it for ever.
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
        // One that has lost the lead is sound.
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

/// The configuration is wrong: what the child itself says is the message.
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
    fn a_full_disk_is_told_from_other_faults() {
        let dir = tempfile::tempdir().unwrap();
        assert!(!is_full(dir.path()));
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        assert!(!is_full(&dir.path().join("none")));
        if Path::new("/dev/full").exists() {
            assert!(lacks_room(OpenOptions::new().write(true).open("/dev/full")));
        }
    }
}
