//! Two kinds of nodes: the fast program against the plain one and against brute force.

use proptest::prelude::*;

use lacuna_model::Outcome;
use lacuna_planner::mixed::{self, reference};
use lacuna_planner::{MixItem, MixProblem, MixTable};

/// A trainer with at most `most` nodes of each kind. Some mixes are impossible, some of no value.
fn item(most: u32) -> impl Strategy<Value = MixItem> {
    let cells = ((most + 1) * (most + 1)) as usize;
    let values = prop::collection::vec(prop::option::weighted(0.8, 0_u32..30), cells);
    let costs = (0.0..3.0_f64, 0.0..2.0_f64, 0.0..2.0_f64);
    (values, [0..=most, 0..=most], costs).prop_map(move |(values, current, costs)| {
        let value = MixTable::new([most, most], |[a, b]| {
            let at = (a * (most + 1) + b) as usize;
            values[at].map(f64::from)
        });
        let current = if value.at(current).is_finite() {
            current
        } else {
            [0, 0]
        };
        MixItem {
            current,
            rate_now: costs.0,
            up_s: costs.1,
            down_s: costs.2,
            value,
        }
    })
}

fn problem(trainers: usize, most: u32, nodes: u32) -> impl Strategy<Value = MixProblem> {
    let items = prop::collection::vec(item(most), 1..=trainers);
    (items, [0..=nodes, 0..=nodes]).prop_map(|(trainers, nodes)| MixProblem {
        nodes,
        horizon_s: 1.0,
        trainers,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn brute_force_finds_nothing_better(problem in problem(4, 2, 5)) {
        let (found, solve) = mixed::solve(&problem);
        prop_assert!(problem.is_feasible(&found.mixes));
        prop_assert_eq!(solve.outcome, Outcome::Optimal);
        let best = reference::brute_force(&problem).objective;
        prop_assert!((found.objective - best).abs() < 1e-6, "{} of {}", found.objective, best);
        let plain = reference::solve(&problem).objective;
        prop_assert!((plain - best).abs() < 1e-6, "plain {} of {}", plain, best);
    }

    #[test]
    fn the_plain_program_finds_nothing_better(problem in problem(9, 5, 16)) {
        let (found, _) = mixed::solve(&problem);
        prop_assert!(problem.is_feasible(&found.mixes));
        let best = reference::solve(&problem).objective;
        prop_assert!((found.objective - best).abs() < 1e-6, "{} of {}", found.objective, best);
    }

    #[test]
    fn solving_from_the_answer_changes_nothing(problem in problem(6, 3, 8)) {
        let (found, _) = mixed::solve(&problem);
        let mut again = problem.clone();
        for (item, mix) in again.trainers.iter_mut().zip(&found.mixes) {
            item.current = *mix;
            item.rate_now = item.value.at(*mix);
        }
        let (second, _) = mixed::solve(&again);
        let kept = again.sizes(found.mixes).objective;
        prop_assert!(second.objective >= kept - 1e-9);
        let mut more = problem.clone();
        more.nodes[1] += 1;
        let (with_more, _) = mixed::solve(&more);
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
