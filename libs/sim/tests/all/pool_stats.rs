//! The pool's statistics: by hand on a few holes, and against an independent computation on the
//! trace of the published figures.

use std::collections::BTreeMap;

use lacuna_model::{HoleRecord, Timestamp};
use lacuna_sim::HoleTrace;
use lacuna_sim::pool_stats::{PoolOptions, pool_stats};
use lacuna_skip::or_skip;
use proptest::prelude::*;

use crate::common::{Summit, hole_of};

/// Monday 2021-02-08, midnight UTC.
const MONDAY: i64 = 1_612_742_400;

fn hole(node: &str, from: i64, until: i64, censored: bool) -> HoleRecord {
    HoleRecord {
        censored,
        ..hole_of(node, MONDAY + from, MONDAY + until)
    }
}

/// Two hours of three nodes:
/// `a` idle from before the start to 600, `b` 0..7200 (open at the end), `c` 600..1200 and
/// 3600..3660.
fn small() -> HoleTrace {
    let records = [
        hole("a", -3600, 600, false),
        hole("b", 0, 7200, true),
        hole("c", 600, 1200, false),
        hole("c", 3600, 3660, false),
    ];
    HoleTrace::new(&records, None, Timestamp::from_unix(MONDAY), None)
}

#[test]
fn a_small_pool_is_counted_as_by_hand() {
    let options = PoolOptions {
        machine_nodes: Some(10),
        ..PoolOptions::default()
    };
    let stats = pool_stats(&small(), options).unwrap();
    // 2 nodes until 1200, 1 until 3600, 2 until 3660, 1 until 7200.
    let node_seconds = 2.0 * 1200.0 + 2400.0 + 120.0 + 3540.0;
    assert!((stats.equivalent_nodes - node_seconds / 7200.0).abs() < 1e-12);
    assert!((stats.share - stats.equivalent_nodes / 10.0).abs() < 1e-12);
    let quarters = [1200.0 + 1800.0, 1800.0, 60.0 + 1800.0, 1800.0].map(|s| s / 1800.0);
    assert_eq!(stats.quarters, quarters);
    let idle = stats.idle;
    assert_eq!(
        (idle.min, idle.p10, idle.p50, idle.p90, idle.max),
        (1, 1, 1, 2, 2)
    );
    let holes = stats.holes;
    assert_eq!(
        (holes.count, holes.cut_at_start, holes.cut_at_end),
        (4, 1, 1)
    );
    // Lengths within the trace: 60, 600, 600, 7200.
    assert_eq!((holes.min_s, holes.p10_s, holes.p50_s), (60.0, 60.0, 600.0));
    assert_eq!(
        (holes.p90_s, holes.p99_s, holes.max_s),
        (7200.0, 7200.0, 7200.0)
    );
    assert_eq!(holes.mean_s, 8460.0 / 4.0);
    assert_eq!(holes.under_10_min.count, 0.25);
    assert!((holes.under_1_h.node_time - 1260.0 / 8460.0).abs() < 1e-12);
    // Joins at 600 and 3600, leaves at 600, 1200 and 3660, in two hours.
    assert_eq!((stats.joins_per_hour, stats.leaves_per_hour), (1.0, 1.5));
    assert_eq!((stats.nodes, stats.nodes_with_holes), (10, 3));
    assert_eq!(stats.week[0][1], Some((120.0 + 3540.0) / 3600.0));
    assert_eq!(stats.week[1][0], None);
    let shifted = PoolOptions {
        utc_offset_s: -3600,
        ..options
    };
    let shifted = pool_stats(&small(), shifted).unwrap();
    assert_eq!(shifted.week[6][23], stats.week[0][0]);
    let [(_, idle), (_, quarters)] = stats.headline();
    assert_eq!(idle, "of 10 nodes 1.2 on average (11.75 %), median 1");
    assert_eq!(quarters, "1.7, 1.0, 1.0, 1.0");
    // Half of the time has the figures of a trace that ends there.
    let half = PoolOptions {
        until: Some(Timestamp::from_unix(MONDAY + 3600)),
        ..options
    };
    let half = pool_stats(&small(), half).unwrap();
    assert_eq!(
        (half.hours, half.end),
        (1.0, Timestamp::from_unix(MONDAY + 3600))
    );
    assert!((half.equivalent_nodes - 4800.0 / 3600.0).abs() < 1e-12);
    assert_eq!((half.holes.count, half.holes.cut_at_end), (3, 1));
}

