//! A predictor, and how far it has learnt already.

use lacuna_forecast::{Choice, WithPlannedStarts, ModelError, Predictor};
use lacuna_model::{Hole, NodeEvent, Span, Timestamp};
use lacuna_pool::{Change, HoleEnd};

/// Time that is set back by more than this begins anew; less is a disorder.
pub(crate) const ANEW: Span = Span::from_secs(3600);

/// The newest event from which something has been learnt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Upto {
    /// When it happened. Comes first: numbers begin anew with a server that has lost all.
    pub at: Timestamp,
    /// Its number.
    pub seq: u64,
}

/// A predictor that may have been restored. The stream of events holds a past from which it has
/// learnt already; that is left out, so that nothing counts twice.
#[derive(Debug)]
pub(crate) struct Learner {
    choice: Choice,
    pub(crate) predictor: WithPlannedStarts,
    /// Set while the past is left out.
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

    /// Takes up what was saved; nothing changes if that cannot be.
    pub(crate) fn restore(&mut self, bytes: &[u8], upto: Upto) -> Result<(), ModelError> {
        self.predictor = WithPlannedStarts::restore(&self.choice, bytes)?;
        self.upto = Some(upto);
        Ok(())
    }

    /// Forgets all.
    pub(crate) fn begin_anew(&mut self) {
        *self = Self::new(self.choice.clone());
    }

    /// Whether it has seen the future of an event that is live.
    pub(crate) fn is_ahead_of(&self, at: Timestamp) -> bool {
        self.upto.is_some_and(|upto| at + ANEW < upto.at)
    }

    /// An event is about to change the pool: if it is new to the predictor, that is told of the
    /// present holes first.
    pub(crate) fn turn_to(&mut self, event: &NodeEvent, holes: impl Fn() -> Vec<Hole>) {
        let now = Upto {
            at: event.at,
            seq: event.seq,
        };
        if let Some(upto) = self.upto
            && now > upto
        {
            self.upto = None;
            for hole in holes() {
                // How long it has been open says something only from here on.
                self.predictor.opened(&hole, upto.at.max(hole.since));
            }
        }
    }

    /// Whether it takes in what happens now.
    pub(crate) fn is_listening(&self) -> bool {
        self.upto.is_none()
    }

    /// Takes in a change of the pool.
    pub(crate) fn take(&mut self, change: &Change) {
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
