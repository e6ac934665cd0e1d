//! Objectives, costs of starts and references of efficiency: replays calculated by hand.

use lacuna_model::{HoleRecord, Policy, ScalingCurve, Span, Timestamp, TrainerSpec};
use lacuna_sim::{
    Decision, Dedicated, HoleTrace, Hooks, Life, NamedExpressions, Objective, Settings, SimError,
    dedicated_samples, replay,
};
use proptest::prelude::*;

use crate::common::{hole, machine, run, trainer};

fn by(objective: &str) -> Settings {
    Settings {
        objective: objective.parse().unwrap(),
        ..Settings::published()
    }
}

fn lives(holes: &[HoleRecord], trainers: &[TrainerSpec], settings: &Settings) -> Vec<Life> {
    let replayed = run(holes, trainers, settings).unwrap();
    replayed.history.unwrap().lives
}

/// The first size of each trainer, by name.
fn first_sizes(mut lives: Vec<Life>) -> Vec<Option<u32>> {
    lives.sort_by(|a, b| a.name.cmp(&b.name));
    let first = |life: &Life| life.sizes.first().map(|&(_, nodes)| nodes);
    lives.iter().map(first).collect()
}

fn three_nodes() -> Vec<HoleRecord> {
    (0..3).map(|node| hole(node, 0, 1000)).collect()
}

#[test]
fn the_heavier_trainer_gets_the_nodes() {
    let mut trainers = [trainer(0, 3, 3e4), trainer(1, 3, 3e4)];
    let sizes = |trainers: &[TrainerSpec], objective| {
        first_sizes(lives(&three_nodes(), trainers, &by(objective)))
    };
    // Of equal trainers the earlier one gets all nodes.
    assert_eq!(sizes(&trainers, "weighted"), [Some(3), None]);
    trainers[1].priority = 1;
    assert_eq!(trainers[1].effective_weight(), 2.0);
    assert_eq!(sizes(&trainers, "weighted"), [None, Some(3)]);
    // Of trainers of equal value the one admitted first gets the nodes.
    assert_eq!(sizes(&trainers, "throughput"), [None, Some(3)]);
    // A given weight replaces the priority.
    trainers[1].weight = Some(0.5);
    assert_eq!(sizes(&trainers, "weighted"), [Some(3), None]);
    assert_eq!(sizes(&trainers, "speedup * weight"), [Some(3), None]);
    assert_eq!(sizes(&trainers, "speedup * priority"), [None, Some(3)]);
}

#[test]
fn a_deadline_puts_a_later_trainer_first() {
    let mut trainers = [trainer(0, 3, 3e4), trainer(1, 3, 300.0)];
    trainers[1].deadline = Some(Timestamp::from_unix(15));
    let ended = |objective| lives(&three_nodes(), &trainers, &by(objective))[1].ended_s;
    // 300 samples at 30/s, in time; after t0 it would be done at 1,000 s at the earliest.
    assert_eq!(ended("deadline"), Some(10.0));
    assert_eq!(ended("weighted"), None);
}

#[test]
fn a_lost_deadline_does_not_hold_up_others() {
    let mut trainers = [trainer(0, 3, 600.0), trainer(1, 3, 3e4)];
    // 600 samples take 20 s at best.
    trainers[0].deadline = Some(Timestamp::from_unix(19));
    let sizes = first_sizes(lives(&three_nodes(), &trainers, &by("deadline")));
    assert_eq!(sizes, [None, Some(3)]);
}

#[test]
fn one_trainer_can_have_an_objective_of_its_own() {
    let trainers = [trainer(0, 3, 3e4), trainer(1, 3, 3e4)];
    let settings = Settings {
        objectives: NamedExpressions::read("t1,rate * 1.5").unwrap(),
        ..by("throughput")
    };
    let sizes = first_sizes(lives(&three_nodes(), &trainers, &settings));
    assert_eq!(sizes, [None, Some(3)]);
    let settings = Settings {
        objectives: NamedExpressions::read("t1,rate - 20").unwrap(),
        ..by("throughput")
    };
    let error = run(&three_nodes(), &trainers, &settings).unwrap_err();
    assert!(matches!(error, SimError::Objective(_)), "{error}");
    assert!(
        error.to_string().contains("trainer t1 at 0 nodes is -20"),
        "{error}"
    );
}

