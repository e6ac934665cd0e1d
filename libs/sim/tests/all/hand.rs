//! Small replays with results calculated by hand.

use lacuna_model::{
    Policy, ScalingCurve, Span, Stage, Staged, Steps, StepsAt, Timestamp, TrainerSpec,
};
use lacuna_sim::{Settings, SimError, TrainerEnd};
use proptest::prelude::*;

use crate::common::{self, hole, machine, run};

fn trainer(name: u32, submit: i64, min: u32, max: u32, samples: f64) -> TrainerSpec {
    TrainerSpec {
        submit: Timestamp::from_unix(submit),
        min_nodes: min,
        ..common::trainer(name, max, samples)
    }
}

#[test]
fn growth_and_loss_cost_what_the_model_says() {
    // t0 starts free on one node at 0, grows to two at 10 (3 s at 10/s), loses one at 20 (2 s
    // at 20/s): 100 + (200 - 30) + (10 x 10 - 40) = 330 at 30, then 10/s to 400 at 37.
    let holes = [hole(0, 0, 100), hole(1, 10, 20), hole(2, 30, 31)];
    let trainers = [trainer(0, 0, 1, 2, 400.0)];
    let settings = Settings {
        horizon: Span::from_secs(5),
        ..Settings::published()
    };
    let replayed = run(&holes, &trainers, &settings).unwrap();
    let summary = &replayed.summary;
    // At 30 a second node comes: 5 s of 10/s more against 30 samples: it grows (30 down), and
    // at 31 loses it (40 down): 330 + 20 - 30 = 320 at 31, less 40: at 43 it has 400.
    assert_eq!((summary.rescales, summary.preemptions), (2, 2));
    assert!((summary.hours * 3600.0 - 43.0).abs() < 1e-9, "{summary:?}");
    assert!((summary.samples - 400.0).abs() < 1e-9);
    assert!((summary.rescale_cost_fraction - 60.0 / 400.0).abs() < 1e-12);
    assert!((summary.preempt_cost_fraction - 80.0 / 400.0).abs() < 1e-12);
    // Offered: node 0 for 43 s, node 1 for 10 s, node 2 for 1 s.
    assert!((summary.equivalent_nodes - 54.0 / 43.0).abs() < 1e-9);
    assert!((summary.idle_share_used - 1.0).abs() < 1e-12);
    // On 1.2558 dedicated nodes: 12.558 samples/s.
    assert!((summary.efficiency - 400.0 / 540.0).abs() < 1e-9);
    let life = &replayed.history.unwrap().lives[0];
    let sizes = [(0.0, 1), (10.0, 2), (20.0, 1), (30.0, 2), (31.0, 1)];
    assert_eq!(life.sizes, sizes);
}

#[test]
fn a_trainer_does_not_grow_if_that_does_not_pay_within_the_horizon() {
    // One node more brings 2 s x 10/s, and costs 3 s x 10/s.
    let holes = [hole(0, 0, 100), hole(1, 10, 90)];
    let settings = Settings {
        horizon: Span::from_secs(2),
        ..Settings::published()
    };
    let summary = run(&holes, &[trainer(0, 0, 1, 2, 500.0)], &settings)
        .unwrap()
        .summary;
    assert_eq!((summary.rescales, summary.preemptions), (0, 0));
    assert!((summary.hours * 3600.0 - 50.0).abs() < 1e-9);
    // Node 1 is idle from 10 to 50.
    assert!((summary.idle_share_used - 50.0 / 90.0).abs() < 1e-12);
}

fn steps(batch: f64, efficiency: f64) -> Steps {
    let at = StepsAt {
        batch,
        efficiency,
        ..StepsAt::default()
    };
    Steps::new([(1, at)]).unwrap()
}

