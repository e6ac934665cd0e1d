//! The simulated batch scheduler: hand-computed cases, then random workloads.
#![expect(clippy::indexing_slicing, reason = "a test may panic")]

use lacuna_batchsim::{BatchError, BatchJob, NodeHole, NodeRange, Schedule, simulate};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

fn job(id: u64, submit: i64, nodes: u32, runtime: i64, walltime: i64) -> BatchJob {
    BatchJob {
        id,
        submit,
        nodes,
        runtime,
        walltime,
        recorded_start: None,
    }
}

fn starts(schedule: &Schedule, jobs: &[BatchJob]) -> Vec<(u64, i64)> {
    let mut starts: Vec<(u64, i64)> = schedule
        .placements
        .iter()
        .map(|placement| (jobs[placement.job].id, placement.start))
        .collect();
    starts.sort_unstable();
    starts
}

#[test]
fn backfill_fills_the_hole_before_the_reservation_and_no_more() {
    // Four nodes. Job 1 holds three until 100. Job 2 needs all four: reserved for 100.
    // Job 3 (one node, 90 s) ends by 95 and goes first. Job 4 (one node, 100 s) would end
    // after 100 and waits behind job 2.
    let jobs = [
        job(1, 0, 3, 100, 100),
        job(2, 1, 4, 50, 50),
        job(3, 5, 1, 90, 90),
        job(4, 6, 1, 100, 100),
    ];
    let schedule = simulate(4, &jobs, None).unwrap();
    assert_eq!(
        starts(&schedule, &jobs),
        [(1, 0), (2, 100), (3, 5), (4, 150)]
    );
    let head = schedule.placements.iter().find(|p| p.job == 1).unwrap();
    assert_eq!(head.reserved_start, Some(100));
    // Node 3 idles until job 3 comes and again from 95 to 100; at the end, job 4 holds node 0
    // from 150 to 250 and the others idle.
    let mut holes = schedule.holes.clone();
    holes.sort_unstable_by_key(|hole| (hole.from, hole.node));
    let ended = |node, from, until| NodeHole {
        node,
        from,
        until,
        censored: false,
    };
    let open = |node, from, until| NodeHole {
        node,
        from,
        until,
        censored: true,
    };
    assert_eq!(
        holes,
        [
            ended(3, 0, 5),
            ended(3, 95, 100),
            open(1, 150, 250),
            open(2, 150, 250),
            open(3, 150, 250),
        ]
    );
}

#[test]
fn spare_nodes_at_the_reservation_may_be_used_beyond_it() {
    // Six nodes. Job 1 holds four until 100; job 2 needs five, so one node is spare at 100.
    // Job 3 (one node, long) takes the spare one. Job 4 is like it and finds none left.
    let jobs = [
        job(1, 0, 4, 100, 100),
        job(2, 1, 5, 10, 10),
        job(3, 2, 1, 500, 500),
        job(4, 3, 1, 500, 500),
    ];
    let schedule = simulate(6, &jobs, None).unwrap();
    assert_eq!(
        starts(&schedule, &jobs),
        [(1, 0), (2, 100), (3, 2), (4, 110)]
    );
}

#[test]
fn a_job_that_ends_early_lets_the_head_start_early() {
    let jobs = [job(1, 0, 2, 10, 100), job(2, 1, 2, 10, 10)];
    let schedule = simulate(2, &jobs, None).unwrap();
    assert_eq!(starts(&schedule, &jobs), [(1, 0), (2, 10)]);
    assert_eq!(schedule.placements[1].reserved_start, Some(100));
}

#[test]
fn a_job_beyond_its_walltime_is_expected_to_end_any_second() {
    // Job 1 asked for 10 s and runs 100. At 20 the head's reservation is 21, so job 3 with
    // 50 s may not pass it, though it would have ended before job 1 does.
    let jobs = [
        job(1, 0, 2, 100, 10),
        job(2, 15, 3, 10, 10),
        job(3, 20, 1, 50, 50),
    ];
    let schedule = simulate(3, &jobs, None).unwrap();
    assert_eq!(starts(&schedule, &jobs), [(1, 0), (2, 100), (3, 110)]);
}

#[test]
fn nodes_are_placed_first_fit() {
    let jobs = [
        job(1, 0, 2, 10, 10),
        job(2, 0, 2, 50, 50),
        job(3, 20, 3, 5, 5),
    ];
    let schedule = simulate(8, &jobs, None).unwrap();
    assert_eq!(
        schedule.placements[2].ranges,
        [
            NodeRange { first: 0, count: 2 },
            NodeRange { first: 4, count: 1 }
        ]
    );
}

#[test]
fn an_end_in_the_middle_censors_holes_and_leaves_jobs_waiting() {
    let jobs = [
        job(1, 0, 1, 1000, 1000),
        job(2, 5, 2, 10, 10),
        job(3, 80, 1, 10, 10),
    ];
    let schedule = simulate(2, &jobs, Some(50)).unwrap();
    assert_eq!((schedule.waiting, schedule.end), (2, 50));
    assert_eq!(
        schedule.holes,
        [NodeHole {
            node: 1,
            from: 0,
            until: 50,
            censored: true
        }]
    );
    assert_eq!(schedule.utilisation(0, 50), 0.5);
    assert_eq!(schedule.utilisation(20, 40), 0.5);
}

