//! Each rule of the machine: by hand, then as a property of random workloads.

use crate::common::{
    self, audit, blocks, honest, job, outages, range, reservations, reservations_kept, seeded,
    walk, workloads,
};
use lacuna_batchsim::{
    Backfill, BatchError, BatchJob, Layout, Machine, NodeHole, Outage, Overrun, Oversized,
    Reservation, Simulator, Starts,
};
use proptest::prelude::*;

fn conservative(nodes: u32) -> Machine {
    Machine {
        backfill: Backfill::Conservative,
        ..Machine::new(nodes)
    }
}

#[test]
fn under_conservative_backfill_every_waiting_job_has_a_reservation() {
    // Four nodes. Job 1 holds two until 100. Job 2 needs all: 100 to 200. Job 3 needs three:
    // from 200. Job 4 (two nodes, 95 s) ends by 98 and goes first. Job 5 (two nodes) finds one
    // beside job 3 and follows it at 250.
    let jobs = [
        job(1, 0, 2, 100, 100),
        job(2, 1, 4, 100, 100),
        job(3, 2, 3, 50, 50),
        job(4, 3, 2, 95, 95),
        job(5, 4, 2, 90, 90),
    ];
    let plan = walk(&conservative(4), &jobs);
    audit(&conservative(4), &jobs, &plan);
    let starts = [(1, 0), (2, 100), (3, 200), (4, 3), (5, 250)];
    assert_eq!(plan.starts(), starts);
    assert!(
        starts
            .iter()
            .all(|&(id, start)| plan.of(id).reserved_start == Some(start))
    );
}

#[test]
fn easy_lets_a_job_pass_that_conservative_backfill_holds_back() {
    // Ten nodes. Job 1 holds six until 100. Job 2 needs eight from 100 to 200 and leaves two.
    // Job 4 (two nodes, 250 s) may take those under EASY. Job 3 (nine nodes) then waits for its
    // end at 253; conservatively job 3 has its nodes from 200 on, and job 4 follows.
    let jobs = [
        job(1, 0, 6, 100, 100),
        job(2, 1, 8, 100, 100),
        job(3, 2, 9, 100, 100),
        job(4, 3, 2, 250, 250),
    ];
    let easy = walk(&Machine::new(10), &jobs);
    assert_eq!(easy.starts(), [(1, 0), (2, 100), (3, 253), (4, 3)]);
    let plan = walk(&conservative(10), &jobs);
    assert_eq!(plan.starts(), [(1, 0), (2, 100), (3, 200), (4, 300)]);
}

#[test]
fn an_early_end_compresses_the_schedule_in_order() {
    // Job 1 requests 100 s and ends at 10. Job 2 moves to 10, and job 3 behind it from 150 to 60.
    let jobs = [
        job(1, 0, 4, 10, 100),
        job(2, 1, 3, 50, 50),
        job(3, 2, 2, 50, 50),
    ];
    let plan = walk(&conservative(4), &jobs);
    assert_eq!(plan.starts(), [(1, 0), (2, 10), (3, 60)]);
    assert_eq!(plan.of(3).reserved_start, Some(150));
    assert_eq!(plan.totals.broken, 0);
}

#[test]
fn an_overrun_breaks_reservations_and_they_are_placed_again() {
    let jobs = [
        job(1, 0, 2, 40, 10),
        job(2, 1, 2, 5, 5),
        job(3, 20, 1, 5, 5),
    ];
    let plan = walk(&conservative(2), &jobs);
    audit(&conservative(2), &jobs, &plan);
    assert_eq!(plan.starts(), [(1, 0), (2, 40), (3, 45)]);
    assert_eq!(plan.of(2).reserved_start, Some(10));
    assert!(plan.totals.broken > 0);
    assert_eq!((plan.totals.overran, plan.totals.overrun_s), (1, 30));
}

#[test]
fn jobs_beyond_the_depth_wait_without_a_reservation() {
    let jobs = [
        job(1, 0, 3, 100, 100),
        job(2, 1, 4, 10, 10),
        job(3, 2, 1, 10, 10),
    ];
    let shallow = Machine {
        depth: Some(1),
        ..conservative(4)
    };
    assert_eq!(walk(&conservative(4), &jobs).of(3).start, 2);
    assert_eq!(walk(&shallow, &jobs).of(3).start, 110);
    let shallow = Machine {
        depth: Some(1),
        ..Machine::new(4)
    };
    assert_eq!(walk(&shallow, &jobs).of(3).start, 110);
}

