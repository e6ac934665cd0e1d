//! What reading a log gives.

use lacuna_sim::PoolTrace;

use super::summary::LogSummary;

/// A log that is ready for a replay.
pub struct Input {
    /// Its summary.
    pub summary: LogSummary,
    /// The requested part of it.
    pub recording: Box<dyn PoolTrace>,
}
