//! Holes from a log that names the nodes of each job.
//!
//! A node is idle while no job at all is on it (nodes may be shared) and no outage holds. What
//! the log does not know cannot be known here either: [`Facts`] says what speaks against a
//! result, above all that a log of jobs that have ended lacks those that still ran at its end.

mod builder;
mod facts;
mod sweep;

pub use builder::{JobEnd, KnownNodes, Occupancy, Occupied};
pub use facts::{Facts, Shares};
