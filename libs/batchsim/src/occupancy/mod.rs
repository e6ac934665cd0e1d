//! Holes from a log that names the nodes of each job.
//!
//! A node is idle while it has no job (jobs may share a node) and no outage is in force. The
//! result is only as complete as the log. [`LogSummary`] lists the reasons for doubt, above all
//! that a log of ended jobs lacks those that still ran at its end.

mod builder;
mod summary;
mod sweep;

pub use builder::{JobEnd, KnownNodes, Occupancy, Occupied};
pub use summary::{LogSummary, Shares};
