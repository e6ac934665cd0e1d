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

/// The client of nats-server. It logs each attempt of a lost connection, and what the bus logs itself
/// (`bus::connect`), so it is silent unless the filter names it.
const CLIENT: &str = "async_nats";

/// Reads a filter without installing it.
///
/// # Errors
/// [`TelemetryError::Filter`].
pub fn filter(text: &str) -> Result<Targets, TelemetryError> {
    let read: Result<Targets, ParseError> = text.parse();
    let read = read.map_err(|e| TelemetryError::Filter {
        filter: text.to_owned(),
        reason: e.to_string(),
    })?;
    let mut named = read.iter().map(|(target, _)| target);
    Ok(if named.any(|target| target.starts_with(CLIENT)) {
        read
    } else {
        read.with_target(CLIENT, LevelFilter::OFF)
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

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::*;

    #[test]
    fn the_client_of_the_server_is_silent_unless_it_is_named() {
        for (text, is_heard) in [
            ("info", false),
            ("info,lacuna_planner=debug", false),
            ("info,async_nats=warn", true),
            ("async_nats::connector=trace", true),
        ] {
            let filter = filter(text).unwrap();
            let heard = filter.would_enable("async_nats::connector", &Level::ERROR);
            assert_eq!(heard, is_heard, "{text}");
        }
        let own = filter("info").unwrap();
        assert!(own.would_enable("lacuna_runtime::bus", &Level::INFO));
        assert!(filter("info,=x=").is_err());
    }
}
