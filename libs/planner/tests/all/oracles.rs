//! Independent ways to the optimum must come to the same answer.

use crate::common::{agree, hpo, problem, shufflenet};
use lacuna_planner::dp::{self, Memory, Proof, reference};
use lacuna_planner::instance::{self, Size};
use lacuna_planner::{Item, Problem};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

proptest! {
    #![proptest_config(ProptestConfig { cases: 3_000, failure_persistence: None, rng_seed: RngSeed::Fixed(2), ..ProptestConfig::default() })]

    #[test]
    fn the_program_finds_what_brute_force_finds(problem in problem(4, 6)) {
        let fast = dp::Solver::new().solve(&problem);
        let plain = reference::solve(&problem);
        prop_assert!(agree(fast.objective, plain.objective, 1e-9), "{fast:?} {plain:?}");
        if let Some(best) = reference::brute_force(&problem) {
            prop_assert!(problem.is_feasible(&fast.counts), "{fast:?}");
            prop_assert!(agree(fast.objective, best.objective, 1e-9), "{fast:?} {best:?}");
        }
    }

    #[test]
    fn the_fast_program_finds_what_the_plain_one_finds(problem in problem(12, 24)) {
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

/// What happens to a pool between two solves.
#[derive(Debug, Clone, Copy)]
enum Event {
    /// This number of nodes joins.
    Join(u32),
    /// Trainer `which` (modulo their number) loses a node.
    Lose(usize),
    /// Trainer `which` ends, and one like trainer `like` begins.
    Replace(usize, usize),
    /// The looking-ahead time changes.
    Horizon(f64),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (1..6_u32).prop_map(Event::Join),
        6 => (0..64_usize).prop_map(Event::Lose),
        2 => (0..64_usize, 0..64_usize).prop_map(|(a, b)| Event::Replace(a, b)),
        1 => (0.5_f64..40.0).prop_map(Event::Horizon),
    ]
}

/// Carries an answer out, then lets something happen.
fn next(problem: &mut Problem, counts: &[u32], event: Event) {
    let resize = |item: &mut Item, n: u32| {
        item.current = n;
        item.rate_now = if n >= item.min {
            item.value[n as usize]
        } else {
            0.0
        };
    };
    for (item, &n) in problem.trainers.iter_mut().zip(counts) {
        resize(item, n);
    }
    let trainers = problem.trainers.len();
    match event {
        Event::Join(nodes) => problem.nodes += nodes,
        Event::Horizon(horizon_s) => problem.horizon_s = horizon_s,
        _ if trainers == 0 => {}
        Event::Lose(which) => {
            let item = &mut problem.trainers[which % trainers];
            if item.current > 0 {
                resize(item, item.current - 1);
                problem.nodes -= 1;
            }
        }
        Event::Replace(which, like) => {
            let mut new = problem.trainers[like % trainers].clone();
            resize(&mut new, 0);
            problem.trainers.remove(which % trainers);
            problem.trainers.push(new);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, rng_seed: RngSeed::Fixed(16), ..ProptestConfig::default() })]

    #[test]
    fn over_any_sequence_of_events_memory_changes_no_answer(
        first in problem(8, 16),
        events in proptest::collection::vec(event(), 30),
    ) {
        let mut problem = first;
        let mut kept = dp::Solver::new();
        let mut forgetful = dp::Solver::with(Memory::Forgotten);
        for event in events {
            let answer = kept.solve(&problem);
            prop_assert_eq!(&answer, &dp::Solver::new().solve(&problem));
            prop_assert_eq!(&answer, &forgetful.solve(&problem));
            let plain = reference::solve(&problem);
            prop_assert!(agree(answer.objective, plain.objective, 1e-9), "{answer:?} {plain:?}");
            next(&mut problem, &answer.counts, event);
        }
    }
}

#[test]
fn large_scarce_instances_are_solved_as_the_plain_program_solves_them() {
    let networks = instance::networks(3);
    for size in [Size::of(10, 200), Size::of(20, 100), Size::of(35, 1_024)] {
        for seed in 0..10 {
            let problem = instance::scarce(size, &networks, seed);
            let fast = dp::Solver::new().solve(&problem);
            let plain = reference::solve(&problem);
            assert!(problem.is_feasible(&fast.counts), "{size}, seed {seed}");
            assert!(
                agree(fast.objective, plain.objective, 1e-9),
                "{size}, seed {seed}: {} {}",
                fast.objective,
                plain.objective
            );
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
    }
}

#[test]
fn the_fast_program_is_exact_on_the_papers_trainers() {
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
    println!("proofs: slack, certificate, program: {proofs:?}");
    assert!(
        proofs[Proof::Program as usize] > 0,
        "the core program was never needed"
    );
}
