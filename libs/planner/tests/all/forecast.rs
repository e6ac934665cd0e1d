//! Plans by forecasts: translation, order, refused holes, explanations.

use lacuna_model::{
    Forecast, ForecastPoint, Generation, HoleVerdict, Joint, Launch, More, OrderSource, Outcome,
    Plan, Policy, Program, Span, TrainerId, Verdict,
};
use lacuna_planner::check::check;
use lacuna_planner::{ForecastSettings, Input, Planner, Settings, explain};
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::language::{Case, NOW, case, node};

pub(crate) fn points(points: &[(f64, f64)]) -> Forecast {
    let points = points
        .iter()
        .map(|&(after_s, open)| ForecastPoint { after_s, open });
    Forecast {
        points: points.collect(),
    }
}

/// A hole that ends within a millisecond after `s` seconds.
pub(crate) fn ends_at(s: f64) -> Forecast {
    points(&[(s, 1.0), (s + 0.001, 0.0)])
}

/// Gives the holes of a case these forecasts, and joins them in the order of their names.
pub(crate) fn with_forecasts(mut case: Case, forecasts: &[Forecast], links: Option<f32>) -> Case {
    let holes = case.pool.holes.len();
    assert_eq!(holes, forecasts.len());
    case.pool.forecasts = forecasts.to_vec();
    for (at, hole) in case.pool.holes.iter_mut().enumerate() {
        hole.forecast = at as u32;
    }
    case.pool.joint = links.map(|link| Joint {
        source: OrderSource::Scheduler,
        order: (0..holes as u32).collect(),
        link: vec![link; holes.saturating_sub(1)],
        typical_s: None,
        announced: Vec::new(),
    });
    case
}

pub(crate) fn settings(replace: bool) -> Settings {
    let mut forecasting = ForecastSettings::default();
    forecasting.joint.replace = replace;
    // So short that no look ahead is shorter, whatever the trainers cost.
    forecasting.joint.horizon_s = 60.0;
    Settings {
        policy: Policy::Forecast,
        forecasting,
        ..Settings::default()
    }
}

pub(crate) fn plan(case: &Case) -> Plan {
    plan_with(case, &settings(true), false)
}

pub(crate) fn plan_with(case: &Case, settings: &Settings, stale: bool) -> Plan {
    plan_in_pilots(case, settings, stale, 0.0)
}

fn plan_in_pilots(case: &Case, settings: &Settings, stale: bool, pilot_s: f64) -> Plan {
    let mut planner = Planner::new(settings.clone());
    let plan = planner.plan_of(&Input {
        pool: &case.pool,
        trainers: &case.trainers,
        unusable: &case.unusable,
        generation: Generation(1),
        stale,
        topology: None,
        kinds: None,
        pilot_s,
        followed: Generation(0),
    });
    assert_eq!(check(&plan, &case.context()), [], "{plan:#?}");
    plan
}

pub(crate) fn nodes_of(plan: &Plan, name: &str) -> Vec<String> {
    let of = |a: &&lacuna_model::Allocation| a.trainer.as_str() == name;
    let found = plan.allocations.iter().find(of);
    let nodes = found.map(|a| a.nodes.iter().map(ToString::to_string).collect());
    nodes.unwrap_or_default()
}

pub(crate) fn report(plan: &Plan) -> &lacuna_model::ForecastReport {
    plan.report.forecast.as_deref().expect("made by forecasts")
}

/// Two trainers, short holes and long holes, so that a random placement is bad.
pub(crate) fn short_and_long() -> Case {
    let case = case()
        .hole(6, "5m")
        .trainer("costly")
        .nodes(1..=3)
        .costs(60.0, 60.0)
        .trainer("cheap")
        .nodes(1..=3)
        .costs(2.0, 2.0);
    let forecasts: Vec<Forecast> = [20.0, 20.0, 20.0, 900.0, 900.0, 900.0]
        .into_iter()
        .map(ends_at)
        .collect();
    with_forecasts(case, &forecasts, Some(0.0))
}

