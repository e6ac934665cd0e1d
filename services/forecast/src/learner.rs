//! A predictor that may be restored, with the newest event that it has learnt.

use lacuna_forecast::{Choice, ModelError, Predictor, WithPlannedStarts};
use lacuna_model::{Hole, NodeEvent, Span, Timestamp};
use lacuna_pool::{Change, HoleEnd};

/// Time that is set back by more than this has restarted; less is a disorder.
pub(crate) const RESTART: Span = Span::from_secs(3600);

/// The newest event from which something has been learnt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Upto {
    /// The time of the event. It is compared first, since the numbers restart with a bus that has
    /// lost its data.
    pub at: Timestamp,
    /// The number of the event.
    pub seq: u64,
}

/// A predictor that may be restored. The event stream may hold events that it has learnt already.
/// These are skipped, so that no event counts twice.
#[derive(Debug)]
pub(crate) struct Learner {
    choice: Choice,
    pub(crate) predictor: WithPlannedStarts,
    /// The newest event that was learnt, while events up to it are skipped.
    upto: Option<Upto>,
}

impl Learner {
    pub(crate) fn new(choice: Choice) -> Self {
        let predictor = WithPlannedStarts::new(choice.build());
        Self {
            choice,
            predictor,
            upto: None,
        }
    }

    /// Restores the predictor from saved bytes; on an error it is unchanged.
    pub(crate) fn restore(&mut self, bytes: &[u8], upto: Upto) -> Result<(), ModelError> {
        self.predictor = WithPlannedStarts::restore(&self.choice, bytes)?;
        self.upto = Some(upto);
        Ok(())
    }

    pub(crate) const fn upto(&self) -> Option<Upto> {
        self.upto
    }

    /// Resets the predictor to a new one.
    pub(crate) fn reset(&mut self) {
        *self = Self::new(self.choice.clone());
    }

    /// Whether the predictor has learnt from the future of a live event.
    pub(crate) fn is_ahead_of(&self, at: Timestamp) -> bool {
        self.upto.is_some_and(|upto| at + RESTART < upto.at)
    }

    /// Prepares for an event that is about to change the pool. At the first event that the
    /// predictor has not learnt, the present holes are opened.
    pub(crate) fn prepare(&mut self, event: &NodeEvent, holes: impl Fn() -> Vec<Hole>) {
        let now = Upto {
            at: event.at,
            seq: event.seq,
        };
        if let Some(upto) = self.upto
            && now > upto
        {
            self.upto = None;
            for hole in holes() {
                // The age of the hole counts only from here on.
                self.predictor.opened(&hole, upto.at.max(hole.since));
            }
        }
    }

    /// Whether the predictor learns from the present event.
    pub(crate) fn is_listening(&self) -> bool {
        self.upto.is_none()
    }

    /// Applies a change of the pool.
    pub(crate) fn apply(&mut self, change: &Change) {
        if !self.is_listening() {
            return;
        }
        match change {
            Change::Opened { hole, seen } => self.predictor.opened(hole, *seen),
            Change::Closed { hole, at, end } => match end {
                HoleEnd::Seen => self.predictor.closed(hole, *at),
                HoleEnd::Unseen { last_seen } => self.predictor.lost(hole, *last_seen),
            },
        }
    }
}
