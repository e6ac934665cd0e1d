//! Programs, each in a process group of its own, so that its children end with it.
//!
//! [`run`] runs a program to its end. A [`ProcessGroup`] is a program that keeps running. Both kill
//! the whole group when they are dropped, so dropping the future of a run cancels it. A process
//! that has left the group (`setsid`) is not killed.

use std::io::{self, ErrorKind};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use lacuna_model::Span;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStderr, ChildStdout, Command};

use crate::virtual_time;

/// Bytes of standard error that are kept: the last ones, where programs name the cause.
const STDERR: usize = 4096;

/// How long a killed process is waited for. A process in a system call may take its time.
const REAP: Duration = Duration::from_secs(1);

/// The limits of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Longest duration.
    pub time: Span,
    /// Most bytes on standard output.
    pub stdout: usize,
}

/// A program that has ended, successfully or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// The program.
    pub program: String,
    /// Its exit status.
    pub status: ExitStatus,
    /// All of its standard output.
    pub stdout: String,
    /// The end of its standard error, after `[...]` if there was more.
    pub stderr: String,
}

/// Why a program did not end, or did not succeed.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// There is no such program.
    #[error("{program} cannot be found: is it installed here, and on PATH?")]
    Absent {
        /// The program.
        program: String,
        /// The error of the system.
        source: io::Error,
    },
    /// The program must not be run, or has no permission for its task.
    #[error("{program} is not permitted: {said}")]
    Denied {
        /// The program.
        program: String,
        /// The text of the program or of the system.
        said: String,
    },
    /// The program did not end in time.
    #[error("{program} did not answer within {limit} and was killed")]
    Late {
        /// The program.
        program: String,
        /// The time limit.
        limit: Span,
    },
    /// The standard output is too long. The program was killed.
    #[error("{program} wrote more than {}", size(*most))]
    TooLong {
        /// The program.
        program: String,
        /// The limit in bytes.
        most: usize,
    },
    /// The program failed.
    #[error("{program} ended with {status}: {said}")]
    Failed {
        /// The program.
        program: String,
        /// Its exit status.
        status: ExitStatus,
        /// The end of its standard error.
        said: String,
    },
    /// The program cannot be run, or its output cannot be read.
    #[error("{program}: {source}")]
    Io {
        /// The program.
        program: String,
        /// The reason.
        source: io::Error,
    },
}

fn size(bytes: usize) -> String {
    match bytes >> 20 {
        0 => format!("{bytes} bytes"),
        mib => format!("{mib} MiB"),
    }
}

impl CommandError {
    fn of(program: &str, source: io::Error) -> Self {
        let program = program.to_owned();
        match source.kind() {
            ErrorKind::NotFound => Self::Absent { program, source },
            ErrorKind::PermissionDenied => Self::Denied {
                program,
                said: source.to_string(),
            },
            _ => Self::Io { program, source },
        }
    }

    /// The reason without the name of the program.
    #[must_use]
    pub fn reason(&self) -> String {
        match self {
            Self::Absent { source, .. } | Self::Io { source, .. } => source.to_string(),
            Self::Late { limit, .. } => format!("no answer within {limit}"),
            Self::TooLong { most, .. } => format!("an answer of more than {}", size(*most)),
            Self::Failed { said, status, .. } if said.is_empty() => status.to_string(),
            Self::Denied { said, .. } | Self::Failed { said, .. } => said.clone(),
        }
    }
}

impl Ended {
    /// Checks that the program succeeded.
    ///
    /// # Errors
    /// [`CommandError::Failed`] with the end of its standard error, or [`CommandError::Denied`] if
    /// that is about permissions.
    pub fn good(self) -> Result<Self, CommandError> {
        if self.status.success() {
            return Ok(self);
        }
        let (program, said) = (self.program, self.stderr.trim().to_owned());
        let lower = said.to_ascii_lowercase();
        let denials = ["permission denied", "access denied", "not authorized"];
        Err(if denials.iter().any(|words| lower.contains(words)) {
            CommandError::Denied { program, said }
        } else {
            CommandError::Failed {
                program,
                status: self.status,
                said,
            }
        })
    }
}

