//! The predictors of the service: fits beside forecasts, restored models, and roles.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use lacuna_forecast::{Choice, LearningStage, OrderBy, Predictor, WithPlannedStarts};
use lacuna_forecast_service::{Forecaster, ModelEvent, Models, PredictorSettings, Ready, Role};
use lacuna_model::{EventKind, NodeEvent, Span, Timestamp};
use lacuna_wire::msg::PoolState;

use crate::machine::{MachinePrior, node};

const START: i64 = 1_600_000_000;

fn hazard() -> PredictorSettings {
    PredictorSettings::of(Choice::hazard(OrderBy::Learnt)).beside(Choice::survival())
}

fn live(wanted: PredictorSettings) -> Forecaster {
    let mut forecaster = Forecaster::new(Models::new(wanted));
    forecaster.set_lock_step(false);
    forecaster
}

/// Applies events; fits that fall due are made at once.
fn take(forecaster: &mut Forecaster, events: &[NodeEvent]) {
    for event in events {
        forecaster.event(event, "");
        forecaster.set_lock_step(false);
        if let Some(task) = forecaster.fit_task() {
            forecaster.install(Some(task.run()));
        }
    }
}

fn ended(forecaster: &Forecaster) -> u64 {
    match forecaster.models().learning() {
        LearningStage::Fixed => 0,
        LearningStage::Young { ended, .. } | LearningStage::Learnt { ended } => ended,
    }
}

fn curves(state: &PoolState) -> Vec<(String, f64)> {
    let pool = &state.pool;
    let said = |hole: &lacuna_model::PooledHole| pool.forecast(hole).unwrap().open_after(300.0);
    let holes = pool.holes.iter();
    holes
        .map(|hole| (hole.hole.node.to_string(), said(hole)))
        .collect()
}

#[test]
fn a_model_is_fitted_beside_forecasts_and_installed_between_two_events() {
    let mut machine = MachinePrior::new(3, 64, START);
    let mut wanted = hazard();
    wanted.fallback = false;
    let mut forecaster = live(wanted);
    let mut task = None;
    while task.is_none() {
        for event in machine.step() {
            forecaster.event(&event, "");
        }
        forecaster.set_lock_step(false);
        forecaster.pool(machine.at());
        task = forecaster.fit_task();
    }
    // During the fit, holes are forecast as before, and no other fit is due.
    for _ in 0..300 {
        for event in machine.step() {
            forecaster.event(&event, "");
        }
        let state = forecaster.pool(machine.at());
        assert!(
            state.predictor.contains("hazard has seen"),
            "{}",
            state.predictor
        );
        assert!(forecaster.fit_task().is_none());
    }
    let old = forecaster.pool(machine.at());
    assert_eq!(forecaster.models().report().fits, 0);
    forecaster.install(Some(task.unwrap().run()));
    let new = forecaster.pool(machine.at());
    assert!(new.predictor.contains("hazard, "), "{}", new.predictor);
    assert_eq!(forecaster.models().report().fits, 1);
    assert_ne!(curves(&old), curves(&new));
    // The next fit is due at once, since many holes have ended meanwhile.
    assert!(forecaster.fit_task().is_some());
}

#[test]
fn failed_fits_keep_the_old_model_and_are_repeated_later() {
    let mut machine = MachinePrior::new(4, 64, START);
    let mut forecaster = live(hazard());
    let mut failed = 0;
    for _ in 0..2000 {
        for event in machine.step() {
            forecaster.event(&event, "");
        }
        forecaster.set_lock_step(false);
        if forecaster.fit_task().is_some() {
            forecaster.install(None);
            failed += 1;
        }
    }
    assert!((2..40).contains(&failed), "{failed}");
    let state = forecaster.pool(machine.at());
    assert!(
        state.predictor.contains("hazard has seen"),
        "{}",
        state.predictor
    );
}

