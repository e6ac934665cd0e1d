//! Commands of the scheduler: few at a time, each for a limited time, killed with all that it
//! has started.

use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use lacuna_model::Span;
use lacuna_pilots::scheduler::{CommandLine, RunError, Said};
use lacuna_runtime::Stopwatch;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;
use tokio::sync::Semaphore;

/// Commands at a time.
const AT_ONCE: usize = 4;
/// Bytes of an answer, at most.
const MOST: u64 = 64 << 20;

/// Runs commands. Clones share the places.
#[derive(Debug, Clone)]
pub(super) struct Runner {
    places: Arc<Semaphore>,
    environment: Arc<Vec<(String, String)>>,
    limit: Span,
}

/// What came of a command.
#[derive(Debug)]
pub(super) struct Ran {
    pub(super) said: Result<Said, RunError>,
    /// When it was started, by the caller's watch.
    pub(super) started: Span,
    /// How long it took, seconds.
    pub(super) seconds: f64,
}

impl Runner {
    pub(super) fn new(environment: Vec<(String, String)>, limit: Span) -> Self {
        Self {
            places: Arc::new(Semaphore::new(AT_ONCE)),
            environment: Arc::new(environment),
            limit,
        }
    }

    /// Runs one as soon as there is a place for it.
    pub(super) async fn run(&self, line: CommandLine, watch: Stopwatch) -> Ran {
        let place = self.places.acquire().await;
        let (started, took) = (watch.span(), Stopwatch::start());
        let said = self.talk(line).await;
        drop(place);
        Ran {
            said,
            started,
            seconds: took.seconds(),
        }
    }

    async fn talk(&self, line: CommandLine) -> Result<Said, RunError> {
        let program = line.program.clone();
        let not_run = |reason: String| RunError::NotRun {
            program: program.clone(),
            reason,
        };
        let mut child = Command::new(&line.program)
            .args(&line.args)
            .env_clear()
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            // A moment of submission is compared, so its form must never change.
            .env("SLURM_TIME_FORMAT", "%s")
            .stdin(if line.stdin.is_some() {
                Stdio::piped()
            } else {
                Stdio::null()
            })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .map_err(|e| not_run(e.to_string()))?;
        let mut group = Group(child.id().and_then(|id| i32::try_from(id).ok()));
        let (input, out, err) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let text = line.stdin.unwrap_or_default();
        let talk = async {
            let write = async move {
                if let Some(mut input) = input {
                    // A program that does not read says itself what it lacks.
                    let _ = input.write_all(text.as_bytes()).await;
                }
            };
            let ((), stdout, stderr, status) =
                tokio::join!(write, take(out), take(err), child.wait());
            status.map(|status| Said {
                code: status.code(),
                stdout,
                stderr,
            })
        };
        match tokio::time::timeout(self.limit.to_std(), talk).await {
            Ok(Ok(said)) => {
                group.0 = None;
                Ok(said)
            }
            Ok(Err(error)) => Err(not_run(error.to_string())),
            Err(_) => {
                drop(group);
                // So that no zombie stays; not for ever, since one in a system call may take
                // its time.
                let _ = tokio::time::timeout(Duration::from_secs(1), child.wait()).await;
                Err(RunError::Late {
                    program: program.clone(),
                    limit: self.limit,
                })
            }
        }
    }
}

/// Kills a process group when it goes out of scope: its time is over, or control stops.
struct Group(Option<i32>);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            // Its leader has not been waited for, so that the number is still its own.
            let _ = killpg(Pid::from_raw(group), Signal::SIGKILL);
        }
    }
}

/// All that is said, up to a limit; what comes after it is read and left out, so that the
/// program can end.
async fn take(from: Option<impl AsyncRead + Unpin>) -> String {
    let mut bytes = Vec::new();
    if let Some(mut from) = from {
        let _ = (&mut from).take(MOST).read_to_end(&mut bytes).await;
        let _ = tokio::io::copy(&mut from, &mut tokio::io::sink()).await;
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runner(limit_ms: i64) -> Runner {
        let path = std::env::var("PATH").unwrap_or_default();
        Runner::new(vec![("PATH".to_owned(), path)], Span::from_ms(limit_ms))
    }

    fn shell(script: &str, stdin: Option<&str>) -> CommandLine {
        CommandLine {
            program: "sh".to_owned(),
            args: vec!["-c".to_owned(), script.to_owned()],
            stdin: stdin.map(str::to_owned),
        }
    }

    #[tokio::test]
    async fn a_command_is_heard_and_sees_only_what_it_may() {
        let line = shell(
            "cat; env | grep -c CARGO; echo no >&2; exit 3",
            Some("hello "),
        );
        let ran = runner(5000).run(line, Stopwatch::start()).await;
        let said = ran.said.unwrap();
        assert_eq!(said.code, Some(3));
        assert_eq!(said.stdout, "hello 0\n");
        assert_eq!(said.stderr, "no\n");
    }

    #[tokio::test]
    async fn a_command_that_hangs_is_killed_with_all_that_it_started() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("child");
        let script = format!("sleep 300 & echo $! > {}; sleep 300", file.display());
        let ran = runner(300)
            .run(shell(&script, None), Stopwatch::start())
            .await;
        assert!(matches!(ran.said, Err(RunError::Late { .. })), "{ran:?}");
        assert!(ran.seconds < 5.0);
        let child: i32 = std::fs::read_to_string(&file)
            .unwrap()
            .trim()
            .parse()
            .unwrap();
        let stat = format!("/proc/{child}/stat");
        for _ in 0..50 {
            // Nobody waits for it here, so that a zombie is as good as none.
            let gone = std::fs::read_to_string(&stat).map_or(true, |s| s.contains(") Z"));
            if gone {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("process {child} lives on");
    }

    #[tokio::test]
    async fn a_command_that_is_not_there_is_named() {
        let line = CommandLine {
            program: "no-such-sbatch".to_owned(),
            args: Vec::new(),
            stdin: None,
        };
        let ran = runner(1000).run(line, Stopwatch::start()).await;
        let error = ran.said.unwrap_err();
        assert!(error.to_string().contains("no-such-sbatch"), "{error}");
    }
}
