//! Totals of a simulation.

use serde::{Deserialize, Serialize};

/// The totals of a simulation so far.
///
/// Node-seconds are conserved: `busy + idle + down + reserved` is the number of nodes times
/// `at - from`, to the second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Totals {
    /// The first second: the first submission.
    pub from: i64,
    /// The present second.
    pub at: i64,
    /// Jobs submitted, including those that were left out.
    pub submitted: u64,
    /// Jobs that have started.
    pub started: u64,
    /// Jobs that have ended.
    pub ended: u64,
    /// Jobs that wait at present.
    pub waiting: u64,
    /// Jobs left out because they need no nodes, or more than the machine has.
    pub skipped: u64,
    /// Jobs left out because the log has no start for them (recorded starts only).
    pub unrecorded: u64,
    /// Jobs listed after one that was submitted later; they count as submitted with that one.
    pub late: u64,
    /// Jobs that ended beyond their walltime, or would have.
    pub overran: u64,
    /// Jobs among them that were ended at their walltime.
    pub killed: u64,
    /// Seconds beyond walltimes, of all jobs.
    pub overrun_s: u64,
    /// Jobs with too few free nodes at their recorded start.
    pub conflicts: u64,
    /// Reserved starts that were missed because a job overran or nodes were drained (conservative
    /// backfill).
    pub broken: u64,
    /// Node-seconds with a job.
    pub busy_node_s: u64,
    /// Node-seconds in holes.
    pub idle_node_s: u64,
    /// Node-seconds drained, without a job.
    pub down_node_s: u64,
    /// Node-seconds reserved, neither with a job nor drained.
    pub reserved_node_s: u64,
    /// Seconds that started jobs have waited, in total.
    pub waited_s: u64,
}

impl Totals {
    /// The share of the node-time with a job. Drained and reserved time counts as offered. 0 before
    /// any time has passed.
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
