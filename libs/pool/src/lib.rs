//! From the event stream of a cluster to its present holes, planned starts and reservations.
//!
//! [`PoolKeeper`] takes events and snapshots, with duplicates, gaps and late ones among them. It
//! gives the holes that open and close. [`Announcements`] holds the planned starts and
//! reservations.
//!
//! The crate has no I/O and reads no clock.

mod announcements;
mod changes;
mod keeper;

pub use announcements::{Announcements, PlannedJob, Reservation};
pub use changes::{Change, Changes, Counts, HoleEnd, Outcome};
pub use keeper::{ASTRIDE, PoolKeeper, RESTART_JUMP, Sync, UnknownNodes};
