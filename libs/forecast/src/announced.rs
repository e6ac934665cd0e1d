//! When planned starts and reservations are passed on to a predictor.

use lacuna_model::{Span, Timestamp};

/// They are passed on again after this time: their moments pass.
const AGAIN: Span = Span::from_secs(30);

/// When the ends that the scheduler announces were last passed on: at once after a change of them
/// or of the holes, else every 30 s. The forecast service and replays keep to the same times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AnnouncedEnds {
    at: Option<Timestamp>,
}

impl AnnouncedEnds {
    /// They may have changed, or the holes have.
    pub fn touch(&mut self) {
        self.at = None;
    }

    /// Whether they are to be passed on now.
    #[must_use]
    pub fn is_due(&self, now: Timestamp) -> bool {
        self.at.is_none_or(|at| now < at || now >= at + AGAIN)
    }

    /// They have been passed on.
    pub fn done(&mut self, now: Timestamp) {
        self.at = Some(now);
    }
}