#[test]
fn a_contiguous_job_does_not_start_on_scattered_nodes() {
    // Jobs 1, 2 and 3 hold nodes 0-1, 2-3 and 4-5; 1 and 3 end at 10: four nodes are free, in
    // two pieces. Job 4 needs three adjacent ones: at 50. Job 5 (two nodes) fits at once.
    let jobs = [
        job(1, 0, 2, 10, 10),
        job(2, 0, 2, 50, 50),
        job(3, 0, 2, 10, 10),
        job(4, 5, 3, 10, 10),
        job(5, 6, 2, 35, 35),
    ];
    let machine = Machine {
        layout: Layout::Contiguous,
        ..Machine::new(6)
    };
    let plan = walk(&machine, &jobs);
    audit(&machine, &jobs, &plan);
    assert_eq!(plan.of(4).start, 50);
    assert_eq!(plan.of(4).reserved_start, Some(50));
    assert_eq!(
        (plan.of(5).start, &plan.of(5).ranges[..]),
        (10, &[range(0, 2)][..])
    );
    assert_eq!(walk(&Machine::new(6), &jobs).of(4).start, 10);
}

#[test]
fn a_job_is_killed_at_its_walltime_or_runs_on() {
    let jobs = [job(1, 0, 1, 100, 30), job(2, 1, 1, 10, 10)];
    let kill = Machine {
        overrun: Overrun::Kill,
        ..Machine::new(1)
    };
    let killed = walk(&kill, &jobs);
    assert_eq!(killed.starts(), [(1, 0), (2, 30)]);
    let t = killed.totals;
    assert_eq!(
        (t.overran, t.killed, t.overrun_s, t.busy_node_s),
        (1, 1, 70, 40)
    );
    assert!(killed.ended[0].killed && !killed.ended[1].killed);
    let extended = walk(&Machine::new(1), &jobs);
    assert_eq!(extended.starts(), [(1, 0), (2, 100)]);
    let t = extended.totals;
    assert_eq!(
        (t.overran, t.killed, t.overrun_s, t.busy_node_s),
        (1, 0, 70, 110)
    );
}

#[test]
fn a_drained_node_ends_its_job_first_and_takes_none() {
    // Two nodes, node 0 out in 5..60. Job 1 (both, until 20) runs on. Job 2 (both) waits until
    // 60. From 20 to 60 node 1 is a hole, node 0 is down.
    let machine = Machine {
        outages: vec![Outage {
            nodes: range(0, 1),
            from: 5,
            until: 60,
        }],
        ..Machine::new(2)
    };
    let jobs = [job(1, 0, 2, 20, 20), job(2, 1, 2, 10, 10)];
    let plan = walk(&machine, &jobs);
    audit(&machine, &jobs, &plan);
    assert_eq!(plan.starts(), [(1, 0), (2, 60)]);
    let hole = NodeHole {
        node: 1,
        from: 20,
        until: 60,
        censored: false,
    };
    assert_eq!(plan.holes, [hole]);
    assert_eq!((plan.totals.down_node_s, plan.totals.busy_node_s), (40, 60));
    // At 1 the outage was not known.
    assert_eq!(plan.of(2).reserved_start, Some(20));
}

#[test]
fn a_job_whose_walltime_runs_into_a_reservation_goes_elsewhere_or_waits() {
    // Node 0 is reserved in 50..80. Job 1 (60 s) goes to node 1; job 2 (40 s) to node 0; job 3
    // (60 s, one node) must wait for node 1, and has it at 60.
    let machine = Machine {
        reservations: vec![Reservation {
            name: "training day".to_owned(),
            nodes: range(0, 1),
            from: 50,
            until: 80,
        }],
        ..Machine::new(2)
    };
    let jobs = [
        job(1, 0, 1, 60, 60),
        job(2, 0, 1, 40, 40),
        job(3, 0, 1, 60, 60),
    ];
    let plan = walk(&machine, &jobs);
    audit(&machine, &jobs, &plan);
    assert_eq!(plan.starts(), [(1, 0), (2, 0), (3, 60)]);
    assert_eq!(plan.of(1).ranges, [range(1, 1)]);
    assert_eq!(plan.totals.reserved_node_s, 30);
}

