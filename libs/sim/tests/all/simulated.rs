//! A log of batch jobs as a trace, placed by the simulated scheduler.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use lacuna_batchsim::Machine;
use lacuna_model::Timestamp;
use lacuna_sim::{PoolSteps, PoolTrace, SimError, SimulatedTrace, Simulation};
use lacuna_skip::{data, or_skip};
use lacuna_trace::{Reading, Window};
use tempfile::TempDir;

/// Four nodes. Job 1 has two of them from 0 to 100, so job 2, which needs all, waits until
/// then; job 3 fills in from 20 to 50; job 4 comes at 200; job 5 is cancelled while it waits.
const JOBS: [&str; 5] = [
    "1 0 0 100 2 -1 -1 2 100 -1 1 1 1 -1 1 -1 -1 -1",
    "2 10 90 50 4 -1 -1 4 50 -1 1 1 1 -1 1 -1 -1 -1",
    "3 20 0 30 2 -1 -1 2 60 -1 1 1 1 -1 1 -1 -1 -1",
    "4 200 0 10 1 -1 -1 1 10 -1 1 1 1 -1 1 -1 -1 -1",
    "5 210 -1 -1 1 -1 -1 1 10 -1 5 1 1 -1 1 -1 -1 -1",
];

fn log(folder: &TempDir, jobs: &[&str]) -> PathBuf {
    let path = folder.path().join("log.swf");
    let mut text =
        "; Version: 2.2\n; MaxNodes: 4\n; MaxProcs: 4\n; UnixStartTime: 1000\n".to_owned();
    for job in jobs {
        writeln!(text, "{job}").unwrap();
    }
    std::fs::write(&path, text).unwrap();
    path
}

fn survey(path: &Path, nodes: u32, simulation: Simulation) -> Result<SimulatedTrace, SimError> {
    let machine = Machine::new(nodes);
    SimulatedTrace::open(path, &Reading::default(), machine, simulation, &mut |_| {})
}

/// Second, nodes that leave, nodes that come with the start of their holes.
type WalkedStep = (f64, Vec<u32>, Vec<(u32, i64)>);

fn walk(trace: &dyn PoolTrace) -> Vec<WalkedStep> {
    walk_all(trace.steps().unwrap())
}

fn walk_all(mut steps: Box<dyn PoolSteps + '_>) -> Vec<WalkedStep> {
    let mut walked = Vec::new();
    while let Some(step) = steps.next().unwrap() {
        walked.push((step.at_s, step.closed.to_vec(), step.opened.to_vec()));
    }
    walked
}

#[test]
fn a_walk_has_the_steps_of_the_simulated_scheduler() {
    let folder = TempDir::new().unwrap();
    let simulated = survey(&log(&folder, &JOBS), 4, Simulation::default()).unwrap();
    // All holes in milliseconds since the epoch: second 0 of the log is 1000.
    let expected: Vec<WalkedStep> = vec![
        (0.0, vec![], vec![(2, 1_000_000), (3, 1_000_000)]),
        (20.0, vec![2, 3], vec![]),
        (50.0, vec![], vec![(2, 1_050_000), (3, 1_050_000)]),
        (100.0, vec![2, 3], vec![]),
        (
            150.0,
            vec![],
            (0..4).map(|node| (node, 1_150_000)).collect(),
        ),
        (200.0, vec![0], vec![]),
    ];
    assert_eq!(walk(&simulated), expected);
    // Each walk reads and simulates the log again.
    assert_eq!(walk(&simulated), expected);
    assert_eq!(simulated.start(), Timestamp::from_unix(1000));
    assert_eq!(simulated.end(), Timestamp::from_unix(1200));
    assert_eq!((simulated.nodes(), &*simulated.node_name(3)), (4, "n4"));
    let facts = simulated.survey();
    assert_eq!(
        (
            facts.counts.records,
            facts.counts.jobs,
            facts.counts.cancelled
        ),
        (5, 4, 1)
    );
    assert!(!facts.sorted);
    assert_eq!(facts.last_end, Timestamp::from_unix(1210));
    assert_eq!(facts.totals.busy_node_s, 200 + 200 + 60 + 10);
    assert_eq!(facts.header.nodes, Some(4));
}

