//! The two times that a state machine gets as arguments.

use lacuna_model::{Span, Timestamp};

/// One moment, on two clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Now {
    /// Cluster time: of work, costs and admission. It may run faster than real time, or not at
    /// all.
    pub cluster: Timestamp,
    /// Real time that never goes back: of silence, back-off and the lease timeout.
    pub wall: Timestamp,
}

impl Now {
    /// Real time since `earlier`.
    #[must_use]
    pub const fn since(self, earlier: Timestamp) -> Span {
        self.wall.since(earlier)
    }
}