#[test]
fn recorded_starts_are_kept_and_conflicts_are_counted() {
    let at = |id, submit, start, nodes, runtime| BatchJob {
        recorded_start: Some(start),
        ..job(id, submit, nodes, runtime, 5)
    };
    let machine = Machine {
        starts: Starts::Recorded,
        ..Machine::new(3)
    };
    // Job 3 finds one node at 20 and starts at 30; job 4 is not held up by it.
    let jobs = [
        at(1, 0, 10, 2, 20),
        at(2, 1, 5, 1, 5),
        at(3, 2, 20, 2, 10),
        at(4, 3, 25, 1, 5),
        job(5, 4, 1, 1, 1),
    ];
    let plan = walk(&machine, &jobs);
    audit(&machine, &jobs, &plan);
    assert_eq!(plan.starts(), [(1, 10), (2, 5), (3, 30), (4, 25)]);
    assert_eq!((plan.totals.conflicts, plan.totals.unrecorded), (1, 1));
}

#[test]
fn late_and_impossible_jobs_are_counted() {
    let machine = Machine {
        oversized: Oversized::Skip,
        ..Machine::new(2)
    };
    let jobs = [
        job(1, 10, 1, 50, 50),
        job(2, 3, 1, 5, 5),
        job(3, 12, 3, 1, 1),
        job(4, 13, 0, 1, 1),
        job(5, 20, 1, 1, 1),
    ];
    let mut simulator = Simulator::new(machine, jobs.into_iter()).unwrap();
    let mut starts = Vec::new();
    while let Some(step) = simulator.step().unwrap() {
        starts.extend(step.started.iter().map(|p| (p.id, p.start)));
    }
    assert_eq!(starts, [(1, 10), (2, 10), (5, 20)]);
    let totals = simulator.totals();
    assert_eq!((totals.late, totals.skipped, totals.submitted), (1, 2, 5));
    assert_eq!((totals.started, totals.ended, totals.waiting), (3, 3, 0));
}

#[test]
fn invalid_blocks_are_refused_by_name() {
    let machine = Machine {
        reservations: vec![Reservation {
            name: "day off".to_owned(),
            nodes: range(3, u32::MAX),
            from: 0,
            until: 5,
        }],
        ..Machine::new(4)
    };
    let error = Simulator::new(machine, std::iter::empty()).unwrap_err();
    assert!(matches!(error, BatchError::Block { .. }));
    assert!(error.to_string().contains("day off"), "{error}");
}

#[test]
fn a_job_that_never_fits_waits_forever_and_delays_no_other_job() {
    let machine = Machine {
        outages: vec![Outage {
            nodes: range(0, 1),
            from: 0,
            until: i64::MAX,
        }],
        ..Machine::new(2)
    };
    let jobs = [job(1, 0, 2, 5, 5), job(2, 1, 1, 5, 5)];
    for machine in [
        machine.clone(),
        Machine {
            backfill: Backfill::Conservative,
            ..machine
        },
    ] {
        let done = walk(&machine, &jobs);
        assert_eq!(done.starts(), [(2, 1)]);
        assert_eq!((done.totals.waiting, done.totals.at), (1, 6));
    }
}

