//! Generated machines.

use std::collections::BTreeMap;

use lacuna_batchsim::workload::{
    self, Workload, WorkloadError, calibrate, generated_machine, generated_trace, machine,
};
use lacuna_batchsim::{BatchJob, Machine, Simulator, simulate};
use lacuna_model::Timestamp;

const SEED: u64 = 11;

#[test]
fn the_load_is_the_wanted_one() {
    for (nodes, seed) in [(64, 1), (256, 2), (1024, 3)] {
        println!("seed {seed}");
        let workload = Workload {
            nodes,
            days: 4,
            seed,
            utilisation: 0.93,
        };
        let found = calibrate(&workload).unwrap();
        println!(
            "{nodes} nodes: utilisation {:.4}, scale {:.3}, {} jobs, {} holes",
            found.utilisation,
            found.scale,
            found.jobs.len(),
            found.schedule.window(found.from, found.until).len()
        );
        assert!((0.90..=0.96).contains(&found.utilisation), "{nodes} nodes");
    }
}

#[test]
fn a_generated_machine_is_the_same_each_time_and_differs_by_seed() {
    let first = generated_machine(128, 2, SEED).unwrap();
    assert_eq!(first, generated_machine(128, 2, SEED).unwrap());
    assert_ne!(first, generated_machine(128, 2, SEED + 1).unwrap());
}

#[test]
fn planned_starts_of_a_generated_machine_are_those_of_its_scheduler() {
    println!("seed {SEED}");
    let (holes, planned) = generated_trace(64, 1, SEED).unwrap();
    assert_eq!(holes, generated_machine(64, 1, SEED).unwrap());
    assert!(planned.is_sorted_by_key(|one| one.at));
    assert!(
        planned
            .iter()
            .all(|one| one.start.is_none_or(|start| start > one.at))
    );
    // The same machine, by the planned holes at each time.
    let workload = Workload {
        nodes: 64,
        days: 1,
        seed: SEED,
        utilisation: 0.93,
    };
    let calibrated = calibrate(&workload).unwrap();
    let names = workload::node_names(64);
    let midnight = machine(&workload).unwrap().from;
    let second = |at: Timestamp| at.since(midnight).as_ms() / 1000 + calibrated.from;
    let mut simulator = Simulator::new(Machine::new(64), calibrated.jobs.iter().copied()).unwrap();
    let mut announced = BTreeMap::new();
    let mut left = planned.iter().peekable();
    let (mut wanted, mut moments) = (0, 0);
    while simulator.next_at().is_some_and(|at| at < calibrated.until) {
        let step = simulator.tick().unwrap().unwrap();
        let at = step.at;
        for node in step.taken.iter().flat_map(|range| range.nodes()) {
            announced.remove(&names[node as usize]);
        }
        if at < calibrated.from || simulator.next_at() == Some(at) {
            continue;
        }
        while let Some(one) = left.next_if(|one| second(one.at) <= at) {
            match one.start {
                Some(start) => announced.insert(one.node.clone(), second(start)),
                None => announced.remove(&one.node),
            };
        }
        let mut expected = BTreeMap::new();
        for holes in simulator.planned_holes() {
            let nodes = holes.nodes.nodes();
            expected
                .extend(nodes.filter_map(|node| {
                    Some((names[node as usize].clone(), holes.at?.max(at + 1)))
                }));
        }
        wanted += expected.len();
        moments += 1;
        assert_eq!(announced, expected, "second {at}");
    }
    println!("{moments} moments, {wanted} planned starts of present holes");
    assert!(left.next().is_none() && moments > 300 && wanted > moments);
}

