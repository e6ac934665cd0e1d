//! Planned starts and reservations: the ends of holes that the scheduler announces.
//!
//! - [`AnnouncedEnd`] is one such end, [`EndKind`] its kind: a planned start is soft, a
//!   reservation hard.
//! - [`EndTracker`] counts how announced ends turn out and gives the odds of a new one.
//! - [`WithPlannedStarts`] adds these odds to the curves of another predictor.
//! - [`RefreshTimer`] decides when announced ends are passed to a predictor.

mod announced_end;
mod class;
mod outcomes;
mod predictor;
mod refresh;
#[cfg(test)]
mod tests;
mod tracker;

pub use announced_end::{AnnouncedEnd, EndKind};
pub use outcomes::TrackRecord;
pub use predictor::WithPlannedStarts;
pub use refresh::RefreshTimer;
pub use tracker::{EndOdds, EndTracker};
