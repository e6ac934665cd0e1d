//! What was counted.

use serde::{Deserialize, Serialize};

/// What a simulation has counted so far.
///
/// Node-seconds are conserved: `busy + idle + down + reserved` is the number of nodes times
/// `at - from`, to the second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Totals {
    /// The first second: the first submission.
    pub from: i64,
    /// The present second.
    pub at: i64,
    /// Jobs that were given, those that were left out included.
    pub submitted: u64,
    /// Jobs that have started.
    pub started: u64,
    /// Jobs that have ended.
    pub ended: u64,
    /// Jobs that wait at present.
    pub waiting: u64,
    /// Jobs that were left out because they need more nodes than there are, or none.
    pub skipped: u64,
    /// Jobs that were left out because the log has no start of theirs (recorded starts only).
    pub unrecorded: u64,
    /// Jobs that came after one that was submitted later: taken as submitted then.
    pub late: u64,
    /// Jobs that ended beyond their walltime, or would have.
    pub overran: u64,
    /// Jobs among them that were ended at their walltime.
    pub killed: u64,
    /// Seconds beyond walltimes, of all jobs.
    pub overrun_s: u64,
    /// Jobs that found too few free nodes at their recorded start.
    pub conflicts: u64,
    /// Promised starts that could not be kept, because a job overran or nodes were drained
    /// (conservative backfill).
    pub broken: u64,
    /// Node-seconds with a job.
    pub busy_node_s: u64,
    /// Node-seconds in holes.
    pub idle_node_s: u64,
    /// Node-seconds drained, without a job.
    pub down_node_s: u64,
    /// Node-seconds reserved for others, neither with a job nor drained.
    pub reserved_node_s: u64,
    /// Seconds that jobs have waited, of those that have started.
    pub waited_s: u64,
}

impl Totals {
    /// Share of the node-time that was used by jobs; drained and reserved time counts as
    /// offered. 0 before any time has passed.
    #[must_use]
    pub fn utilisation(&self) -> f64 {
        let parts = [
            self.busy_node_s,
            self.idle_node_s,
            self.down_node_s,
            self.reserved_node_s,
        ];
        let offered: f64 = parts.iter().map(|&part| part as f64).sum();
        if offered > 0.0 {
            self.busy_node_s as f64 / offered
        } else {
            0.0
        }
    }
}
