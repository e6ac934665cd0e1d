//! The solver behind the neutral model: outcomes, limits, warm starts.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lacuna_milp::{ColumnId, Kind, Model, Options, Outcome, Sense, solve};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

/// Maximise the value of items within a capacity.
fn knapsack(weights: &[f64], values: &[f64], capacity: f64) -> Model {
    let mut model = Model::new(Sense::Maximise);
    let ids: Vec<ColumnId> = values.iter().map(|&v| model.binary(v)).collect();
    model.row(0.0, capacity, ids.into_iter().zip(weights.iter().copied()));
    model
}

/// A knapsack that no relaxation settles: many distinct solutions of nearly equal value.
fn hard() -> Model {
    let weights: Vec<f64> = (0..60)
        .map(|i| f64::from(1_000 + (i * 7_919) % 997))
        .collect();
    let values: Vec<f64> = weights.iter().map(|w| w + 13.0).collect();
    let mut model = knapsack(&weights, &values, 30_011.0);
    let ids: Vec<ColumnId> = (0..60).map(|_| model.binary(0.0)).collect();
    model.row(0.0, 40.0, ids.into_iter().zip(weights.iter().copied()));
    model
}

#[test]
fn a_small_knapsack_is_solved_to_proof() {
    let model = knapsack(&[3.0, 4.0, 5.0], &[4.0, 5.0, 6.0], 7.0);
    let solution = solve(&model, &Options::default());
    assert_eq!(solution.outcome, Outcome::Optimal);
    assert_eq!(solution.values, [1.0, 1.0, 0.0]);
    assert_eq!(solution.objective, 9.0);
    assert!((solution.bound - 9.0).abs() < 1e-6);
}

#[test]
fn a_linear_program_is_minimised() {
    let mut model = Model::new(Sense::Minimise);
    let x = model.column(Kind::Continuous, 0.0, f64::INFINITY, 1.0);
    let y = model.column(Kind::Continuous, 0.0, f64::INFINITY, 3.0);
    model.row(2.5, f64::INFINITY, [(x, 1.0), (y, 1.0)]);
    let solution = solve(&model, &Options::default());
    assert_eq!(solution.outcome, Outcome::Optimal);
    assert_eq!(solution.values, [2.5, 0.0]);
    assert_eq!(solution.bound, 2.5);
}

#[test]
fn every_outcome_without_an_answer_has_its_name() {
    let mut infeasible = Model::new(Sense::Maximise);
    let x = infeasible.binary(1.0);
    infeasible.row(2.0, 3.0, [(x, 1.0)]);
    let solution = solve(&infeasible, &Options::default());
    assert_eq!(solution.outcome, Outcome::Infeasible);
    assert!(solution.values.is_empty() && solution.objective.is_nan());

    let mut unbounded = Model::new(Sense::Maximise);
    unbounded.column(Kind::Continuous, 0.0, f64::INFINITY, 1.0);
    let solution = solve(&unbounded, &Options::default());
    assert_eq!(solution.outcome, Outcome::Unbounded);

    let mut wrong = Model::new(Sense::Maximise);
    wrong.column(Kind::Continuous, 1.0, 0.0, f64::NAN);
    let solution = solve(&wrong, &Options::default());
    assert!(!solution.has_values(), "{solution:?}");

    let empty = Model::new(Sense::Maximise);
    assert_eq!(solve(&empty, &Options::default()).outcome, Outcome::Optimal);
}

#[test]
fn no_time_is_no_incumbent_and_a_warm_start_is_kept() {
    let model = hard();
    let none = Options {
        time_limit: Duration::ZERO,
        ..Options::default()
    };
    let cold = solve(&model, &none);
    assert!(
        matches!(
            cold.outcome,
            Outcome::NoIncumbent | Outcome::Feasible { .. }
        ),
        "{cold:?}"
    );
    let mut start = vec![0.0; 120];
    start[0] = 1.0;
    let warm = Options {
        warm: Some(start.clone()),
        ..none
    };
    let warm = solve(&model, &warm);
    assert!(
        matches!(warm.outcome, Outcome::Feasible { gap } if gap > 0.0),
        "{warm:?}"
    );
    assert!(warm.objective >= model.objective(&start));
    assert!(warm.bound >= warm.objective);
    assert!(cold.stopped_by_clock && warm.stopped_by_clock);
}

