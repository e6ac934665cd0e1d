//! Each policy on a small cluster.

use lacuna_gangs::{Cluster, JobState, Kind, Layout, Policy, Terms, View, catalogue};

use crate::common::{Case, end, job};

/// A policy of the catalogue.
fn named(name: &str) -> Box<dyn Policy> {
    catalogue()
        .iter()
        .find(|entry| entry.name == name)
        .unwrap()
        .policy(1)
}

/// The machines that a policy gives to each waiting job, by id; at a time, on a cluster of which
/// some GPUs are taken.
fn given(
    case: &Case,
    policy: &mut dyn Policy,
    now_s: f64,
    taken: &[(u32, u64)],
    change: impl Fn(usize, &mut JobState),
) -> Vec<(u64, Vec<u32>)> {
    let mut cluster = Cluster::new(case.layout);
    for &part in taken {
        assert!(cluster.take(&lacuna_gangs::Placement::of_parts(vec![part])));
    }
    let mut states: Vec<JobState> = case
        .jobs
        .iter()
        .enumerate()
        .map(|(at, job)| JobState::new(*job, at))
        .collect();
    for (at, state) in states.iter_mut().enumerate() {
        change(at, state);
    }
    let waiting: Vec<&JobState> = states.iter().collect();
    let view = View {
        now_s,
        cluster: &cluster,
        waiting: &waiting,
        running: &[],
        speeds: &case.speeds,
        terms: &Terms::LEASED,
    };
    let plan = policy.plan(&view);
    let starts = plan.starts.into_iter();
    starts
        .map(|(at, placement)| {
            (
                case.jobs[at].id,
                placement.parts().map(|part| part.0).collect(),
            )
        })
        .collect()
}

const HOUR: f64 = 3600.0;

/// Both machines of the first rack and one of the second have four GPUs left.
const CRUMBS: [(u32, u64); 4] = [(0, 0b11_0011), (1, 0b11_0011), (2, 0b11_0011), (3, 0xff)];

#[test]
fn dally_waits_for_a_machine_then_a_rack_then_anything() {
    let case = Case::small(2, 2, &[job(1, 0.0, 8, "Deep", 1e6)]);
    let after = |name: &str, hours: f64| {
        given(
            &case,
            named(name).as_mut(),
            hours * HOUR,
            &CRUMBS,
            |_, _| {},
        )
    };
    assert_eq!(after("dally", 5.0), []);
    assert_eq!(after("dally", 6.0), [(1, vec![0, 1])]);
    assert_eq!(after("dally-no-wait", 0.0), [(1, vec![0, 1])]);
    assert_eq!(after("dally-manual", 11.0), []);
    assert_eq!(after("dally-full", 10_000.0), []);
    let across = Case::small(2, 2, &[job(1, 0.0, 7, "Deep", 1e6)]);
    let full = [(0, 0x1f), (1, 0x1f), (2, 0x1f), (3, 0x1f)];
    let after = |hours: f64| {
        given(
            &across,
            named("dally").as_mut(),
            hours * HOUR,
            &full,
            |_, _| {},
        )
    };
    assert_eq!(after(11.0), []);
    assert_eq!(after(12.0), [(1, vec![0, 1, 2])]);
}

#[test]
fn dally_does_not_wait_for_what_a_job_is_too_large_for() {
    let case = Case::small(
        2,
        2,
        &[job(1, 0.0, 12, "Deep", 1.0), job(2, 0.0, 17, "Deep", 1.0)],
    );
    assert_eq!(
        given(&case, named("dally-full").as_mut(), 0.0, &[], |_, _| {}),
        [(1, vec![0, 1]), (2, vec![1, 2, 3])]
    );
}

#[test]
fn dally_prefers_jobs_that_lost_time_to_the_network() {
    let case = Case::small(
        1,
        1,
        &[job(1, 0.0, 8, "Deep", 1e4), job(2, 0.0, 8, "Deep", 1e4)],
    );
    let lost = |at: usize, state: &mut JobState| {
        state.held_s = if at == 0 { 1000.0 } else { 5000.0 };
        state.left = state.job.samples * 0.9;
    };
    assert_eq!(
        given(&case, named("dally").as_mut(), 0.0, &[], lost)[0].0,
        2
    );
}