#[test]
fn a_fit_outside_gives_the_model_that_one_inside_gives() {
    let mut machine = MachinePrior::new(5, 64, START);
    let events = machine.steps(400);
    let mut outside = live(hazard());
    take(&mut outside, &events);
    let mut inside = Forecaster::new(Models::new(hazard()));
    for event in &events {
        inside.event(event, "");
        inside.set_lock_step(true);
        assert!(inside.fit_task().is_none());
    }
    let (a, b) = (outside.pool(machine.at()), inside.pool(machine.at()));
    assert!(outside.models().report().fits >= 2);
    assert_eq!(
        outside.models().report().fits,
        inside.models().report().fits
    );
    // The fits are at most one event apart.
    for ((name, outside), (_, inside)) in curves(&a).iter().zip(curves(&b)) {
        assert!((outside - inside).abs() < 0.1, "{name}: {outside} {inside}");
    }
}

#[test]
fn the_pool_has_the_holes_that_end_together() {
    let mut machine = MachinePrior::new(6, 64, START);
    let mut forecaster = live(hazard());
    take(&mut forecaster, &machine.steps(600));
    let state = forecaster.pool(machine.at());
    let joint = state.pool.joint.unwrap();
    let mut order = joint.order.clone();
    assert_eq!(joint.link.len() + 1, order.len());
    order.sort_unstable();
    assert!(order.into_iter().eq(0..state.pool.holes.len() as u32));
    // The machine takes the front, so the names give the order.
    assert!(joint.order.is_sorted(), "{:?}", joint.order);
}

#[test]
fn a_saved_model_is_restored_and_no_event_counts_twice() {
    let mut machine = MachinePrior::new(8, 64, START);
    let past = machine.steps(500);
    let mut first = live(hazard());
    take(&mut first, &past);
    first.pool(machine.at());
    let (learnt, upto) = (ended(&first), first.upto().unwrap());
    let saved = |place| first.models().predictor(place).unwrap().save().unwrap();
    let mut models = Models::new(hazard());
    models
        .restore(Role::First, &saved(Role::First), upto)
        .unwrap();
    models
        .restore(Role::Rival, &saved(Role::Rival), upto)
        .unwrap();
    // The stream holds the past, and events since the save.
    let more = machine.steps(50);
    let events = more.iter();
    let closed = events.filter(|event| matches!(event.kind, EventKind::NodeBusy { .. }));
    let closed = closed.count() as u64;
    assert!(closed > 50, "{closed}");
    let mut second = Forecaster::new(models);
    second.catch_up(machine.snapshot(), None);
    assert!(
        second.models().label().contains("hazard, "),
        "learnt before the first event"
    );
    for event in past.iter().chain(&more) {
        second.event(event, "");
    }
    second.caught_up();
    assert_eq!(second.ready(), Ready::Live);
    second.pool(machine.at());
    assert_eq!(ended(&second), learnt + closed);
    let rival = |it: &Forecaster| it.models().predictor(Role::Rival).unwrap().learning();
    let LearningStage::Learnt { ended: by_rival } = rival(&first) else {
        panic!("the rival has learnt");
    };
    // The rival has not seen the start of the holes that were open at the save.
    let LearningStage::Learnt { ended: again } = rival(&second) else {
        panic!("the rival has learnt");
    };
    assert!(
        again > by_rival && again <= by_rival + closed,
        "{by_rival} {again} {closed}"
    );
    assert_eq!(second.models().report().anomalies.clock_back, 0);
}

#[test]
fn a_model_of_another_predictor_changes_nothing() {
    let survival = WithPlannedStarts::new(Choice::survival().build())
        .save()
        .unwrap();
    let mut models = Models::new(hazard());
    let error = models
        .restore(Role::First, &survival, Default::default())
        .unwrap_err();
    assert!(error.to_string().contains("survival"), "{error}");
    let mut forecaster = Forecaster::new(models);
    let mut machine = MachinePrior::new(9, 16, START);
    take(&mut forecaster, &machine.steps(20));
    assert!(ended(&forecaster) > 0);
}