/// A knapsack of several dimensions, which takes a tree of some size to prove.
fn tree() -> Model {
    let mut model = Model::new(Sense::Maximise);
    let mix = |i: i32, j: i32| f64::from(10 + (i * 7_919 + j * 104_729 + i * j * 31) % 89);
    let ids: Vec<ColumnId> = (0..40).map(|j| model.binary(mix(9, j))).collect();
    for i in 0..5 {
        let factors = (0..40).map(|j| mix(i, j));
        model.row(0.0, 900.0, ids.iter().copied().zip(factors));
    }
    model
}

#[test]
fn a_solve_ends_by_its_nodes_and_the_same_on_a_busy_machine() {
    let model = tree();
    let with = |tree_nodes| Options {
        tree_nodes,
        ..Options::default()
    };
    let few = solve(&model, &with(1));
    let whole = solve(&model, &with(u32::MAX));
    assert!(
        matches!(few.outcome, Outcome::Feasible { gap } if gap > 0.0),
        "{few:?}"
    );
    assert_eq!(whole.outcome, Outcome::Optimal);
    assert!(few.objective <= whole.objective && whole.bound < few.bound);
    assert!(!few.stopped_by_clock && !whole.stopped_by_clock);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let again = [solve(&model, &with(1)), solve(&model, &with(u32::MAX))];
        done.store(true, Ordering::Relaxed);
        assert_eq!(again, [few, whole]);
    });
}

#[test]
fn a_linear_program_ends_by_its_iterations() {
    // Dense rows, none of which presolve removes.
    let mut model = Model::new(Sense::Maximise);
    let ids: Vec<ColumnId> = (0..30)
        .map(|j| model.column(Kind::Continuous, 0.0, f64::INFINITY, f64::from(20 + j % 7)))
        .collect();
    for i in 0..20 {
        let factor = |j: i32| f64::from(1 + (i * 31 + j * 17 + i * j) % 23);
        model.row(
            f64::NEG_INFINITY,
            1_000.0,
            ids.iter().copied().zip((0..30).map(factor)),
        );
    }
    let with = |iterations| Options {
        iterations,
        ..Options::default()
    };
    let whole = solve(&model, &with(10_000));
    assert_eq!(whole.outcome, Outcome::Optimal);
    let short = solve(&model, &with(1));
    assert_ne!(short.outcome, Outcome::Optimal, "{short:?}");
    assert!(!short.stopped_by_clock);
}

#[test]
fn a_solve_ends_at_the_requested_gap() {
    let solution = solve(
        &hard(),
        &Options {
            gap: 0.5,
            ..Options::default()
        },
    );
    assert_eq!(solution.outcome, Outcome::Optimal);
    assert!(solution.bound <= solution.objective * 1.5);
}

#[test]
fn solves_on_many_threads_wait_for_each_other() {
    std::thread::scope(|scope| {
        for extra in 0..6 {
            scope.spawn(move || {
                let capacity = 7.0 + f64::from(extra);
                let model = knapsack(&[3.0, 4.0, 5.0], &[4.0, 5.0, 6.0], capacity);
                assert_eq!(solve(&model, &Options::default()).outcome, Outcome::Optimal);
            });
        }
    });
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 150, failure_persistence: None, rng_seed: RngSeed::Fixed(3), ..ProptestConfig::default()
    })]

    #[test]
    fn knapsacks_agree_with_trying_everything(
        items in proptest::collection::vec((1_u32..30, 0_u32..50), 1..10),
        capacity in 0_u32..100,
    ) {
        let weights: Vec<f64> = items.iter().map(|i| f64::from(i.0)).collect();
        let values: Vec<f64> = items.iter().map(|i| f64::from(i.1)).collect();
        let best = (0..1_u32 << items.len())
            .filter_map(|set| {
                let chosen = || items.iter().enumerate().filter(move |(i, _)| set >> i & 1 == 1);
                let weight: u32 = chosen().map(|(_, item)| item.0).sum();
                (weight <= capacity).then(|| chosen().map(|(_, item)| item.1).sum::<u32>())
            })
            .max()
            .unwrap();
        let model = knapsack(&weights, &values, f64::from(capacity));
        let solution = solve(&model, &Options::default());
        prop_assert_eq!(solution.outcome, Outcome::Optimal);
        prop_assert_eq!(solution.objective, f64::from(best));
    }
}