#[test]
fn tiresias_spreads_sensitive_jobs_only_as_coded() {
    let case = Case::small(2, 2, &[job(1, 0.0, 8, "Deep", 1.0)]);
    let with = |name: &str| given(&case, named(name).as_mut(), 0.0, &CRUMBS, |_, _| {});
    assert_eq!(with("tiresias"), [(1, vec![0, 1])]);
    assert_eq!(with("tiresias-fixed"), []);
    assert_eq!(with("tiresias-all"), []);
    // The job with the least service goes first.
    let two = Case::small(
        1,
        1,
        &[job(1, 0.0, 8, "Deep", 1.0), job(2, 0.0, 8, "Deep", 1.0)],
    );
    let served =
        |at: usize, state: &mut JobState| state.served_gpu_s = if at == 0 { 5.0 } else { 4.0 };
    assert_eq!(
        given(&two, named("tiresias").as_mut(), 0.0, &[], served)[0].0,
        2
    );
}

#[test]
fn gandiva_gives_machines_to_a_demand_and_scatters_large_jobs() {
    let trace = [
        job(1, 0.0, 2, "Deep", 1.0),
        job(2, 0.0, 4, "Deep", 1.0),
        job(3, 0.0, 2, "Deep", 1.0),
        job(4, 0.0, 12, "Deep", 1.0),
    ];
    let case = Case::small(1, 4, &trace);
    let found = given(&case, named("gandiva").as_mut(), 0.0, &[], |_, _| {});
    let machines = |id: u64| found.iter().find(|(of, _)| *of == id).unwrap().1.clone();
    assert_eq!((machines(1), machines(3)), (vec![0], vec![0]));
    assert_eq!(machines(2), [1]);
    assert!(machines(4).len() > 2, "{found:?}");
}

#[test]
fn gandiva_moves_a_spread_job_to_a_machine_that_is_free() {
    // Two jobs take five GPUs of each machine, so the third is spread until they end.
    let trace = [
        job(1, 0.0, 5, "Deep", 100.0),
        job(2, 0.0, 5, "Deep", 100.0),
        job(3, 1.0, 5, "Wide", 500.0),
    ];
    let case = Case::small(1, 2, &trace);
    let mut kinds = Vec::new();
    case.run(Terms::LEASED, named("gandiva").as_mut(), &mut |segment| {
        kinds.push(segment.kind)
    })
    .unwrap();
    assert!(
        kinds.contains(&Kind::Rack) && kinds.last() == Some(&Kind::Machine),
        "{kinds:?}"
    );
}

#[test]
fn replanning_takes_the_shortest_first_and_stops_the_long() {
    let trace = [
        job(1, 0.0, 8, "Wide", 1000.0),
        job(2, 100.0, 8, "Wide", 10.0),
    ];
    let case = Case::small(1, 1, &trace);
    let outcome = case.named("replan-shortest", |terms| terms);
    let speed = case.speeds.consolidated(&case.jobs[0], 8);
    assert!((end(&outcome, 2) - (100.0 + 10.0 / speed)).abs() < 1e-6);
    assert!((end(&outcome, 1) - (1010.0 / speed + 8.0)).abs() < 1e-6);
}

#[test]
fn replanning_repacks_so_that_a_large_gang_finds_whole_machines() {
    // Two small jobs on two machines, and a gang for one: one of the small ones moves.
    let trace = [
        job(1, 0.0, 5, "Wide", 900.0),
        job(2, 0.0, 4, "Wide", 100.0),
        job(3, 0.0, 4, "Wide", 900.0),
        job(4, 200.0, 8, "Wide", 2.0),
    ];
    let case = Case::small(1, 2, &trace);
    let outcome = case.named("replan-shortest", |terms| terms);
    assert!(end(&outcome, 4) < 203.0, "{outcome:?}");
}

#[test]
fn each_policy_ends_all_jobs_in_the_same_way_each_time() {
    let trace: Vec<_> = (0..40)
        .map(|id| {
            job(
                id,
                50.0 * id as f64,
                1 + (id as u32 * 7) % 20,
                if id % 2 == 0 { "Deep" } else { "Wide" },
                3000.0,
            )
        })
        .collect();
    let case = Case::small(2, 2, &trace);
    assert_eq!(case.layout, Layout::new(2, 2, 2, 4).unwrap());
    for entry in catalogue() {
        let outcome = case.named(entry.name, |terms| terms);
        assert_eq!(outcome.jobs.len(), 40, "{}", entry.name);
        assert_eq!(
            outcome,
            case.named(entry.name, |terms| terms),
            "{}",
            entry.name
        );
        assert!(outcome.utilisation() <= 1.0 && outcome.plans > 0);
    }
}