/// Runs a program to its end, with `input` as its standard input. A failed or dropped run kills the
/// program with all its children. In virtual time a program takes none, and all else waits for it.
///
/// # Errors
/// [`CommandError`], except [`CommandError::Failed`]: the exit status is in the answer.
pub async fn run(
    mut command: Command,
    input: Option<&str>,
    bounds: Bounds,
) -> Result<Ended, CommandError> {
    let program = command
        .as_std()
        .get_program()
        .to_string_lossy()
        .into_owned();
    if virtual_time::is_on() {
        return run_at_once(&program, command, input, bounds);
    }
    let stdin = input.map_or_else(Stdio::null, |_| Stdio::piped());
    command
        .stdin(stdin)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut group = ProcessGroup::start(command).map_err(|e| CommandError::of(&program, e))?;
    let (stdin, out, err) = (group.child.stdin.take(), group.stdout(), group.stderr());
    let talk = async {
        let write = async {
            if let (Some(mut stdin), Some(text)) = (stdin, input) {
                // A program that does not read its input reports the error itself.
                let _ = stdin.write_all(text.as_bytes()).await;
            }
            Ok(())
        };
        let end = async { Ok(end_of(err).await) };
        let ((), stdout, stderr) =
            tokio::try_join!(write, whole(&program, out, bounds.stdout), end)?;
        // The process is reaped only now. Until then its id cannot be reused.
        let status = group.wait().await;
        Ok(Ended {
            status: status.map_err(|e| CommandError::of(&program, e))?,
            program: program.clone(),
            stdout,
            stderr,
        })
    };
    let talked = tokio::time::timeout(bounds.time.to_std(), talk).await;
    let error = match talked {
        Ok(Ok(ended)) => return Ok(ended),
        Ok(Err(error)) => error,
        Err(_) => CommandError::Late {
            program,
            limit: bounds.time,
        },
    };
    group.kill().await;
    Err(error)
}

/// Runs a program in real time, on a thread of its own, until it ends.
fn run_at_once(
    program: &str,
    command: Command,
    input: Option<&str>,
    bounds: Bounds,
) -> Result<Ended, CommandError> {
    let real = || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|e| CommandError::of(program, e))?;
        runtime.block_on(run(command, input, bounds))
    };
    let ended = std::thread::scope(|scope| scope.spawn(real).join());
    ended.unwrap_or_else(|_| Err(CommandError::of(program, io::Error::other("it panicked"))))
}

/// The whole output of a pipe, if it has at most `most` bytes.
async fn whole(
    program: &str,
    from: Option<impl AsyncRead + Unpin>,
    most: usize,
) -> Result<String, CommandError> {
    let mut bytes = Vec::new();
    if let Some(from) = from {
        let more = u64::try_from(most).unwrap_or(u64::MAX).saturating_add(1);
        let read = from.take(more).read_to_end(&mut bytes).await;
        read.map_err(|e| CommandError::of(program, e))?;
    }
    if bytes.len() > most {
        return Err(CommandError::TooLong {
            program: program.to_owned(),
            most,
        });
    }
    Ok(text(bytes))
}

