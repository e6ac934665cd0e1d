//! Commands of the scheduler: few at a time, each for a limited time, killed with all that it
//! has started.

use std::sync::Arc;

use lacuna_model::Span;
use lacuna_runtime::Stopwatch;
use lacuna_runtime::command::{self, Bounds, CommandError};
use lacuna_scheduler::submit::{CommandLine, CommandOutput, RunError};
use tokio::process::Command;
use tokio::sync::Semaphore;

/// Commands at a time.
const AT_ONCE: usize = 4;
/// Bytes of an answer, at most.
const MOST: usize = 64 << 20;

/// Runs commands. Clones share the places.
#[derive(Debug, Clone)]
pub(super) struct Runner {
    places: Arc<Semaphore>,
    environment: Arc<Vec<(String, String)>>,
    limit: Span,
}

/// The outcome of a command.
#[derive(Debug)]
pub(super) struct Ran {
    pub(super) output: Result<CommandOutput, RunError>,
    /// When it was started, by the caller's watch.
    pub(super) started: Span,
    /// How long it took, seconds.
    pub(super) seconds: f64,
}

impl Ran {
    /// What it has said of its failure.
    pub(super) fn said(&self) -> String {
        match &self.output {
            Ok(output) => output.stderr.trim().chars().take(300).collect(),
            Err(error) => error.to_string(),
        }
    }
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
        let output = self.execute(line).await;
        drop(place);
        Ran {
            output,
            started,
            seconds: took.seconds(),
        }
    }

    async fn execute(&self, line: CommandLine) -> Result<CommandOutput, RunError> {
        let mut command = Command::new(&line.program);
        command
            .args(&line.args)
            .env_clear()
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            // A moment of submission is compared, so its form must never change.
            .env("SLURM_TIME_FORMAT", "%s");
        let bounds = Bounds {
            time: self.limit,
            stdout: MOST,
        };
        match command::run(command, line.stdin.as_deref(), bounds).await {
            Ok(ended) => Ok(CommandOutput {
                code: ended.status.code(),
                stdout: ended.stdout,
                stderr: ended.stderr,
            }),
            Err(CommandError::Late { program, limit }) => Err(RunError::Late { program, limit }),
            Err(error) => Err(RunError::NotRun {
                program: line.program,
                reason: error.reason(),
            }),
        }
    }
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
    async fn the_output_of_a_command_is_read_and_its_environment_is_limited() {
        let line = shell(
            "cat; env | grep -c CARGO; echo no >&2; exit 3",
            Some("hello "),
        );
        let ran = runner(5000).run(line, Stopwatch::start()).await;
        let output = ran.output.unwrap();
        assert_eq!(output.code, Some(3));
        assert_eq!(output.stdout, "hello 0\n");
        assert_eq!(output.stderr, "no\n");
    }

    #[tokio::test]
    async fn a_command_that_hangs_is_late() {
        let line = shell("sleep 300", None);
        let ran = runner(300).run(line, Stopwatch::start()).await;
        assert!(matches!(ran.output, Err(RunError::Late { .. })), "{ran:?}");
        assert!(ran.seconds >= 0.3);
    }

    #[tokio::test]
    async fn a_command_that_is_not_there_is_named() {
        let line = CommandLine {
            program: "no-such-sbatch".to_owned(),
            args: Vec::new(),
            stdin: None,
        };
        let ran = runner(1000).run(line, Stopwatch::start()).await;
        let error = ran.output.unwrap_err();
        assert!(error.to_string().contains("no-such-sbatch"), "{error}");
    }
}
