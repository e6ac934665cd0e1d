//! The engine on small clusters, worked out by hand.

use lacuna_gangs::{Contention, Error, Kind, Lease, Placement, Plan, Policy, Restart, Terms, View};

use crate::common::{Case, end, job};

/// Answers with given plans, then with nothing.
struct Scripted(Vec<fn(&View<'_>) -> Plan>);

impl Policy for Scripted {
    fn plan(&mut self, view: &View<'_>) -> Plan {
        if self.0.is_empty() {
            return Plan::default();
        }
        (self.0.remove(0))(view)
    }
}

fn first(gpus: u32) -> impl Fn(&View<'_>) -> Plan {
    move |view| Plan {
        stops: Vec::new(),
        starts: vec![(
            view.waiting[0].index,
            view.cluster.first_gpus(gpus).unwrap(),
        )],
    }
}

#[test]
fn a_job_on_one_gpu_costs_its_ideal() {
    let trace = [
        job(1, 5.0, 1, "Deep", 123_456.7),
        job(2, 9.0, 1, "Wide", 4_000.0),
    ];
    let case = Case::small(1, 1, &trace);
    for name in ["dally", "tiresias", "gandiva", "replan-shortest"] {
        let outcome = case.named(name, |terms| terms);
        assert_eq!(outcome.communication_s(), 0.0, "{name}");
        for (job, ideal) in outcome
            .jobs
            .iter()
            .map(|job| (job, if job.id == 1 { 123_456.7 } else { 4_000.0 }))
        {
            assert!((job.held_s - ideal).abs() < 1e-6, "{name}: {job:?}");
        }
    }
    // Without leases nothing is between arrival and end.
    let outcome = case.named("replan-shortest", |terms| terms);
    assert!((end(&outcome, 1) - 123_461.7).abs() < 1e-6);
}

#[test]
fn leases_end_at_chunks_and_the_next_round_comes_after_the_delay() {
    // Chunks of a second, leases of 10 s, eight GPUs: nine leases of 10 s, nine delays of 8 s, and
    // a last lease of 5 s.
    let case = Case::small(1, 1, &[job(1, 0.0, 8, "Wide", 95.0)]);
    let leased = |restart_s| {
        case.named("tiresias", |terms| Terms {
            lease: Some(Lease {
                length_s: 10.0,
                chunk: 1000.0,
            }),
            restart_s,
            ..terms
        })
    };
    let speed = case.speeds.consolidated(&case.jobs[0], 8);
    let outcome = leased(0.0);
    assert!((end(&outcome, 1) - 95.0 / speed).abs() < 1e-6);
    let outcome = leased(1.0);
    let ended = outcome.jobs[0];
    assert_eq!(ended.restarts, 9);
    assert!(
        (ended.end_s - ended.held_s - 9.0 * 8.0).abs() < 1e-6,
        "{ended:?}"
    );
    assert!((ended.held_s - 95.0 / speed).abs() < 1e-6, "{ended:?}");
}

#[test]
fn a_restart_stalls_a_gang_that_holds_its_gpus() {
    let case = Case::small(
        1,
        2,
        &[job(1, 0.0, 8, "Wide", 100.0), job(2, 40.0, 1, "Wide", 10.0)],
    );
    let moves: fn(&View<'_>) -> Plan = |view| Plan {
        stops: vec![0],
        starts: vec![
            (0, view.cluster.first_machine(8).unwrap()),
            (1, {
                let mut cluster = view.cluster.clone();
                assert!(cluster.give(&view.running[0].run.as_ref().unwrap().placement));
                assert!(cluster.take(&view.cluster.first_machine(8).unwrap()));
                cluster.first_slot(1).unwrap()
            }),
        ],
    };
    let mut policy = Scripted(vec![|view| first(8)(view), moves]);
    let mut segments = Vec::new();
    let outcome = case
        .run(Terms::PLANNED, &mut policy, &mut |segment| {
            segments.push(segment)
        })
        .unwrap();
    let speed = case.speeds.consolidated(&case.jobs[0], 8);
    assert!((end(&outcome, 1) - (100.0 / speed + 8.0)).abs() < 1e-6);
    assert_eq!(
        outcome
            .jobs
            .iter()
            .map(|job| job.restarts)
            .collect::<Vec<_>>(),
        [0, 1]
    );
    assert!((end(&outcome, 2) - 50.0).abs() < 1e-9);
    let machines: Vec<u32> = segments.iter().map(|segment| segment.machine).collect();
    assert_eq!(machines, [0, 0, 1]);
    assert!(segments.iter().all(|segment| segment.kind == Kind::Machine));
}

#[test]
fn plans_that_break_a_rule_are_errors() {
    let trace = [job(1, 0.0, 8, "Wide", 100.0), job(2, 0.0, 8, "Wide", 100.0)];
    let case = Case::small(1, 2, &trace);
    let twice: fn(&View<'_>) -> Plan = |view| Plan {
        stops: Vec::new(),
        starts: (0..2)
            .map(|at| (at, view.cluster.first_machine(8).unwrap()))
            .collect(),
    };
    let again: fn(&View<'_>) -> Plan = |view| {
        let other = view.cluster.first_machine(8).unwrap();
        Plan {
            stops: Vec::new(),
            starts: vec![(0, other)],
        }
    };
    let idle: fn(&View<'_>) -> Plan = |_| Plan {
        stops: vec![1],
        starts: Vec::new(),
    };
    let absent: fn(&View<'_>) -> Plan = |view| Plan {
        stops: Vec::new(),
        starts: vec![(7, view.cluster.first_gpus(1).unwrap())],
    };
    let empty: fn(&View<'_>) -> Plan = |_| Plan {
        stops: Vec::new(),
        starts: vec![(0, Placement::default())],
    };
    for (plans, why) in [
        (vec![twice], "another job has one"),
        (vec![|view| first(8)(view), again], "it has others already"),
        (vec![idle], "does not run"),
        (vec![absent], "has not arrived"),
        (vec![empty], "is empty"),
    ] {
        let case = if why.contains("others") {
            Case::small(1, 2, &[trace[0].clone(), job(2, 5.0, 1, "Wide", 1.0)])
        } else {
            Case::small(1, 2, &trace)
        };
        let error = case
            .run(Terms::PLANNED, &mut Scripted(plans), &mut |_| {})
            .unwrap_err();
        assert!(error.to_string().contains(why), "{error}");
    }
    let error = case
        .run(Terms::PLANNED, &mut Scripted(Vec::new()), &mut |_| {})
        .unwrap_err();
    assert!(matches!(error, Error::Stuck { waiting: 2, .. }), "{error}");
    let large = Case::small(1, 2, &[job(3, 0.0, 17, "Wide", 1.0)]);
    let error = large
        .run(Terms::PLANNED, &mut Scripted(Vec::new()), &mut |_| {})
        .unwrap_err();
    assert!(
        error
            .to_string()
            .contains("job 3 needs 17 GPUs and the cluster has 16"),
        "{error}"
    );
}

#[test]
fn gangs_that_share_an_uplink_slow_each_other_and_recover() {
    // Each gang has half of both racks; the second is a tenth as long.
    let trace = [job(1, 0.0, 8, "Deep", 100.0), job(2, 0.0, 8, "Deep", 10.0)];
    let case = Case::small(2, 1, &trace);
    let halves: fn(&View<'_>) -> Plan = |view| {
        let (mut cluster, mut starts) = (view.cluster.clone(), Vec::new());
        for at in 0..2 {
            let mut half = Vec::new();
            for machine in 0..2 {
                let free = cluster.free_of(machine);
                half.push((machine, if at == 0 { free & 0xf } else { free & 0xf0 }));
            }
            let placement = Placement::of_parts(half);
            assert!(cluster.take(&placement));
            starts.push((at, placement));
        }
        Plan {
            stops: Vec::new(),
            starts,
        }
    };
    let run = |contention| {
        let terms = Terms {
            contention,
            ..Terms::PLANNED
        };
        case.run(terms, &mut Scripted(vec![halves]), &mut |_| {})
            .unwrap()
    };
    let alone = run(None);
    let wide = run(Some(Contention {
        machine: 2.0,
        rack: 2.0,
    }));
    assert!((alone.makespan_s() - wide.makespan_s()).abs() < 1e-6);
    let narrow = run(Some(Contention {
        machine: 1.0,
        rack: 1.0,
    }));
    assert!(end(&narrow, 2) > end(&alone, 2));
    // While the short gang runs, the long one loses as much as the short one; afterwards nothing.
    let lost = |id| end(&narrow, id) - end(&alone, id);
    assert!(
        (lost(1) - lost(2)).abs() < 1e-3 * lost(2),
        "{} {}",
        lost(1),
        lost(2)
    );
}

#[test]
fn under_the_published_defect_running_jobs_hoard_gpus_until_they_end() {
    let trace = [
        job(1, 0.0, 8, "Wide", 9_000.0),
        job(2, 10.0, 8, "Wide", 9_000.0),
        job(3, 20.0, 1, "Wide", 1.0),
    ];
    let case = Case::small(1, 3, &trace);
    let lengths = |published| {
        let outcome = case.named("tiresias", |terms| Terms { published, ..terms });
        (end(&outcome, 3) - 20.0).round()
    };
    assert_eq!(lengths(false), 1.0);
    assert!(lengths(true) > 3_000.0, "{}", lengths(true));
    let planned = case.named("tiresias", |terms| Terms {
        restart: Restart::Stall,
        lease: None,
        ..terms
    });
    assert_eq!(planned.restarts(), 0);
}
