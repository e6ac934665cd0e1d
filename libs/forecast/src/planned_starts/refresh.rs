//! The times at which planned starts and reservations are passed to a predictor.

use lacuna_model::{Span, Timestamp};

/// Announced ends are passed on again after this time, because their times come and pass.
const AGAIN: Span = Span::from_secs(30);

/// Decides when announced ends are passed to a predictor: at once after a change of them or of
/// the holes, else every 30 s. The forecast service and replays share it, so both pass them on at
/// the same times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RefreshTimer {
    at: Option<Timestamp>,
}

impl RefreshTimer {
    /// Notes that announced ends or holes may have changed.
    pub fn touch(&mut self) {
        self.at = None;
    }

    /// Whether announced ends are due to be passed on at `now`.
    #[must_use]
    pub fn is_due(&self, now: Timestamp) -> bool {
        self.at.is_none_or(|at| now < at || now >= at + AGAIN)
    }

    /// Notes that announced ends were passed on at `now`.
    pub fn done(&mut self, now: Timestamp) {
        self.at = Some(now);
    }
}
