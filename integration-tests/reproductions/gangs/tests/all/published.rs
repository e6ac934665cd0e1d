//! The published traces.

use lacuna_gangs::{Cluster, Outcome, catalogue, simulate};
use lacuna_skip::{data, or_skip};

use crate::common::{Case, FOLDER};

const HOUR: f64 = 3600.0;

fn hours(case: &Case, name: &str, seed: u64) -> (f64, f64, f64, Outcome) {
    let entry = catalogue().iter().find(|entry| entry.name == name).unwrap();
    let cluster = Cluster::shuffled(case.layout, seed);
    let terms = (&case.speeds, &entry.terms);
    let outcome = simulate(
        &case.jobs,
        cluster,
        terms,
        entry.policy(seed).as_mut(),
        &mut |_| {},
    )
    .unwrap();
    (
        outcome.makespan_s() / HOUR,
        outcome.mean_completion_s() / HOUR,
        outcome.communication_s() / HOUR,
        outcome,
    )
}

#[test]
fn jobs_on_one_gpu_cost_their_ideal_on_the_published_trace() {
    let layers = or_skip!(data(FOLDER));
    let case = Case::published(&layers, "traces/batch100.csv", 2);
    for name in ["dally", "replan-shortest"] {
        let (.., outcome) = hours(&case, name, 1);
        let mut singles = 0;
        for ended in &outcome.jobs {
            let job = case.jobs.iter().find(|job| job.id == ended.id).unwrap();
            if job.gpus == 1 {
                let stalls = if name == "dally" {
                    0.0
                } else {
                    f64::from(ended.restarts)
                };
                assert!(
                    (ended.held_s - stalls - job.ideal_s()).abs() < 1e-3,
                    "{name}: {ended:?}"
                );
                assert_eq!(ended.communication_s, 0.0);
                singles += 1;
            }
        }
        assert_eq!(singles, 58);
    }
}

#[test]
fn replanning_beats_dally_on_the_published_trace() {
    let layers = or_skip!(data(FOLDER));
    let case = Case::published(&layers, "traces/batch500.csv", 2);
    let (makespan, mean, lost, _) = hours(&case, "replan-shortest", 1);
    let (dally_makespan, dally_mean, dally_lost, _) = hours(&case, "dally", 1);
    assert!(
        makespan < 0.85 * dally_makespan,
        "{makespan} {dally_makespan}"
    );
    assert!(mean < 0.6 * dally_mean, "{mean} {dally_mean}");
    assert!(lost < 0.8 * dally_lost, "{lost} {dally_lost}");
    // No rigid gang can lose less.
    assert!(lost > 1_400.0, "{lost}");
}
