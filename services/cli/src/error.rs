//! Errors of the command line: code with a page, text, remedy and exit code.

use std::fmt;
use std::process::ExitCode;

/// The end of a command. The numbers are part of the interface; `lacuna --help` lists them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Refused, not found, or failed.
    Failed,
    /// The configuration or a given file is wrong (`EX_USAGE`).
    Config,
    /// NATS or a service does not answer (`EX_UNAVAILABLE`).
    Unavailable,
    /// A fault of Lacuna's own (`EX_SOFTWARE`).
    Internal,
    /// The awaited state was not reached in time; the number is that of `timeout`.
    TimedOut,
    /// Ended early by a signal.
    Interrupted,
}

impl Exit {
    /// The exit code of the process.
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

/// An error for people: its message, its remedy and its page.
#[derive(Debug)]
pub struct CliError {
    /// Code with a page (`lacuna help L0001`), where there is one.
    pub code: Option<String>,
    /// The message.
    pub message: String,
    /// The remedy.
    pub remedy: Option<String>,
    /// The exit code of the process.
    pub exit: Exit,
}

/// The result of a command.
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

    /// An error without a page.
    #[must_use]
    pub fn failed(message: impl Into<String>) -> Self {
        Self {
            code: None,
            message: message.into(),
            remedy: None,
            exit: Exit::Failed,
        }
    }

    /// A failure that the output has shown already; only the exit code reports it.
    #[must_use]
    pub fn already_printed() -> Self {
        Self::failed("")
    }

    /// The end of a command by a signal; only the exit code reports it.
    pub(crate) fn interrupted() -> Self {
        Self {
            exit: Exit::Interrupted,
            ..Self::already_printed()
        }
    }

    /// The end of a command for several things: nothing, or the errors of those that it was not done
    /// for. `is_shown`: whether the output has what was done, so the errors go to standard error.
    ///
    /// # Errors
    /// Some there are.
    pub(crate) fn of_all(errors: Vec<Self>, is_shown: bool) -> Result<()> {
        let mut errors = errors.into_iter();
        let Some(mut first) = errors.next() else {
            return Ok(());
        };
        if is_shown {
            eprintln!("lacuna: {first}");
            errors.for_each(|error| eprintln!("lacuna: {error}"));
            first.message.clear();
        } else {
            errors.for_each(|error| first.message += &format!("\n{}", error.message));
        }
        Err(first)
    }

    /// The same error with a remedy.
    #[must_use]
    pub fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }

    /// The error as the JSON value of `--json`.
    #[must_use]
    pub(crate) fn to_json(&self) -> serde_json::Value {
        serde_json::json!({ "error": self.fields() })
    }

    /// Code, message and remedy as a JSON value.
    #[must_use]
    pub(crate) fn fields(&self) -> serde_json::Value {
        serde_json::json!({
            "code": self.code,
            "message": self.message,
            "remedy": self.remedy,
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

/// The error of a file that could not be read or written, with its name (`L0011`).
#[must_use]
pub fn file_error(doing: &str, path: &std::path::Path, source: &std::io::Error) -> CliError {
    CliError::new(
        "L0011",
        Exit::Failed,
        format!("cannot {doing} {}: {source}", path.display()),
    )
}