#[test]
fn a_trainer_that_learns_faster_in_a_later_stage_gets_the_nodes_then() {
    // One node until 100; two trainers of 10/s. From 100 samples on t1 makes 40/s, and is worth
    // more: from 10 on it alone trains. It ends at 10 + 300 / 40 = 17.5, t0 20 s later.
    let holes = [hole(0, 0, 100), hole(1, 0, 10)];
    let mut settings = Settings {
        trainer_end: TrainerEnd::Immediate,
        objective: lacuna_sim::Objective::Throughput,
        cost_scale: 0.0,
        ..Settings::published()
    };
    let trainers = [trainer(0, 0, 1, 1, 300.0), trainer(1, 0, 1, 1, 400.0)];
    let stage = Stage {
        from: 100.0,
        throughput: ScalingCurve::linear(40.0, 1).unwrap(),
        objective: None,
        goodput: None,
        steps: Some(steps(64.0, 0.5)),
    };
    let staged = Staged {
        steps: Some(steps(32.0, 1.0)),
        goodput: None,
        later: vec![stage],
    };
    settings.stages.insert(trainers[1].id.clone(), staged);
    let replayed = run(&holes, &trainers, &settings).unwrap();
    assert!((replayed.summary.hours * 3600.0 - 37.5).abs() < 1e-6);
    let history = replayed.history.unwrap();
    // What its steps teach over time, until it ends.
    let taught = history
        .points
        .iter()
        .map(|point| Some((point.at_s, point.steps?.batch)));
    let taught: Vec<_> = taught.flatten().collect();
    assert_eq!(taught, [(0.0, 32.0), (10.0, 64.0)]);
    let ends: Vec<_> = history
        .lives
        .iter()
        .map(|life| life.ended_s.unwrap())
        .collect();
    assert!((ends[1] - 17.5).abs() < 1e-6, "{ends:?}");
}

#[test]
fn a_trainer_below_its_minimum_stops_and_starts_free() {
    // On two nodes from 0; at 10 it loses one and pays 2 s x 20/s, and stops. At 30 it starts
    // again at no cost: 200 - 40 at 30, so 400 at 42.
    let holes = [hole(0, 0, 100), hole(1, 0, 10), hole(1, 30, 100)];
    let summary = run(
        &holes,
        &[trainer(0, 0, 2, 2, 400.0)],
        &Settings::published(),
    )
    .unwrap()
    .summary;
    assert_eq!(summary.preemptions, 1);
    assert_eq!(summary.rescale_cost_fraction, 0.0);
    assert!((summary.hours * 3600.0 - 42.0).abs() < 1e-9, "{summary:?}");
}

#[test]
fn a_trainer_ends_at_the_next_event_or_at_once() {
    // One node, one trainer at a time, 100 samples each: t1 starts at 40, when something
    // happens, or at 10.
    let holes = [hole(0, 0, 100), hole(1, 40, 41)];
    let trainers = [trainer(0, 0, 1, 1, 100.0), trainer(1, 0, 1, 1, 100.0)];
    for (trainer_end, seconds, events) in [
        (TrainerEnd::NextEvent, 50.0, 3),
        (TrainerEnd::Immediate, 20.0, 2),
    ] {
        let settings = Settings {
            max_parallel: 1,
            trainer_end,
            ..Settings::published()
        };
        let summary = run(&holes, &trainers, &settings).unwrap().summary;
        assert!(
            (summary.hours * 3600.0 - seconds).abs() < 1e-6,
            "{summary:?}"
        );
        assert_eq!((summary.events, summary.trainers_done), (events, 2));
    }
}

#[test]
fn trainers_that_never_fit_do_not_block_others() {
    // Four nodes for 100 s, ten trainers that need five, and one that takes any, 10/s a node.
    let holes: Vec<_> = (0..4).map(|node| hole(node, 0, 100)).collect();
    let mut trainers: Vec<_> = (0..10).map(|at| trainer(at, 0, 5, 8, 1e9)).collect();
    trainers.push(trainer(10, 1, 1, 1, 100.0));
    for max_parallel in [1, 10] {
        let settings = Settings {
            max_parallel,
            ..Settings::published()
        };
        let summary = run(&holes, &trainers, &settings).unwrap().summary;
        assert_eq!(summary.trainers_done, 1, "{summary:?}");
        assert!((summary.samples - 100.0).abs() < 1e-6, "{summary:?}");
    }
}

#[test]
fn an_endless_list_goes_on_beside_one_that_never_fits() {
    // The small one does 100 samples in ten seconds, again and again.
    let holes: Vec<_> = (0..4).map(|node| hole(node, 0, 100)).collect();
    let trainers = [trainer(0, 0, 5, 8, 100.0), trainer(1, 0, 1, 1, 100.0)];
    let settings = Settings {
        max_parallel: 1,
        endless: true,
        trainer_end: TrainerEnd::Immediate,
        ..Settings::published()
    };
    let summary = run(&holes, &trainers, &settings).unwrap().summary;
    assert!((summary.samples - 1000.0).abs() < 1e-6, "{summary:?}");
}

