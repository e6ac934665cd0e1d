//! Holes of a log with nodes: cases by hand, then random logs.

use lacuna_batchsim::occupancy::{JobEnd, KnownNodes, Occupancy};
use lacuna_model::{NodeId, Span, Timestamp};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_unix(seconds)
}

fn until(seconds: i64) -> JobEnd {
    JobEnd::At(at(seconds))
}

/// An unknown end with this walltime, in seconds.
fn unknown(walltime: Option<i64>) -> JobEnd {
    JobEnd::Unknown {
        walltime: walltime.map(Span::from_secs),
    }
}

/// A job on nodes by name.
fn add<const N: usize>(log: &mut Occupancy, nodes: [&str; N], start: Timestamp, end: JobEnd) {
    let known = nodes.into_iter();
    let known: Vec<u32> = known
        .filter_map(|name| log.node(name).ok().flatten())
        .collect();
    log.add(&known, start, end);
}

#[test]
fn the_holes_of_three_jobs_and_an_outage_by_hand() {
    // a: job 1 until 100, job 2 from 150; b: job 1 until 100, then job 3, which still runs at
    // the end; c: job 2 alone; a is drained in 110..120.
    let mut log = Occupancy::new(KnownNodes::Seen);
    add(&mut log, ["a", "b", "a"], at(0), until(100));
    add(&mut log, ["c", "a"], at(150), until(200));
    add(&mut log, ["b"], at(160), unknown(None));
    let a = log.node("a").unwrap().unwrap();
    log.outage(&[a], at(110), at(120));
    add(&mut log, ["c"], at(20), until(10));
    assert!(log.node("white space").is_err());
    let found = log.finish(None);
    let holes: Vec<(&str, f64, f64, bool)> = found
        .holes
        .iter()
        .map(|hole| {
            (
                hole.node.as_str(),
                hole.from.unix_seconds(),
                hole.until.unix_seconds(),
                hole.censored,
            )
        })
        .collect();
    assert_eq!(
        holes,
        [
            ("c", 0.0, 150.0, false),
            ("a", 100.0, 110.0, false),
            ("b", 100.0, 160.0, false),
            ("a", 120.0, 150.0, false),
        ]
    );
    let summary = found.summary;
    assert_eq!((summary.nodes, summary.jobs, summary.running), (3, 3, 1));
    assert_eq!((summary.refused, summary.holes), (1, 4));
    assert_eq!((summary.from, summary.until), (at(0), at(200)));
    let shares = summary.shares;
    let ms = [
        shares.busy_node_ms,
        shares.hole_node_ms,
        shares.down_node_ms,
        shares.doubled_node_ms,
    ];
    assert_eq!(ms, [340_000, 250_000, 10_000, 0]);
    assert_eq!(summary.longest.as_secs_f64(), 100.0);
    // A job without an end shows that the log includes running jobs.
    assert_eq!(summary.doubtful_from(), None);
}

#[test]
fn a_log_of_ended_jobs_alone_is_doubtful_near_its_end() {
    let mut log = Occupancy::new(KnownNodes::Seen);
    for hour in 0..10 {
        add(&mut log, ["a"], at(hour * 3600), until(hour * 3600 + 3000));
    }
    add(&mut log, ["b"], at(0), until(10));
    let summary = log.finish(Some((at(0), at(36_000)))).summary;
    assert_eq!(summary.usual.as_secs_f64(), 3000.0);
    assert_eq!(summary.doubtful_from(), Some(at(33_000)));
}

#[test]
fn a_list_of_nodes_adds_the_unseen_and_leaves_out_the_unlisted() {
    let listed = ["a", "idle"].map(|name| NodeId::new(name).unwrap());
    let mut log = Occupancy::new(KnownNodes::Listed(listed.to_vec()));
    add(&mut log, ["a", "other"], at(0), until(50));
    add(&mut log, ["other"], at(0), until(70));
    assert_eq!((log.used(), log.unlisted()), (1, Some("other")));
    let found = log.finish(None);
    assert_eq!((found.summary.nodes, found.summary.unlisted), (2, 1));
    // A job on none of the listed nodes is left out.
    assert_eq!((found.summary.nowhere, found.summary.until), (1, at(50)));
    assert_eq!(found.holes.len(), 1);
    assert_eq!(found.holes[0].node.as_str(), "idle");
    assert!(found.holes[0].censored);
}

#[test]
fn a_job_whose_end_is_missing_is_over_with_its_walltime() {
    let mut log = Occupancy::new(KnownNodes::Seen);
    add(&mut log, ["a"], at(0), until(100));
    // The jobs in order: long over at 1,000; perhaps still running then; running, with unknown
    // length; and one that would be longer than all others.
    add(&mut log, ["a"], at(200), unknown(Some(50)));
    add(&mut log, ["b"], at(950), unknown(Some(500)));
    add(&mut log, ["b"], at(960), unknown(None));
    add(&mut log, ["c"], at(300), unknown(None));
    add(&mut log, ["a"], at(990), until(1000));
    let found = log.finish(Some((at(100), at(1000))));
    let summary = found.summary;
    assert_eq!(
        (
            summary.jobs,
            summary.overdue,
            summary.running,
            summary.stale
        ),
        (6, 1, 2, 1)
    );
    let holes: Vec<(&str, f64, f64)> = found
        .holes
        .iter()
        .map(|h| {
            (
                h.node.as_str(),
                h.from.unix_seconds(),
                h.until.unix_seconds(),
            )
        })
        .collect();
    assert_eq!(
        holes,
        [
            ("a", 100.0, 200.0),
            ("b", 100.0, 950.0),
            ("c", 100.0, 300.0),
            ("a", 250.0, 990.0),
        ]
    );
    // A part of the time and of the nodes: node a from 200 to 300.
    let shares = log.shares((at(200), at(300)), |node| node.as_str() == "a");
    assert_eq!((shares.busy_node_ms, shares.hole_node_ms), (50_000, 50_000));
    assert_eq!(shares.utilisation(), 0.5);
}

