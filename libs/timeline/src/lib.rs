//! From events to present holes, and from batch jobs to holes.
//!
//! - [`PoolKeeper`] follows the event stream of a cluster: duplicates, gaps, late events and
//!   snapshots in, opened and closed holes out.
//! - [`batch`] simulates a batch scheduler (first come first served with EASY backfill) for
//!   workloads that have no node lists.
//! - [`occupancy`] finds the holes of a log that names the nodes of each job.
//! - [`workload`] draws such a workload from a published model.
//!
//! Plain functions and state machines: no I/O, no clock.

pub mod batch;
mod changes;
mod hints;
mod keeper;
pub mod occupancy;
pub mod workload;

pub use changes::{Change, Changes, Counts, HoleEnd, Outcome};
pub use hints::{Hints, Planned, Reserved};
pub use keeper::{ASTRIDE, PoolKeeper, RESTART_JUMP, Sync, UnknownNodes};
