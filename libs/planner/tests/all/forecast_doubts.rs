//! Plans by forecasts where something is in doubt, constant, or very large.

use lacuna_model::{
    Doubt, Forecast, Joint, NodeChoice, OrderSource, Outcome, Plan, Policy, Topology, TrainerRecord,
};
use lacuna_planner::objective::Objective;
use lacuna_planner::translate::{Translated, translate};
use lacuna_planner::worth::{Costs, Worth};
use lacuna_planner::{Decider, PoolForecast, Settings, Situation, Switches, explain};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::forecast::{
    ends_at, messy, nodes_of, plan, plan_with, points, report, settings, short_and_long,
    with_forecasts,
};
use crate::language::{Case, case, node};

/// Whether a trainer has a new node.
fn grows(case: &Case, plan: &Plan) -> bool {
    plan.allocations.iter().any(|a| {
        let record = case.trainers.iter().find(|r| r.spec.id == a.trainer);
        let had = &record.unwrap().nodes;
        a.nodes.iter().any(|n| !had.contains(n))
    })
}

#[test]
fn in_doubt_no_trainer_grows() {
    let seed = 91;
    println!("seed {seed}");
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut would = 0;
    for _ in 0..100 {
        let sure = messy(&mut rng);
        would += u32::from(grows(&sure, &plan(&sure)));
        let stale = plan_with(&sure, &settings(true), true);
        let mut no_forecast = sure.clone();
        no_forecast.pool.forecasts.clear();
        let mut empty = sure.clone();
        empty.pool.forecasts.fill(Forecast::default());
        let mut broken = vec![no_forecast, empty];
        let holes = sure.pool.holes.len() as u32;
        let orders: [(Vec<u32>, f32); 4] = [
            ((0..holes + 1).collect(), 0.5),
            ((0..holes).map(|_| 0).collect(), 0.5),
            ((1..holes + 1).collect(), 0.5),
            ((0..holes).collect(), f32::NAN),
        ];
        for (order, link) in orders {
            let mut case = sure.clone();
            let link = vec![link; order.len().saturating_sub(1)];
            case.pool.joint = Some(Joint {
                source: OrderSource::Scheduler,
                order,
                link,
                typical_s: None,
                announced: Vec::new(),
            });
            broken.push(case);
        }
        let of = |case: &Case| (case.clone(), plan(case));
        let plans = broken.iter().map(of).chain([(sure.clone(), stale)]);
        for (case, plan) in plans.filter(|_| holes > 1) {
            assert!(!grows(&case, &plan), "{plan:#?}");
            assert!(plan.replaced.is_empty());
            let doubts = &report(&plan).doubts;
            assert_eq!(doubts.len(), 1);
            assert!(explain::plan(&plan).contains("in doubt: "));
            // A sound allocation is kept.
            for verdict in &plan.report.trainers {
                let record = case.trainers.iter().find(|r| r.spec.id == verdict.trainer);
                let min = record.unwrap().spec.min_nodes;
                let kept = if verdict.before < min {
                    0
                } else {
                    verdict.before
                };
                assert_eq!(verdict.after, kept);
            }
        }
    }
    assert!(would > 50, "cases without growth prove nothing");
}

#[test]
fn with_a_stale_pool_no_trainer_grows_whatever_the_policy() {
    let case = case().hole(4, "5m").trainer("a").nodes(1..=4).holds([0, 1]);
    for policy in Policy::ALL.into_iter().filter(|p| !p.forecasts()) {
        assert_eq!(
            case.plan(policy, NodeChoice::Together).allocations[0]
                .nodes
                .len(),
            4
        );
        let settings = Settings {
            policy,
            ..Settings::default()
        };
        let plan = plan_with(&case, &settings, true);
        assert_eq!(nodes_of(&plan, "a"), ["a00", "a01"]);
        assert_eq!(report(&plan).doubts, [Doubt::StalePool]);
    }
}

#[test]
fn a_hole_with_a_broken_forecast_changes_no_owner_and_its_trainer_keeps_its_nodes() {
    let bad = [
        points(&[]),
        points(&[(10.0, 0.5), (10.0, 0.2)]),
        points(&[(10.0, 0.5), (20.0, 0.6)]),
        points(&[(-1.0, 1.0)]),
        points(&[(f64::NAN, 1.0)]),
        points(&[(10.0, f64::NAN)]),
        points(&[(10.0, 1.5)]),
        // It says that the hole has ended, and it is there: the hint was wrong.
        points(&[(0.0, 0.0)]),
    ];
    for bad in bad {
        let case = case()
            .hole(6, "5m")
            .trainer("doubtful")
            .nodes(1..=6)
            .costs(1.0, 1.0)
            .holds([0, 1])
            .trainer("sure")
            .nodes(1..=6)
            .costs(1.0, 1.0)
            .holds([2]);
        let good = ends_at(10_000.0);
        let mut forecasts = vec![good; 6];
        forecasts[1] = bad.clone();
        forecasts[3] = bad;
        let plan = plan(&with_forecasts(case, &forecasts, Some(0.5)));
        assert_eq!(nodes_of(&plan, "doubtful"), ["a00", "a01"]);
        assert_eq!(nodes_of(&plan, "sure"), ["a02", "a04", "a05"]);
        assert_eq!(report(&plan).doubts, [Doubt::BrokenForecasts { holes: 2 }]);
        assert_eq!(
            explain::node(&plan, &node(3)).unwrap(),
            "hole a03: no other trainer takes it: the forecast of 2 holes is missing or broken: a \
             trainer on such a hole keeps its nodes"
        );
    }
}

