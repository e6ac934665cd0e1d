//! Several kinds of nodes: the fast programs against the plain one, brute force and each other.

use proptest::prelude::*;

use lacuna_model::Outcome;
use lacuna_planner::milp::MilpOptions;
use lacuna_planner::mixed::{self, reference};
use lacuna_planner::{Item, Lost, Mix, MixProblem, MixTable, NO_NODES, pair};

/// A trainer with at most `most` nodes of each kind. Some mixes are impossible, some of no value.
fn item(most: u32) -> impl Strategy<Value = Item> {
    let cells = ((most + 1) * (most + 1)) as usize;
    let values = prop::collection::vec(prop::option::weighted(0.8, 0_u32..30), cells);
    let costs = (0.0..3.0_f64, 0.0..2.0_f64, 0.0..2.0_f64);
    (values, [0..=most, 0..=most], costs).prop_map(move |(values, current, costs)| {
        let value = MixTable::new(pair(most, most), |[a, b, ..]| {
            let at = (a * (most + 1) + b) as usize;
            values[at].map(f64::from)
        });
        let [a, b] = current;
        let current = if value.at(pair(a, b)).is_finite() {
            pair(a, b)
        } else {
            NO_NODES
        };
        Item {
            rate_now: costs.0,
            up_s: costs.1,
            down_s: costs.2,
            lost: Lost {
                change_s: (costs.1 - 1.0).max(0.0),
                stop_s: (costs.2 - 1.0).max(0.0),
            },
            ..Item::over_kinds(current, value)
        }
    })
}

fn problem(trainers: usize, most: u32, nodes: u32) -> impl Strategy<Value = MixProblem> {
    let items = prop::collection::vec(item(most), 1..=trainers);
    (items, [0..=nodes, 0..=nodes]).prop_map(|(trainers, [a, b])| MixProblem {
        nodes: pair(a, b),
        horizon_s: 1.0,
        trainers,
    })
}

/// A trainer with at most `most` nodes of each of three kinds, two of them at a time.
fn item_of_three(most: u32) -> impl Strategy<Value = Item> {
    let cells = ((most + 1) * (most + 1) * (most + 1)) as usize;
    let values = prop::collection::vec(prop::option::weighted(0.7, 0_u32..30), cells);
    let current = (0..=most, 0..3_usize);
    let costs = (0.0..3.0_f64, 0.0..2.0_f64, 0.0..2.0_f64, 0.0..0.5_f64);
    (values, current, costs).prop_map(move |(values, (nodes, kind), costs)| {
        let value = MixTable::new([most, most, most, 0], |[a, b, c, _]| {
            let at = ((a * (most + 1) + b) * (most + 1) + c) as usize;
            values[at].map(f64::from)
        });
        let mut current = NO_NODES;
        current[kind] = nodes;
        if !value.at(current).is_finite() {
            current = NO_NODES;
        }
        Item {
            rate_now: costs.0,
            up_s: costs.1,
            down_s: costs.2,
            lost: Lost {
                change_s: costs.3,
                stop_s: (costs.2 - 1.0).max(0.0),
            },
            pilot_s: costs.3,
            ..Item::over_kinds(current, value)
        }
    })
}

fn problem_of_three(trainers: usize, most: u32, nodes: u32) -> impl Strategy<Value = MixProblem> {
    let items = prop::collection::vec(item_of_three(most), 1..=trainers);
    let nodes = [0..=nodes, 0..=nodes, 0..=nodes];
    (items, nodes).prop_map(|(trainers, [a, b, c])| MixProblem {
        nodes: [a, b, c, 0],
        horizon_s: 1.0,
        trainers,
    })
}

/// What the programs find by their defaults.
fn solve(problem: &MixProblem) -> (lacuna_planner::MixSizes, lacuna_model::Solve) {
    mixed::solve(problem)
}

