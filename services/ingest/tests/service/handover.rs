//! One ingest at a time: another one starts and takes over.

use std::collections::BTreeSet;

use super::*;

/// An external event of a node.
fn event_text(what: &str, node: &str, at: Timestamp) -> String {
    let (s, ms) = (at.unix_ms() / 1000, at.unix_ms() % 1000);
    format!(r#"{{"type":"node.{what}","node":"{node}","time":{s}.{ms:03}}}"#)
}

/// A time after every snapshot of a test, so that none of them makes an event late.
fn soon() -> Timestamp {
    wall() + Span::from_secs(60)
}

fn name(number: i64) -> String {
    format!("n{number:03}")
}

/// The newest stored snapshot, once it fulfils a condition. The server may be down meanwhile.
async fn snapshot_when(
    bus: &Bus,
    wanted: impl Fn(&Received<NodeEvent>) -> bool,
) -> Received<NodeEvent> {
    until("such a snapshot", async || {
        let last = bus.last(&address::snapshot(&cluster())).await;
        last.ok().flatten().filter(&wanted)
    })
    .await
}

fn idle_in(snapshot: &Received<NodeEvent>) -> Vec<String> {
    match &snapshot.message.kind {
        EventKind::Snapshot { idle } => idle.iter().map(|h| h.node.to_string()).collect(),
        _ => Vec::new(),
    }
}

/// Waits for the end of an ingest that another one has superseded.
async fn beaten(ingest: Service<Sections>) {
    let error = ingest.ended().await.unwrap_err();
    assert!(error.is::<Superseded>(), "{error}");
    let text = error.to_string();
    assert!(
        text.contains("another ingest writes for cluster c"),
        "{text}"
    );
}

#[test]
fn the_ingest_that_starts_later_goes_on_alone_and_loses_no_event() {
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
        config.ingest.snapshot_every = Span::from_ms(500);
        let first = start(&nats, config.clone()).await;
        // The times of events increase, as those of one scheduler.
        let begin = soon();
        let at = |ms| begin + Span::from_ms(ms);
        snapshot_when(&bus, |s| s.envelope.correlation == "snapshot-0").await;
        external(
            &bus,
            &[("ce-id", "x0")],
            &event_text("idle", &name(0), at(0)),
        )
        .await;
        snapshot_when(&bus, |s| s.envelope.correlation == "x0").await;
        // Nodes become idle and half of them are taken again while others start, one after another.
        let burst = async {
            for number in 1..600 {
                external(
                    &bus,
                    &[],
                    &event_text("idle", &name(number), at(2 * number)),
                )
                .await;
                if number % 2 == 0 {
                    external(
                        &bus,
                        &[],
                        &event_text("busy", &name(number), at(2 * number + 1)),
                    )
                    .await;
                }
            }
        };
        let later = async {
            let mut all = vec![first];
            for jumps in 1..=6 {
                all.push(start(&nats, config.clone()).await);
                snapshot_when(&bus, |s| s.message.seq > jumps * RESTART_JUMP).await;
            }
            all
        };
        let ((), mut all) = tokio::join!(burst, later);
        // An ingest that looks a second time jumps again, and may supersede one that started after it.
        let last = until("one goes on alone", async || {
            let mut left = (0..all.len()).filter(|at| all[*at].is_running());
            left.next().filter(|_| left.next().is_none())
        })
        .await;
        assert_ne!(last, 0, "the first goes on");
        let last = all.remove(last);
        for earlier in all {
            beaten(earlier).await;
        }
        external(&bus, &[], &event_text("idle", &name(600), at(1200))).await;
        let expected: Vec<String> = (0..600)
            .filter(|n| *n == 0 || n % 2 == 1)
            .chain([600])
            .map(name)
            .collect();
        // Events that the others had fetched come again to the last one, and consumers get all of them.
        consume(&mut keeper, &mut events, &mut snapshots, |k| {
            let idle: Vec<String> = k.holes().iter().map(|h| h.node.to_string()).collect();
            idle == expected
        })
        .await;
        snapshot_when(&bus, |s| idle_in(s) == expected).await;
        last.stop().await;
    });
}

/// The test plays the later ingest: its snapshot, a second look at the events, the queue.
#[test]
fn a_second_look_finds_every_acknowledged_event() {
    in_virtual_time(async |nats| {
        let bus = nats.connect(&cluster(), "test").await;
        let (event, snapshot) = (address::event(&cluster()), address::snapshot(&cluster()));
        let incoming = address::incoming(&cluster());
        for round in 0..10 {
            let mut config = Config::default();
            config.ingest.snapshot_every = Span::from_secs(60);
            let before = bus.last(&snapshot).await.unwrap();
            let first = start(&nats, config).await;
            let known = before.map_or(0, |s| s.sequence);
            let base = snapshot_when(&bus, |s| s.sequence > known).await;
            let begun = bus.last(&event).await.unwrap().map_or(0, |e| e.sequence);
            let from = Start::Sequence(begun + 1);
            let mut events = bus.follow(&event, from).await.unwrap();
            let now = soon();
            let node = |number| format!("r{round}n{number:03}");
            let burst = async {
                for number in 0..60 {
                    external(&bus, &[], &event_text("idle", &node(number), now)).await;
                }
            };
            let later = async {
                tokio::time::sleep(Duration::from_millis(20 + 100 * round)).await;
                let mut own = base.message.clone();
                own.seq += RESTART_JUMP;
                bus.store(&snapshot, &own, "").await.unwrap();
                let last = bus.last(&event).await.unwrap();
                last.map_or(0, |e| e.sequence)
            };
            let ((), upto) = tokio::join!(burst, later);
            beaten(first).await;
            let mut found: BTreeSet<String> = BTreeSet::new();
            let end = bus.last(&event).await.unwrap().map_or(0, |e| e.sequence);
            // The ingest may be superseded before its first event.
            let mut read = begun;
            while read < end {
                let heard = next(&mut events).await;
                read = heard.sequence;
                if let EventKind::NodeIdle { node } = heard.message.kind
                    && read <= upto
                {
                    found.insert(node.to_string());
                }
            }
            let seen = found.len();
            let mut queue = bus.queue(&incoming).await.unwrap();
            while let Ok(left) =
                tokio::time::timeout(Duration::from_millis(300), queue.next()).await
            {
                let left = left.unwrap();
                found.insert(external_node(left.payload()));
                queue.done(&left);
            }
            // What was done is removed a moment later.
            tokio::time::sleep(Duration::from_secs(1)).await;
            let missing: Vec<String> = (0..60).map(node).filter(|n| !found.contains(n)).collect();
            println!("round {round}: {seen} found, {} left", found.len() - seen);
            assert!(missing.is_empty(), "round {round}: {missing:?}");
        }
    });
}