#[test]
fn a_trainer_with_a_costly_departure_gets_the_nodes_that_stay() {
    let plan = plan(&short_and_long());
    assert_eq!(nodes_of(&plan, "costly"), ["a03", "a04", "a05"]);
    assert_eq!(nodes_of(&plan, "cheap"), ["a00", "a01", "a02"]);
    assert_eq!(plan.report.solve.outcome, Outcome::Found);
    assert_eq!(report(&plan).order, OrderSource::Scheduler);
    assert!(report(&plan).doubts.is_empty());
}

fn program() -> Launch {
    Launch::Command(Program {
        program: "/bin/train".to_owned(),
        ..Program::default()
    })
}

#[test]
fn nodes_that_end_while_their_pilots_start_go_to_no_program() {
    // One node is held; the other would serve 30 s. Growing costs a second.
    let case = case().hole(2, "5m").trainer("a").nodes(1..=2);
    let case = case.costs(1.0, 1.0).holds([1]);
    let mut case = with_forecasts(case, &[ends_at(30.0), ends_at(900.0)], Some(0.0));
    for policy in [Policy::Forecast, Policy::Dp] {
        let settings = Settings {
            policy,
            horizon: Span::from_secs(30),
            ..settings(true)
        };
        let nodes = |case: &Case, pilot_s| {
            let plan = plan_in_pilots(case, &settings, false, pilot_s);
            nodes_of(&plan, "a").len()
        };
        case.trainers[0].spec.launch = Launch::Simulated;
        assert_eq!(
            (nodes(&case, 0.0), nodes(&case, 40.0)),
            (2, 2),
            "{policy:?}"
        );
        case.trainers[0].spec.launch = program();
        let counts = [0.0, 5.0, 40.0].map(|pilot_s| nodes(&case, pilot_s));
        assert_eq!(counts, [2, 2, 1], "{policy:?}");
    }
}

#[test]
fn without_an_order_holes_are_sorted_by_expectation() {
    let mut case = short_and_long();
    case.pool.joint = None;
    // Names say the opposite now.
    case.pool.forecasts.reverse();
    let plan = plan(&case);
    assert_eq!(nodes_of(&plan, "costly"), ["a00", "a01", "a02"]);
    assert_eq!(report(&plan).order, OrderSource::Expectation);
}

#[test]
fn without_an_order_of_the_scheduler_holes_are_sorted_by_expectation() {
    let mut case = short_and_long();
    // Names say the opposite now, and the order says only who was released with whom.
    case.pool.forecasts.reverse();
    case.pool.joint.as_mut().unwrap().source = OrderSource::Expectation;
    let found = plan(&case);
    assert_eq!(nodes_of(&found, "costly"), ["a00", "a01", "a02"]);
    assert_eq!(report(&found).order, OrderSource::Expectation);
    let explained = explain::plan(&found);
    assert!(
        explained.contains("by what is expected of each"),
        "{explained}"
    );
}

#[test]
fn the_order_is_that_of_the_scheduler_and_not_that_of_names() {
    // All holes alike, and the scheduler begins with the last name: who shrinks gives up those
    // that it takes first.
    let case = case()
        .hole(4, "5m")
        .trainer("old")
        .nodes(1..=4)
        .costs(1.0, 1.0)
        .holds(0..4)
        .trainer("new")
        .nodes(2..=2)
        .curve(&[(2, 1_000.0)]);
    let alike = points(&[(10_000.0, 0.5)]);
    let mut case = with_forecasts(case, &vec![alike; 4], Some(0.5));
    case.pool.joint.as_mut().unwrap().order.reverse();
    let plan = plan(&case);
    assert_eq!(nodes_of(&plan, "old"), ["a00", "a01"]);
    assert_eq!(nodes_of(&plan, "new"), ["a02", "a03"]);
}