#[test]
fn a_table_has_each_mix_of_two_kinds_once_and_none_of_three() {
    let number = |[a, b, c, d]: Mix| Some(f64::from(a + 10 * b + 100 * c + 1000 * d));
    let most = [2, 1, 3, 1];
    let table = MixTable::new(most, number);
    let mut cells = 0;
    for a in 0..=3 {
        for (b, c, d) in
            (0..=2).flat_map(|b| (0..=4).flat_map(move |c| (0..=2).map(move |d| (b, c, d))))
        {
            let mix: Mix = [a, b, c, d];
            let kinds = mix.iter().filter(|n| **n > 0).count();
            let fits = mix.iter().zip(most).all(|(n, most)| *n <= most);
            let expected = number(mix).filter(|_| fits && kinds < 3);
            assert_eq!(
                table.at(mix),
                expected.unwrap_or(f64::NEG_INFINITY),
                "{mix:?}"
            );
            cells += usize::from(expected.is_some());
        }
    }
    let item = Item::over_kinds(NO_NODES, table);
    assert_eq!(reference::mixes(&item, [9, 9, 9, 9]).count(), cells);
    assert_eq!(reference::mixes(&item, [0, 0, 3, 1]).count(), 1 + 3 + 1 + 3);
}

#[test]
fn what_waits_for_pilots_counts_against_growth_over_kinds_too() {
    let value = MixTable::new(pair(2, 2), |[a, b, ..]| Some(f64::from(a + 3 * b)));
    let item = Item {
        rate_now: 1.0,
        up_s: 2.0,
        down_s: 4.0,
        pilot_s: 10.0,
        ..Item::over_kinds(pair(1, 0), value)
    };
    // One more node of each kind: 5 samples/s, of which 4 wait for 10 s.
    assert_eq!(item.gain_of(100.0, pair(2, 1)), 500.0 - 2.0 - 40.0);
    assert_eq!(item.gain_of(100.0, NO_NODES), -4.0);
}