#[test]
fn a_log_out_of_order_is_sorted() {
    let folder = TempDir::new().unwrap();
    let sorted = walk(&survey(&log(&folder, &JOBS), 4, Simulation::default()).unwrap());
    let mut jobs = JOBS;
    jobs.reverse();
    let simulated = survey(&log(&folder, &jobs), 4, Simulation::default()).unwrap();
    assert!(simulated.survey().sorted);
    assert_eq!(simulated.survey().counts.late, 3);
    assert_eq!(walk(&simulated), sorted);
}

#[test]
fn a_window_begins_with_the_present_holes() {
    let folder = TempDir::new().unwrap();
    let window = Window {
        start: Some(Timestamp::from_unix(1060)),
        end: Some(Timestamp::from_unix(1150)),
    };
    let simulation = Simulation {
        window,
        ..Simulation::default()
    };
    let simulated = survey(&log(&folder, &JOBS), 4, simulation).unwrap();
    let expected: Vec<WalkedStep> = vec![
        (0.0, vec![], vec![(2, 1_050_000), (3, 1_050_000)]),
        (40.0, vec![2, 3], vec![]),
        (90.0, vec![], (0..4).map(|node| (node, 1_150_000)).collect()),
    ];
    assert_eq!(walk(&simulated), expected);
    // Nodes 2 and 3 had a hole from 0 to 20, from which a predictor learns.
    let past = simulated.past().unwrap().unwrap();
    let both = |at_ms| vec![(2, at_ms), (3, at_ms)];
    let expected: Vec<WalkedStep> = vec![
        (-60.0, vec![], both(1_000_000)),
        (-40.0, vec![2, 3], vec![]),
        (-10.0, vec![], both(1_050_000)),
    ];
    assert_eq!(walk_all(past), expected);
    assert_eq!(simulated.history(), 2);
    assert_eq!(simulated.length_s(), 90.0);
}

#[test]
fn the_error_names_the_reason_why_a_log_cannot_be_simulated() {
    let folder = TempDir::new().unwrap();
    let path = log(&folder, &JOBS);
    let refused = survey(&path, 3, Simulation::default()).unwrap_err();
    assert!(matches!(refused, SimError::Batch(_)), "{refused}");
    let missing = survey(&folder.path().join("none.swf"), 4, Simulation::default());
    assert!(matches!(missing, Err(SimError::Log(_))), "{missing:?}");
    let waiting = survey(&log(&folder, &JOBS[4..]), 4, Simulation::default()).unwrap_err();
    assert!(
        waiting.to_string().contains("none of its 1 records"),
        "{waiting}"
    );
    let holes = folder.path().join("holes.csv");
    std::fs::write(&holes, "node,idle_from,idle_until,censored\nn1,0,10,0\n").unwrap();
    let holes = survey(&holes, 4, Simulation::default()).unwrap_err();
    assert!(matches!(holes, SimError::NotJobs { .. }), "{holes}");
}

#[test]
fn two_simulations_of_theta_are_alike() {
    let path = or_skip!(data("theta-2022/theta_2022.swf.gz"));
    let simulated = survey(&path, 4392, Simulation::default()).unwrap();
    let facts = simulated.survey();
    println!("{:?} {:?}", facts.counts, facts.totals);
    assert_eq!(
        facts.counts.jobs + facts.counts.cancelled + facts.counts.never_started,
        23_911
    );
    let (mut pool, mut steps) = (0_i64, 0_u64);
    let mut walked = simulated.steps().unwrap();
    let (mut idle_node_s, mut before) = (0.0, 0.0);
    while let Some(step) = walked.next().unwrap() {
        idle_node_s += pool as f64 * (step.at_s - before);
        before = step.at_s;
        pool += step.opened.len() as i64 - step.closed.len() as i64;
        assert!((0..=4392).contains(&pool), "{pool} at {}", step.at_s);
        steps += 1;
    }
    idle_node_s += pool as f64 * (simulated.length_s() - before);
    println!(
        "{steps} steps, {:.1} idle on the mean",
        idle_node_s / simulated.length_s()
    );
    let in_use = facts.totals_in_use;
    // Up to the last submission the walk and the simulator's own totals agree to the second.
    assert_eq!(idle_node_s, in_use.idle_node_s as f64);
}