#[test]
fn a_recording_may_go_on_after_its_last_hole() {
    let start = Timestamp::from_unix(MONDAY);
    let records = [hole("a", 0, 600, false)];
    let day = Some(Timestamp::from_unix(MONDAY + 86_400));
    let options = PoolOptions {
        machine_nodes: Some(2),
        ..PoolOptions::default()
    };
    for (end, hours) in [(None, 1.0 / 6.0), (day, 24.0)] {
        let stats = pool_stats(&HoleTrace::new(&records, None, start, end), options).unwrap();
        assert_eq!(stats.hours, hours);
        assert!((stats.share - 1.0 / 6.0 / 2.0 / hours).abs() < 1e-12);
    }
}

#[test]
fn a_recording_without_holes_has_a_pool_of_nothing() {
    let start = Timestamp::from_unix(MONDAY);
    let records = [hole("a", -100, -50, false)];
    let end = Some(Timestamp::from_unix(MONDAY + 60));
    for trace in [
        HoleTrace::new(&records, None, start, end),
        HoleTrace::new(&[], None, start, None),
    ] {
        let stats = pool_stats(&trace, PoolOptions::default()).unwrap();
        assert_eq!((stats.holes.count, stats.equivalent_nodes), (0, 0.0));
    }
}

/// The pool in `[0, end)` second by second; no hole list is longer than a few minutes.
fn second_by_second(holes: &[(u8, i64, i64)], end: i64) -> (Vec<u32>, usize, usize) {
    let idle = |node: u8, at: i64| {
        let mut of_node = holes.iter().filter(|hole| hole.0 == node);
        of_node.any(|&(_, from, until)| from <= at && at < until)
    };
    let nodes = |at: i64| (0..4).filter(|&node| idle(node, at)).collect::<Vec<u8>>();
    let sizes = (0..end).map(|at| nodes(at).len() as u32).collect();
    let changes = |gains: bool| {
        let moments = (1..end).filter(|&at| {
            let (before, after) = (nodes(at - 1), nodes(at));
            let (old, new) = if gains {
                (before, after)
            } else {
                (after, before)
            };
            new.iter().any(|node| !old.contains(node))
        });
        moments.count()
    };
    (sizes, changes(true), changes(false))
}

proptest! {
    #[test]
    fn the_pool_agrees_with_a_count_second_by_second(
        // Gaps of at least a second, so that no hole begins where the one before ended.
        gaps in prop::collection::vec((0_u8..4, 1_i64..40, 1_i64..60), 1..20),
        offset in -90_i64..0,
    ) {
        let mut at = [offset; 4];
        let mut holes = Vec::new();
        for (node, gap, length) in gaps {
            let from = at[usize::from(node)] + gap;
            at[usize::from(node)] = from + length;
            holes.push((node, from, from + length));
        }
        let end = holes.iter().map(|hole| hole.2).max().unwrap();
        prop_assume!(end > 0);
        let records: Vec<HoleRecord> = holes
            .iter()
            .map(|&(node, from, until)| hole(&node.to_string(), from, until, until == end))
            .collect();
        let trace = HoleTrace::new(&records, None, Timestamp::from_unix(MONDAY), None);
        let stats = pool_stats(&trace, PoolOptions::default()).unwrap();
        let (sizes, joins, leaves) = second_by_second(&holes, end);
        let mean = f64::from(sizes.iter().sum::<u32>()) / end as f64;
        prop_assert!((stats.equivalent_nodes - mean).abs() < 1e-9);
        prop_assert_eq!(stats.idle.max, *sizes.iter().max().unwrap());
        prop_assert_eq!(stats.idle.min, *sizes.iter().min().unwrap());
        let mut sorted = sizes;
        sorted.sort_unstable();
        let rank = (0.9 * sorted.len() as f64).ceil() as usize;
        prop_assert_eq!(stats.idle.p90, sorted[rank - 1]);
        let hours = end as f64 / 3600.0;
        prop_assert!((stats.joins_per_hour * hours - joins as f64).abs() < 1e-6);
        prop_assert!((stats.leaves_per_hour * hours - leaves as f64).abs() < 1e-6);
        let seen: Vec<i64> = holes
            .iter()
            .filter(|hole| hole.2 > 0)
            .map(|&(_, from, until)| until - from.max(0))
            .collect();
        prop_assert_eq!(stats.holes.count, seen.len() as u64);
        prop_assert_eq!(stats.holes.min_s, *seen.iter().min().unwrap() as f64);
        let cut = holes.iter().filter(|hole| hole.1 < 0 && hole.2 > 0).count();
        prop_assert_eq!(stats.holes.cut_at_start, cut as u64);
        let total = seen.iter().sum::<i64>() as f64 / 3600.0;
        prop_assert!((stats.holes.node_hours - total).abs() < 1e-9);
    }
}

/// The expected statistics, straight from the list: sorted lengths, and a sweep over sorted ends
/// without numbers of nodes.
struct Independent {
    equivalent: f64,
    p: [u32; 3],
    most: u32,
    lengths: Vec<i64>,
    joins: f64,
    leaves: f64,
}