#[test]
fn owners_get_equal_shares_for_any_weights_of_their_trainers() {
    let holes: Vec<_> = (0..4).map(|node| hole(node, 0, 1000)).collect();
    let mut trainers: Vec<_> = (0..4).map(|name| trainer(name, 4, 3e4)).collect();
    for (name, trainer) in trainers.iter_mut().enumerate() {
        trainer.owner = Some(if name < 3 { "ada" } else { "bob" }.to_owned());
    }
    let nodes = |trainers: &[TrainerSpec], objective| {
        let lives = lives(&holes, trainers, &by(objective));
        let sizes = first_sizes(lives);
        let sum = |sizes: &[Option<u32>]| sizes.iter().flatten().sum::<u32>();
        (sum(&sizes[..3]), sum(&sizes[3..]))
    };
    assert_eq!(nodes(&trainers, "throughput"), (4, 0));
    assert_eq!(nodes(&trainers, "fair"), (2, 2));
    trainers[3].weight = Some(3.0);
    trainers[3].priority = 9;
    let points = (1..=4).map(|n| (n, 1e6 * f64::from(n)));
    trainers[3].objective = Some(ScalingCurve::new(points).unwrap());
    assert_eq!(nodes(&trainers, "as-given"), (0, 4));
    assert_eq!(nodes(&trainers, "fair"), (2, 2));
}

#[test]
fn an_owner_is_admitted_though_another_has_all_places() {
    let holes: Vec<_> = (0..4).map(|node| hole(node, 0, 1000)).collect();
    let mut trainers: Vec<_> = (0..3).map(|name| trainer(name, 4, 1e9)).collect();
    trainers[2].submit = Timestamp::from_unix(100);
    let settings = Settings {
        max_parallel: 2,
        ..by("fair")
    };
    trainers
        .iter_mut()
        .for_each(|t| t.owner = Some("ada".to_owned()));
    assert_eq!(lives(&holes, &trainers, &settings).len(), 2);
    trainers[2].owner = Some("bob".to_owned());
    let lives = lives(&holes, &trainers, &settings);
    assert_eq!(lives[2].sizes, [(100.0, 2)]);
}

#[test]
fn shares_of_owners_verify() {
    let holes: Vec<_> = (0..9)
        .map(|node| hole(node, 0, 300 + 90 * i64::from(node)))
        .collect();
    let mut trainers: Vec<_> = (0..5).map(|name| trainer(name, 2 + name, 3e4)).collect();
    for (name, trainer) in trainers.iter_mut().enumerate() {
        trainer.owner = Some(format!("u{}", name % 3));
    }
    for policy in [Policy::Dp, Policy::Milp, Policy::Forecast] {
        let settings = Settings {
            policy,
            verify: true,
            ..by("fair")
        };
        let verified = run(&holes, &trainers, &settings).unwrap().summary.verified;
        let verified = verified.unwrap();
        assert!(
            verified.decisions > 0 && verified.disagreements == 0,
            "{verified:?}"
        );
    }
}

#[test]
fn with_one_owner_fair_is_as_given() {
    let holes: Vec<_> = (0..9)
        .map(|node| hole(node, 0, 300 + 90 * i64::from(node)))
        .collect();
    for owner in [None, Some("ada".to_owned())] {
        let mut trainers: Vec<_> = (0..5).map(|name| trainer(name, 2 + name, 3e4)).collect();
        trainers.iter_mut().for_each(|t| t.owner.clone_from(&owner));
        for policy in [Policy::Dp, Policy::Forecast, Policy::EqualShare] {
            let of = |objective| {
                let settings = Settings {
                    policy,
                    ..by(objective)
                };
                run(&holes, &trainers, &settings).unwrap()
            };
            let (fair, given) = (of("fair"), of("as-given"));
            assert_eq!(fair.history, given.history, "{policy:?}");
        }
    }
}