#[test]
fn a_hole_that_does_not_pay_is_refused_with_its_numbers() {
    // 3 nodes that stay, and one that ends for sure after 15 s of the 60.
    let case = case()
        .hole(4, "5m")
        .trainer("a")
        .nodes(1..=4)
        .costs(10.0, 5.0)
        .holds(1..4);
    let long = ends_at(10_000.0);
    let case = with_forecasts(
        case,
        &[ends_at(15.0), long.clone(), long.clone(), long],
        Some(0.0),
    );
    let plan = plan(&case);
    assert_eq!(nodes_of(&plan, "a"), ["a01", "a02", "a03"]);
    let report = report(&plan);
    let class = &report.classes[report.class_of[0].unwrap() as usize];
    assert_eq!((class.holes, &class.verdict), (1, &HoleVerdict::NotWorthIt));
    assert!((class.stay_s - 15.0).abs() < 0.01, "{class:?}");
    let offer = class.offer.as_ref().unwrap();
    // Until 15 s 40 instead of 30 samples/s, then a hit of 5 s at 40; from then on the three are
    // worth what a node-second is, which is what three nodes make of it: 10 samples.
    let until = 15.0005_f64;
    let with = 40.0 * (until - 5.0) + report.shadow_price * 3.0 * (60.0 - until);
    let without = 30.0 * 60.0;
    assert!((offer.gain - (with - without)).abs() < 0.1, "{offer:?}");
    assert_eq!((offer.nodes, offer.cost, offer.within_s), (1, 300.0, 10.0));
    assert_eq!(offer.ends, 0.0);
    let reason = &report.trainers[0];
    assert_eq!((reason.kept, reason.gained, reason.lost), (3, 0, 0));
    assert_eq!((reason.until_s, reason.ends), (60.0, 0.0));
    assert_eq!((reason.stay_s, reason.worth), (60.0, 1_800.0));
    assert!(matches!(&reason.more, More::NotWorthIt(more) if more == offer));
    assert!(matches!(
        plan.report.trainers[0].verdict,
        Verdict::RescaleNotWorthIt { cost: 300.0, .. }
    ));
    let id = TrainerId::new("a").unwrap();
    assert_eq!(
        explain::trainer(&plan, &id).unwrap(),
        "a: keeps 3 nodes\n  why these: one is expected to stay 60 s of the next 60 s; the \
         first leaves after 60 s on average, and one leaves within 60 s with probability \
         0.00; worth 1800\n  why not more: 1 more would lose 49.99 and cost 300, and would have \
         to bring 2 times that"
    );
    assert_eq!(
        explain::node(&plan, &node(0)).unwrap(),
        "hole a00: refused: expected to stay 15 s of the next 60 s, ends within the 10 s that a \
         change of a takes with probability 0.00; 1 node for it would lose 49.99 and cost 300, \
         and would have to bring 2 times that"
    );
    assert_eq!(
        explain::node(&plan, &node(2)).unwrap(),
        "hole a02: stays with a\n  expected to stay 60 s of the next 60 s, ends within 5 s \
         with probability 0.00; all 3 of its like together to a adds 1800 (the figures are \
         means over 3 holes like it)"
    );
}

#[test]
fn the_probability_of_an_early_end_is_that_of_the_forecast() {
    // Half of such holes end in the first 40 s: an eighth within the 10 s of growing.
    let case = case()
        .hole(2, "5m")
        .trainer("a")
        .nodes(1..=2)
        .costs(10.0, 5.0)
        .holds([1]);
    let forecasts = [points(&[(40.0, 0.5), (50.0, 0.0)]), ends_at(10_000.0)];
    let plan = plan(&with_forecasts(case, &forecasts, Some(0.0)));
    let report = report(&plan);
    let class = &report.classes[report.class_of[0].unwrap() as usize];
    assert_eq!(class.stay_s, 40.0 * 0.75 + 10.0 * 0.25);
    assert_eq!(class.offer.as_ref().unwrap().ends, 0.125);
}

