//! The two times that a state machine is told.

use lacuna_model::{Span, Timestamp};

/// One moment, on two clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Now {
    /// The cluster's time: work, costs and admission go by it. It may run faster than the
    /// wall's, or stand still.
    pub cluster: Timestamp,
    /// Real time that never goes back: silence, back-off and the dead man go by it.
    pub wall: Timestamp,
}

impl Now {
    /// Real time since `earlier`.
    #[must_use]
    pub const fn since(self, earlier: Timestamp) -> Span {
        self.wall.since(earlier)
    }
}
