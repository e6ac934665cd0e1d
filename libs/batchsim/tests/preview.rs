//! Previews of the schedule, by hand and for random workloads.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use crate::common::{job, range, seeded, workloads};
use lacuna_batchsim::{
    Backfill, BatchJob, BusyUntil, Layout, Machine, PlannedHoles, Preview, PreviewedStart,
    Reservation, Simulator, Starts,
};
use proptest::prelude::*;

/// The preview after all events of second `at`.
fn preview(machine: Machine, jobs: &[BatchJob], at: i64) -> Preview {
    let mut simulator = Simulator::new(machine, jobs.iter().copied()).unwrap();
    while simulator.next_at().is_some_and(|next| next <= at) {
        simulator.tick().unwrap();
    }
    simulator.preview()
}

fn planned(id: u64, start: i64, until: i64, first: u32, count: u32) -> PreviewedStart {
    PreviewedStart {
        id,
        start,
        until,
        ranges: vec![range(first, count)],
    }
}

/// Four nodes: job 1 holds 0 and 1 until 100 by its walltime, and ends at 60.
fn jobs() -> [BatchJob; 3] {
    [
        job(1, 0, 2, 60, 100),
        job(2, 5, 3, 50, 50),
        job(3, 6, 4, 10, 10),
    ]
}

#[test]
fn easy_plans_for_the_head_of_the_queue() {
    let seen = preview(Machine::new(4), &jobs(), 6);
    assert_eq!(seen.at, 6);
    assert_eq!(seen.planned, [planned(2, 100, 150, 0, 3)]);
    let busy = BusyUntil {
        id: 1,
        until: 100,
        ranges: vec![range(0, 2)],
    };
    assert_eq!(seen.busy, [busy]);
    let wanted = |first, at| PlannedHoles {
        nodes: range(first, 1),
        at,
    };
    assert_eq!(seen.holes, [wanted(2, Some(100)), wanted(3, None)]);
}

#[test]
fn conservative_backfill_plans_for_every_job() {
    let machine = Machine {
        backfill: Backfill::Conservative,
        ..Machine::new(4)
    };
    let plans = [planned(2, 100, 150, 0, 3), planned(3, 150, 160, 0, 4)];
    for layout in [Layout::FirstFit, Layout::Contiguous] {
        let machine = Machine {
            layout,
            ..machine.clone()
        };
        let seen = preview(machine, &jobs(), 6);
        assert_eq!(seen.planned, plans);
        let wanted = |first, at| PlannedHoles {
            nodes: range(first, 1),
            at: Some(at),
        };
        assert_eq!(seen.holes, [wanted(2, 100), wanted(3, 150)]);
    }
    // At 60 job 1 has ended: job 2 runs, job 3 waits for it.
    let seen = preview(machine, &jobs(), 60);
    assert_eq!(seen.planned, [planned(3, 110, 120, 0, 4)]);
    assert_eq!(seen.holes[0].at, Some(110));
}

#[test]
fn a_reservation_is_the_planned_end_of_its_holes() {
    let machine = Machine {
        reservations: vec![Reservation {
            name: "tests".to_owned(),
            nodes: range(2, 2),
            from: 40,
            until: 70,
        }],
        ..Machine::new(4)
    };
    let seen = preview(machine, &jobs(), 6);
    // Job 2 needs three nodes from 100 on, when the reservation is over.
    assert_eq!(seen.planned, [planned(2, 100, 150, 0, 3)]);
    let wanted = PlannedHoles {
        nodes: range(2, 2),
        at: Some(40),
    };
    assert_eq!(seen.holes, [wanted]);
}

#[test]
fn a_job_beyond_its_walltime_is_expected_to_end_at_the_next_second() {
    let jobs = [job(1, 0, 4, 100, 10), job(2, 30, 1, 5, 5)];
    let seen = preview(Machine::new(4), &jobs, 30);
    assert_eq!((seen.busy[0].until, seen.planned[0].start), (31, 31));
    assert_eq!(seen.holes, []);
}

#[test]
fn with_recorded_starts_the_first_submitted_job_is_planned() {
    let recorded = |start, job| BatchJob {
        recorded_start: Some(start),
        ..job
    };
    let [first, second, third] = jobs();
    let jobs = [
        recorded(0, first),
        recorded(90, second),
        recorded(150, third),
    ];
    let machine = Machine {
        starts: Starts::Recorded,
        ..Machine::new(4)
    };
    let seen = preview(machine, &jobs, 6);
    // The recorded start, 90, is not known at 6.
    assert_eq!(seen.planned, [planned(2, 100, 150, 0, 3)]);
}

proptest! {
    #![proptest_config(seeded(300))]

    #[test]
    fn a_preview_has_each_node_once_and_only_future_times(
        (nodes, jobs) in workloads(12, 30), backfill in 0usize..2, layout in 0usize..2,
    ) {
        let machine = Machine {
            backfill: [Backfill::Easy, Backfill::Conservative][backfill],
            layout: [Layout::FirstFit, Layout::Contiguous][layout],
            ..Machine::new(nodes)
        };
        let mut jobs = jobs;
        jobs.sort_by_key(|job| job.submit);
        let mut simulator = Simulator::new(machine, jobs.into_iter()).unwrap();
        while let Some(at) = simulator.tick().unwrap().map(|step| step.at) {
            let seen = simulator.preview();
            prop_assert_eq!(seen.at, at);
            prop_assert_eq!(&simulator.planned_holes(), &seen.holes);
            let mut shown = vec![0; nodes as usize];
            let busy = seen.busy.iter().flat_map(|busy| &busy.ranges);
            for range in busy.chain(seen.holes.iter().map(|wanted| &wanted.nodes)) {
                range.nodes().for_each(|node| shown[node as usize] += 1);
            }
            prop_assert!(shown.iter().all(|&times| times == 1), "{shown:?}");
            prop_assert!(seen.busy.iter().all(|busy| busy.until > at));
            prop_assert!(seen.planned.iter().all(|planned| planned.start > at));
            prop_assert!(seen.holes.iter().all(|wanted| wanted.at.is_none_or(|w| w > at)));
            // No node is planned for two jobs at one time.
            for (place, one) in seen.planned.iter().enumerate() {
                for other in &seen.planned[place + 1..] {
                    let apart = one.until <= other.start || other.until <= one.start;
                    let nodes = |p: &PreviewedStart| -> Vec<u32> {
                        p.ranges.iter().flat_map(|range| range.nodes()).collect()
                    };
                    let theirs = nodes(other);
                    prop_assert!(apart || nodes(one).iter().all(|n| !theirs.contains(n)));
                }
            }
            let waits = simulator.totals().waiting > 0;
            prop_assert_eq!(waits, !seen.planned.is_empty());
        }
    }
}