#[test]
fn the_owner_with_the_least_service_goes_first() {
    // t0 has the only node for ten hours when t1 of another owner comes.
    let holes = [hole(0, 0, 40_000)];
    let mut trainers = [trainer(0, 1, 4e5), trainer(1, 1, 100.0)];
    trainers[0].owner = Some("ada".to_owned());
    trainers[1].owner = Some("bob".to_owned());
    trainers[1].submit = Timestamp::from_unix(36_000);
    let second = |trainers: &[TrainerSpec], objective| {
        lives(&holes, trainers, &by(objective))[1].sizes.clone()
    };
    assert_eq!(second(&trainers, "weighted"), []);
    assert_eq!(second(&trainers, "least-attained"), [(36_000.0, 1)]);
    // Of the same owner, the present one keeps the node.
    trainers[1].owner = Some("ada".to_owned());
    assert_eq!(second(&trainers, "least-attained"), []);
}

#[test]
fn a_start_can_be_charged() {
    // 400 samples at 10/s, and 3 s of the start at 10/s.
    let holes = [hole(0, 0, 100)];
    let settings = Settings {
        charge_starts: true,
        ..Settings::published()
    };
    let summary = run(&holes, &[trainer(0, 1, 400.0)], &settings)
        .unwrap()
        .summary;
    assert!((summary.hours * 3600.0 - 43.0).abs() < 1e-9, "{summary:?}");
    assert!((summary.rescale_cost_fraction - 30.0 / 400.0).abs() < 1e-12);
    // With a horizon below the cost of a start trainers still start.
    let settings = Settings {
        horizon: Span::from_secs(1),
        ..settings
    };
    let summary = run(&holes, &[trainer(0, 1, 400.0)], &settings)
        .unwrap()
        .summary;
    assert!((summary.hours * 3600.0 - 43.0).abs() < 1e-9, "{summary:?}");
}

#[test]
fn nodes_of_owners_wait_for_their_pilots() {
    let settings = Settings {
        pilot_start: Some(Span::from_secs(7)),
        ..Settings::published()
    };
    let seconds = |holes: &[_], owner: Option<&str>| {
        let mut spec = trainer(0, 2, 400.0);
        spec.owner = owner.map(str::to_owned);
        let summary = run(holes, &[spec], &settings).unwrap().summary;
        (summary.hours * 3600.0, summary.pilot_wait_fraction.unwrap())
    };
    // 400 samples at 10/s, after 7 s without any.
    let one = [hole(0, 0, 100)];
    assert_eq!(seconds(&one, None), (40.0, 0.0));
    let (after, lost) = seconds(&one, Some("ada"));
    assert!((after - 47.0).abs() < 1e-9 && (lost - 70.0 / 400.0).abs() < 1e-12);
    // The second node comes after 17 s: 100 samples are done. It costs the stall of growing, as
    // without owners, and what it would have brought in 7 s.
    let two = [hole(0, 0, 100), hole(1, 17, 100)];
    let (alone, _) = seconds(&two, None);
    let (owned, lost) = seconds(&two, Some("ada"));
    assert!((lost - 140.0 / 400.0).abs() < 1e-12, "{lost}");
    assert!((owned - alone - 7.0).abs() < 1e-9, "{owned} {alone}");
}

