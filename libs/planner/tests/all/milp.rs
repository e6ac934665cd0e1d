//! The mixed-integer programs against the exact dynamic program.

use std::time::Duration;

use crate::common::{agree, hpo, problem, shufflenet};
use lacuna_model::Outcome;
use lacuna_planner::milp::{self, MilpOptions};
use lacuna_planner::{Far, Item, Problem, dp};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

fn exact(shortcuts: bool) -> MilpOptions {
    MilpOptions {
        shortcuts,
        ..MilpOptions::until(Duration::from_secs(60))
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 200, failure_persistence: None, rng_seed: RngSeed::Fixed(4), ..ProptestConfig::default()
    })]

    #[test]
    fn the_program_over_counts_agrees_with_dynamic_programming(problem in problem(6, 12)) {
        let best = dp::Solver::new().solve(&problem);
        for shortcuts in [false, true] {
            let (sizes, solve) = milp::solve(&problem, &exact(shortcuts));
            prop_assert_eq!(solve.outcome, Outcome::Optimal);
            prop_assert_eq!(solve.objective, sizes.objective);
            prop_assert!(
                agree(sizes.objective, best.objective, 1e-6),
                "short cuts {}: {:?} {:?}", shortcuts, sizes, best
            );
            let total: u32 = sizes.counts.iter().sum();
            prop_assert!(total <= problem.nodes);
            for (item, &n) in problem.trainers.iter().zip(&sizes.counts) {
                prop_assert!(item.is_size(n));
            }
        }
    }
}

#[test]
fn at_paper_scale_the_program_agrees_and_short_cuts_are_named() {
    let seed = 21;
    println!("seed {seed}");
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let value = shufflenet();
    let mut solver = dp::Solver::new();
    let mut used = std::collections::BTreeMap::new();
    for round in 0..60 {
        let nodes = rng.random_range(5..400);
        let mut left = nodes;
        let trainers = (0..10)
            .map(|_| {
                let current = rng.random_range(0..=64.min(left));
                left -= current;
                hpo(&value, current)
            })
            .collect();
        let problem = Problem {
            nodes,
            horizon_s: [10.0, 120.0, 600.0][round % 3],
            trainers,
        };
        let best = solver.solve(&problem);
        for shortcuts in [true, false] {
            let (sizes, solve) = milp::solve(&problem, &exact(shortcuts));
            assert_eq!(solve.outcome, Outcome::Optimal);
            assert!(
                agree(sizes.objective, best.objective, 1e-6),
                "round {round}: {sizes:?} {best:?}"
            );
            if shortcuts {
                *used.entry(solve.shortcut).or_insert(0) += 1;
            } else {
                assert_eq!(solve.shortcut, None);
            }
        }
    }
    println!("short cuts: {used:?}");
    assert!(used.keys().flatten().any(|name| name == milp::CERTIFICATE));
    assert!(used.keys().flatten().any(|name| name == milp::PEGGING));
}

#[test]
fn a_solve_ends_by_its_nodes_never_worse_than_what_is_there() {
    let mut rng = ChaCha8Rng::seed_from_u64(8);
    let few = MilpOptions {
        tree_nodes: 1,
        shortcuts: false,
        ..MilpOptions::default()
    };
    let mut bitten = 0;
    for round in 0..12 {
        // Rough curves, of which the relaxation takes the hull, and large minima.
        let trainers: Vec<Item> = (0..30)
            .map(|_| {
                let value = (0..=40).map(|n| f64::from(n).sqrt() * rng.random_range(0.2..1.0));
                let value = value.collect();
                Item {
                    current: rng.random_range(0..4) * 4,
                    min: rng.random_range(1..20),
                    max: 40,
                    value,
                    rate_now: 0.1,
                    up_s: 20.0,
                    pilot_s: 0.0,
                    far: Far::default(),
                    kinds: None,
                    down_s: 10.0,
                    lost: lacuna_planner::Lost::default(),
                }
            })
            .collect();
        let problem = Problem {
            nodes: 97,
            horizon_s: 120.0,
            trainers,
        };
        let best = dp::Solver::new().solve(&problem).objective;
        let (sizes, solve) = milp::solve(&problem, &few);
        let again = milp::solve(&problem, &few);
        assert_eq!(again, (sizes.clone(), solve.clone()), "round {round}");
        assert!(problem.is_feasible(&sizes.counts), "round {round}");
        assert!(sizes.objective >= milp::fallback(&problem).objective);
        assert!(!solve.stopped_by_clock);
        if let Outcome::Feasible { gap } = solve.outcome {
            bitten += 1;
            assert!(
                best <= sizes.objective * (1.0 + gap) * (1.0 + 1e-9),
                "round {round}"
            );
        }
    }
    println!("{bitten} of 12 ended by their nodes");
    assert!(bitten > 0);
}