#[test]
fn an_endless_list_never_starves() {
    // Work of t0 after its end and before the next event counts: 100 s at 10/s.
    let holes = [hole(0, 0, 100), hole(1, 40, 41)];
    let settings = Settings {
        max_parallel: 1,
        endless: true,
        ..Settings::published()
    };
    let summary = run(&holes, &[trainer(0, 0, 1, 1, 100.0)], &settings)
        .unwrap()
        .summary;
    assert!((summary.samples - 1000.0).abs() < 1e-6, "{summary:?}");
    assert_eq!(summary.zero_cost_fraction, Some(1.0));
    assert!((summary.hours * 3600.0 - 100.0).abs() < 1e-9);
}

#[test]
fn a_recording_that_ends_first_leaves_trainers_unfinished() {
    let summary = run(
        &[hole(0, 0, 10)],
        &[trainer(0, 0, 1, 1, 400.0)],
        &Settings::published(),
    )
    .unwrap()
    .summary;
    assert!(summary.unfinished);
    assert!((summary.samples - 100.0).abs() < 1e-9);
    assert_eq!(summary.trainers_done, 0);
}

/// Settings of a forecasting policy with changed settings of the joint decision.
fn weighing(change: impl Fn(&mut lacuna_planner::placement::Settings)) -> Settings {
    let mut settings = Settings::published();
    change(&mut settings.forecast.joint);
    settings
}

#[test]
fn invalid_settings_are_refused() {
    let trainers = [trainer(0, 0, 1, 1, 400.0)];
    let holes = [hole(0, 0, 10)];
    let bad = [
        Settings {
            horizon: Span::ZERO,
            ..Settings::published()
        },
        Settings {
            max_parallel: 0,
            ..Settings::published()
        },
        Settings {
            cost_scale: f64::NAN,
            ..Settings::published()
        },
        weighing(|joint| joint.hysteresis = f64::NAN),
        weighing(|joint| joint.hysteresis = -1.0),
    ];
    for settings in bad {
        let error = run(&holes, &trainers, &settings).unwrap_err();
        assert!(matches!(error, SimError::Setting { .. }), "{error}");
    }
    let none = run(&holes, &[], &Settings::published());
    assert!(matches!(none, Err(SimError::NoTrainers)), "{none:?}");
    let none = run(&[], &trainers, &Settings::published());
    assert!(matches!(none, Err(SimError::NothingLeft { .. })));
}

proptest! {
    #[test]
    fn work_is_bounded_by_the_offered_node_time(
        holes in machine(),
        jobs in proptest::collection::vec((0_i64..500, 1_u32..3, 0_u32..4, 1.0..9000.0_f64), 1..6),
        max_parallel in 1_u32..4,
        policy in prop_oneof![Just(Policy::Dp), Just(Policy::EqualShare)],
        endless: bool,
        immediate: bool,
        seed: u64,
    ) {
        let trainers: Vec<_> = jobs
            .iter()
            .enumerate()
            .map(|(at, &(submit, min, more, work))| trainer(at as u32, submit, min, min + more, work))
            .collect();
        let settings = Settings {
            policy,
            max_parallel,
            endless,
            seed,
            trainer_end: if immediate { TrainerEnd::Immediate } else { TrainerEnd::NextEvent },
            ..Settings::published()
        };
        let first = run(&holes, &trainers, &settings).unwrap();
        let again = run(&holes, &trainers, &settings).unwrap();
        prop_assert_eq!(&first, &again);
        let summary = first.summary;
        let offered: f64 = holes.iter().map(|h| h.length().as_secs_f64()).sum();
        // Linear scaling at 10 samples/s on a node.
        prop_assert!(summary.samples <= offered * 10.0 + 1e-6);
        prop_assert!(summary.harvested_node_hours * 3600.0 <= offered + 1e-6);
        prop_assert!((0.0..=1.0 + 1e-9).contains(&summary.idle_share_used));
        if !endless {
            let wanted: f64 = jobs.iter().map(|job| job.3).sum();
            prop_assert!(summary.samples <= wanted + 1e-6);
        }
        for point in &first.history.unwrap().points {
            prop_assert!(point.used <= point.pool);
        }
    }
}
