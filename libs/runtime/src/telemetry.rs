//! Structured logs on standard error.

use tracing_subscriber::filter::{LevelFilter, ParseError, Targets};
use tracing_subscriber::fmt;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::{SubscriberInitExt as _, TryInitError};

use crate::config::{LogFormat, Telemetry};

/// Why logging cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// The filter cannot be read.
    #[error(
        "telemetry.log is {filter:?}: {reason}: expected a level (info) or directives (info,lacuna_planner=debug)"
    )]
    Filter {
        /// The filter as it was given.
        filter: String,
        /// The reason.
        reason: String,
    },
    /// Logging was set up before.
    #[error("logging was set up twice")]
    Twice,
}

/// Checks a filter without installing it.
///
/// # Errors
/// [`TelemetryError::Filter`].
pub fn filter(text: &str) -> Result<Targets, TelemetryError> {
    text.parse()
        .map_err(|e: ParseError| TelemetryError::Filter {
            filter: text.to_owned(),
            reason: e.to_string(),
        })
}

/// Writes the logs of the whole process to standard error, for as long as it can be written.
///
/// # Errors
/// [`TelemetryError`]; also if logging was set up before.
pub fn init(settings: &Telemetry) -> Result<(), TelemetryError> {
    let filter = filter(&settings.log)?;
    let base = fmt()
        .with_max_level(LevelFilter::TRACE)
        .with_writer(std::io::stderr)
        // Otherwise it would report on standard error that standard error cannot be written, and
        // panic.
        .log_internal_errors(false)
        .with_target(true);
    match settings.format {
        LogFormat::Text => base.with_ansi(false).finish().with(filter).try_init(),
        LogFormat::Json => base
            .json()
            .flatten_event(true)
            .finish()
            .with(filter)
            .try_init(),
    }
    .map_err(|_: TryInitError| TelemetryError::Twice)
}