/// Asserts that neither brute force nor the plain program finds a better answer.
fn is_best(problem: &MixProblem) -> Result<(), TestCaseError> {
    let (found, solve) = solve(problem);
    prop_assert!(problem.is_feasible(&found.mixes));
    prop_assert_eq!(solve.outcome, Outcome::Optimal);
    let best = reference::brute_force(problem).objective;
    prop_assert!(
        (found.objective - best).abs() < 1e-6,
        "{} of {}",
        found.objective,
        best
    );
    let plain = reference::solve(problem).objective;
    prop_assert!((plain - best).abs() < 1e-6, "plain {} of {}", plain, best);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn brute_force_finds_nothing_better(problem in problem(4, 2, 5)) {
        is_best(&problem)?;
    }

    #[test]
    fn the_plain_program_finds_nothing_better(problem in problem(9, 5, 16)) {
        let (found, _) = solve(&problem);
        prop_assert!(problem.is_feasible(&found.mixes));
        let best = reference::solve(&problem).objective;
        prop_assert!((found.objective - best).abs() < 1e-6, "{} of {}", found.objective, best);
    }

    #[test]
    fn solving_from_the_answer_changes_nothing(problem in problem(6, 3, 8)) {
        let (found, _) = solve(&problem);
        let mut again = problem.clone();
        for (item, mix) in again.trainers.iter_mut().zip(&found.mixes) {
            *item = item.clone().on(*mix, 0);
        }
        let (second, _) = solve(&again);
        let kept = again.sizes(found.mixes).objective;
        prop_assert!(second.objective >= kept - 1e-9);
        let mut more = problem.clone();
        more.nodes[1] += 1;
        let (with_more, _) = solve(&more);
        prop_assert!(with_more.objective >= found.objective - 1e-6);
    }

    #[test]
    fn an_answer_without_a_proof_states_its_gap(problem in problem(8, 4, 10)) {
        let (found, solve) = mixed::solve_within(&problem, 0);
        prop_assert!(problem.is_feasible(&found.mixes));
        let best = reference::solve(&problem).objective;
        match solve.outcome {
            Outcome::Feasible { gap } => {
                let most = found.objective + gap * found.objective.abs();
                prop_assert!(best <= most + 1e-6, "{} with gap {}: {}", found.objective, gap, best);
            }
            _ => prop_assert!((found.objective - best).abs() < 1e-6),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn brute_force_finds_nothing_better_over_three_kinds(problem in problem_of_three(3, 1, 3)) {
        is_best(&problem)?;
    }

    #[test]
    fn the_plain_program_finds_nothing_better_over_three_kinds(problem in problem_of_three(7, 3, 8)) {
        let (found, solve) = solve(&problem);
        prop_assert!(problem.is_feasible(&found.mixes));
        prop_assert_eq!(solve.outcome, Outcome::Optimal);
        let best = reference::solve(&problem).objective;
        prop_assert!((found.objective - best).abs() < 1e-6, "{} of {}", found.objective, best);
    }

    #[test]
    fn patterns_find_the_exact_answer_over_two_kinds(problem in problem(8, 5, 14)) {
        let (exact, _) = solve(&problem);
        let (found, solve) = mixed::patterns::solve(&problem, &MilpOptions::default());
        prop_assert!(problem.is_feasible(&found.mixes));
        prop_assert_eq!(solve.outcome, Outcome::Optimal);
        let gap = (found.objective - exact.objective).abs();
        prop_assert!(gap < 1e-6, "{} of {}", found.objective, exact.objective);
    }

    #[test]
    fn three_kinds_without_a_proof_state_their_gap(problem in problem_of_three(7, 3, 8)) {
        let (found, solve) = mixed::solve_within(&problem, 0);
        prop_assert!(problem.is_feasible(&found.mixes));
        let best = reference::solve(&problem).objective;
        let most = match solve.outcome {
            Outcome::Feasible { gap } => found.objective + gap * found.objective.abs(),
            _ => found.objective,
        };
        prop_assert!(best <= most + 1e-6, "{} up to {}: {}", found.objective, most, best);
    }

    #[test]
    fn patterns_without_a_proof_state_their_gap(problem in problem_of_three(7, 3, 8)) {
        let none = MilpOptions {
            tree_nodes: 0,
            iterations: 1,
            ..MilpOptions::default()
        };
        let (found, solve) = mixed::patterns::solve(&problem, &none);
        prop_assert!(problem.is_feasible(&found.mixes));
        let best = reference::solve(&problem).objective;
        let most = match solve.outcome {
            Outcome::Feasible { gap } => found.objective + gap * found.objective.abs(),
            _ => found.objective,
        };
        prop_assert!(best <= most + 1e-6, "{} up to {}: {}", found.objective, most, best);
    }
}

#[test]
fn a_change_to_another_kind_costs_what_its_steps_cost() {
    let value = MixTable::new(pair(4, 4), |[a, b, ..]| match (a, b) {
        // Three nodes of the first kind are too few beside others.
        (1..=3, 1..) => None,
        _ => Some(f64::from(a + 3 * b)),
    });
    let mut item = Item {
        up_s: 2.0,
        down_s: 4.0,
        ..Item::over_kinds(NO_NODES, value)
    };
    item.kinds.as_mut().unwrap().start_s = 10.0;
    let item = item.on(pair(2, 0), 0);
    // Nothing is kept: it shrinks at 2 samples/s, and starts at 6.
    assert_eq!(item.cost_of(pair(0, 2)), 2.0 * 4.0 + 6.0 * 10.0);
    // A program counts its next start by a stop: that start is this one.
    let program = Item {
        lost: Lost {
            change_s: 1.0,
            stop_s: 15.0,
        },
        ..item.clone()
    };
    let stop_s = 4.0 + 1.0 + (15.0 - 10.0);
    assert_eq!(program.cost_of(pair(0, 2)), 2.0 * stop_s + 6.0 * 10.0);
    // What it keeps still runs, so it shrinks at its rate, and grows at what is left of it.
    let both = item.clone().on(pair(4, 1), 0);
    assert_eq!(both.cost_of(pair(4, 2)), 7.0 * 2.0);
    let fewer = item.on(pair(4, 0), 0);
    assert_eq!(fewer.cost_of(pair(2, 0)), 4.0 * 4.0);
    assert_eq!(both.cost_of(pair(0, 2)), 7.0 * 4.0 + 3.0 * 2.0);
}