#[test]
fn auto_plans_by_forecasts_while_the_pool_says_which_holes_end_together() {
    let auto = Settings::default();
    assert_eq!(auto.policy, Policy::Auto);
    let mut case = short_and_long();
    let plan = plan_with(&case, &auto, false);
    assert_eq!(plan.report.solve.solver, "dp over nodes");
    let never = Settings {
        policy: Policy::Milp,
        ..auto.clone()
    };
    assert!(plan_with(&case, &never, false).report.forecast.is_none());
    // A constant predictor says nothing of that.
    case.pool.joint = None;
    case.pool.forecasts = vec![ends_at(120.0); 6];
    let plan = plan_with(&case, &auto, false);
    assert_eq!(plan.report.solve.outcome, Outcome::Optimal);
    assert!(plan.report.forecast.is_none());
}

#[test]
fn a_constant_forecast_neither_refuses_nor_churns() {
    // Every hole is said to last just as long as the planner looks ahead.
    let case = case()
        .hole(8, "5m")
        .trainer("a")
        .nodes(1..=4)
        .trainer("b")
        .nodes(1..=4);
    let case = with_forecasts(case, &vec![ends_at(120.0); 8], None);
    let first = plan(&case);
    assert_eq!(nodes_of(&first, "a").len() + nodes_of(&first, "b").len(), 8);
    let after = case.after(&first);
    assert_eq!(plan(&after).allocations, first.allocations);
}

#[test]
fn the_report_of_a_large_pool_is_small() {
    let seed = 5;
    println!("seed {seed}");
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut case = case().hole(10_000, "5m");
    for j in 0..20 {
        case = case.trainer(&format!("t{j}")).nodes(1..=64);
    }
    let forecasts: Vec<Forecast> = (0..50)
        .map(|k| points(&[(f64::from(k) * 20.0 + 5.0, 0.5), (2_000.0, 0.1)]))
        .collect();
    case.pool.forecasts = forecasts;
    for hole in &mut case.pool.holes {
        hole.forecast = rng.random_range(0..50);
    }
    case.pool
        .holes
        .sort_by(|a, b| a.hole.node.cmp(&b.hole.node));
    let plan = plan(&case);
    let report = report(&plan);
    assert!(
        report.classes.len() <= 8 * (2 * 20 + 1),
        "{}",
        report.classes.len()
    );
    assert!(explain::plan(&plan).lines().count() < 100);
}

#[test]
fn a_wrong_index_is_reported_as_a_bug_and_moves_no_node() {
    let case = short_and_long();
    let Translated {
        held, slots, holes, ..
    } = translate(&case.pool, &case.trainers, &[], &Topology::default());
    let candidate = |(record, &held): (&TrainerRecord, &u32)| {
        let spec = &record.spec;
        let kind = Worth::new(spec, Costs::of(spec), &Objective::default(), 120.0).unwrap();
        kind.candidate(held, 0, false, None)
    };
    let candidates: Vec<_> = case.trainers.iter().zip(&held).map(candidate).collect();
    let decide = |holes: &[u32]| {
        let situation = Situation {
            candidates: &candidates,
            slots: &slots,
            switches: &Switches::default(),
            kinds: &[],
            users: None,
            pool_forecast: Some(PoolForecast {
                pool: &case.pool,
                holes,
                known: &[],
                complete_s: 0.0,
            }),
            history: None,
            doubt: None,
        };
        Decider::new(settings(true)).decide(&situation)
    };
    let before: Vec<Option<u32>> = slots.iter().map(|slot| slot.owner).collect();
    let decision = decide(&holes);
    assert_eq!(decision.doubt, None);
    assert_ne!(decision.owners, before);
    let mut wrong = holes.clone();
    wrong[0] = 99;
    let decision = decide(&wrong);
    let what = format!("there is no hole 99 among {}", holes.len());
    assert_eq!(decision.doubt, Some(Doubt::Internal { what }));
    assert_eq!(decision.owners, before);
}