/// The test plays the earlier ingest, as fast as possible: an event, a check that it is still the
/// writer, and then the acknowledgement.
#[test]
fn a_second_look_finds_events_published_during_the_start() {
    in_virtual_time(async |nats| {
        let bus = nats.connect(&cluster(), "test").await;
        let (event, snapshot) = (address::event(&cluster()), address::snapshot(&cluster()));
        let at = wall();
        let first = NodeEvent {
            seq: 0,
            at,
            kind: EventKind::Snapshot { idle: Vec::new() },
        };
        let own = bus.store(&snapshot, &first, "").await.unwrap();
        let earlier = async {
            let mut acknowledged = Vec::new();
            for seq in 1.. {
                let name = format!("n{seq:06}");
                let kind = EventKind::NodeIdle {
                    node: name.parse().unwrap(),
                };
                let numbered = NodeEvent { seq, at, kind };
                bus.store(&event, &numbered, "").await.unwrap();
                let last = bus.last(&snapshot).await.unwrap().unwrap();
                if last.sequence != own {
                    break;
                }
                acknowledged.push(name);
            }
            acknowledged
        };
        let (acknowledged, ingest) = tokio::join!(earlier, start(&nats, Config::default()));
        assert!(!acknowledged.is_empty());
        snapshot_when(&bus, |s| {
            let idle = idle_in(s);
            acknowledged.iter().all(|name| idle.contains(name))
        })
        .await;
        ingest.stop().await;
    });
}

fn external_node(payload: &[u8]) -> String {
    let event = lacuna_wire::external::read([], payload).unwrap();
    let EventKind::NodeIdle { node } = event.kind else {
        unreachable!("only such were sent");
    };
    node.to_string()
}

#[test]
fn lost_writes_of_the_server_do_not_count_as_another_ingest() {
    in_virtual_time(async |mut nats| {
        let bus = nats.connect(&cluster(), "test").await;
        let mut config = Config::default();
        config.ingest.snapshot_every = Span::from_ms(100);
        // An earlier process has left a snapshot.
        let ingest = start(&nats, config.clone()).await;
        let old = snapshot_when(&bus, |s| s.message.seq == 0).await;
        ingest.stop().await;
        let subject = address::snapshot(&cluster());
        let ingest = start(&nats, config).await;
        external(&bus, &[], &event_text("idle", "a", soon())).await;
        let own =
            |s: &Received<NodeEvent>| s.message.seq == RESTART_JUMP + 1 && idle_in(s) == ["a"];
        snapshot_when(&bus, own).await;
        // The server returns the earlier snapshot again, as after the loss of its newest writes.
        let shown = bus.store(&subject, &old.message, "").await.unwrap();
        snapshot_when(&bus, |s| own(s) && s.sequence > shown).await;
        // Then the server loses all its data.
        nats.kill();
        nats.wipe();
        nats.restart();
        snapshot_when(&bus, own).await;
        assert!(ingest.is_running());
        ingest.stop().await;
    });
}

#[test]
fn an_event_of_another_ingest_behind_ours_hides_none_of_ours() {
    in_virtual_time(async |nats| {
        let bus = nats.connect(&cluster(), "test").await;
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
        // The second event is of the earlier ingest, which is not yet aware of its end.
        for event in [idle(RESTART_JUMP + 1, "ours"), idle(7, "theirs")] {
            let subject = address::event(&cluster());
            bus.store(&subject, &event, "").await.unwrap();
        }
        let ingest = start(&nats, Config::default()).await;
        let jumped = 2 * RESTART_JUMP + 1;
        let begun = snapshot_when(&bus, |s| s.message.seq == jumped).await;
        assert_eq!(idle_in(&begun), ["ours"]);
        ingest.stop().await;
    });
}

#[test]
fn an_event_without_a_time_has_the_time_of_its_arrival() {
    in_virtual_time(async |nats| {
        let bus = nats.connect(&cluster(), "test").await;
        let before = wall();
        external(&bus, &[], r#"{"type":"node.idle","node":"a"}"#).await;
        let after = wall();
        // The event waits for an ingest, as after a delivery without acknowledgement.
        tokio::time::sleep(Duration::from_millis(300)).await;
        let mut events = bus
            .follow(&address::event(&cluster()), Start::All)
            .await
            .unwrap();
        let ingest = start(&nats, Config::default()).await;
        let at = next(&mut events).await.message.at;
        assert!(before <= at && at <= after, "{before:?} {at:?} {after:?}");
        ingest.stop().await;
    });
}
