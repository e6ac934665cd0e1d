//! One ingest at a time: what happens when another one starts, and what it goes on from.

use super::*;

/// A node becomes idle, is taken, ... at so many seconds since 1970.
fn said(what: &str, node: &str, at: i64) -> String {
    format!(r#"{{"type":"node.{what}","node":"{node}","time":{at}}}"#)
}

fn name(number: i64) -> String {
    format!("n{number:03}")
}

/// The newest snapshot kept, once it is as wanted. The server may be away meanwhile.
async fn snapshot_when(
    bus: &Bus,
    wanted: impl Fn(&Received<NodeEvent>) -> bool,
) -> Received<NodeEvent> {
    let waiting = Stopwatch::start();
    loop {
        let last = bus.last(&address::snapshot(&cluster())).await;
        if let Ok(Some(found)) = &last
            && wanted(found)
        {
            return found.clone();
        }
        assert!(waiting.seconds() < 20.0, "{last:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn idle_in(snapshot: &Received<NodeEvent>) -> Vec<String> {
    match &snapshot.message.kind {
        EventKind::Snapshot { idle } => idle.iter().map(|h| h.node.to_string()).collect(),
        _ => Vec::new(),
    }
}

/// Waits for the end of one that has lost to another.
async fn beaten(running: Running) {
    let ended = tokio::time::timeout(Duration::from_secs(20), running).await;
    let error = ended.expect("it goes on").unwrap().unwrap_err();
    assert!(error.is::<Misconfigured>(), "{error}");
    let text = error.to_string();
    assert!(
        text.contains("another ingest writes for cluster c"),
        "{text}"
    );
}

#[tokio::test]
async fn the_ingest_that_starts_later_goes_on_alone_and_loses_nothing() {
    let nats = TestNats::start();
    let bus = connect(&nats, &cluster(), "test").await;
    let event_subject = address::event(&cluster());
    let mut events = bus.follow(&event_subject, Start::All).await.unwrap();
    let mut snapshots = bus
        .follow(&address::snapshot(&cluster()), Start::Last)
        .await
        .unwrap();
    let mut keeper = PoolKeeper::new(UnknownNodes::Accept);
    let mut config = Config::default();
    config.ingest.snapshot_every = Span::from_ms(500);
    let (_stop, first) = start(&nats, config.clone()).await;
    // Later than every snapshot of this test, so that none of them makes an event late.
    let now = seconds(wall()) + 60;
    snapshot_when(&bus, |s| s.envelope.correlation == "snapshot-0").await;
    external(&bus, &[("ce-id", "x0")], &said("idle", &name(0), now)).await;
    snapshot_when(&bus, |s| s.envelope.correlation == "x0").await;
    // Nodes become idle and half of them are taken again while the second ingest starts.
    let burst = async {
        for number in 1..400 {
            external(&bus, &[], &said("idle", &name(number), now + 1)).await;
            if number % 2 == 0 {
                external(&bus, &[], &said("busy", &name(number), now + 2)).await;
            }
        }
    };
    let later = async {
        tokio::time::sleep(Duration::from_millis(30)).await;
        start(&nats, config).await
    };
    let ((), (stop, second)) = tokio::join!(burst, later);
    beaten(first).await;
    external(&bus, &[], &said("idle", &name(400), now + 3)).await;
    let expected: Vec<String> = (0..400)
        .filter(|n| *n == 0 || n % 2 == 1)
        .chain([400])
        .map(name)
        .collect();
    // What the first had fetched comes again to the second, and consumers hear all of it.
    consume(&mut keeper, &mut events, &mut snapshots, |k| {
        let idle: Vec<String> = k.holes().iter().map(|h| h.node.to_string()).collect();
        idle == expected
    })
    .await;
    snapshot_when(&bus, |s| idle_in(s) == expected).await;
    assert!(!second.is_finished());
    stop.cancel();
    second.await.unwrap().unwrap();
}

#[tokio::test]
async fn of_many_that_start_at_once_one_goes_on_and_knows_all() {
    let nats = TestNats::start();
    let bus = connect(&nats, &cluster(), "test").await;
    let now = seconds(wall()) + 60;
    let config = || {
        let mut config = Config::default();
        config.ingest.snapshot_every = Span::from_ms(200);
        config
    };
    let burst = async {
        for number in 0..200 {
            external(&bus, &[], &said("idle", &name(number), now)).await;
        }
    };
    let starts = async {
        let mut all = Vec::new();
        for _ in 0..4 {
            all.push(start(&nats, config()).await);
        }
        all
    };
    let ((), all) = tokio::join!(burst, starts);
    let waiting = Stopwatch::start();
    while all
        .iter()
        .filter(|(_, running)| running.is_finished())
        .count()
        < 3
    {
        assert!(waiting.seconds() < 20.0, "{all:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    external(&bus, &[], &said("idle", &name(200), now)).await;
    let expected: Vec<String> = (0..=200).map(name).collect();
    snapshot_when(&bus, |s| idle_in(s) == expected).await;
    let mut left = 0;
    for (stop, running) in all {
        if running.is_finished() {
            beaten(running).await;
        } else {
            left += 1;
            stop.cancel();
            running.await.unwrap().unwrap();
        }
    }
    assert_eq!(left, 1);
}

#[tokio::test]
async fn what_the_server_has_lost_is_not_taken_for_another_ingest() {
    let mut nats = TestNats::start();
    let bus = connect(&nats, &cluster(), "test").await;
    let mut config = Config::default();
    config.ingest.snapshot_every = Span::from_ms(100);
    // An earlier process has left a snapshot.
    let (stop, running) = start(&nats, config.clone()).await;
    let old = snapshot_when(&bus, |s| s.message.seq == 0).await;
    stop.cancel();
    running.await.unwrap().unwrap();
    let subject = address::snapshot(&cluster());
    let (stop, running) = start(&nats, config).await;
    external(&bus, &[], &said("idle", "a", seconds(wall()) + 60)).await;
    let own = |s: &Received<NodeEvent>| s.message.seq == RESTART_JUMP + 1 && idle_in(s) == ["a"];
    snapshot_when(&bus, own).await;
    // The server shows the earlier snapshot again, as after the loss of its newest writes.
    let shown = bus.store(&subject, &old.message, "").await.unwrap();
    snapshot_when(&bus, |s| own(s) && s.sequence > shown).await;
    // And it has lost all that it had.
    nats.kill();
    nats.wipe();
    nats.restart();
    snapshot_when(&bus, own).await;
    assert!(!running.is_finished());
    stop.cancel();
    running.await.unwrap().unwrap();
}

#[tokio::test]
async fn an_event_of_another_behind_ours_hides_none_of_ours() {
    let nats = TestNats::start();
    let bus = connect(&nats, &cluster(), "test").await;
    let at = wall();
    let idle = |seq, node: &str| NodeEvent {
        seq,
        at,
        kind: EventKind::NodeIdle {
            node: node.parse().unwrap(),
        },
    };
    let snapshot = NodeEvent {
        seq: RESTART_JUMP,
        at,
        kind: EventKind::Snapshot { idle: Vec::new() },
    };
    let subject = address::snapshot(&cluster());
    bus.store(&subject, &snapshot, "").await.unwrap();
    // The second of them is of the one before, which did not know yet that it was over.
    for event in [idle(RESTART_JUMP + 1, "ours"), idle(7, "theirs")] {
        let subject = address::event(&cluster());
        bus.store(&subject, &event, "").await.unwrap();
    }
    let (stop, running) = start(&nats, Config::default()).await;
    let jumped = 2 * RESTART_JUMP + 1;
    let begun = snapshot_when(&bus, |s| s.message.seq == jumped).await;
    assert_eq!(idle_in(&begun), ["ours"]);
    stop.cancel();
    running.await.unwrap().unwrap();
}

#[tokio::test]
async fn an_event_without_a_time_counts_as_of_its_arrival() {
    let nats = TestNats::start();
    let bus = connect(&nats, &cluster(), "test").await;
    let before = wall();
    external(&bus, &[], r#"{"type":"node.idle","node":"a"}"#).await;
    let after = wall();
    // It waits for an ingest, as it does when one was given it and did not acknowledge it.
    tokio::time::sleep(Duration::from_millis(300)).await;
    let mut events = bus
        .follow(&address::event(&cluster()), Start::All)
        .await
        .unwrap();
    let (stop, running) = start(&nats, Config::default()).await;
    let at = next(&mut events).await.message.at;
    assert!(before <= at && at <= after, "{before:?} {at:?} {after:?}");
    stop.cancel();
    running.await.unwrap().unwrap();
}
