//! The walk over a trace that collects the statistics.

use lacuna_model::Timestamp;

use crate::{PoolTrace, SimError, limits};

use super::lengths::Lengths;
use super::pool_time::PoolTime;
use super::types::{Holes, PoolStats};

/// Settings of the statistics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PoolOptions {
    /// Nodes of the machine, for shares; by default the nodes with a hole.
    pub machine_nodes: Option<u32>,
    /// End of the statistics, before that of the trace, as where the trainers of a replay end
    /// earlier: all its figures are of one time.
    pub until: Option<Timestamp>,
    /// Seconds to add to UTC for days of the week and hours of the day.
    pub utc_offset_s: i64,
}

/// The start of a hole, for a node without one.
const NONE: i64 = i64::MIN;

/// Statistics of a trace, by one walk.
///
/// # Errors
/// [`SimError`] if the trace cannot be read, or is too long.
pub fn pool_stats(trace: &dyn PoolTrace, options: PoolOptions) -> Result<PoolStats, SimError> {
    limits::check_length(trace)?;
    let (start, end) = (trace.start(), trace.end());
    let end = options.until.map_or(end, |until| until.min(end));
    let (start_ms, end_ms) = (start.unix_ms(), end.unix_ms());
    let mut count = Count {
        start_ms,
        now_ms: start_ms,
        size: 0,
        since: vec![NONE; trace.nodes() as usize],
        seen: vec![false; trace.nodes() as usize],
        time: PoolTime::new(start_ms, end_ms, options.utc_offset_s),
        lengths: Lengths::new(),
        cut_at_start: 0,
        joins: (0, 0),
        leaves: (0, 0),
    };
    let mut steps = trace.steps()?;
    while let Some(step) = steps.next()? {
        let at_ms = start_ms.saturating_add((step.at_s * 1000.0).round() as i64);
        // A step at the end has no effect.
        if at_ms >= end_ms {
            break;
        }
        count.advance(at_ms);
        count.step(step.closed, step.opened);
    }
    count.advance(end_ms);
    Ok(count.finish((start, end), options))
}

struct Count {
    start_ms: i64,
    now_ms: i64,
    /// Nodes in the pool.
    size: u32,
    /// Start of each node's hole, Unix milliseconds.
    since: Vec<i64>,
    /// Whether a node has had a hole.
    seen: Vec<bool>,
    time: PoolTime,
    lengths: Lengths,
    cut_at_start: u64,
    /// Number of moments, and of nodes at them.
    joins: (u64, u64),
    leaves: (u64, u64),
}

impl Count {
    fn advance(&mut self, at_ms: i64) {
        self.time.add(self.now_ms, at_ms, self.size);
        self.now_ms = at_ms.max(self.now_ms);
    }

    fn step(&mut self, closed: &[u32], opened: &[(u32, i64)]) {
        let mut left = 0;
        for &node in closed {
            if let Some(since) = self.since.get_mut(node as usize)
                && *since != NONE
            {
                let since = std::mem::replace(since, NONE);
                self.end_hole(since);
                left += 1;
            }
        }
        let mut came = 0;
        for &(node, since_ms) in opened {
            let at = node as usize;
            if self.since.len() <= at {
                self.since.resize(at + 1, NONE);
                self.seen.resize(at + 1, false);
            }
            if let (Some(since), Some(seen)) = (self.since.get_mut(at), self.seen.get_mut(at)) {
                if *since == NONE {
                    self.size += 1;
                    came += 1;
                }
                *since = since_ms.max(NONE + 1);
                *seen = true;
            }
        }
        if left > 0 {
            self.leaves = (self.leaves.0 + 1, self.leaves.1 + left);
        }
        if came > 0 && self.now_ms > self.start_ms {
            self.joins = (self.joins.0 + 1, self.joins.1 + came);
        }
    }

    fn end_hole(&mut self, since_ms: i64) {
        self.size = self.size.saturating_sub(1);
        self.cut_at_start += u64::from(since_ms < self.start_ms);
        let from = since_ms.max(self.start_ms);
        self.lengths.add(self.now_ms.saturating_sub(from));
    }

    fn finish(mut self, (start, end): (Timestamp, Timestamp), options: PoolOptions) -> PoolStats {
        let mut cut_at_end = 0;
        for since in std::mem::take(&mut self.since) {
            if since != NONE {
                cut_at_end += 1;
                self.end_hole(since);
            }
        }
        let nodes_with_holes = self.seen.iter().filter(|&&seen| seen).count() as u32;
        let nodes = options.machine_nodes.unwrap_or(nodes_with_holes);
        let (all_ms, node_ms) = self.time.sum(|_| true);
        let hours = ms_to_hours(all_ms as f64);
        let mean = ratio(node_ms, all_ms as f64);
        let (lengths, cut_at_start) = (self.lengths, self.cut_at_start);
        PoolStats {
            start,
            end,
            hours,
            nodes,
            nodes_with_holes,
            equivalent_nodes: mean,
            share: ratio(mean, f64::from(nodes)),
            quarters: self.time.quarters(),
            idle: self.time.idle(),
            holes: Holes {
                count: lengths.count(),
                cut_at_start,
                cut_at_end,
                node_hours: lengths.seconds() / 3600.0,
                mean_s: ratio(lengths.seconds(), lengths.count() as f64),
                min_s: lengths.min_s(),
                p10_s: lengths.quantile(0.1),
                p50_s: lengths.quantile(0.5),
                p90_s: lengths.quantile(0.9),
                p99_s: lengths.quantile(0.99),
                max_s: lengths.max_s(),
                under_10_min: lengths.under_10_min(),
                under_1_h: lengths.under_1_h(),
            },
            joins_per_hour: ratio(self.joins.0 as f64, hours),
            leaves_per_hour: ratio(self.leaves.0 as f64, hours),
            nodes_per_join: ratio(self.joins.1 as f64, self.joins.0 as f64),
            nodes_per_leave: ratio(self.leaves.1 as f64, self.leaves.0 as f64),
            timeline: self.time.timeline(),
            sizes: self.time.sizes(),
            lengths: lengths.into_bins(),
            week: self.time.week(),
            utc_offset_s: options.utc_offset_s,
        }
    }
}

fn ms_to_hours(ms: f64) -> f64 {
    ms / 3_600_000.0
}

/// `a / b`, and 0 if `b` is 0.
fn ratio(a: f64, b: f64) -> f64 {
    if b > 0.0 { a / b } else { 0.0 }
}
