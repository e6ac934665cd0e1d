//! Statistics of the pool as plain data.

use lacuna_model::Timestamp;
use serde::{Deserialize, Serialize};

/// The pool's statistics over a trace.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PoolStats {
    /// Start of the statistics.
    pub start: Timestamp,
    /// Their end.
    pub end: Timestamp,
    /// Their length, hours.
    pub hours: f64,
    /// Nodes of the machine: the given number, or the nodes with a hole.
    pub nodes: u32,
    /// Nodes with at least one hole.
    pub nodes_with_holes: u32,
    /// Mean pool: the dedicated nodes that would offer as much node-time.
    pub equivalent_nodes: f64,
    /// Mean pool as a fraction of the machine.
    pub share: f64,
    /// Mean pool of each quarter of the time. The farther apart they are, the less is known of
    /// another such time.
    pub quarters: [f64; 4],
    /// The pool's size, weighted by time.
    pub idle: Idle,
    /// The holes.
    pub holes: Holes,
    /// Moments an hour at which at least one node became idle, without the start.
    pub joins_per_hour: f64,
    /// Moments an hour at which at least one idle node left, without the end.
    pub leaves_per_hour: f64,
    /// Mean number of nodes that became idle at such a moment.
    pub nodes_per_join: f64,
    /// Mean number of nodes that left at such a moment.
    pub nodes_per_leave: f64,
    /// The pool over time, in equal columns.
    pub timeline: Vec<PoolColumn>,
    /// Time at each size of the pool.
    pub sizes: Vec<SizeBin>,
    /// Holes by length.
    pub lengths: Vec<HoleBin>,
    /// Mean pool by day of the week, Monday first, and hour of the day; none where the
    /// trace has no such hour.
    pub week: Vec<Vec<Option<f64>>>,
    /// Seconds that were added to UTC for days and hours.
    pub utc_offset_s: i64,
}

/// Quantiles of the pool's size by time: the smallest size that the pool does not exceed for
/// this share of the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Idle {
    /// The smallest size.
    pub min: u32,
    /// For 10 % of the time.
    pub p10: u32,
    /// For half of the time.
    pub p50: u32,
    /// For 90 % of the time.
    pub p90: u32,
    /// The largest size.
    pub max: u32,
}

/// The holes, each with its length as far as it lies in the trace.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Holes {
    /// How many.
    pub count: u64,
    /// Of these, open before the start: their lengths are lower bounds.
    pub cut_at_start: u64,
    /// Of these, still open at the end: their lengths are lower bounds.
    pub cut_at_end: u64,
    /// Their node-time, hours.
    pub node_hours: f64,
    /// Mean length, seconds.
    pub mean_s: f64,
    /// The shortest, seconds.
    pub min_s: f64,
    /// 10 % are not longer, seconds.
    pub p10_s: f64,
    /// Half are not longer, seconds.
    pub p50_s: f64,
    /// 90 % are not longer, seconds.
    pub p90_s: f64,
    /// 99 % are not longer, seconds.
    pub p99_s: f64,
    /// The longest, seconds.
    pub max_s: f64,
    /// Those under ten minutes.
    pub under_10_min: Shorter,
    /// Those under an hour.
    pub under_1_h: Shorter,
}

/// Holes shorter than something, as fractions.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Shorter {
    /// Of the number of holes.
    pub count: f64,
    /// Of their node-time.
    pub node_time: f64,
}

/// Holes of about one length.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HoleBin {
    /// The lengths, in words.
    pub label: String,
    /// How many holes.
    pub count: u64,
    /// Their node-hours.
    pub node_hours: f64,
}

/// The pool in a part of the trace.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PoolColumn {
    /// Its start, seconds since that of the trace.
    pub from_s: f64,
    /// Mean size.
    pub mean: f64,
    /// Smallest size.
    pub min: u32,
    /// Largest size.
    pub max: u32,
}

/// The time in which the pool has a size of a range.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SizeBin {
    /// Smallest size.
    pub from: u32,
    /// Largest size.
    pub to: u32,
    /// As a fraction of the time.
    pub time: f64,
    /// Its node-time, as a fraction of all node-time.
    pub node_time: f64,
}
