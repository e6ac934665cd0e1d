//! The service against a real nats-server.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on stops"
)]

use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use lacuna_ingest_service::{Metrics, run};
use lacuna_model::{ClusterId, EventKind, NodeEvent};
use lacuna_runtime::config::{Recording, RecordingPace};
use lacuna_runtime::metrics::{Registry, expose};
use lacuna_runtime::{
    Bus, ClusterClock, Config, Context, Follow, Health, NoArgs, Received, ServiceError, Start,
    Stopwatch, Tasks, bus,
};
use lacuna_testkit::{TestNats, connect, golden};
use lacuna_wire::address;
use lacuna_wire::msg::{Clock, Settled};
use tokio_util::sync::CancellationToken;

type Running = tokio::task::JoinHandle<Result<(), ServiceError>>;

fn cluster() -> ClusterId {
    ClusterId::new("c").unwrap()
}

async fn start(nats: &TestNats, config: Config) -> (CancellationToken, Running) {
    let bus = connect(nats, &cluster(), "ingest").await;
    let shutdown = CancellationToken::new();
    let ctx = Context {
        config: Arc::new(config),
        cluster: cluster(),
        bus,
        registry: Registry::new(),
        health: Health::default(),
        clock: ClusterClock::new(),
        tasks: Tasks::new(shutdown.clone()),
        shutdown: shutdown.clone(),
        listening: ([127, 0, 0, 1], 0).into(),
    };
    (shutdown, tokio::spawn(run(ctx, NoArgs {})))
}

async fn next<M>(follow: &mut Follow<M>) -> Received<M> {
    let next = tokio::time::timeout(Duration::from_secs(20), follow.next());
    next.await.expect("nothing came").unwrap()
}

async fn external(bus: &Bus, headers: &[(&str, &str)], body: &str) {
    let subject = address::incoming_from(&cluster(), "test");
    let sent = bus.store_raw(subject.as_str(), headers, body.into()).await;
    sent.unwrap().wait().await.unwrap();
}

const HOLES: &str = "node,idle_from,idle_until,censored\n\
    a,90,110,0\nb,100,200,1\nc,110,120,0\nc,120,140,0\na,150,160,0\n";

/// A recording in a folder of its own.
fn recording(dir: &Path, pace: RecordingPace, rate: f64) -> Config {
    let path = dir.join("holes.csv");
    std::fs::File::create(&path)
        .unwrap()
        .write_all(HOLES.as_bytes())
        .unwrap();
    let mut config = Config::default();
    config.ingest.recording = Some(Recording {
        path,
        nodes_file: None,
        first_nodes: None,
        pace,
        rate,
        start: None,
        end: None,
    });
    config
}

fn told(events: &[NodeEvent]) -> Vec<String> {
    let one = |e: &NodeEvent| match &e.kind {
        EventKind::NodeIdle { node } => format!("{} {} +{node}", e.seq, e.at.unix_seconds()),
        EventKind::NodeBusy { node } => format!("{} {} -{node}", e.seq, e.at.unix_seconds()),
        other => format!("{} {other:?}", e.seq),
    };
    events.iter().map(one).collect()
}

const PLAYED: [&str; 9] = [
    "1 90 +a", "2 100 +b", "3 110 -a", "4 110 +c", "5 120 -c", "6 120 +c", "7 140 -c", "8 150 +a",
    "9 160 -a",
];

