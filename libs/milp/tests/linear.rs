//! The growing linear program: its answers, its prices and its failures.

use std::time::Duration;

use lacuna_milp::{Kind, Linear, Model, Options, Outcome, Sense, solve};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

const LONG: Duration = Duration::from_secs(60);
const MANY: u32 = 10_000;
const NO_BOUND: f64 = f64::INFINITY;

#[test]
fn prices_are_the_gain_of_a_further_unit_of_a_row() {
    // Two goods from wood and hours: the classical example, optimum 2 and 6.
    let mut linear = Linear::new(
        Sense::Maximise,
        &[(-NO_BOUND, 4.0), (-NO_BOUND, 12.0), (-NO_BOUND, 18.0)],
    );
    assert!(linear.add(3.0, &[(0, 1.0), (2, 3.0)]));
    assert!(linear.add(5.0, &[(1, 2.0), (2, 2.0)]));
    let vertex = linear.solve(MANY, LONG);
    assert_eq!(vertex.outcome, Outcome::Optimal);
    assert!((vertex.objective - 36.0).abs() < 1e-9);
    for (dual, right) in vertex.duals.iter().zip([0.0, 1.5, 1.0]) {
        assert!((dual - right).abs() < 1e-9, "{vertex:?}");
    }

    drop(linear);

    let mut least = Linear::new(Sense::Minimise, &[(6.0, NO_BOUND)]);
    assert!(least.add(2.0, &[(0, 3.0)]));
    let vertex = least.solve(MANY, LONG);
    assert!((vertex.objective - 4.0).abs() < 1e-9);
    assert!((vertex.duals[0] - 2.0 / 3.0).abs() < 1e-9, "{vertex:?}");
}

#[test]
fn a_later_column_is_used_and_the_basis_is_kept() {
    let rows: Vec<(f64, f64)> = (0..20).map(|_| (-NO_BOUND, 10.0)).collect();
    let mut linear = Linear::new(Sense::Maximise, &rows);
    for row in 0..20 {
        assert!(linear.add(1.0, &[(row, 1.0)]));
    }
    let before = linear.solve(MANY, LONG);
    assert!((before.objective - 200.0).abs() < 1e-9);
    assert!(linear.add(3.0, &[(7, 1.0)]));
    let after = linear.solve(MANY, LONG);
    assert!((after.objective - 220.0).abs() < 1e-9);
    assert!((after.values[20] - 10.0).abs() < 1e-9);
    assert!((after.duals[7] - 3.0).abs() < 1e-9);
    // From the last basis it takes one or two steps instead of one a row.
    let again = linear.solve(MANY, LONG);
    assert_eq!(again.objective, after.objective);
    assert!(after.iterations < 5, "{after:?}");
}

#[test]
fn a_solve_ends_by_its_iterations_and_the_next_goes_on_from_there() {
    let rows: Vec<(f64, f64)> = (0..20).map(|_| (-NO_BOUND, 10.0)).collect();
    let mut linear = Linear::new(Sense::Maximise, &rows);
    for row in 0..20 {
        assert!(linear.add(1.0, &[(row, 1.0), ((row + 1) % 20, 0.5)]));
    }
    let short = linear.solve(3, LONG);
    assert_eq!(short.outcome, Outcome::NoIncumbent);
    assert!(!short.stopped_by_clock && short.values.is_empty());
    // The work done is kept, and counts begin again.
    let rest = linear.solve(MANY, LONG);
    assert_eq!(rest.outcome, Outcome::Optimal);
    drop(linear);
    let mut whole = Linear::new(Sense::Maximise, &rows);
    for row in 0..20 {
        assert!(whole.add(1.0, &[(row, 1.0), ((row + 1) % 20, 0.5)]));
    }
    let whole = whole.solve(MANY, LONG);
    assert!(rest.iterations < whole.iterations, "{rest:?} {whole:?}");
    assert!((rest.objective - whole.objective).abs() < 1e-9);
}

#[test]
fn a_stop_by_the_clock_is_reported() {
    let mut linear = Linear::new(Sense::Maximise, &[(-NO_BOUND, 1.0)]);
    assert!(linear.add(1.0, &[(0, 1.0)]));
    let none = linear.solve(MANY, Duration::ZERO);
    assert_eq!(none.outcome, Outcome::NoIncumbent);
    assert!(none.stopped_by_clock);
    assert!(!linear.solve(MANY, LONG).stopped_by_clock);
}

