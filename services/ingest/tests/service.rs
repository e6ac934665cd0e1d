//! The service on its bus; the test plays schedulers and consumers.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on stops"
)]

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use lacuna_ingest_service::{Config, Metrics, Sections, run};
use lacuna_model::{ClusterId, EventKind, NodeEvent, Span, Timestamp};
use lacuna_pool::{PoolKeeper, RESTART_JUMP, Sync, UnknownNodes};
use lacuna_runtime::clock::wall;
use lacuna_runtime::metrics::{Registry, expose};
use lacuna_runtime::{
    Bus, ClusterClock, Follow, NoArgs, Received, Start, Stopwatch, Superseded, bus,
};
use lacuna_scheduler::ingest::{Recording, RecordingPace};
use lacuna_testkit::{Server, Service, golden, in_virtual_and_real_time, in_virtual_time, until};
use lacuna_wire::address;
use lacuna_wire::msg::{Clock, Settled};

fn cluster() -> ClusterId {
    ClusterId::new("c").unwrap()
}

async fn start(nats: &Server, mut config: Config) -> Service<Sections> {
    // Some tests send events of the future, so that no snapshot makes them late.
    config.ingest.max_ahead = Span::from_secs(300);
    Service::start(nats, &cluster(), "ingest", config, |context| {
        run(context, NoArgs {})
    })
    .await
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

/// Whole seconds since 1970.
fn seconds(at: Timestamp) -> i64 {
    at.unix_ms() / 1000
}

const HOLES: &str = "node,idle_from,idle_until,censored\n\
    a,90,110,0\nb,100,200,1\nc,110,120,0\nc,120,140,0\na,150,160,0\n";

/// A trace in a folder of its own.
fn recording(dir: &Path, pace: RecordingPace, rate: f64) -> Config {
    let path = dir.join("holes.csv");
    std::fs::File::create(&path)
        .unwrap()
        .write_all(HOLES.as_bytes())
        .unwrap();
    let mut config = Config::default();
    config.ingest.recording = Some(Recording {
        path,
        planned_file: None,
        nodes_file: None,
        first_nodes: None,
        pace,
        rate,
        start: None,
        end: None,
    });
    config
}

fn texts(events: &[NodeEvent]) -> Vec<String> {
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

#[test]
fn external_events_are_numbered_once() {
    in_virtual_and_real_time(async |mut nats| {
        let bus = nats.connect(&cluster(), "test").await;
        let mut events = bus
            .follow(&address::event(&cluster()), Start::All)
            .await
            .unwrap();
        let mut dead = bus
            .follow(&address::dead_all(&cluster()), Start::All)
            .await
            .unwrap();
        let ingest = start(&nats, Config::default()).await;
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
            texts(&[first.message, second.message]),
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
        ingest.stop().await;
        // Numbers go on after a restart of ingest and of the server. A killed server loses what it
        // has buffered for less than a second.
        tokio::time::sleep(Duration::from_secs(1)).await;
        nats.kill();
        nats.restart();
        let ingest = start(&nats, Config::default()).await;
        let waiting = Stopwatch::start();
        // Later than all earlier events, in whole seconds.
        let now = seconds(wall()) + 1;
        let body = format!(r#"{{"type":"node.idle","node":"n.2","time":{now}}}"#);
        let subject = address::incoming_from(&cluster(), "test");
        while bus
            .store_raw(subject.as_str(), &[], body.clone().into())
            .await
            .unwrap()
            .wait()
            .await
            .is_err()
        {
            assert!(waiting.seconds() < 20.0);
        }
        // No number is used twice, even after a loss of the newest events.
        let expected = format!("{} {now} +n.2", 3 + RESTART_JUMP);
        assert_eq!(texts(&[next(&mut events).await.message]), [expected]);
        ingest.stop().await;
    });
}

#[test]
fn a_scaled_trace_is_published_in_order_with_snapshots() {
    in_virtual_time(async |nats| {
        let dir = tempfile::tempdir().unwrap();
        let bus = nats.connect(&cluster(), "test").await;
        let mut events = bus
            .follow(&address::event(&cluster()), Start::All)
            .await
            .unwrap();
        let mut clocks = bus
            .follow(&address::clock(&cluster()), Start::Last)
            .await
            .unwrap();
        let watch = Stopwatch::start();
        let ingest = start(&nats, recording(dir.path(), RecordingPace::Scaled, 100.0)).await;
        let mut heard = Vec::new();
        while heard.len() < PLAYED.len() {
            heard.push(next(&mut events).await.message);
        }
        assert_eq!(texts(&heard), PLAYED);
        // 60 seconds of the trace at 100 a second.
        assert!(watch.seconds() > 0.55, "too fast: {} s", watch.seconds());
        while !next(&mut clocks).await.message.ended {}
        let snapshot = bus
            .last(&address::snapshot(&cluster()))
            .await
            .unwrap()
            .unwrap();
        assert!(matches!(snapshot.message.kind, EventKind::Snapshot { .. }));
        ingest.stop().await;
    });
}

/// Answers ticks as control does, until the trace ends or `answers` are sent.
async fn answer(bus: &Bus, clocks: &mut Follow<Clock>, answers: usize) -> Vec<Clock> {
    let mut heard: Vec<Clock> = Vec::new();
    let mut given = 0;
    loop {
        let tick = next(clocks).await.message;
        if heard.last() != Some(&tick) {
            heard.push(tick.clone());
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

#[test]
fn lock_step_goes_on_after_kills_without_doubling_an_event() {
    in_virtual_time(async |mut nats| {
        let dir = tempfile::tempdir().unwrap();
        let bus = nats.connect(&cluster(), "test").await;
        let config = recording(dir.path(), RecordingPace::LockStep, 1.0);
        let mut heard = Vec::new();
        for answers in [3, 4, usize::MAX] {
            let ingest = start(&nats, config.clone()).await;
            let mut clocks = bus
                .follow(&address::clock(&cluster()), Start::Last)
                .await
                .unwrap();
            heard.extend(answer(&bus, &mut clocks, answers).await);
            ingest.stop().await;
            if answers == 3 {
                // A killed server loses what it has buffered for less than a second.
                tokio::time::sleep(Duration::from_secs(1)).await;
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
        while kept.last().is_none_or(|e| seconds(e.at) < 160) {
            kept.push(next(&mut events).await.message);
        }
        assert!(kept.is_sorted_by(|a, b| a.seq < b.seq), "{kept:?}");
        // Each start jumps ahead. Otherwise every event is published once and in order.
        for (event, seq) in kept.iter_mut().zip(1..) {
            event.seq = seq;
        }
        assert_eq!(texts(&kept), PLAYED);
    });
}

/// Events and snapshots of a consumer, in any order of the two streams.
async fn consume(
    keeper: &mut PoolKeeper,
    events: &mut Follow<NodeEvent>,
    snapshots: &mut Follow<NodeEvent>,
    until: impl Fn(&PoolKeeper) -> bool,
) {
    let waiting = Stopwatch::start();
    while !until(keeper) {
        assert!(waiting.seconds() < 20.0, "{keeper:?}");
        let message = tokio::select! {
            event = next(events) => event.message,
            snapshot = next(snapshots) => snapshot.message,
        };
        keeper.step(&message);
    }
}

#[test]
fn numbers_are_not_used_twice_though_the_server_forgets_and_consumers_go_on() {
    in_virtual_time(async |nats| {
        let bus = nats.connect(&cluster(), "test").await;
        let event_subject = address::event(&cluster());
        let mut events = bus.follow(&event_subject, Start::All).await.unwrap();
        let mut snapshots = bus
            .follow(&address::snapshot(&cluster()), Start::Last)
            .await
            .unwrap();
        let mut keeper = PoolKeeper::new(UnknownNodes::Accept);
        let mut config = Config::default();
        config.ingest.snapshot_every = Span::from_ms(100);
        let ingest = start(&nats, config.clone()).await;
        let now = seconds(wall());
        let event_text = |what: &str, name: &str, at: i64| {
            format!(r#"{{"type":"node.{what}","node":"{name}","time":{at}}}"#)
        };
        for (name, at) in [("a", 30), ("b", 20)] {
            external(&bus, &[], &event_text("idle", name, now - at)).await;
        }
        consume(&mut keeper, &mut events, &mut snapshots, |k| k.seq() == 2).await;
        while next(&mut snapshots).await.message.seq < 2 {}
        ingest.stop().await;
        // A consumer has seen a third event that the streams have lost.
        keeper.step(&NodeEvent {
            seq: 3,
            at: wall(),
            kind: EventKind::NodeIdle {
                node: "lost".parse().unwrap(),
            },
        });
        assert_eq!(keeper.len(), 3);
        let ingest = start(&nats, config).await;
        external(&bus, &[], &event_text("idle", "old", now - 3600)).await;
        external(&bus, &[], &event_text("busy", "a", seconds(wall()))).await;
        let jumped = 3 + RESTART_JUMP;
        consume(&mut keeper, &mut events, &mut snapshots, |k| {
            k.seq() >= jumped && k.sync() == Sync::Fresh
        })
        .await;
        assert_eq!(keeper.seq(), jumped, "the old event is late");
        let idle: Vec<String> = keeper.holes().iter().map(|h| h.node.to_string()).collect();
        assert_eq!(idle, ["b"]);
        assert_eq!(keeper.counts().old_snapshots, 0);
        ingest.stop().await;
    });
}

#[test]
fn another_trace_starts_from_its_beginning() {
    in_virtual_time(async |nats| {
        let dir = tempfile::tempdir().unwrap();
        let bus = nats.connect(&cluster(), "test").await;
        let mut keeper = PoolKeeper::new(UnknownNodes::Accept);
        let mut events = bus
            .follow(&address::event(&cluster()), Start::All)
            .await
            .unwrap();
        let mut snapshots = bus
            .follow(&address::snapshot(&cluster()), Start::Last)
            .await
            .unwrap();
        let shared = ClusterClock::new();
        let config = recording(dir.path(), RecordingPace::LockStep, 1.0);
        let ingest = start(&nats, config.clone()).await;
        let mut clocks = bus
            .follow(&address::clock(&cluster()), Start::Last)
            .await
            .unwrap();
        let heard = answer(&bus, &mut clocks, 7).await;
        heard.iter().for_each(|tick| shared.update(tick));
        let first = heard.last().unwrap().clone();
        assert!(first.step > 2 && first.recording.starts_with("holes.csv "));
        ingest.stop().await;
        // The same file, up to the moment at which the first replay stopped.
        let mut other = config;
        other.ingest.recording.as_mut().unwrap().end = Some(Timestamp::from_unix(130));
        let ingest = start(&nats, other).await;
        let mut clocks = bus
            .follow(&address::clock(&cluster()), Start::Last)
            .await
            .unwrap();
        let heard = loop {
            let heard = answer(&bus, &mut clocks, 0).await;
            if heard[0].recording != first.recording {
                break heard;
            }
        };
        assert_eq!((heard[0].step, seconds(heard[0].now)), (1, 90));
        assert!(!heard[0].complete);
        shared.update(&heard[0]);
        assert_eq!(shared.now(), heard[0].now, "clocks follow it back");
        let settled = Settled {
            step: 1,
            complete: false,
        };
        bus.publish(&address::settled(&cluster()), &settled, "")
            .await
            .unwrap();
        // A consumer of both recognises the beginning of the second trace.
        consume(&mut keeper, &mut events, &mut snapshots, |k| {
            seconds(k.newest_at()) == 90 && k.seq() > RESTART_JUMP && k.len() == 1
        })
        .await;
        let since: Vec<(String, i64)> = keeper
            .holes()
            .iter()
            .map(|h| (h.node.to_string(), seconds(h.since)))
            .collect();
        assert_eq!(since, [("a".to_owned(), 90)]);
        assert_eq!(keeper.counts().late, 0);
        ingest.stop().await;
    });
}

#[path = "service/handover.rs"]
mod handover;

#[test]
fn the_exposition_is_as_documented() {
    let registry = Registry::new();
    bus::declare_metrics(&registry, "ingest").unwrap();
    lacuna_runtime::leader::declare_metrics(&registry).unwrap();
    let _metrics = Metrics::new(&registry).unwrap();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/metrics.txt");
    golden(path, &expose(&registry).unwrap());
}