proptest! {
    #![proptest_config(seeded(600))]

    #[test]
    fn any_machine_keeps_its_accounting(
        (nodes, mut jobs) in workloads(12, 30),
        out in blocks(3), kept in blocks(3),
        (backfill, layout, kill, lie, depth) in (0usize..3, 0usize..2, any::<bool>(), any::<bool>(),
            prop::option::of(1u32..5)),
    ) {
        let machine = Machine {
            backfill: [Backfill::Easy, Backfill::Conservative, Backfill::None][backfill],
            layout: [Layout::FirstFit, Layout::Contiguous][layout],
            overrun: if kill { Overrun::Kill } else { Overrun::Extend },
            outages: outages(nodes, &out),
            reservations: reservations(nodes, &kept),
            depth,
            ..Machine::new(nodes)
        };
        if !lie {
            honest(&mut jobs);
        }
        let done = walk(&machine, &jobs);
        audit(&machine, &jobs, &done);
        prop_assert_eq!(done.placements.len(), jobs.len());
        let calm = (!lie || kill) && machine.outages.is_empty();
        if calm {
            reservations_kept(&done);
            prop_assert_eq!(done.totals.broken, 0);
        }
        if kill {
            for ended in &done.ended {
                let job = jobs.iter().find(|job| job.id == ended.id).unwrap();
                prop_assert!(ended.end - ended.start <= job.walltime);
                prop_assert_eq!(ended.killed, job.runtime > job.walltime);
            }
        }
    }

    #[test]
    fn conservative_reservations_hold_on_any_layout(
        (nodes, mut jobs) in workloads(12, 30), kept in blocks(3), layout in 0usize..2,
    ) {
        honest(&mut jobs);
        let machine = Machine {
            layout: [Layout::FirstFit, Layout::Contiguous][layout],
            reservations: reservations(nodes, &kept),
            ..conservative(nodes)
        };
        let done = walk(&machine, &jobs);
        audit(&machine, &jobs, &done);
        for placed in &done.placements {
            prop_assert!(placed.reserved_start.is_some_and(|start| placed.start <= start));
        }
        prop_assert_eq!(done.totals.broken, 0);
    }

    #[test]
    fn under_conservative_backfill_a_later_job_changes_no_earlier_one(
        (nodes, mut jobs) in workloads(12, 25), layout in 0usize..2,
    ) {
        // Every job runs exactly for its walltime, so no schedule is compressed.
        for job in &mut jobs {
            job.runtime = job.runtime.max(1);
            job.walltime = job.runtime;
        }
        jobs.sort_by_key(|job| job.submit);
        let machine = Machine {
            layout: [Layout::FirstFit, Layout::Contiguous][layout],
            ..conservative(nodes)
        };
        let whole = walk(&machine, &jobs);
        for placed in &whole.placements {
            prop_assert_eq!(Some(placed.start), placed.reserved_start);
        }
        let part = walk(&machine, &jobs[..jobs.len() / 2]);
        let of_part = part.starts();
        let of_whole = whole.starts();
        prop_assert!(of_part.iter().all(|start| of_whole.contains(start)));
    }

    #[test]
    fn a_schedule_replayed_by_its_recorded_starts_has_the_same_holes(
        (nodes, jobs) in workloads(12, 30), layout in 0usize..2,
    ) {
        let machine = Machine {
            layout: [Layout::FirstFit, Layout::Contiguous][layout],
            ..Machine::new(nodes)
        };
        let first = walk(&machine, &jobs);
        // Jobs of length zero take nodes for an instant whose order the record does not have.
        let jobs: Vec<BatchJob> = jobs
            .into_iter()
            .map(|job| BatchJob { recorded_start: Some(first.of(job.id).start), ..job })
            .filter(|job| job.runtime > 0)
            .collect();
        let machine = Machine { starts: Starts::Recorded, ..machine };
        let again = walk(&machine, &jobs);
        audit(&machine, &jobs, &again);
        if machine.layout == Layout::FirstFit {
            prop_assert_eq!(again.totals.conflicts, 0);
            for placed in &again.placements {
                prop_assert_eq!(placed.start, first.of(placed.id).start);
            }
            // The number of idle nodes is equal at each time, not the nodes themselves.
            let idle = |walk: &common::Walk, at: i64| {
                walk.holes.iter().filter(|h| h.from <= at && at < h.until).count()
            };
            for at in again.totals.from..again.totals.at.min(first.totals.at) {
                prop_assert_eq!(idle(&again, at), idle(&first, at));
            }
        }
    }

    #[test]
    fn extreme_numbers_do_not_panic(
        drawn in prop::collection::vec((extreme(), 1u32..5, extreme(), extreme()), 0..12),
        (backfill, layout) in (0usize..2, 0usize..2), out in blocks(2),
    ) {
        let jobs = drawn.into_iter().zip(1..).map(|((submit, nodes, runtime, walltime), id)| {
            let length = |s: i64| s.checked_abs().unwrap_or(i64::MAX);
            job(id, submit, nodes, length(runtime), length(walltime))
        });
        let machine = Machine {
            backfill: [Backfill::Easy, Backfill::Conservative][backfill],
            layout: [Layout::FirstFit, Layout::Contiguous][layout],
            outages: outages(4, &out),
            ..Machine::new(4)
        };
        let jobs: Vec<BatchJob> = jobs.collect();
        let done = walk(&machine, &jobs);
        prop_assert_eq!(done.ended.len(), jobs.len());
        for pair in done.holes.windows(2) {
            prop_assert!(pair[0].from <= pair[1].from);
        }
    }
}

/// Any number, often an extreme one.
fn extreme() -> impl Strategy<Value = i64> {
    prop_oneof![
        Just(i64::MAX),
        Just(i64::MIN),
        Just(0),
        Just(-1),
        0i64..100,
        any::<i64>()
    ]
}