#[test]
fn unsound_columns_are_refused_and_every_outcome_has_its_name() {
    let mut linear = Linear::new(Sense::Maximise, &[(-NO_BOUND, 1.0)]);
    assert!(!linear.add(f64::NAN, &[(0, 1.0)]));
    assert!(!linear.add(1.0, &[(1, 1.0)]), "no such row");
    assert!(!linear.add(1.0, &[(0, f64::INFINITY)]));
    assert!(linear.add(1.0, &[(0, 1.0)]));
    assert_eq!(linear.columns(), 1);
    assert_eq!(linear.solve(MANY, LONG).objective, 1.0);
    assert!(linear.add(1.0, &[]));
    assert_eq!(linear.solve(MANY, LONG).outcome, Outcome::Unbounded);
    drop(linear);

    let mut infeasible = Linear::new(Sense::Maximise, &[(1.0, 1.0), (2.0, 2.0)]);
    assert!(infeasible.add(1.0, &[(0, 1.0), (1, 1.0)]));
    let vertex = infeasible.solve(MANY, LONG);
    assert_eq!(vertex.outcome, Outcome::Infeasible);
    assert!(vertex.values.is_empty() && vertex.duals.is_empty());
}

#[test]
fn a_second_program_on_the_same_thread_fails_at_once() {
    let open = Linear::new(Sense::Maximise, &[(-NO_BOUND, 1.0)]);
    let mut second = Linear::new(Sense::Maximise, &[(-NO_BOUND, 1.0)]);
    assert!(!second.add(1.0, &[(0, 1.0)]));
    let failed = |outcome| matches!(outcome, Outcome::Failed { .. });
    assert!(failed(second.solve(MANY, LONG).outcome));
    drop(second);
    let mut model = Model::new(Sense::Maximise);
    model.binary(1.0);
    assert!(failed(solve(&model, &Options::default()).outcome));
    drop(open);
    assert_eq!(solve(&model, &Options::default()).objective, 1.0);
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 60, failure_persistence: None, rng_seed: RngSeed::Fixed(5), ..ProptestConfig::default()
    })]

    /// Growing between solves agrees with one solve of all columns, and the prices
    /// pay for the rows exactly (strong duality).
    #[test]
    fn growing_agrees_with_solving_at_once(
        columns in proptest::collection::vec((0_u32..50, 1_u32..9, 0_u32..9, 0_u32..9), 1..12),
        capacity in (1_u32..40, 1_u32..40, 1_u32..40),
    ) {
        let capacity = [capacity.0, capacity.1, capacity.2].map(f64::from);
        let rows = capacity.map(|c| (-NO_BOUND, c));
        let mut model = Model::new(Sense::Maximise);
        let ids: Vec<_> = columns
            .iter()
            .map(|c| model.column(Kind::Continuous, 0.0, NO_BOUND, f64::from(c.0)))
            .collect();
        for (row, &(lower, upper)) in rows.iter().enumerate() {
            let factor = |c: &(u32, u32, u32, u32)| f64::from([c.1, c.2, c.3][row]);
            model.row(lower, upper, ids.iter().copied().zip(columns.iter().map(factor)));
        }
        let at_once = solve(&model, &Options::default());
        let mut linear = Linear::new(Sense::Maximise, &rows);
        let mut last = None;
        for c in &columns {
            let terms = [(0, f64::from(c.1)), (1, f64::from(c.2)), (2, f64::from(c.3))];
            prop_assert!(linear.add(f64::from(c.0), &terms));
            last = Some(linear.solve(MANY, LONG));
        }
        drop(linear);
        let last = last.unwrap();
        prop_assert!((last.objective - at_once.objective).abs() < 1e-6);
        let paid: f64 = last.duals.iter().zip(capacity).map(|(dual, c)| dual * c).sum();
        prop_assert!((paid - last.objective).abs() < 1e-6, "{paid} {last:?}");
        prop_assert!(last.duals.iter().all(|&dual| dual >= -1e-9));
    }
}