#[test]
fn a_restart_of_time_resets_the_predictors() {
    let mut machine = MachinePrior::new(10, 64, START);
    let mut forecaster = live(hazard());
    take(&mut forecaster, &machine.steps(400));
    forecaster.pool(machine.at());
    assert!(ended(&forecaster) > 200);
    // The trace is played again from its beginning, and ingest jumps ahead in its numbers.
    let jump = machine.seq + lacuna_pool::RESTART_JUMP;
    let mut again = MachinePrior::new(10, 64, START);
    again.seq = jump;
    forecaster.snapshot(&again.snapshot(), None, "");
    assert!(forecaster.take_events().contains(&ModelEvent::Forgot));
    assert_eq!(ended(&forecaster), 0);
    take(&mut forecaster, &again.steps(30));
    let few = ended(&forecaster);
    assert!((1..400).contains(&few), "{few}");
    assert_eq!(forecaster.models().report().anomalies.unknown_end, 0);
}

/// A machine whose holes last minutes, while the first forecasts ten hours.
fn adrift(
    wanted: PredictorSettings,
    lock_step: bool,
    minutes: i64,
) -> (Forecaster, Vec<ModelEvent>) {
    let mut machine = MachinePrior::new(12, 64, START);
    let mut forecaster = Forecaster::new(Models::new(wanted));
    let mut model_events = Vec::new();
    while machine.now < START + minutes * 60 {
        for event in machine.step() {
            forecaster.event(&event, "");
        }
        forecaster.set_lock_step(lock_step);
        forecaster.pool(machine.at());
        model_events.extend(forecaster.take_events());
    }
    (forecaster, model_events)
}

fn wrong() -> PredictorSettings {
    PredictorSettings::of(Choice::Constant { length_s: 36_000.0 }).beside(Choice::survival())
}

#[test]
fn a_rival_takes_over_from_a_predictor_that_is_adrift() {
    let (mut forecaster, model_events) = adrift(wrong(), false, 12 * 60);
    assert!(
        matches!(model_events[0], ModelEvent::Adrift(_)),
        "{model_events:?}"
    );
    assert!(
        model_events.contains(&ModelEvent::FellBack),
        "{model_events:?}"
    );
    assert_eq!(forecaster.models().active(), Role::Rival);
    assert!(forecaster.models().adrift().is_some());
    let state = forecaster.pool(Timestamp::from_unix(START + 12 * 3600) + Span::from_secs(60));
    assert_eq!(state.predictor, "survival (constant is adrift)");
    let (_, soon) = &curves(&state)[0];
    assert!(*soon < 0.999, "{soon}");
}

#[test]
fn the_rival_does_not_take_over_in_lock_step_or_against_the_setting() {
    let mut kept = wrong();
    kept.fallback = false;
    for (wanted, lock_step) in [(wrong(), true), (kept, false)] {
        let (forecaster, model_events) = adrift(wanted, lock_step, 12 * 60);
        assert!(
            matches!(model_events[..], [ModelEvent::Adrift(_)]),
            "{model_events:?}"
        );
        assert_eq!(forecaster.models().active(), Role::First);
    }
}

#[test]
fn a_right_predictor_keeps_its_role_from_the_start() {
    let (forecaster, model_events) = adrift(hazard(), true, 24 * 60);
    assert_eq!(forecaster.models().active(), Role::First);
    let [_, five, ..] = forecaster.models().calibration().scores();
    println!("{model_events:?}, skill at five minutes {:?}", five.skill());
    assert!(forecaster.models().adrift().is_none());
    assert!(five.skill().unwrap() > 0.0);
    assert!(forecaster.models().calibration().concordance().unwrap() > 0.6);
}

