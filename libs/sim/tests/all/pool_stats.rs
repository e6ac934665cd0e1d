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
        outage_above: Some(1),
        utc_offset_s: 0,
    };
    let stats = pool_stats(&small(), options).unwrap();
    // 2 nodes until 1200, 1 until 3600, 2 until 3660, 1 until 7200.
    let node_seconds = 2.0 * 1200.0 + 2400.0 + 120.0 + 3540.0;
    assert!((stats.equivalent_nodes - node_seconds / 7200.0).abs() < 1e-12);
    assert!((stats.share - stats.equivalent_nodes / 10.0).abs() < 1e-12);
    assert!((stats.without_outages.hours_left_out - 1260.0 / 3600.0).abs() < 1e-12);
    assert_eq!(stats.without_outages.equivalent_nodes, 1.0);
    assert_eq!(stats.without_outages.p50, 1);
    assert_eq!(stats.without_outages.quarters, [Some(1.0); 4]);
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
    // Without outages first, with its median, and then all.
    let text = stats.text();
    assert!(text.starts_with("idle "), "{text}");
    for said in [
        "of 10 nodes 1.0 on average (10.00 %), median 1; 0.3 h (",
        " with more than 1 idle are taken for outages",
        "1.0, 1.0, 1.0, 1.0",
        "(11.75 %), median 1",
    ] {
        assert!(text.contains(said), "{said}: {text}");
    }
    // If all time would be an outage, there is no outage, and all time counts.
    let none = PoolOptions {
        outage_above: Some(0),
        ..options
    };
    let text = pool_stats(&small(), none).unwrap().text();
    assert!(!text.contains("outages"), "{text}");
    assert!(text.contains("(11.75 %), median 1"), "{text}");
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
fn idle_nodes_of_a_small_machine_are_no_outage() {
    let trace = small();
    for (nodes, above) in [(3, 3), (99, 99), (100, 50), (4_000, 1_000)] {
        let options = PoolOptions {
            machine_nodes: Some(nodes),
            ..PoolOptions::default()
        };
        let stats = pool_stats(&trace, options).unwrap();
        assert_eq!(stats.without_outages.above, above, "{nodes}");
        assert!(!stats.has_outages(), "{nodes}");
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
    quiet: f64,
    quiet_hours: f64,
    quiet_median: u32,
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
        let node_seconds = |most: i64| {
            let kept = spans.iter().filter(|(size, _)| *size <= most);
            kept.fold((0, 0), |(n, t), (size, s)| (n + size * s, t + s))
        };
        let mut lengths: Vec<i64> = holes.iter().map(|(from, until)| until - from).collect();
        lengths.sort_unstable();
        let quiet = node_seconds(1000);
        let mut before = 0;
        let half = spans.iter().find(|(_, seconds)| {
            before += seconds;
            2 * before >= quiet.1
        });
        let hours = total as f64 / 3600.0;
        let distinct = |times: &mut Vec<i64>, not: i64| {
            times.sort_unstable();
            times.dedup();
            times.iter().filter(|time| **time != not).count() as f64 / hours
        };
        Self {
            equivalent: node_seconds(i64::MAX).0 as f64 / total as f64,
            quiet: quiet.0 as f64 / quiet.1 as f64,
            quiet_hours: (total - quiet.1) as f64 / 3600.0,
            quiet_median: half.unwrap().0 as u32,
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
    println!("the recorded part, 11.47 days:\n{}", stats.text());
    println!(
        "published for the whole recording of 14.92 days: 391.4 equivalent nodes, 8.27 % (188 and \
         3.97 % without 43 h); idle 4/81/1161, max 4654; holes mean 1192, median 475, p10/90/99 \
         91/3269/9246; 56 % under 10 min hold 11 %, 91 % under 1 h hold 56 %; 41 joins, 31 leaves an hour"
    );
    let near = |mine: f64, theirs: f64, room: f64| {
        assert!(
            (mine - theirs).abs() <= room * theirs.abs(),
            "{mine} is not {theirs}"
        );
    };
    let exact = 1e-9;
    near(stats.equivalent_nodes, other.equivalent, exact);
    near(stats.share, other.equivalent / 4734.0, exact);
    near(stats.without_outages.equivalent_nodes, other.quiet, exact);
    near(
        stats.without_outages.hours_left_out,
        other.quiet_hours,
        exact,
    );
    assert_eq!(stats.without_outages.p50, other.quiet_median);
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
