//! What was found beside the holes.

use lacuna_model::{Span, Timestamp};
use serde::{Deserialize, Serialize};

/// What a log with nodes says, beside the holes themselves.
///
/// Node-time is in node-milliseconds, so that it is exact: `busy + holes + down` is the number
/// of nodes times the length of the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Facts {
    /// How many nodes the machine has, by the list that was given or as seen in the log.
    pub nodes: u32,
    /// The first moment that counts.
    pub from: Timestamp,
    /// The first moment after what counts.
    pub until: Timestamp,
    /// Jobs that were added.
    pub jobs: u64,
    /// Jobs among them without an end: they hold their nodes to the end of the window.
    pub running: u64,
    /// Jobs that end before they start, or name no node: left out.
    pub refused: u64,
    /// Times that a job named a node that is not on the list: left out.
    pub unlisted: u64,
    /// Node-milliseconds with at least one job.
    pub busy_node_ms: u64,
    /// Node-milliseconds in holes.
    pub hole_node_ms: u64,
    /// Node-milliseconds in an outage, without a job.
    pub down_node_ms: u64,
    /// Node-milliseconds with two jobs or more: nodes are shared, or the log is wrong.
    pub doubled_node_ms: u64,
    /// Holes.
    pub holes: u64,
    /// The longest job.
    pub longest: Span,
    /// Nine tenths of the jobs' node-time are in jobs no longer than this.
    pub usual: Span,
}

impl Facts {
    /// Share of the window's node-time with a job; 0 for an empty window.
    #[must_use]
    pub fn utilisation(&self) -> f64 {
        let all = self.busy_node_ms as f64 + self.hole_node_ms as f64 + self.down_node_ms as f64;
        if all > 0.0 {
            self.busy_node_ms as f64 / all
        } else {
            0.0
        }
    }

    /// From when on holes may be false, if the log has only jobs that have ended: jobs that
    /// started after this may have still run at the end and be missing. Nothing if the log has
    /// jobs without an end, so that it seems to know what ran.
    ///
    /// Reckoned with [`Facts::usual`], not with the longest job, which would cast doubt on
    /// everything: nine tenths of what is missing lies after this moment, if jobs at the end
    /// were as long as the others.
    #[must_use]
    pub fn doubtful_from(&self) -> Option<Timestamp> {
        (self.running == 0 && self.jobs > 0).then(|| (self.until - self.usual).max(self.from))
    }
}
