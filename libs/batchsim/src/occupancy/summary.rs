//! The summary of a log with nodes.

use lacuna_model::{Span, Timestamp};
use serde::{Deserialize, Serialize};

/// The shares of the time of nodes, in node-milliseconds. The sum is exact: `busy + holes + down`
/// is the number of nodes times the length of the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Shares {
    /// Time with at least one job.
    pub busy_node_ms: u64,
    /// Time in holes.
    pub hole_node_ms: u64,
    /// Time in an outage without a job.
    pub down_node_ms: u64,
    /// Time with two jobs or more, a part of the busy time. Jobs share nodes, or the log is wrong.
    pub doubled_node_ms: u64,
}

impl Shares {
    /// Adds the shares of other nodes.
    pub(super) fn add(&mut self, other: Self) {
        for (sum, share) in [
            (&mut self.busy_node_ms, other.busy_node_ms),
            (&mut self.hole_node_ms, other.hole_node_ms),
            (&mut self.down_node_ms, other.down_node_ms),
            (&mut self.doubled_node_ms, other.doubled_node_ms),
        ] {
            *sum = sum.saturating_add(share);
        }
    }

    /// The share of the time with a job; 0 for an empty window.
    #[must_use]
    pub fn utilisation(&self) -> f64 {
        let all = self.busy_node_ms as f64 + self.hole_node_ms as f64 + self.down_node_ms as f64;
        if all > 0.0 {
            self.busy_node_ms as f64 / all
        } else {
            0.0
        }
    }
}

/// The counts of a log with nodes, beside its holes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LogSummary {
    /// The number of nodes of the machine, by the given list or by the log.
    pub nodes: u32,
    /// The start of the window.
    pub from: Timestamp,
    /// The end of the window.
    pub until: Timestamp,
    /// Jobs added.
    pub jobs: u64,
    /// Jobs without an end that still ran at the end of the log, and hold their nodes until then.
    pub running: u64,
    /// Jobs without an end whose walltime was over before the end of the log. They count as ended
    /// with their walltime.
    pub overdue: u64,
    /// Jobs with neither an end nor a walltime that would be longer than all ended jobs. They still
    /// hold their nodes until the end of the window.
    pub stale: u64,
    /// Jobs left out because they end before they start.
    pub refused: u64,
    /// Jobs left out because they are on no known node.
    pub nowhere: u64,
    /// Nodes left out because they are not on the list.
    pub unlisted: u64,
    /// The shares of the time of the window.
    pub shares: Shares,
    /// The number of holes.
    pub holes: u64,
    /// The length of the longest job.
    pub longest: Span,
    /// Jobs no longer than this make up nine tenths of the node-time.
    pub usual: Span,
}

impl LogSummary {
    /// The time from which holes may be false, in a log of ended jobs only. Jobs that started later
    /// may have run at the end of the log and be missing. `None` if the log has jobs that still ran
    /// at its end, or no jobs.
    ///
    /// The time follows from [`LogSummary::usual`]: nine tenths of the missing node-time lie after
    /// it, if jobs at the end were as long as the others. With the longest job instead, the whole
    /// log would be doubtful.
    #[must_use]
    pub fn doubtful_from(&self) -> Option<Timestamp> {
        (self.running == 0 && self.jobs > 0).then(|| (self.until - self.usual).max(self.from))
    }
}
