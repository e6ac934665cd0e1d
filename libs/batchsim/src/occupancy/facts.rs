//! What was found beside the holes.

use lacuna_model::{Span, Timestamp};
use serde::{Deserialize, Serialize};

/// What the time of nodes consists of, in node-milliseconds, so that it is exact: `busy + holes +
/// down` is the number of nodes times the length of the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Shares {
    /// With at least one job.
    pub busy_node_ms: u64,
    /// In holes.
    pub hole_node_ms: u64,
    /// In an outage, without a job.
    pub down_node_ms: u64,
    /// With two jobs or more, which is part of the busy time: nodes are shared, or the log is
    /// wrong.
    pub doubled_node_ms: u64,
}

impl Shares {
    /// Adds those of other nodes.
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

    /// Share of the time with a job; 0 if there is no time at all.
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

/// What a log with nodes says, beside the holes themselves.
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
    /// Jobs among them that had no end when the log did: they hold their nodes until then.
    pub running: u64,
    /// Jobs among them without an end whose walltime was over before the log was: taken to have
    /// ended with it.
    pub overdue: u64,
    /// Jobs among them with neither an end nor a walltime that, still running, would be longer
    /// than all that ended: they hold their nodes to the end of the window all the same.
    pub stale: u64,
    /// Jobs that end before they start: left out.
    pub refused: u64,
    /// Jobs on no node that is known: left out.
    pub nowhere: u64,
    /// Nodes that jobs named and that are not on the list: left out.
    pub unlisted: u64,
    /// What the time of the window consists of.
    pub shares: Shares,
    /// Holes.
    pub holes: u64,
    /// The longest job.
    pub longest: Span,
    /// Nine tenths of the jobs' node-time are in jobs no longer than this.
    pub usual: Span,
}

impl Facts {
    /// From when on holes may be false, in a log that has only jobs that have ended: jobs that
    /// started after this may have still run at the end and be missing. Nothing if there are jobs
    /// that still ran at the end, so that the log seems to know them, or no jobs at all.
    ///
    /// Reckoned with [`Facts::usual`], not with the longest job, which would cast doubt on
    /// everything: nine tenths of what is missing lies after this moment, if jobs at the end
    /// were as long as the others.
    #[must_use]
    pub fn doubtful_from(&self) -> Option<Timestamp> {
        (self.running == 0 && self.jobs > 0).then(|| (self.until - self.usual).max(self.from))
    }
}
