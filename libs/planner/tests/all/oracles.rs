//! Independent ways to the optimum must come to the same answer.

use crate::common::{agree, hpo, problem, shufflenet};
use lacuna_planner::dp::{self, Proof, reference};
use lacuna_planner::{Item, Problem};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

proptest! {
    #![proptest_config(ProptestConfig { cases: 3_000, failure_persistence: None, rng_seed: RngSeed::Fixed(2), ..ProptestConfig::default() })]

    #[test]
    fn the_programme_finds_what_brute_force_finds(problem in problem(4, 6)) {
        let fast = dp::Solver::new().solve(&problem);
        let plain = reference::solve(&problem);
        prop_assert!(agree(fast.objective, plain.objective, 1e-9), "{fast:?} {plain:?}");
        if let Some(best) = reference::brute_force(&problem) {
            prop_assert!(problem.is_feasible(&fast.counts), "{fast:?}");
            prop_assert!(agree(fast.objective, best.objective, 1e-9), "{fast:?} {best:?}");
        }
    }

    #[test]
    fn the_fast_programme_finds_what_the_plain_one_finds(problem in problem(12, 24)) {
        let fast = dp::Solver::new().solve(&problem);
        let plain = reference::solve(&problem);
        prop_assert!(agree(fast.objective, plain.objective, 1e-9), "{fast:?} {plain:?}");
    }

    #[test]
    fn a_solver_that_has_worked_before_answers_the_same(
        problems in proptest::collection::vec(problem(6, 12), 2..5),
    ) {
        let mut used = dp::Solver::new();
        for problem in &problems {
            prop_assert_eq!(used.solve(problem), dp::Solver::new().solve(problem));
        }
    }
}

/// Problems as a replay meets them: equal trainers at various sizes.
fn replay_like(rng: &mut ChaCha8Rng, trainers: usize, nodes: u32, horizon_s: f64) -> Problem {
    let value = shufflenet();
    let mut left = nodes;
    let items: Vec<Item> = (0..trainers)
        .map(|_| {
            let current = rng.random_range(0..=64.min(left));
            left -= current;
            hpo(&value, current)
        })
        .collect();
    Problem {
        nodes,
        horizon_s,
        trainers: items,
        max_change: None,
    }
}

#[test]
fn the_fast_programme_is_exact_on_the_papers_trainers() {
    let seed = 11;
    println!("seed {seed}");
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut solver = dp::Solver::new();
    let mut proofs = [0_u32; 3];
    for round in 0..1_000 {
        let nodes = rng.random_range(1..420);
        let horizon_s = [10.0, 60.0, 120.0, 600.0][round % 4];
        let problem = replay_like(&mut rng, 10, nodes, horizon_s);
        let fast = solver.solve(&problem);
        let plain = reference::solve(&problem);
        assert!(
            agree(fast.objective, plain.objective, 1e-9),
            "round {round}: {fast:?} {plain:?}"
        );
        proofs[solver.proof() as usize] += 1;
    }
    println!("proofs: slack, certificate, programme: {proofs:?}");
    assert!(
        proofs[Proof::Programme as usize] > 0,
        "the core programme was never needed"
    );
}
