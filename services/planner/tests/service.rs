//! The service on its bus; the test plays forecast and control.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on stops"
)]

use std::path::Path;
use std::time::Duration;

use lacuna_model::{
    ClusterId, Forecast, ForecastPoint, Generation, Joint, OrderSource, Outcome, Plan,
    PlannerSettings, Timestamp,
};
use lacuna_planner_service::{Config, Metrics, Sections, run};
use lacuna_runtime::metrics::{Registry, expose};
use lacuna_runtime::{Bus, Follow, NoArgs, Received, Start, bus};
use lacuna_testkit::{
    Server, Service, golden, in_virtual_and_real_time, in_virtual_time, pool, record, spec,
};
use lacuna_wire::address;
use lacuna_wire::msg::{Clock, Pace, PlanState, PoolState, TrainersState};

fn cluster() -> ClusterId {
    ClusterId::new("c").unwrap()
}

async fn start(nats: &Server) -> Service<Sections> {
    start_with(nats, PlannerSettings::default()).await
}

async fn start_with(nats: &Server, settings: PlannerSettings) -> Service<Sections> {
    let config = Config {
        own: Sections { planner: settings },
        ..Config::default()
    };
    Service::start(nats, &cluster(), "planner", config, |context| {
        run(context, NoArgs {})
    })
    .await
}

async fn say(bus: &Bus, seq: u64, names: &[&str]) {
    let as_of = i64::try_from(seq).unwrap();
    let state = PoolState {
        pool: pool(seq, as_of, names),
        predictor: "constant".to_owned(),
    };
    let cause = format!("event-{seq}");
    bus.store(&address::pool(&cluster()), &state, &cause)
        .await
        .unwrap();
}

async fn trainers(bus: &Bus, version: u64, nodes: &[&str]) {
    let state = TrainersState {
        version,
        as_of: Timestamp::from_unix(i64::try_from(version).unwrap()),
        trainers: vec![record(spec("t", 4), 1, nodes)],
        unusable: vec![],
        pilot_s: 0.0,
        followed: Generation(0),
    };
    bus.store(&address::trainers(&cluster()), &state, "")
        .await
        .unwrap();
}

async fn next(plans: &mut Follow<PlanState>) -> Received<PlanState> {
    let next = tokio::time::timeout(Duration::from_secs(20), plans.next());
    next.await.expect("no plan came").unwrap()
}

async fn none(plans: &mut Follow<PlanState>) {
    let next = tokio::time::timeout(Duration::from_millis(300), plans.next()).await;
    assert!(
        next.is_err(),
        "a plan came: {:?}",
        next.unwrap().unwrap().message
    );
}

#[test]
fn a_change_leads_to_a_plan_and_generations_outlive_the_process() {
    in_virtual_and_real_time(async |nats| {
        let bus = nats.connect(&cluster(), "test").await;
        let mut plans = bus
            .follow(&address::plan(&cluster()), Start::New)
            .await
            .unwrap();
        let planner = start(&nats).await;
        trainers(&bus, 1, &[]).await;
        say(&bus, 3, &["a", "b"]).await;
        let first = next(&mut plans).await;
        assert_eq!(first.envelope.correlation, "event-3");
        assert_eq!(first.message.trainers_version, 1);
        let plan = first.message.plan;
        let numbered = plan.generation;
        assert_eq!(plan.seq, 3);
        assert!(numbered > Generation(1_700_000_000_000), "{numbered:?}");
        assert_eq!(plan.allocations[0].nodes.len(), 2);
        // Control has applied it: a new version, the same allocation.
        trainers(&bus, 2, &["a", "b"]).await;
        let second = next(&mut plans).await.message;
        assert_eq!((second.trainers_version, second.runs.len()), (2, 1));
        // The same pool once more changes nothing.
        say(&bus, 3, &["a", "b"]).await;
        none(&mut plans).await;
        planner.stop().await;
        let planner = start(&nats).await;
        let again = next(&mut plans).await.message.plan;
        assert!(again.generation > second.plan.generation, "{again:?}");
        planner.stop().await;
    });
}

#[test]
fn in_lock_step_every_pool_and_every_version_gets_a_plan() {
    in_virtual_time(async |nats| {
        let bus = nats.connect(&cluster(), "test").await;
        let tick = Clock {
            now: Timestamp::from_unix(1),
            pace: Pace::LockStep,
            step: 1,
            events_upto: 0,
            complete: true,
            ended: false,
            recording: String::new(),
        };
        bus.store(&address::clock(&cluster()), &tick, "")
            .await
            .unwrap();
        let mut plans = bus
            .follow(&address::plan(&cluster()), Start::New)
            .await
            .unwrap();
        let planner = start(&nats).await;
        trainers(&bus, 1, &["a"]).await;
        let mut generation = 0;
        for seq in 1..6 {
            // The pool does not change; only its number does.
            say(&bus, seq, &["a"]).await;
            loop {
                let plan = next(&mut plans).await.message.plan;
                assert!(plan.generation.0 > generation);
                generation = plan.generation.0;
                if plan.seq == seq {
                    break;
                }
            }
        }
        planner.stop().await;
    });
}