#[test]
fn announced_ends_are_passed_on_and_false_ones_are_counted() {
    let mut wanted = PredictorSettings::of(Choice::Persistence);
    let at = |seconds: i64| Timestamp::from_unix(START + seconds);
    let mut seq = 0;
    let mut event = |seconds: i64, kind: EventKind| {
        seq += 1;
        NodeEvent {
            seq,
            at: at(seconds),
            kind,
        }
    };
    let planned = |nodes: &[usize], start: i64| EventKind::JobPlanned {
        job: "7".to_owned(),
        nodes: nodes.iter().map(|&number| node(number)).collect(),
        start: at(start),
    };
    let log = [
        event(0, EventKind::NodeIdle { node: node(1) }),
        event(0, EventKind::NodeIdle { node: node(2) }),
        // Node 3 is busy, so its planned start has no outcome.
        event(3600, planned(&[1, 3], 3900)),
        event(
            3600,
            EventKind::Reservation {
                name: "maintenance".to_owned(),
                nodes: vec![node(2)],
                start: at(4200),
                end: at(9000),
            },
        ),
        // The batch job is cancelled, and planned again after the first time has passed.
        event(3700, planned(&[], 0)),
        event(3970, planned(&[1], 4070)),
        event(4080, EventKind::NodeBusy { node: node(1) }),
        event(4190, EventKind::NodeBusy { node: node(2) }),
    ];
    let advance = |forecaster: &mut Forecaster, from: usize, to: usize| {
        for event in &log[from..to] {
            forecaster.event(event, "");
        }
        forecaster.pool(log[to - 1].at)
    };
    let mut forecaster = Forecaster::new(Models::new(wanted.clone()));
    advance(&mut forecaster, 0, 2);
    let state = advance(&mut forecaster, 2, 4);
    let open = |state: &PoolState, hole: usize, after: f64| {
        let hole = &state.pool.holes[hole];
        state.pool.forecast(hole).unwrap().open_after(after)
    };
    assert!(open(&state, 0, 290.0) > open(&state, 0, 310.0) + 0.3);
    assert!(open(&state, 1, 590.0) > 0.5 && open(&state, 1, 610.0) == 0.0);
    let state = advance(&mut forecaster, 4, 5);
    assert!(open(&state, 0, 290.0) < open(&state, 0, 310.0) + 0.1);
    for (from, to) in [(5, 6), (6, 7), (7, 8)] {
        advance(&mut forecaster, from, to);
    }
    let first = forecaster.models().predictor(Role::First).unwrap();
    let planned = first.record(lacuna_forecast::EndKind::PlannedStart);
    assert_eq!((planned.came_true, planned.proved_false), (1, 1));
    let reserved = first.record(lacuna_forecast::EndKind::Reservation);
    // Announced ten and four minutes ahead.
    assert_eq!((reserved.came_true, reserved.proved_false), (2, 0));
    // Without the setting, they are not passed on.
    wanted.announced_ends = false;
    let mut without = Forecaster::new(Models::new(wanted));
    advance(&mut without, 0, 2);
    let state = advance(&mut without, 2, 4);
    assert!(open(&state, 1, 610.0) > 0.5);
}

#[test]
fn anomalies_of_the_stream_are_counted() {
    let mut forecaster = live(hazard());
    let at = |seconds: i64| Timestamp::from_unix(START + seconds);
    forecaster.snapshot(
        &NodeEvent {
            seq: 5,
            at: at(0),
            kind: EventKind::Snapshot {
                idle: vec![
                    lacuna_model::Hole {
                        node: node(1),
                        since: at(500),
                    },
                    lacuna_model::Hole {
                        node: node(2),
                        since: at(-500),
                    },
                ],
            },
        },
        None,
        "",
    );
    forecaster.pool(at(100));
    let state = forecaster.pool(at(50));
    assert_eq!(state.pool.holes.len(), 2);
    for (_, open) in curves(&state) {
        assert!((0.0..=1.0).contains(&open), "{open}");
    }
    let late = NodeEvent {
        seq: 6,
        at: at(-100),
        kind: EventKind::NodeIdle { node: node(3) },
    };
    forecaster.event(&late, "");
    forecaster.pool(at(110));
    let anomalies = forecaster.anomalies();
    assert_eq!(
        (
            anomalies.negative_holes,
            anomalies.clock_back,
            anomalies.disorder
        ),
        (1, 1, 1)
    );
}