#[test]
fn its_holes_lie_within_its_days_and_never_overlap() {
    println!("seed {SEED}");
    let workload = Workload {
        nodes: 200,
        days: 3,
        seed: SEED,
        utilisation: 0.93,
    };
    let machine = machine(&workload).unwrap();
    let mut holes = machine.holes.clone();
    holes.sort_by(|a, b| (&a.node, a.from).cmp(&(&b.node, b.from)));
    for pair in holes.windows(2) {
        assert!(pair[0].node != pair[1].node || pair[0].until < pair[1].from);
    }
    for hole in &holes {
        assert!(machine.from <= hole.from && hole.from < hole.until && hole.until <= machine.until);
        assert!(machine.nodes.contains(&hole.node));
        assert!(!hole.censored || hole.until == machine.until);
    }
    let offered = machine.until.since(machine.from).as_secs_f64() * 200.0;
    let idle: f64 = holes.iter().map(|hole| hole.length().as_secs_f64()).sum();
    assert!((1.0 - idle / offered - machine.utilisation).abs() < 1e-9);
}

#[test]
fn invalid_machines_are_refused() {
    let workload = Workload {
        nodes: 1,
        days: 1,
        seed: 0,
        utilisation: 0.9,
    };
    assert!(matches!(
        calibrate(&workload),
        Err(WorkloadError::Size { .. })
    ));
    let workload = Workload {
        nodes: 10,
        utilisation: f64::NAN,
        ..workload
    };
    assert!(matches!(
        calibrate(&workload),
        Err(WorkloadError::Utilisation { .. })
    ));
}

#[test]
fn a_lighter_load_leaves_more_idle() {
    let at = |utilisation| {
        calibrate(&Workload {
            nodes: 100,
            days: 3,
            seed: SEED,
            utilisation,
        })
        .unwrap()
    };
    let (light, heavy) = (at(0.5), at(0.9));
    assert!(
        (light.utilisation - 0.5).abs() < 0.02,
        "{}",
        light.utilisation
    );
    assert!(heavy.utilisation > light.utilisation + 0.3);
    // The same jobs, only closer together.
    let shape = |job: &BatchJob| (job.nodes, job.runtime, job.walltime);
    assert!(
        light
            .jobs
            .iter()
            .zip(&heavy.jobs)
            .all(|(a, b)| shape(a) == shape(b))
    );
    let again = simulate(100, &heavy.jobs, Some(heavy.until)).unwrap();
    assert_eq!(again, heavy.schedule);
}

#[test]
fn a_stream_of_jobs_keeps_the_load_in_constant_memory() {
    // LACUNA_LONG_JOBS=10000000 runs the longest supported stream.
    let jobs = std::env::var("LACUNA_LONG_JOBS").map_or(200_000, |text| text.parse().unwrap());
    println!("seed {SEED}, {jobs} jobs");
    let workload = Workload {
        nodes: 512,
        days: 1,
        seed: SEED,
        utilisation: 0.85,
    };
    let stream = workload::jobs(&workload).unwrap().take(jobs);
    let mut simulator = Simulator::new(Machine::new(512), stream).unwrap();
    let mut longest = 0;
    let mut full = None;
    while let Some(step) = simulator.step().unwrap() {
        let at = step.at;
        let totals = simulator.totals();
        longest = longest.max(totals.waiting);
        if totals.submitted < jobs as u64 {
            full = Some((at, *totals));
        }
    }
    // While jobs come, the machine has the wanted utilisation and a short queue.
    let (at, totals) = full.unwrap();
    println!(
        "{:.0} days, utilisation {:.4}, at most {longest} waiting",
        (at - totals.from) as f64 / 86_400.0,
        totals.utilisation()
    );
    assert!((0.80..0.90).contains(&totals.utilisation()));
    assert!(longest < 2_000, "{longest}");
    assert_eq!(simulator.totals().ended, jobs as u64);
}

#[test]
fn a_stream_is_sorted_and_the_same_each_time() {
    let workload = Workload {
        nodes: 64,
        days: 1,
        seed: SEED,
        utilisation: 0.9,
    };
    let first: Vec<BatchJob> = workload::jobs(&workload).unwrap().take(5_000).collect();
    assert!(
        first
            .windows(2)
            .all(|pair| pair[0].submit <= pair[1].submit)
    );
    assert!(first.iter().zip(1..).all(|(job, id)| job.id == id));
    let again: Vec<BatchJob> = workload::jobs(&workload).unwrap().take(5_000).collect();
    assert_eq!(first, again);
}