#[test]
fn a_pool_that_says_which_holes_end_together_is_planned_by_forecasts() {
    in_virtual_time(async |nats| {
        let bus = nats.connect(&cluster(), "test").await;
        let mut plans = bus
            .follow(&address::plan(&cluster()), Start::New)
            .await
            .unwrap();
        let planner = start(&nats).await;
        // Two holes end soon, two late, and the trainer was hit while it held the former.
        let mut state = PoolState {
            pool: pool(3, 3, &["a", "b", "c", "d"]),
            predictor: "hazard".to_owned(),
        };
        let ends_at = |s: f64| Forecast {
            points: [(s, 1.0), (s + 1.0, 0.0)]
                .map(|(after_s, open)| ForecastPoint { after_s, open })
                .to_vec(),
        };
        state.pool.forecasts = vec![ends_at(30.0), ends_at(5_000.0)];
        for (at, hole) in state.pool.holes.iter_mut().enumerate() {
            hole.forecast = u32::from(at >= 2);
        }
        state.pool.joint = Some(Joint {
            source: OrderSource::Scheduler,
            order: vec![0, 1, 2, 3],
            link: vec![0.9, 0.1, 0.9],
            typical_s: None,
            announced: Vec::new(),
        });
        let mut trainer = record(spec("t", 2), 1, &["a", "b"]);
        trainer.hit_at = Some(Timestamp::from_unix(3));
        let trainers = TrainersState {
            version: 1,
            as_of: Timestamp::from_unix(3),
            trainers: vec![trainer],
            unusable: vec![],
            pilot_s: 0.0,
            followed: Generation(0),
        };
        bus.store(&address::trainers(&cluster()), &trainers, "")
            .await
            .unwrap();
        bus.store(&address::pool(&cluster()), &state, "event-3")
            .await
            .unwrap();
        let plan = next(&mut plans).await.message.plan;
        assert_eq!(plan.report.solve.solver, "dp over nodes");
        let names: Vec<&str> = plan.allocations[0]
            .nodes
            .iter()
            .map(|n| n.as_str())
            .collect();
        assert_eq!(names, ["c", "d"]);
        assert_eq!(plan.replaced, [spec("t", 2).id]);
        let report = plan.report.forecast.unwrap();
        assert_eq!(report.order, OrderSource::Scheduler);
        assert!(report.doubts.is_empty() && report.trainers[0].hit);
        assert_eq!(report.class_of.len(), 4);
        // The predictor is changed for one that does not say it.
        state.pool.joint = None;
        state.pool.seq = 4;
        state.pool.holes.pop();
        bus.store(&address::pool(&cluster()), &state, "event-4")
            .await
            .unwrap();
        let plan = next(&mut plans).await.message.plan;
        assert!(plan.report.forecast.is_none() && plan.replaced.is_empty());
        assert_eq!(plan.report.solve.outcome, Outcome::Optimal);
        planner.stop().await;
    });
}

/// The plans of three pools where this share of decisions is judged, and the number of proofs.
fn judged(share: f64) -> (Vec<PlanState>, f64) {
    let (out, plans) = std::sync::mpsc::channel();
    in_virtual_time(async |nats| {
        let bus = nats.connect(&cluster(), "test").await;
        let mut plans = bus
            .follow(&address::plan(&cluster()), Start::New)
            .await
            .unwrap();
        let settings = PlannerSettings {
            judged_share: share,
            ..PlannerSettings::default()
        };
        let planner = start_with(&nats, settings).await;
        trainers(&bus, 1, &[]).await;
        let mut states = Vec::new();
        for (seq, names) in [(1, &["a"][..]), (2, &["a", "b"]), (3, &["b", "c", "d"])] {
            say(&bus, seq, names).await;
            states.push(next(&mut plans).await.message);
        }
        let proven = r#"lacuna_planner_judged_total{outcome="proven"}"#;
        out.send((states, planner.metric(proven))).unwrap();
        planner.stop().await;
    });
    plans.recv().unwrap()
}

#[test]
fn judging_changes_no_plan_and_the_next_plan_says_what_was_found() {
    let ((plain, none), (states, proven)) = (judged(0.0), judged(1.0));
    assert_eq!(none, 0.0);
    assert!(proven >= 2.0, "{proven}");
    assert!(plain.iter().all(|state| state.judged.is_none()));
    let found = states[2].judged.unwrap();
    assert_eq!(found.generation, states[1].plan.generation);
    assert!(found.proven && found.gap == 0.0, "{found:?}");
    let unnumbered = |states: Vec<PlanState>| {
        let plans = states.into_iter().map(|state| Plan {
            generation: Generation(0),
            ..state.plan
        });
        plans.collect::<Vec<Plan>>()
    };
    assert_eq!(unnumbered(plain), unnumbered(states));
}

#[test]
fn the_exposition_is_as_written_down() {
    let registry = Registry::new();
    bus::declare_metrics(&registry, "planner").unwrap();
    lacuna_runtime::leader::declare_metrics(&registry).unwrap();
    let _metrics = Metrics::new(&registry).unwrap();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/metrics.txt");
    golden(path, &expose(&registry).unwrap());
}
