//! The paper's seven networks out of the recording, if it is there.

use std::io::Read;

use lacuna_model::ScalingCurve;
use lacuna_planner::dp::{self, reference};
use lacuna_planner::milp::{self, MilpOptions};
use lacuna_planner::{Far, Item, Problem};
use lacuna_skip::{Missing, data, or_skip};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::common::agree;

/// A trainer as the recording has it.
#[derive(serde::Deserialize)]
struct Row {
    min_nodes: u32,
    max_nodes: u32,
    rescale_up_s: f64,
    rescale_down_s: f64,
    nodes: Vec<u32>,
    objective: Vec<f64>,
}

/// The first trainers of a file.
fn recorded(file: &str) -> Result<Vec<Row>, Missing> {
    let path = data(&format!("summit-2021-02/{file}"))?;
    let packed = std::fs::File::open(path).unwrap();
    let mut text = String::new();
    flate2::read::GzDecoder::new(packed)
        .read_to_string(&mut text)
        .unwrap();
    let rows = text
        .lines()
        .take(70)
        .map(|line| serde_json::from_str(line).unwrap());
    Ok(rows.collect())
}

#[test]
fn all_solvers_agree_on_the_recorded_networks() {
    let seed = 91;
    println!("seed {seed}");
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let files = [
        "hpo-1000.jsonl.gz",
        "mixed-1001-throughput.jsonl.gz",
        "mixed-1001-speedup.jsonl.gz",
    ];
    for file in files {
        let rows = or_skip!(recorded(file));
        for round in 0..100 {
            let nodes = rng.random_range(1..500);
            let mut left = nodes;
            let first = rng.random_range(0..rows.len() - 10);
            let trainers = rows[first..first + 10]
                .iter()
                .map(|row| {
                    let points = row.nodes.iter().copied().zip(row.objective.iter().copied());
                    let value = ScalingCurve::new(points).unwrap().table(row.max_nodes);
                    let current = rng.random_range(0..=row.max_nodes.min(left));
                    left -= current;
                    Item {
                        current,
                        min: row.min_nodes,
                        max: row.max_nodes,
                        rate_now: if current >= row.min_nodes {
                            value[current as usize]
                        } else {
                            0.0
                        },
                        value: value.into(),
                        up_s: row.rescale_up_s,
                        pilot_s: 0.0,
                        far: Far::default(),
                        kinds: None,
                        down_s: row.rescale_down_s,
                        lost: lacuna_planner::Lost::default(),
                    }
                })
                .collect();
            let problem = Problem {
                nodes,
                horizon_s: [10.0, 120.0, 600.0][round % 3],
                trainers,
            };
            let fast = dp::Solver::new().solve(&problem).objective;
            let plain = reference::solve(&problem).objective;
            assert!(agree(fast, plain, 1e-9), "{file} {round}: {fast} {plain}");
            if round < 20 {
                let options = MilpOptions {
                    shortcuts: round % 2 == 0,
                    ..MilpOptions::until(std::time::Duration::from_secs(60))
                };
                let highs = milp::solve(&problem, &options).0.objective;
                assert!(agree(highs, plain, 1e-6), "{file} {round}: {highs} {plain}");
            }
        }
    }
}

#[test]
fn a_saved_problem_is_solved_again_to_the_same_sizes() {
    let value = crate::common::shufflenet();
    let problem = Problem {
        nodes: 77,
        horizon_s: 120.0,
        trainers: (0..6).map(|j| crate::common::hpo(&value, 3 * j)).collect(),
    };
    let saved = serde_json::to_string(&problem).unwrap();
    let again: Problem = serde_json::from_str(&saved).unwrap();
    let mut solver = dp::Solver::new();
    assert_eq!(solver.solve(&again), solver.solve(&problem));
}