/// The length or the walltime of a job.
#[derive(Debug, Clone, Copy)]
enum Length {
    Known(i64),
    Asked(i64),
    Endless,
}

impl Length {
    fn end(self) -> Option<i64> {
        match self {
            Self::Known(length) | Self::Asked(length) => Some(length),
            Self::Endless => None,
        }
    }
}

fn end(start: i64, length: Length) -> JobEnd {
    match length {
        Length::Known(length) => until(start + length),
        Length::Asked(walltime) => unknown(Some(walltime)),
        Length::Endless => unknown(None),
    }
}

/// Nodes, then jobs (bits of nodes, start, length), outages (node, from, until).
type Drawn = (u32, Vec<(u64, i64, Length)>, Vec<(u32, i64, i64)>);

fn logs() -> impl Strategy<Value = Drawn> {
    (1u32..9).prop_flat_map(|nodes| {
        let length = prop_oneof![
            6 => (0i64..80).prop_map(Length::Known),
            1 => (0i64..80).prop_map(Length::Asked),
            1 => Just(Length::Endless),
        ];
        let job = (1u64..1 << nodes, 0i64..300, length);
        let outage = (0..nodes, 0i64..300, 0i64..300);
        (
            Just(nodes),
            prop::collection::vec(job, 0..40),
            prop::collection::vec(outage, 0..4),
        )
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 400,
        rng_seed: RngSeed::Fixed(20_220_101),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn every_second_is_what_a_table_of_seconds_says(
        (nodes, jobs, outages) in logs(), from in 0i64..200, length in 0i64..200
    ) {
        let names: Vec<NodeId> = (0..nodes)
            .map(|n| NodeId::new(format!("n{n}")).unwrap())
            .collect();
        let mut log = Occupancy::new(KnownNodes::Listed(names));
        let until = from + length;
        let seconds = |a: i64, b: i64| a.max(from)..b.min(until).max(a.max(from));
        let mut on = vec![vec![0u32; 1000]; nodes as usize];
        let mut out = vec![vec![false; 1000]; nodes as usize];
        for &(bits, start, length) in &jobs {
            let on_nodes: Vec<u32> = (0..nodes).filter(|n| bits >> n & 1 == 1).collect();
            log.add(&on_nodes, at(start), end(start, length));
            for node in on_nodes {
                for s in seconds(start, length.end().map_or(until, |length| start + length)) {
                    on[node as usize][s as usize] += 1;
                }
            }
        }
        for &(node, start, end) in &outages {
            log.outage(&[node], at(start), at(end));
            for s in seconds(start, end) {
                out[node as usize][s as usize] = true;
            }
        }
        let found = log.finish(Some((at(from), at(until))));
        let shares = found.summary.shares;
        let mut counted = [0u64; 4];
        let mut idle = vec![vec![false; 1000]; nodes as usize];
        for n in 0..nodes as usize {
            for s in from as usize..until as usize {
                let place = match (on[n][s], out[n][s]) {
                    (1.., _) => 0,
                    (0, false) => 1,
                    (0, true) => 2,
                };
                counted[place] += 1000;
                counted[3] += if on[n][s] > 1 { 1000 } else { 0 };
                idle[n][s] = place == 1;
            }
        }
        prop_assert_eq!(
            [shares.busy_node_ms, shares.hole_node_ms, shares.down_node_ms, shares.doubled_node_ms],
            counted
        );
        prop_assert_eq!(log.shares((at(from), at(until)), |_| true), shares);
        let offered = u64::from(nodes) * length.unsigned_abs() * 1000;
        prop_assert_eq!(shares.busy_node_ms + shares.hole_node_ms + shares.down_node_ms, offered);
        // Each hole is as long as it can be, and every idle second lies in one.
        let mut last = (at(0), String::new());
        for hole in &found.holes {
            let node: usize = hole.node.as_str()[1..].parse().unwrap();
            let (a, b) = (hole.from.unix_seconds() as i64, hole.until.unix_seconds() as i64);
            prop_assert!(a < b);
            for s in a..b {
                prop_assert!(std::mem::replace(&mut idle[node][s as usize], false));
            }
            prop_assert_eq!(hole.censored, b == until);
            let key = (hole.from, hole.node.as_str().to_owned());
            prop_assert!(last <= key);
            last = key;
        }
        prop_assert!(idle.iter().flatten().all(|idle| !idle));
        for pair in found.holes.windows(2) {
            prop_assert!(pair[0].node != pair[1].node || pair[0].until < pair[1].from);
        }
    }
}
