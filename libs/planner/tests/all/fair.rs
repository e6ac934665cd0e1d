//! Fairness between users against brute force, and by hand.

use std::cmp::Ordering;

use lacuna_planner::{Item, Problem, fair};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use crate::common::{agree, problem};

/// A trainer that trains `rate` a node, without costs.
fn linear(rate: f64, min: u32, max: u32) -> Item {
    Item {
        current: 0,
        min,
        max,
        value: (0..=max).map(|n| rate * f64::from(n)).collect(),
        rate_now: 0.0,
        up_s: 0.0,
        down_s: 0.0,
    }
}

fn case(nodes: u32, trainers: Vec<Item>) -> Problem {
    Problem {
        nodes,
        horizon_s: 10.0,
        trainers,
        max_change: None,
    }
}

#[test]
fn users_get_alike_however_many_trainers_they_have_and_however_fast_these_are() {
    let trainers = vec![
        linear(1000.0, 1, 12),
        linear(1000.0, 1, 12),
        linear(1000.0, 1, 12),
        linear(1.0, 1, 12),
    ];
    let sizes = fair::solve(&case(12, trainers), &[0, 0, 0, 1], &[]);
    assert_eq!(sizes.counts[3], 6, "{sizes:?}");
    assert_eq!(sizes.counts.iter().sum::<u32>(), 12);
}

#[test]
fn shares_scale_what_users_get() {
    let two = case(12, vec![linear(5.0, 1, 12), linear(7.0, 1, 12)]);
    assert_eq!(fair::solve(&two, &[0, 1], &[1.0, 3.0]).counts, [3, 9]);
    // Only their proportion matters, and what is no share counts as 1.
    assert_eq!(fair::solve(&two, &[0, 1], &[20.0, 60.0]).counts, [3, 9]);
    assert_eq!(fair::solve(&two, &[0, 1], &[f64::NAN, -3.0]).counts, [6, 6]);
}

#[test]
fn what_one_cannot_use_goes_to_the_others_and_what_nobody_is_lifted_by_to_throughput() {
    let three = vec![linear(1.0, 1, 2), linear(1.0, 1, 20), linear(9.0, 1, 20)];
    let sizes = fair::solve(&case(13, three), &[0, 1, 2], &[]);
    // 2 are all that the first can use. Of the 11 others the odd one goes where it trains most.
    assert_eq!(sizes.counts, [2, 5, 6]);
    // Both of one user: the faster trainer wins nothing by its rate, only by the gain.
    let both = vec![linear(1.0, 1, 4), linear(9.0, 1, 4)];
    assert_eq!(fair::solve(&case(5, both), &[0, 0], &[]).counts, [1, 4]);
}

#[test]
fn a_large_minimum_is_not_started_at_the_cost_of_all_others() {
    let two = vec![linear(1.0, 8, 8), linear(1.0, 1, 8)];
    // Either the first runs and the second starves, or the other way round: the lowest level is
    // 0 both ways, the next is 8 both ways; with 9 nodes the lowest can be 1.
    let sizes = fair::solve(&case(9, two.clone()), &[0, 1], &[]);
    assert_eq!(sizes.counts, [8, 1]);
    let sizes = fair::solve(&case(7, two), &[0, 1], &[]);
    assert_eq!(sizes.counts, [0, 7]);
}

/// Every choice that fits.
fn choices(problem: &Problem) -> Vec<Vec<u32>> {
    let mut all = vec![vec![]];
    for item in &problem.trainers {
        all = all
            .into_iter()
            .flat_map(|counts: Vec<u32>| {
                let left = problem.nodes - counts.iter().sum::<u32>();
                (0..=item.max.min(left))
                    .filter(|&n| item.may_become(n, problem.max_change))
                    .map(|n| {
                        let mut counts = counts.clone();
                        counts.push(n);
                        counts
                    })
                    .collect::<Vec<_>>()
            })
            .collect();
    }
    all
}

fn sorted(mut levels: Vec<f64>) -> Vec<f64> {
    levels.sort_by(f64::total_cmp);
    levels
}

/// Leximin order with the tolerance that the definition has.
fn compare(a: &[f64], b: &[f64]) -> Ordering {
    for (a, b) in a.iter().zip(b) {
        if (a - b).abs() > 0.5e-6 {
            return a.total_cmp(b);
        }
    }
    Ordering::Equal
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 1_500, failure_persistence: None, rng_seed: RngSeed::Fixed(14), ..ProptestConfig::default()
    })]

    #[test]
    fn fairness_is_what_brute_force_finds(
        problem in problem(4, 5),
        users in proptest::collection::vec(0..3_u32, 4),
        shares in proptest::collection::vec(0.2_f64..5.0, 3),
    ) {
        let found = fair::solve(&problem, &users, &shares);
        let all = choices(&problem);
        if all.is_empty() {
            return Ok(());
        }
        prop_assert!(problem.is_feasible(&found.counts), "{found:?}");
        let levels = |counts: &[u32]| sorted(fair::levels(&problem, &users, &shares, counts));
        let mine = levels(&found.counts);
        for counts in all {
            let theirs = levels(&counts);
            match compare(&theirs, &mine) {
                Ordering::Greater => prop_assert!(false, "{counts:?} {theirs:?} beats {found:?} {mine:?}"),
                Ordering::Equal => {
                    let gain = problem.objective(&counts);
                    prop_assert!(
                        gain <= found.objective || agree(gain, found.objective, 1e-9),
                        "{counts:?} gains {gain}, {found:?}"
                    );
                }
                Ordering::Less => {}
            }
        }
    }

    #[test]
    fn one_user_alone_gets_the_most_speed_up(problem in problem(5, 8)) {
        let found = fair::solve(&problem, &[0; 5], &[2.0]);
        prop_assert!(problem.is_feasible(&found.counts) || problem.max_change.is_some());
        let more = Problem { nodes: problem.nodes + 1, ..problem.clone() };
        let level = |problem: &Problem| {
            let found = fair::solve(problem, &[0; 5], &[2.0]);
            fair::levels(problem, &[0; 5], &[2.0], &found.counts).iter().sum::<f64>()
        };
        prop_assert!(problem.max_change.is_some() || level(&more) >= level(&problem) - 1e-9);
    }
}