#[test]
fn a_trainer_that_was_hit_may_take_other_nodes_and_others_may_not() {
    // What it holds is about to end; two that stay are free.
    let base = case()
        .hole(4, "5m")
        .trainer("a")
        .nodes(1..=2)
        .costs(30.0, 30.0)
        .holds([0, 1]);
    let (soon, late) = (ends_at(20.0), ends_at(10_000.0));
    let forecasts = [soon.clone(), soon, late.clone(), late];
    let base = with_forecasts(base, &forecasts, Some(0.0));
    assert_eq!(nodes_of(&plan(&base), "a"), ["a00", "a01"]);
    // Control says that it was hit.
    let mut reported = base.clone();
    reported.trainers[0].hit_at = Some(NOW);
    // Or the pool shows it first.
    let mut seen = base.clone();
    seen.trainers[0].nodes.push(node(77));
    for hit in [&reported, &seen] {
        let plan = plan(hit);
        assert_eq!(nodes_of(&plan, "a"), ["a02", "a03"]);
        assert_eq!(plan.replaced.len(), 1);
        assert!(report(&plan).trainers[0].hit);
        assert!(plan_with(hit, &settings(false), false).replaced.is_empty());
        let text = explain::plan(&plan);
        let said = "a: keeps 2 nodes (0 kept, 2 new: it was hit and restarts anyway)\n";
        assert!(text.contains(said), "{text}");
    }
    // The same plan for one that was not hit is none.
    let wrong = plan(&reported);
    let found = check(&wrong, &base.context());
    assert_eq!(found.iter().map(|v| v.number()).collect::<Vec<_>>(), [12]);
    let mut silent = wrong;
    silent.replaced.clear();
    let found = check(&silent, &reported.context());
    assert_eq!(found.iter().map(|v| v.number()).collect::<Vec<_>>(), [6]);
    // Once its pause is over it restarts no more.
    let mut late = reported;
    late.trainers[0].hit_at = Some(NOW + lacuna_model::Span::from_secs(-31));
    assert_eq!(nodes_of(&plan(&late), "a"), ["a00", "a01"]);
}

/// A case with forecasts of all kinds, some trainers hit, and an order that is not that of names.
pub(crate) fn messy(rng: &mut ChaCha8Rng) -> Case {
    let mut case = crate::planner::messy(rng);
    let holes = case.pool.holes.len();
    case.pool.forecasts = (0..rng.random_range(1..6))
        .map(|_| {
            let (mut at, mut open) = (0.0, 1.0);
            let steps = (0..rng.random_range(1..6)).map(|_| {
                at += rng.random_range(1.0..400.0);
                open *= rng.random_range(0.0..1.0);
                (at, open)
            });
            points(&steps.collect::<Vec<_>>())
        })
        .collect();
    for hole in &mut case.pool.holes {
        hole.forecast = rng.random_range(0..case.pool.forecasts.len() as u32);
    }
    if rng.random_bool(0.7) {
        let mut order: Vec<u32> = (0..holes as u32).collect();
        order.shuffle(rng);
        case.pool.joint = Some(Joint {
            source: OrderSource::Scheduler,
            order,
            link: (1..holes).map(|_| rng.random()).collect(),
            typical_s: None,
            announced: Vec::new(),
        });
    }
    for trainer in &mut case.trainers {
        trainer.hit_at = rng.random_bool(0.3).then_some(NOW);
    }
    case
}

#[test]
fn every_plan_by_forecasts_is_sound_and_comes_out_the_same_again() {
    let seed = 81;
    println!("seed {seed}");
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let (mut replaced, mut refused, mut grown) = (0, 0, 0);
    let mut used = Planner::new(settings(true));
    for _ in 0..400 {
        let mut case = messy(&mut rng);
        case.pool.seq = rng.random();
        for replace in [true, false] {
            plan_with(&case, &settings(replace), false);
        }
        let first = plan(&case);
        let mut again = used.plan(&case.pool, &case.trainers, &case.unusable, Generation(9));
        again.generation = first.generation;
        assert_eq!(first, again, "it depends on plans before it");
        replaced += first.replaced.len();
        let report = report(&first);
        assert_eq!(report.class_of.len(), case.pool.holes.len());
        for (at, (_, verdict)) in first.report.holes.iter().enumerate() {
            match report.class_of[at] {
                Some(class) => assert_eq!(report.classes[class as usize].verdict, *verdict),
                None => assert_eq!(*verdict, HoleVerdict::Unusable),
            }
        }
        let holes: u32 = report.classes.iter().map(|class| class.holes).sum();
        assert_eq!(
            holes as usize + case.unusable_holes(),
            case.pool.holes.len()
        );
        for (reason, verdict) in report.trainers.iter().zip(&first.report.trainers) {
            assert_eq!(reason.kept + reason.gained, verdict.after);
            assert_eq!(reason.kept + reason.lost, verdict.before);
            grown += u32::from(reason.gained > 0);
        }
        refused += report
            .classes
            .iter()
            .filter(|class| class.verdict == HoleVerdict::NotWorthIt)
            .count();
        assert!(!explain::plan(&first).is_empty());
    }
    println!("{replaced} replaced, {refused} classes refused, {grown} grown");
    assert!(replaced > 50 && refused > 5 && grown > 200);
}
