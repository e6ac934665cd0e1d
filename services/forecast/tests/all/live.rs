//! Saved models, announced ends and fits of the service.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::path::Path;
use std::time::Duration;

use lacuna_forecast::{Choice, Learnt, LearntFrom, OrderBy, Predictor as _};
use lacuna_forecast_service::{Config, Forecaster, Models, PredictorSettings, Role, Sections};
use lacuna_model::{EventKind, Span, Timestamp};
use lacuna_runtime::{Bus, Start};
use lacuna_testkit::{Server, Service, TestNats, in_virtual_time};
use lacuna_wire::address;
use lacuna_wire::msg::PoolState;

use crate::bus::{cluster, pool, send, slow, start, tick};
use crate::machine::{MachinePrior, node};

const START: i64 = 1_600_000_000;

async fn snapshot(bus: &Bus, machine: &MachinePrior) {
    let subject = address::snapshot(&cluster());
    bus.store(&subject, &machine.snapshot(), "").await.unwrap();
}

async fn tell(bus: &Bus, machine: &mut MachinePrior, steps: usize) {
    for event in machine.steps(steps) {
        send(bus, &event, "").await;
    }
}

fn config(dir: &Path) -> Config {
    let mut config = Config::default();
    config.forecast.model_dir = Some(dir.join("models"));
    config
}

fn model(dir: &Path) -> std::path::PathBuf {
    dir.join("models/t/hazard.model")
}

/// Whether the pool includes an event.
fn upto(seq: u64) -> impl Fn(&PoolState) -> bool {
    move |state| state.pool.seq >= seq
}

fn is_well(service: &Service<Sections>) -> bool {
    service.context.health.report().status == "ok"
}

/// Its checks, as text.
fn notes(service: &Service<Sections>) -> String {
    format!("{:?}", service.context.health.report().checks)
}

#[test]
fn a_saved_model_outlives_the_process_and_a_damaged_file_does_not_stop_it() {
    in_virtual_time(async |nats| {
        let dir = tempfile::tempdir().unwrap();
        let config = config(dir.path());
        let bus = nats.connect(&cluster(), "ingest").await;
        let mut machine = MachinePrior::new(21, 64, START);
        tell(&bus, &mut machine, 300).await;
        snapshot(&bus, &machine).await;
        tick(&bus, slow(machine.now)).await;
        let mut pools = bus
            .follow(&address::pool(&cluster()), Start::New)
            .await
            .unwrap();
        let service = start(&nats, config.clone()).await;
        let first = pool(&mut pools, upto(machine.seq)).await;
        assert!(first.message.predictor.contains("hazard, "));
        assert_eq!(
            service.metric("lacuna_forecast_models_total{outcome=\"absent\"}"),
            2.0
        );
        let learnt = service.metric("lacuna_forecast_holes_learnt");
        service.stop().await;
        assert!(model(dir.path()).is_file(), "saved at the end");

        // The stream still holds the learnt events, which count once.
        let service = start(&nats, config.clone()).await;
        pool(&mut pools, |_| true).await;
        assert_eq!(
            service.metric("lacuna_forecast_models_total{outcome=\"restored\"}"),
            2.0
        );
        assert_eq!(service.metric("lacuna_forecast_holes_learnt"), learnt);
        assert_eq!(service.metric("lacuna_forecast_model_refused"), 0.0);
        service.stop().await;

        let mut bytes = std::fs::read(model(dir.path())).unwrap();
        let middle = bytes.len() / 2;
        bytes.get_mut(middle).map(|byte| *byte ^= 0xff).unwrap();
        std::fs::write(model(dir.path()), bytes).unwrap();
        let service = start(&nats, config.clone()).await;
        let again = pool(&mut pools, |_| true).await;
        // The service reads the stream from its beginning, as without a file.
        assert!(again.message.predictor.contains("hazard, "));
        assert_eq!(
            service.metric("lacuna_forecast_models_total{outcome=\"damaged\"}"),
            1.0
        );
        assert_eq!(service.metric("lacuna_forecast_model_refused"), 1.0);
        // The pool may be the one before; the next loop updates it.
        service.until("it is well", is_well).await;
        let health = notes(&service);
        assert!(health.contains("learning restarted"), "{health}");
        assert!(model(dir.path()).with_extension("refused").is_file());
        service.stop().await;
        assert!(model(dir.path()).is_file(), "a sound model has replaced it");
    });
}