impl Independent {
    fn of(holes: &[(i64, i64)]) -> Self {
        let start = holes.iter().map(|h| h.0).min().unwrap();
        let end = holes.iter().map(|h| h.1).max().unwrap();
        let mut change: BTreeMap<i64, i64> = BTreeMap::new();
        for (from, until) in holes {
            *change.entry(*from).or_default() += 1;
            *change.entry(*until).or_default() -= 1;
        }
        let mut spans: Vec<(i64, i64)> = Vec::new();
        let (mut size, mut at) = (0, start);
        for (&time, &by) in &change {
            spans.push((size, time - at));
            (size, at) = (size + by, time);
        }
        assert_eq!((size, at), (0, end));
        spans.sort_unstable();
        let total = end - start;
        let quantile = |share: f64| {
            let mut before = 0;
            let found = spans.iter().find(|(_, seconds)| {
                before += seconds;
                before as f64 >= share * total as f64
            });
            found.unwrap().0 as u32
        };
        let node_seconds: i64 = spans.iter().map(|(size, s)| size * s).sum();
        let mut lengths: Vec<i64> = holes.iter().map(|(from, until)| until - from).collect();
        lengths.sort_unstable();
        let hours = total as f64 / 3600.0;
        let distinct = |times: &mut Vec<i64>, not: i64| {
            times.sort_unstable();
            times.dedup();
            times.iter().filter(|time| **time != not).count() as f64 / hours
        };
        Self {
            equivalent: node_seconds as f64 / total as f64,
            p: [quantile(0.1), quantile(0.5), quantile(0.9)],
            most: spans.last().unwrap().0 as u32,
            lengths,
            joins: distinct(&mut holes.iter().map(|h| h.0).collect(), start),
            leaves: distinct(&mut holes.iter().map(|h| h.1).collect(), end),
        }
    }

    /// By nearest rank.
    fn length(&self, share: f64) -> f64 {
        let rank = (share * self.lengths.len() as f64).ceil() as usize;
        self.lengths[rank - 1] as f64
    }

    fn under(&self, limit: i64) -> (f64, f64) {
        let all: i64 = self.lengths.iter().sum();
        let short: Vec<i64> = self
            .lengths
            .iter()
            .copied()
            .filter(|l| *l < limit)
            .collect();
        (
            short.len() as f64 / self.lengths.len() as f64,
            short.iter().sum::<i64>() as f64 / all as f64,
        )
    }
}

#[test]
fn the_recorded_pool_agrees_with_an_independent_computation() {
    let summit = or_skip!(Summit::open());
    let options = PoolOptions {
        machine_nodes: Some(4734),
        ..PoolOptions::default()
    };
    let stats = pool_stats(&summit.whole(), options).unwrap();
    let seconds = |at: Timestamp| at.unix_ms() / 1000;
    let records = summit.holes.records.iter();
    let records: Vec<_> = records
        .map(|r| (seconds(r.from), seconds(r.until)))
        .collect();
    let other = Independent::of(&records);
    let near = |mine: f64, theirs: f64, room: f64| {
        assert!(
            (mine - theirs).abs() <= room * theirs.abs(),
            "{mine} is not {theirs}"
        );
    };
    let exact = 1e-9;
    near(stats.equivalent_nodes, other.equivalent, exact);
    near(stats.share, other.equivalent / 4734.0, exact);
    let idle = stats.idle;
    assert_eq!([idle.p10, idle.p50, idle.p90], other.p);
    assert_eq!(idle.max, other.most);
    let holes = stats.holes;
    assert_eq!(holes.count, records.len() as u64);
    let sum: i64 = other.lengths.iter().sum();
    near(holes.mean_s, sum as f64 / records.len() as f64, exact);
    assert_eq!(holes.min_s, other.lengths[0] as f64);
    assert_eq!(holes.max_s, *other.lengths.last().unwrap() as f64);
    assert_eq!(holes.p10_s, other.length(0.1));
    assert_eq!(holes.p50_s, other.length(0.5));
    assert_eq!(holes.p90_s, other.length(0.9));
    near(holes.p99_s, other.length(0.99), 1.0 / 2048.0);
    for (mine, limit) in [(holes.under_10_min, 600), (holes.under_1_h, 3600)] {
        let (count, time) = other.under(limit);
        near(mine.count, count, exact);
        near(mine.node_time, time, exact);
    }
    near(stats.joins_per_hour, other.joins, exact);
    near(stats.leaves_per_hour, other.leaves, exact);
    let binned: u64 = stats.lengths.iter().map(|bin| bin.count).sum();
    assert_eq!(binned, holes.count);
    let mean = stats.timeline.iter().map(|c| c.mean).sum::<f64>() / stats.timeline.len() as f64;
    near(mean, stats.equivalent_nodes, 1e-6);
}