#[test]
fn both_definitions_of_dedicated_work_agree_on_linear_trainers() {
    let trainers = [trainer(0, 8, 1e9), trainer(1, 8, 1e9)];
    let start = Timestamp::from_unix(0);
    for dedicated in [Dedicated::ByKind, Dedicated::Split, Dedicated::StaticReplay] {
        let settings = Settings {
            dedicated,
            ..Settings::published()
        };
        let samples = dedicated_samples(&trainers, &settings, start, 100.0, 2.5).unwrap();
        assert!((samples - 2500.0).abs() < 1e-6, "{dedicated:?}: {samples}");
    }
    let mut other = trainer(2, 8, 1e9);
    other.throughput = ScalingCurve::linear(20.0, 8).unwrap();
    let settings = Settings {
        dedicated: Dedicated::Split,
        ..Settings::published()
    };
    let refused = dedicated_samples(&[trainer(0, 8, 1e9), other], &settings, start, 100.0, 2.5);
    assert!(
        matches!(refused, Err(SimError::Setting { .. })),
        "{refused:?}"
    );
}

#[test]
fn the_hook_receives_every_decision() {
    let trace = HoleTrace::new(&three_nodes(), None, Timestamp::from_unix(0), None);
    let mut seen = Vec::new();
    let mut look = |decision: &Decision<'_>| {
        assert!(decision.problem.is_feasible(&decision.sizes.counts));
        seen.push((decision.event, decision.problem.nodes));
    };
    let mut progress = |_| {};
    let mut hooks = Hooks::new(&|| 0.0, &mut progress);
    hooks.save = Some(&mut look);
    let trainers = [trainer(0, 3, 300.0)];
    let settings = Settings {
        endless: true,
        ..Settings::published()
    };
    let replayed = replay(&trace, &trainers, &settings, None, &mut hooks).unwrap();
    // Decisions of reference replays are not among them.
    assert_eq!(seen.len() as u64, replayed.summary.events);
    assert_eq!(seen.first(), Some(&(0, 3)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn an_expression_of_the_throughput_is_the_throughput(holes in machine(), seed: u64) {
        let trainers: Vec<_> = (0..5).map(|k| trainer(k, 1 + k, 2000.0)).collect();
        let run = |objective| {
            let settings = Settings { seed, ..by(objective) };
            run(&holes, &trainers, &settings).unwrap()
        };
        let (plain, said) = (run("throughput"), run("rate"));
        prop_assert_eq!(&plain.history, &said.history);
        prop_assert_eq!(plain.summary.efficiency, said.summary.efficiency);
        // An expression that also uses the work left has the same value.
        let looked = run("rate + 0 * samples_left");
        prop_assert_eq!(&plain.history, &looked.history);
    }

    #[test]
    fn a_factor_on_all_weights_changes_nothing(
        holes in machine(),
        weights in proptest::collection::vec(0.1_f64..9.0, 5),
        factor in prop_oneof![Just(0.25), Just(8.0), Just(1024.0)],
        objective in prop_oneof![Just("weighted"), Just("deadline"), Just("fair"), Just("rate * weight")],
        seed: u64,
    ) {
        let trainers = |factor: f64| -> Vec<TrainerSpec> {
            (0..5_u32)
                .zip(&weights)
                .map(|(k, weight)| TrainerSpec {
                    weight: Some(weight * factor),
                    owner: Some(format!("u{}", k % 2)),
                    deadline: (k % 2 == 0).then(|| Timestamp::from_unix(400)),
                    ..trainer(k, 1 + k, 2000.0)
                })
                .collect()
        };
        let settings = Settings { seed, ..by(objective) };
        let once = run(&holes, &trainers(1.0), &settings).unwrap();
        let more = run(&holes, &trainers(factor), &settings).unwrap();
        prop_assert_eq!(once.history, more.history);
    }
}

#[test]
fn the_objective_has_one_name_everywhere() {
    let settings = by("min(rate, 20) * (n > 0)");
    let text = serde_json::to_value(&settings).unwrap();
    assert_eq!(text["objective"], "min(rate, 20) * (n > 0)");
    assert_eq!(serde_json::from_value::<Settings>(text).unwrap(), settings);
    assert_eq!(
        serde_json::to_value(Objective::LeastAttained).unwrap(),
        "least-attained"
    );
}