#[test]
fn a_folder_that_cannot_be_written_does_not_stop_the_service() {
    in_virtual_time(async |nats| {
        let dir = tempfile::tempdir().unwrap();
        let mut config = config(dir.path());
        config.forecast.save_every = Span::from_ms(200);
        // A file where the folder should be.
        std::fs::write(dir.path().join("models"), b"").unwrap();
        let bus = nats.connect(&cluster(), "ingest").await;
        let mut machine = MachinePrior::new(22, 16, START);
        tell(&bus, &mut machine, 20).await;
        snapshot(&bus, &machine).await;
        tick(&bus, slow(machine.now)).await;
        let service = start(&nats, config.clone()).await;
        let failures = "lacuna_forecast_models_total{outcome=\"not_saved\"}";
        let mut pools = bus
            .follow(&address::pool(&cluster()), Start::New)
            .await
            .unwrap();
        pool(&mut pools, |_| true).await;
        service.until(failures, |s| s.metric(failures) >= 2.0).await;
        let health = notes(&service);
        assert!(is_well(&service), "{health}");
        assert!(health.contains("not saved"), "{health}");
        // After the repair, the model is saved without a restart.
        std::fs::remove_file(dir.path().join("models")).unwrap();
        let saved = "lacuna_forecast_models_total{outcome=\"saved\"}";
        service.until(saved, |s| s.metric(saved) >= 1.0).await;
        assert!(!notes(&service).contains("not saved"));
    });
}