/// The end of the output of a pipe.
async fn end_of(from: Option<impl AsyncRead + Unpin>) -> String {
    let (mut kept, mut is_cut) = (Vec::new(), false);
    let mut chunk = [0; STDERR];
    if let Some(mut from) = from {
        // An unreadable pipe counts as ended.
        while let Ok(count @ 1..) = from.read(&mut chunk).await {
            kept.extend_from_slice(chunk.get(..count).unwrap_or_default());
            let beyond = kept.len().saturating_sub(STDERR);
            is_cut |= beyond > 0;
            kept.drain(..beyond);
        }
    }
    match is_cut {
        true => format!("[...] {}", text(kept)),
        false => text(kept),
    }
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

/// A running program with all its children. Dropped before it has ended, it is killed.
///
/// Children of a program that ends by itself are left alone: once it is reaped, the id of its group
/// may be reused.
#[derive(Debug)]
pub struct ProcessGroup {
    child: Child,
}

impl ProcessGroup {
    /// Starts a program as the leader of a group.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start(mut command: Command) -> io::Result<Self> {
        let child = command.process_group(0).spawn()?;
        Ok(Self { child })
    }

    /// The process id of the leader; nothing once it is reaped.
    #[must_use]
    pub fn id(&self) -> Option<u32> {
        self.child.id()
    }

    /// Its standard output, once, if it is a pipe.
    pub fn stdout(&mut self) -> Option<ChildStdout> {
        self.child.stdout.take()
    }

    /// Its standard error, once, if it is a pipe.
    pub fn stderr(&mut self) -> Option<ChildStderr> {
        self.child.stderr.take()
    }

    /// Waits until the leader has ended.
    ///
    /// # Errors
    /// If it cannot be waited for.
    pub async fn wait(&mut self) -> io::Result<ExitStatus> {
        self.child.wait().await
    }

    /// Sends SIGTERM to the group, and kills it if its leader still runs after `grace`.
    pub async fn stop(&mut self, grace: Duration) {
        self.signal(Signal::SIGTERM);
        if tokio::time::timeout(grace, self.wait()).await.is_err() {
            self.kill().await;
        }
    }

    /// Kills the group, and waits for the leader, so that no zombie remains.
    async fn kill(&mut self) {
        self.signal(Signal::SIGKILL);
        let _ = tokio::time::timeout(REAP, self.wait()).await;
    }

    fn signal(&self, signal: Signal) {
        if let Some(id) = self.id().and_then(|id| i32::try_from(id).ok()) {
            // The group may have ended just now.
            let _ = killpg(Pid::from_raw(id), signal);
        }
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        self.signal(Signal::SIGKILL);
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// Longer than any test. A wait of this length has failed.
    const LONG: Duration = Duration::from_secs(120);

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    fn within(time: Span) -> Bounds {
        let stdout = 1 << 20;
        Bounds { time, stdout }
    }

    fn long() -> Bounds {
        within(Span::from_secs(120))
    }

    /// The text that a process writes into a file, once it is a complete line.
    async fn written(file: &Path) -> String {
        for _ in 0..6000 {
            let text = std::fs::read_to_string(file).unwrap_or_default();
            if text.ends_with('\n') {
                return text.trim().to_owned();
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("nothing is written into {}", file.display());
    }

    /// Waits until a process has ended. A zombie counts as ended, since its parent may have ended
    /// before.
    async fn ends(pid: &str) {
        let path = format!("/proc/{pid}/stat");
        let lives = || std::fs::read_to_string(&path).is_ok_and(|stat| !stat.contains(") Z"));
        for _ in 0..1000 {
            if !lives() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("process {pid} lives on");
    }

    #[tokio::test]
    async fn the_whole_output_is_read_however_a_program_ends() {
        let command = shell("cat; echo no >&2; exit 3");
        let ended = run(command, Some("hello"), long()).await.unwrap();
        assert_eq!(ended.stdout, "hello");
        assert_eq!(ended.stderr, "no\n");
        assert_eq!(ended.status.code(), Some(3));
        let error = ended.good().unwrap_err();
        assert_eq!(error.to_string(), "sh ended with exit status: 3: no");
        assert_eq!(error.reason(), "no");
        let denied = shell("echo 'Access denied by plugin' >&2; exit 1");
        let error = run(denied, None, long()).await.unwrap().good().unwrap_err();
        assert!(matches!(error, CommandError::Denied { .. }), "{error}");
        let good = run(shell("exit 0"), None, long()).await.unwrap().good();
        assert_eq!(good.unwrap().stdout, "");
    }

    #[tokio::test]
    async fn the_output_of_a_program_that_does_not_read_its_input_is_read() {
        // More than a pipe can hold.
        let input = "x".repeat(1 << 20);
        let ended = run(shell("echo done"), Some(&input), long()).await.unwrap();
        assert_eq!(ended.stdout, "done\n");
    }

    #[tokio::test]
    async fn a_late_program_is_killed_with_its_children() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("child");
        let script = format!("sleep 300 & echo $! > '{}'; sleep 300", file.display());
        let limit = Span::from_secs(3);
        let error = run(shell(&script), None, within(limit)).await.unwrap_err();
        assert!(matches!(error, CommandError::Late { .. }), "{error}");
        assert_eq!(
            error.to_string(),
            format!("sh did not answer within {limit} and was killed")
        );
        ends(&written(&file).await).await;
    }

    #[tokio::test]
    async fn a_program_that_writes_too_much_is_killed_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("own");
        let script = format!(
            "echo $$ > '{}'; head -c 100000 /dev/zero; exec sleep 300",
            file.display()
        );
        let bounds = Bounds {
            stdout: 1000,
            ..long()
        };
        let error = run(shell(&script), None, bounds).await.unwrap_err();
        assert_eq!(error.to_string(), "sh wrote more than 1000 bytes");
        ends(&written(&file).await).await;
        let all = run(shell("printf %01000d 0"), None, bounds).await.unwrap();
        assert_eq!(all.stdout.len(), 1000);
    }

    #[tokio::test]
    async fn the_end_of_a_long_error_is_kept_and_the_cut_is_marked() {
        let script =
            "i=0; while [ $i -lt 2000 ]; do echo \"line $i\" >&2; i=$((i+1)); done; exit 1";
        let ended = run(shell(script), None, long()).await.unwrap();
        assert!(ended.stderr.starts_with("[...] "), "{}", ended.stderr);
        assert!(ended.stderr.len() <= STDERR + 6, "{}", ended.stderr.len());
        let said = ended.good().unwrap_err().to_string();
        assert!(said.ends_with("line 1998\nline 1999"), "{said}");
    }

    #[tokio::test]
    async fn a_dropped_run_kills_the_children_of_the_program() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("child");
        let script = format!("sleep 300 & echo $! > '{}'; wait", file.display());
        let mut running = Box::pin(run(shell(&script), None, long()));
        let child = tokio::select! {
            ended = &mut running => panic!("{ended:?}"),
            child = written(&file) => child,
        };
        drop(running);
        ends(&child).await;
    }

    #[tokio::test]
    async fn a_missing_or_forbidden_program_is_named() {
        let absent = Command::new("no-such-sbatch");
        let error = run(absent, None, long()).await.unwrap_err();
        assert!(matches!(error, CommandError::Absent { .. }), "{error}");
        assert!(error.to_string().starts_with("no-such-sbatch "), "{error}");
        let file = tempfile::NamedTempFile::new().unwrap();
        let error = run(Command::new(file.path()), None, long()).await;
        let error = error.unwrap_err();
        assert!(matches!(error, CommandError::Denied { .. }), "{error}");
    }

    #[tokio::test]
    async fn a_group_is_terminated_before_it_is_killed() {
        let dir = tempfile::tempdir().unwrap();
        let (ready, bye) = (dir.path().join("ready"), dir.path().join("bye"));
        let script = format!(
            "trap \"echo bye > '{}'; exit\" TERM; echo ready > '{}'; while :; do sleep 0.05; done",
            bye.display(),
            ready.display()
        );
        let mut group = ProcessGroup::start(shell(&script)).unwrap();
        written(&ready).await;
        group.stop(LONG).await;
        assert_eq!(group.id(), None);
        assert_eq!(written(&bye).await, "bye");
    }

    #[tokio::test]
    async fn a_group_that_ignores_sigterm_or_is_dropped_is_killed() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("child");
        let path = file.display();
        let script = format!("trap '' TERM; sleep 300 & echo $! > '{path}'; sleep 300");
        let mut group = ProcessGroup::start(shell(&script)).unwrap();
        let child = written(&file).await;
        group.stop(Duration::from_millis(100)).await;
        ends(&child).await;
        std::fs::remove_file(&file).unwrap();
        let group = ProcessGroup::start(shell(&script)).unwrap();
        let child = written(&file).await;
        drop(group);
        ends(&child).await;
    }
}