#[test]
fn impossible_jobs_are_refused_by_name() {
    let error = simulate(4, &[job(7, 0, 5, 1, 1)], None).unwrap_err();
    assert_eq!(
        error.to_string(),
        "batch job 7 needs 5 nodes: the machine has 4, expected 1 to 4"
    );
    assert_eq!(simulate(0, &[], None), Err(BatchError::NoNodes));
    assert!(simulate(4, &[job(8, 0, 1, -5, 1)], None).is_err());
}

#[test]
fn all_of_a_hundred_thousand_jobs_are_scheduled() {
    let jobs: Vec<BatchJob> = (0..100_000u64)
        .map(|id| {
            let mixed = id.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 33;
            let runtime = 60 + (mixed % 7_000) as i64;
            // 4.8 nodes for an hour, each 18 s: 95 % of a machine of 1,000 nodes.
            job(
                id,
                id as i64 * 18,
                1 + (mixed % 11) as u32 * (mixed % 97 / 10) as u32,
                runtime,
                runtime * 2,
            )
        })
        .collect();
    let schedule = simulate(1_000, &jobs, None).unwrap();
    assert_eq!(schedule.placements.len(), jobs.len());
    check(1_000, &jobs, &schedule);
}

/// Checks every invariant of the simulator by plain code.
fn check(nodes: u32, jobs: &[BatchJob], schedule: &Schedule) {
    let honest = jobs.iter().all(|job| job.runtime <= job.walltime);
    let mut by_node: Vec<Vec<(i64, i64)>> = vec![Vec::new(); nodes as usize];
    let mut seen = vec![false; jobs.len()];
    for placement in &schedule.placements {
        let job = &jobs[placement.job];
        assert!(!std::mem::replace(&mut seen[placement.job], true));
        assert!(placement.start >= job.submit, "{job:?} before submission");
        assert_eq!(placement.end - placement.start, job.runtime);
        assert_eq!(placement.count(), job.nodes);
        // A job of length zero takes its nodes from no other job.
        for range in placement.ranges.iter().filter(|_| job.runtime > 0) {
            for node in range.first..range.first + range.count {
                by_node[node as usize].push((placement.start, placement.end.min(schedule.end)));
            }
        }
        if honest && let Some(reserved_start) = placement.reserved_start {
            assert!(placement.start <= reserved_start, "{job:?} was delayed");
        }
    }
    for hole in &schedule.holes {
        assert!(hole.from < hole.until);
        by_node[hole.node as usize].push((hole.from, hole.until));
    }
    // Jobs and holes of each node follow each other without gap or overlap.
    for times in &mut by_node {
        times.sort_unstable();
        let mut upto = schedule.start;
        for &(from, until) in times.iter() {
            assert_eq!(from, upto);
            upto = until;
        }
        assert_eq!(upto, schedule.end);
    }
}

fn workloads() -> impl Strategy<Value = (u32, Vec<BatchJob>)> {
    (1u32..90).prop_flat_map(|nodes| {
        let drawn = (0i64..500, 1..=nodes, 0i64..200, -20i64..200);
        (Just(nodes), prop::collection::vec(drawn, 0..80)).prop_map(|(nodes, jobs)| {
            let jobs = jobs
                .into_iter()
                .zip(0..)
                .map(|((submit, nodes, runtime, over), id)| {
                    job(id, submit, nodes, runtime, (runtime + over).max(0))
                })
                .collect();
            (nodes, jobs)
        })
    })
}

/// The same cases each time.
fn seeded() -> ProptestConfig {
    ProptestConfig {
        cases: 512,
        rng_seed: RngSeed::Fixed(20_210_210),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(seeded())]

    #[test]
    fn every_schedule_keeps_its_invariants((nodes, jobs) in workloads()) {
        let schedule = simulate(nodes, &jobs, None).unwrap();
        prop_assert_eq!(schedule.placements.len(), jobs.len());
        check(nodes, &jobs, &schedule);
    }

    #[test]
    fn true_walltimes_keep_the_reservation_of_the_head((nodes, mut jobs) in workloads()) {
        for job in &mut jobs {
            job.walltime = job.walltime.max(job.runtime);
        }
        let schedule = simulate(nodes, &jobs, None).unwrap();
        check(nodes, &jobs, &schedule);
    }

    #[test]
    fn a_schedule_that_is_cut_short_is_the_beginning_of_the_whole(
        (nodes, jobs) in workloads(), until in 0i64..800
    ) {
        let whole = simulate(nodes, &jobs, None).unwrap();
        let part = simulate(nodes, &jobs, Some(until.max(whole.start))).unwrap();
        check(nodes, &jobs, &part);
        prop_assert_eq!(&whole.placements[..part.placements.len()], &part.placements[..]);
    }
}