#[test]
fn announced_ends_shape_the_forecasts_and_false_ones_are_counted() {
    in_virtual_time(async |nats| {
        let bus = nats.connect(&cluster(), "ingest").await;
        let service = start(&nats, Config::default()).await;
        let mut pools = bus
            .follow(&address::pool(&cluster()), Start::New)
            .await
            .unwrap();
        let mut machine = MachinePrior::new(23, 32, START);
        tell(&bus, &mut machine, 40).await;
        tick(&bus, slow(machine.now)).await;
        let state = pool(&mut pools, upto(machine.seq)).await.message;
        let hole = state.pool.holes.first().unwrap().hole.node.clone();
        let start = Timestamp::from_unix(machine.now + 3600);
        let planned = |nodes| EventKind::JobPlanned {
            job: "9".to_owned(),
            nodes,
            start,
        };
        let kept = EventKind::Reservation {
            name: "m".to_owned(),
            nodes: vec![state.pool.holes.last().unwrap().hole.node.clone()],
            start,
            end: Timestamp::from_unix(machine.now + 9000),
        };
        for word in [planned(vec![hole.clone(), node(999)]), kept] {
            send(&bus, &machine.word(word), "").await;
        }
        let state = pool(&mut pools, upto(machine.seq)).await.message;
        let open = |state: &PoolState, last: bool, after_s: f64| {
            let holes = &state.pool.holes;
            let hole = if last { holes.last() } else { holes.first() };
            let forecast = state.pool.forecast(hole.unwrap()).unwrap();
            forecast.open_after(after_s)
        };
        assert!(
            open(&state, false, 3590.0) > 0.5,
            "a third of what is planned comes too early"
        );
        assert!(open(&state, false, 3610.0) < 0.5);
        assert_eq!(open(&state, true, 3610.0), 0.0);
        assert!(
            state.predictor.ends_with("with announced ends"),
            "{}",
            state.predictor
        );
        // The batch job is cancelled.
        let cancelled = machine.word(planned(Vec::new()));
        send(&bus, &cancelled, "").await;
        let state = pool(&mut pools, upto(machine.seq)).await.message;
        assert!(open(&state, false, 3590.0) < 0.5);
        // The planned start proves false when its time has passed and the hole is still open.
        machine.now += 3700;
        tick(&bus, slow(machine.now)).await;
        send(&bus, &machine.word(planned(Vec::new())), "").await;
        let count =
            "lacuna_forecast_announced_ends_total{kind=\"planned\",outcome=\"proved_false\"}";
        service.until(count, |s| s.metric(count) == 1.0).await;
        let reliability = "lacuna_forecast_announced_end_reliability{kind=\"planned\"}";
        assert!(service.metric(reliability) < 0.5);
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_pool_waits_for_a_fit() {
    let nats = Server::Real(TestNats::start());
    let bus = nats.connect(&cluster(), "ingest").await;
    let service = start(&nats, Config::default()).await;
    let mut pools = bus
        .follow(&address::pool(&cluster()), Start::New)
        .await
        .unwrap();
    let mut machine = MachinePrior::new(24, 256, START);
    let (mut worst, mut all) = (Duration::ZERO, 0);
    for _ in 0..400 {
        let events = machine.step();
        tick(&bus, slow(machine.now)).await;
        if events.is_empty() {
            continue;
        }
        for event in &events {
            send(&bus, event, "").await;
        }
        let sent = lacuna_runtime::Stopwatch::start();
        let state = pool(&mut pools, upto(machine.seq)).await;
        worst = worst.max(Duration::from_secs_f64(sent.seconds()));
        all += 1;
        if let Some(joint) = state.message.pool.joint {
            assert_eq!(joint.order.len(), state.message.pool.holes.len());
        }
    }
    let fits = "lacuna_forecast_fits_total";
    service.until(fits, |s| s.metric(fits) >= 2.0).await;
    let fits = service.metric("lacuna_forecast_fit_seconds_count");
    let mean = service.metric("lacuna_forecast_fit_seconds_sum") / fits;
    let forecasts = service.metric("lacuna_forecast_seconds_count");
    let quick = service.metric("lacuna_forecast_seconds_bucket{le=\"0.03\"}");
    println!(
        "{all} pools, the slowest {} ms after its events; {fits} fits of {mean:.3} s; \
         {forecasts} forecasts, {quick} within 30 ms",
        worst.as_millis()
    );
    assert!(fits >= 2.0 && mean > 0.0);
    // If forecasts waited for fits, each fit would delay one. A busy machine delays a few anyway.
    assert!(
        (forecasts - quick) * 2.0 <= fits,
        "{quick} of {forecasts}, {fits} fits"
    );
}

/// What `lacuna forecast learn` would write of the first steps of a machine.
fn learn(machine: &mut MachinePrior) -> Learnt {
    let choice = PredictorSettings::of(Choice::hazard(OrderBy::Learnt));
    let mut forecaster = Forecaster::new(Models::new(choice));
    let from = machine.at();
    for event in machine.steps(300) {
        forecaster.event(&event, "");
    }
    forecaster.pool(machine.at());
    let predictor = forecaster.models().predictor(Role::First).unwrap();
    let nodes = (0..64).map(|number| node(number).as_str().to_owned());
    let from = LearntFrom {
        nodes: nodes.collect(),
        simulated: false,
        from,
        until: machine.at(),
        ended: 200,
    };
    Learnt::new(from, predictor.save().unwrap())
}

/// The same model, of nodes with other names.
fn of_others(learnt: &Learnt) -> Learnt {
    let mut from = learnt.from().clone();
    for name in &mut from.nodes {
        name.insert_str(0, "other-");
    }
    Learnt::new(from, learnt.model().to_vec())
}

#[test]
fn forecasts_start_with_the_model_that_the_configuration_names_or_say_why_not() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("model.lacuna");
    let mut config = Config::default();
    config.forecast.model = Some(path.clone());
    let mut machine = MachinePrior::new(21, 64, START);
    let learnt = learn(&mut machine);
    for (learnt, outcome) in [(of_others(&learnt), "foreign"), (learnt, "restored")] {
        let is_taken = outcome == "restored";
        in_virtual_time(async |nats| {
            let bus = nats.connect(&cluster(), "ingest").await;
            std::fs::write(&path, learnt.write().unwrap()).unwrap();
            snapshot(&bus, &machine).await;
            tick(&bus, slow(machine.now)).await;
            let mut pools = bus
                .follow(&address::pool(&cluster()), Start::New)
                .await
                .unwrap();
            let service = start(&nats, config.clone()).await;
            let first = pool(&mut pools, upto(machine.seq)).await;
            let words = &first.message.predictor;
            assert_eq!(words.contains("hazard, "), is_taken, "{outcome}: {words}");
            let name = format!("lacuna_forecast_models_total{{outcome=\"{outcome}\"}}");
            assert_eq!(service.metric(&name), 1.0);
            let health = notes(&service);
            let is_refused = health.contains("forecasts start without forecast.model");
            assert_eq!(is_refused, !is_taken, "{health}");
            service.stop().await;
        });
    }
}
