//! Runs a command of the scheduler: with a limit of time, killed with all that it started.

use std::io::ErrorKind;
use std::process::Stdio;
use std::time::Duration;

use lacuna_model::Span;
use lacuna_schedlog::living::AnswerError;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::Command;

/// The longest answer, bytes: a hundred thousand jobs are some 20 MB.
const MOST: u64 = 256 << 20;

/// So much of what it says about errors is kept, bytes.
const SAID: usize = 4096;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// There is no such program.
    #[error("{program} cannot be found: is it installed here, and on PATH?")]
    Absent {
        /// Which program.
        program: String,
    },
    /// It may not be run, or may not ask.
    #[error("{program} is not permitted: {said}")]
    Denied {
        /// Which program.
        program: String,
        /// What it says.
        said: String,
    },
    /// It did not end in time.
    #[error("{program} did not answer within {limit} and was killed")]
    Limit {
        /// Which program.
        program: String,
        /// How long it had.
        limit: Span,
    },
    /// It failed.
    #[error("{program} ended with {status}: {said}")]
    Exit {
        /// Which program.
        program: String,
        /// How.
        status: String,
        /// What it says, cut short.
        said: String,
    },
    /// The answer is too long.
    #[error("{program} said more than {} MiB", MOST >> 20)]
    TooLong {
        /// Which program.
        program: String,
    },
    /// It could not be run or read.
    #[error("{program}: {source}")]
    Io {
        /// Which program.
        program: String,
        /// Why.
        source: std::io::Error,
    },
    /// Its answer is not what was asked for.
    #[error("{program}: {source}{}", hint(said))]
    Answer {
        /// Which program.
        program: String,
        /// What is wrong.
        source: Box<AnswerError>,
        /// What it says beside the answer, cut short.
        said: String,
    },
}

fn hint(said: &str) -> String {
    match said {
        "" => String::new(),
        said => format!(" (it says: {said})"),
    }
}

/// The labels of failures.
pub(crate) const REASONS: [&str; 7] = [
    "absent", "denied", "limit", "exit", "too_long", "io", "answer",
];

impl Failure {
    /// As a label.
    #[must_use]
    pub(crate) const fn label(&self) -> &'static str {
        match self {
            Self::Absent { .. } => "absent",
            Self::Denied { .. } => "denied",
            Self::Limit { .. } => "limit",
            Self::Exit { .. } => "exit",
            Self::TooLong { .. } => "too_long",
            Self::Io { .. } => "io",
            Self::Answer { .. } => "answer",
        }
    }
}

/// What a command said.
#[derive(Debug)]
pub(crate) struct Said {
    /// Its answer.
    pub(crate) answer: String,
    /// What it said beside it, cut short.
    pub(crate) beside: String,
}

impl Said {
    /// Reads the answer.
    ///
    /// # Errors
    /// [`Failure::Answer`].
    pub(crate) fn read<T>(
        self,
        program: &str,
        read: impl FnOnce(&str) -> Result<T, AnswerError>,
    ) -> Result<T, Failure> {
        read(&self.answer).map_err(|source| Failure::Answer {
            program: program.to_owned(),
            source: Box::new(source),
            said: self.beside,
        })
    }
}

/// The name by which a command is called in messages.
pub(crate) fn name(command: &[String]) -> &str {
    command.first().map_or("", String::as_str)
}

/// Kills a process group when it goes out of scope: the limit has passed, or ingest stops.
struct Group(Option<i32>);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            // Its leader has not been waited for, so that the number is still its own.
            let _ = killpg(Pid::from_raw(group), Signal::SIGKILL);
        }
    }
}

/// Runs `command` with `more` arguments, for `limit` at most.
///
/// # Errors
/// [`Failure`].
pub(crate) async fn run(command: &[String], more: &[String], limit: Span) -> Result<Said, Failure> {
    let program = name(command).to_owned();
    let io = |source: std::io::Error| match source.kind() {
        ErrorKind::NotFound => Failure::Absent {
            program: program.clone(),
        },
        ErrorKind::PermissionDenied => Failure::Denied {
            program: program.clone(),
            said: source.to_string(),
        },
        _ => Failure::Io {
            program: program.clone(),
            source,
        },
    };
    let mut prepared = Command::new(&program);
    prepared
        .args(command.get(1..).unwrap_or_default())
        .args(more)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        // Times without a zone would have to be guessed at.
        .env("SLURM_TIME_FORMAT", "%s");
    for (key, _) in std::env::vars_os() {
        // What an administrator prefers to see must not change the answer.
        let name = key.to_string_lossy();
        if name.starts_with("SQUEUE_") || name.starts_with("SINFO_") || name == "SLURM_CLUSTERS" {
            prepared.env_remove(&key);
        }
    }
    let mut child = prepared.spawn().map_err(io)?;
    let mut group = Group(child.id().and_then(|id| i32::try_from(id).ok()));
    let (out, beside) = (child.stdout.take(), child.stderr.take());
    let talk = async {
        let (answer, beside) = tokio::join!(take(out, MOST), start_of(beside));
        // A too long answer is not read to its end, so that the program may never end.
        let status = match &answer {
            Ok(Some(_)) => Some(child.wait().await),
            _ => None,
        };
        (answer, beside, status)
    };
    let limited = tokio::time::timeout(limit.to_std(), talk).await;
    let Ok((answer, beside, status)) = limited else {
        drop(group);
        reap(child).await;
        return Err(Failure::Limit { program, limit });
    };
    let Some(status) = status else {
        drop(group);
        reap(child).await;
        return Err(match answer {
            Err(error) => io(error),
            Ok(_) => Failure::TooLong { program },
        });
    };
    group.0 = None;
    let status = status.map_err(io)?;
    let beside = beside.trim().to_owned();
    let denied = beside.to_ascii_lowercase();
    if !status.success() {
        if ["permission denied", "access denied", "not authorized"]
            .iter()
            .any(|words| denied.contains(words))
        {
            return Err(Failure::Denied {
                program,
                said: beside,
            });
        }
        return Err(Failure::Exit {
            program,
            status: status.to_string(),
            said: beside,
        });
    }
    let answer = answer.map_err(io)?.unwrap_or_default();
    Ok(Said {
        answer: String::from_utf8_lossy(&answer).into_owned(),
        beside,
    })
}

/// Waits for a process that has been killed, so that no zombie stays; not for ever, since one in
/// a system call may take its time.
async fn reap(mut child: tokio::process::Child) {
    let _ = tokio::time::timeout(Duration::from_secs(1), child.wait()).await;
}

/// All that is said, if it is no more than `most` bytes.
async fn take(
    from: Option<impl AsyncRead + Unpin>,
    most: u64,
) -> Result<Option<Vec<u8>>, std::io::Error> {
    let mut bytes = Vec::new();
    if let Some(from) = from {
        from.take(most.saturating_add(1))
            .read_to_end(&mut bytes)
            .await?;
    }
    let fits = u64::try_from(bytes.len()).is_ok_and(|length| length <= most);
    Ok(fits.then_some(bytes))
}

/// The beginning of what is said; the rest is read too, so that nobody waits for us.
async fn start_of(from: Option<impl AsyncRead + Unpin>) -> String {
    let Some(mut from) = from else {
        return String::new();
    };
    let mut bytes = Vec::new();
    let most = u64::try_from(SAID).unwrap_or(u64::MAX);
    let _ = (&mut from).take(most).read_to_end(&mut bytes).await;
    let _ = tokio::io::copy(&mut from, &mut tokio::io::sink()).await;
    String::from_utf8_lossy(&bytes).into_owned()
}
