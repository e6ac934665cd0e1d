//! What can go wrong on the command line: a code with a page, a text, a remedy, an exit code.

use std::fmt;
use std::process::ExitCode;

/// How a command ends. The numbers are part of the interface and stand in `lacuna --help`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Refused, not found, or failed.
    Failed,
    /// The configuration or a file that was given is wrong (`EX_USAGE`).
    Config,
    /// NATS or a service does not answer (`EX_UNAVAILABLE`).
    Unavailable,
    /// A fault of Lacuna's own (`EX_SOFTWARE`).
    Internal,
    /// What was waited for has not happened in time; the number is that of `timeout`.
    TimedOut,
    /// Ended by a signal before it was done.
    Interrupted,
}

impl Exit {
    /// The number that the process ends with.
    #[must_use]
    pub(crate) const fn number(self) -> u8 {
        match self {
            Self::Failed => 1,
            Self::Config => 64,
            Self::Unavailable => 69,
            Self::Internal => 70,
            Self::TimedOut => 124,
            Self::Interrupted => 130,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.number())
    }
}

/// An error for people: what happened, what to do, and where to read on.
#[derive(Debug)]
pub struct CliError {
    /// Code with a page (`lacuna help L0001`), where there is one.
    pub code: Option<String>,
    /// What happened.
    pub message: String,
    /// What to do about it.
    pub remedy: Option<String>,
    /// How the process ends.
    pub exit: Exit,
}

/// What commands return.
pub type Result<T> = std::result::Result<T, CliError>;

impl CliError {
    /// An error with a code.
    #[must_use]
    pub fn new(code: &str, exit: Exit, message: impl Into<String>) -> Self {
        Self {
            code: Some(code.to_owned()),
            message: message.into(),
            remedy: None,
            exit,
        }
    }

    /// An error that needs no page of its own.
    #[must_use]
    pub fn failed(message: impl Into<String>) -> Self {
        Self {
            code: None,
            message: message.into(),
            remedy: None,
            exit: Exit::Failed,
        }
    }

    /// A failure that the output has said already: only the exit code tells of it.
    #[must_use]
    pub fn already_printed() -> Self {
        Self::failed("")
    }

    /// The same error with what to do about it.
    #[must_use]
    pub fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }

    /// The error as the one JSON value that `--json` promises.
    #[must_use]
    pub(crate) fn to_json(&self) -> serde_json::Value {
        serde_json::json!({
            "error": {
                "code": self.code,
                "message": self.message,
                "remedy": self.remedy,
            }
        })
    }
}

impl fmt::Display for CliError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.message)?;
        if let Some(remedy) = &self.remedy {
            write!(f, "\n  {remedy}")?;
        }
        if let Some(code) = &self.code {
            write!(f, "\n  more: lacuna help {code}")?;
        }
        Ok(())
    }
}

impl std::error::Error for CliError {}

/// A file that could not be read or written, with its name.
#[must_use]
pub fn file_error(doing: &str, path: &std::path::Path, source: &std::io::Error) -> CliError {
    CliError::new(
        "L0011",
        Exit::Failed,
        format!("cannot {doing} {}: {source}", path.display()),
    )
}
