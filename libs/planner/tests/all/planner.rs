//! The planner as a whole: sound plans on random cases, time limits, the baseline.

use std::time::Duration;

use lacuna_model::{Generation, NodeChoice, Outcome, Policy};
use lacuna_planner::check::check;
use lacuna_planner::milp::MilpOptions;
use lacuna_planner::{Planner, Settings};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::language::{Case, case, node};

/// A case with overlapping claims, lost nodes, unusable nodes and groups of holes.
pub(crate) fn messy(rng: &mut ChaCha8Rng) -> Case {
    let mut case = case();
    for _ in 0..rng.random_range(0..6) {
        let age = format!("{}s", rng.random_range(10..5_000));
        case = case.hole(rng.random_range(1..12), &age);
    }
    let nodes = case.pool.holes.len() + 5;
    for j in 0..rng.random_range(0..7) {
        let max = rng.random_range(1..12);
        let from = rng.random_range(0..nodes);
        let until = (from + rng.random_range(0..=max) as usize).min(nodes);
        let up = rng.random_range(0.0..100.0);
        case = case
            .trainer(&format!("t{j}"))
            .nodes(rng.random_range(1..=max)..=max)
            .costs(up, up / 2.0);
        // Each node is claimed once: claims are made disjoint below.
        let taken: Vec<_> = case.trainers.iter().flat_map(|t| t.nodes.clone()).collect();
        let free = (from..until).filter(|&n| !taken.contains(&node(n)));
        case = case.holds(free.collect::<Vec<_>>());
    }
    let unusable: Vec<usize> = (0..nodes).filter(|_| rng.random_bool(0.1)).collect();
    case.unusable(unusable)
}

#[test]
fn every_plan_of_every_policy_passes_the_checker() {
    let seed = 61;
    println!("seed {seed}");
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    for round in 0..400 {
        let case = messy(&mut rng);
        for policy in Policy::ALL.into_iter().filter(|p| !p.forecasts()) {
            for choice in [NodeChoice::Random, NodeChoice::Together] {
                let plan = case.plan(policy, choice);
                let found = check(&plan, &case.context());
                // Equal share knows nothing of the present map but its sizes; it never moves
                // a trainer either.
                assert!(
                    found.is_empty(),
                    "round {round} {policy:?} {choice:?}: {found:?}"
                );
            }
        }
    }
}

#[test]
fn a_planner_repeats_itself_and_does_not_depend_on_its_past() {
    let seed = 71;
    println!("seed {seed}");
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let settings = Settings {
        policy: Policy::Dp,
        node_choice: NodeChoice::Random,
        ..Settings::default()
    };
    let mut used = Planner::new(settings.clone());
    for round in 1..100 {
        let case = messy(&mut rng);
        let plan = |planner: &mut Planner| {
            planner.plan(
                &case.pool,
                &case.trainers,
                &case.unusable,
                Generation(round),
            )
        };
        assert_eq!(plan(&mut used), plan(&mut Planner::new(settings.clone())));
    }
}

#[test]
fn without_time_the_last_allocation_is_kept() {
    let case = case()
        .hole(40, "5m")
        .trainer("a")
        .nodes(1..=20)
        .holds([0, 1, 2, 50])
        .trainer("b")
        .nodes(4..=20)
        .holds([3, 4, 51, 52]);
    let mut planner = Planner::new(Settings {
        policy: Policy::Milp,
        milp: MilpOptions {
            time_limit: Duration::ZERO,
            shortcuts: false,
            ..MilpOptions::default()
        },
        ..Settings::default()
    });
    let plan = planner.plan(&case.pool, &case.trainers, &case.unusable, Generation(1));
    assert_eq!(check(&plan, &case.context()), []);
    // HiGHS starts from the present allocation: at worst it is kept.
    let counts: Vec<u32> = plan.report.trainers.iter().map(|v| v.after).collect();
    let outcome = plan.report.solve.outcome;
    println!("{outcome:?} {counts:?}");
    assert!(
        matches!(outcome, Outcome::Feasible { gap } if gap > 0.0 && gap.is_finite()),
        "{outcome:?} in no time"
    );
    assert!(plan.report.solve.stopped_by_clock);
    assert!(counts[0] >= 3, "{counts:?}");
}

#[test]
fn the_baseline_shares_equally() {
    let case = case()
        .hole(4, "5m")
        .trainer("a")
        .nodes(2..=3)
        .trainer("b")
        .nodes(2..=3);
    let plan = case.plan(Policy::EqualShare, NodeChoice::Together);
    let counts: Vec<u32> = plan.report.trainers.iter().map(|v| v.after).collect();
    assert_eq!(counts, [2, 2]);
    let solve = &plan.report.solve;
    assert_eq!(solve.solver, "equal-share");
    assert_eq!(solve.outcome, Outcome::Found);
}