#[tokio::test]
async fn external_events_are_numbered_once_whatever_comes() {
    let mut nats = TestNats::start();
    let bus = connect(&nats, &cluster(), "test").await;
    let mut events = bus
        .follow(&address::event(&cluster()), Start::All)
        .await
        .unwrap();
    let mut dead = bus
        .follow(&address::dead_all(&cluster()), Start::All)
        .await
        .unwrap();
    let (stop, running) = start(&nats, Config::default()).await;
    let json = ("content-type", "application/json");
    external(
        &bus,
        &[json, ("ce-id", "x1")],
        r#"{"type":"node.idle","node":"n.1","time":100}"#,
    )
    .await;
    external(
        &bus,
        &[json, ("ce-id", "x1")],
        r#"{"type":"node.idle","node":"n.1","time":100}"#,
    )
    .await;
    external(&bus, &[], "{not json").await;
    external(
        &bus,
        &[json, ("ce-dataversion", "2")],
        r#"{"type":"node.idle","node":"n"}"#,
    )
    .await;
    external(
        &bus,
        &[json],
        r#"{"type":"node.busy","node":"n.1","time":50}"#,
    )
    .await;
    external(
        &bus,
        &[json],
        r#"{"type":"node.busy","node":"n.1","time":130}"#,
    )
    .await;
    let first = next(&mut events).await;
    assert_eq!(first.envelope.correlation, "x1");
    let second = next(&mut events).await;
    assert_eq!(
        told(&[first.message, second.message]),
        ["1 100 +n.1", "2 130 -n.1"]
    );
    let reasons = [next(&mut dead).await, next(&mut dead).await].map(|d| d.message.reason);
    assert!(
        reasons.iter().any(|r| r.contains("cannot be read")),
        "{reasons:?}"
    );
    assert!(
        reasons.iter().any(|r| r.contains("version \"2\"")),
        "{reasons:?}"
    );
    stop.cancel();
    running.await.unwrap().unwrap();
    // Numbers go on after a restart of ingest and of the server. What the server has buffered
    // reaches its file within some milliseconds.
    tokio::time::sleep(Duration::from_millis(500)).await;
    nats.kill();
    nats.restart();
    let (stop, running) = start(&nats, Config::default()).await;
    let waiting = Stopwatch::start();
    let body = r#"{"type":"node.idle","node":"n.2","time":140}"#;
    let subject = address::incoming_from(&cluster(), "test");
    while bus
        .store_raw(subject.as_str(), &[], body.into())
        .await
        .unwrap()
        .wait()
        .await
        .is_err()
    {
        assert!(waiting.seconds() < 20.0);
    }
    assert_eq!(told(&[next(&mut events).await.message]), ["3 140 +n.2"]);
    stop.cancel();
    running.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_scaled_recording_is_played_in_order_with_snapshots() {
    let nats = TestNats::start();
    let dir = tempfile::tempdir().unwrap();
    let bus = connect(&nats, &cluster(), "test").await;
    let mut events = bus
        .follow(&address::event(&cluster()), Start::All)
        .await
        .unwrap();
    let mut clocks = bus
        .follow(&address::clock(&cluster()), Start::Last)
        .await
        .unwrap();
    let watch = Stopwatch::start();
    let (stop, running) = start(&nats, recording(dir.path(), RecordingPace::Scaled, 100.0)).await;
    let mut heard = Vec::new();
    while heard.len() < PLAYED.len() {
        heard.push(next(&mut events).await.message);
    }
    assert_eq!(told(&heard), PLAYED);
    // 60 recorded seconds at 100 a second.
    assert!(watch.seconds() > 0.55, "too fast: {} s", watch.seconds());
    while !next(&mut clocks).await.message.ended {}
    let snapshot = bus
        .last(&address::snapshot(&cluster()))
        .await
        .unwrap()
        .unwrap();
    assert!(matches!(snapshot.message.kind, EventKind::Snapshot { .. }));
    stop.cancel();
    running.await.unwrap().unwrap();
}

/// Answers ticks as control would, until the recording ends or `answers` are given.
async fn answer(bus: &Bus, clocks: &mut Follow<Clock>, answers: usize) -> Vec<Clock> {
    let mut heard: Vec<Clock> = Vec::new();
    let mut given = 0;
    loop {
        let tick = next(clocks).await.message;
        if heard.last() != Some(&tick) {
            heard.push(tick);
        }
        if tick.ended || given == answers {
            return heard;
        }
        given += 1;
        let settled = Settled {
            step: tick.step,
            complete: tick.complete,
        };
        bus.publish(&address::settled(&cluster()), &settled, "")
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn lock_step_goes_on_after_kills_without_doubling_an_event() {
    let mut nats = TestNats::start();
    let dir = tempfile::tempdir().unwrap();
    let bus = connect(&nats, &cluster(), "test").await;
    let config = recording(dir.path(), RecordingPace::LockStep, 1.0);
    let mut heard = Vec::new();
    for answers in [3, 4, usize::MAX] {
        let (stop, running) = start(&nats, config.clone()).await;
        let mut clocks = bus
            .follow(&address::clock(&cluster()), Start::Last)
            .await
            .unwrap();
        tokio::pin!(running);
        tokio::select! {
            more = answer(&bus, &mut clocks, answers) => heard.extend(more),
            ended = &mut running => panic!("ingest ended: {ended:?}"),
        }
        stop.cancel();
        running.await.unwrap().unwrap();
        if answers == 3 {
            // What the server has buffered reaches its file within some milliseconds.
            tokio::time::sleep(Duration::from_millis(300)).await;
            nats.kill();
            nats.restart();
        }
    }
    let steps: Vec<(u64, bool)> = heard.iter().map(|c| (c.step, c.complete)).collect();
    assert!(steps.is_sorted(), "time went back: {steps:?}");
    assert!(heard.last().unwrap().ended);
    let mut events = bus
        .follow(&address::event(&cluster()), Start::All)
        .await
        .unwrap();
    let mut kept: Vec<NodeEvent> = Vec::new();
    while kept.last().is_none_or(|e| e.seq < 9) {
        kept.push(next(&mut events).await.message);
    }
    kept.dedup();
    assert_eq!(told(&kept), PLAYED);
}

#[tokio::test]
async fn a_malformed_recording_names_line_and_column() {
    let nats = TestNats::start();
    let dir = tempfile::tempdir().unwrap();
    let config = recording(dir.path(), RecordingPace::Scaled, 1.0);
    let path = &config.ingest.recording.as_ref().unwrap().path;
    std::fs::write(
        path,
        "node,idle_from,idle_until,censored\na,1,2,0\nb,soon,9,0\n",
    )
    .unwrap();
    let (_stop, running) = start(&nats, config.clone()).await;
    let error = running.await.unwrap().unwrap_err().to_string();
    assert!(
        error.contains("holes.csv") && error.contains('3'),
        "{error}"
    );
    assert!(
        error.contains("idle_from") && error.contains("soon"),
        "{error}"
    );
}

#[test]
fn the_exposition_is_as_written_down() {
    let registry = Registry::new();
    bus::declare_metrics(&registry, "ingest").unwrap();
    let _metrics = Metrics::new(&registry).unwrap();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/metrics.txt");
    golden(path, &expose(&registry).unwrap());
}
