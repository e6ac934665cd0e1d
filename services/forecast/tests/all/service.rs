//! The service on a bus; the test plays ingest.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use lacuna_forecast_service::Config;
use lacuna_model::{EventKind, NodeEvent, Timestamp};
use lacuna_runtime::{Bus, Start};
use lacuna_testkit::{events, hole, in_virtual_and_real_time, in_virtual_time};
use lacuna_wire::address;

use crate::bus::{cluster, lock_step, names, pool, send, slow, start, tick};

async fn send_snapshot(bus: &Bus, seq: u64, when: i64, names: &[(&str, i64)]) {
    let idle = names
        .iter()
        .map(|(name, since)| hole(name, *since))
        .collect();
    let snapshot = NodeEvent {
        seq,
        at: Timestamp::from_unix(when),
        kind: EventKind::Snapshot { idle },
    };
    let subject = address::snapshot(&cluster());
    bus.store(&subject, &snapshot, "").await.unwrap();
}

#[test]
fn the_pool_follows_events_gaps_and_snapshots_and_survives_kill_9() {
    in_virtual_and_real_time(async |nats| {
        let bus = nats.connect(&cluster(), "ingest").await;
        let service = start(&nats, Config::default()).await;
        let subject = address::pool(&cluster());
        let mut pools = bus.follow(&subject, Start::New).await.unwrap();
        tick(&bus, slow(1000)).await;
        for event in events(
            1,
            &[("idle", "b"), ("idle", "a"), ("idle", "c"), ("busy", "b")],
        ) {
            send(&bus, &event, &format!("cause-{}", event.seq)).await;
        }
        let four = pool(&mut pools, |state| state.pool.seq == 4).await;
        assert_eq!(names(&four.message), ["a", "c"]);
        assert_eq!(four.message.pool.as_of, Timestamp::from_unix(1000));
        assert_eq!(four.envelope.correlation, "cause-4");
        // Event 5 is lost: the hole of d waits, and that of a ends.
        for event in events(6, &[("idle", "d"), ("busy", "a")]) {
            send(&bus, &event, "").await;
        }
        let shrunk = pool(&mut pools, |state| state.pool.holes.len() == 1).await;
        assert_eq!(
            (names(&shrunk.message), shrunk.message.pool.seq),
            (vec!["c"], 4)
        );
        send_snapshot(&bus, 7, 8, &[("c", 3), ("d", 6), ("e", 5)]).await;
        let repaired = pool(&mut pools, |state| state.pool.seq == 7).await;
        assert_eq!(names(&repaired.message), ["c", "d", "e"]);
        // The service is killed, and an event comes meanwhile.
        service.kill();
        send(&bus, &events(8, &[("busy", "d")])[0], "").await;
        let mut pools = bus.follow(&subject, Start::New).await.unwrap();
        let _service = start(&nats, Config::default()).await;
        let again = pool(&mut pools, |state| state.pool.seq == 8).await;
        assert_eq!(names(&again.message), ["c", "e"]);
    });
}

#[test]
fn in_lock_step_each_step_gives_one_pool_with_all_its_events() {
    in_virtual_time(async |nats| {
        let bus = nats.connect(&cluster(), "ingest").await;
        let _service = start(&nats, Config::default()).await;
        let mut pools = bus
            .follow(&address::pool(&cluster()), Start::New)
            .await
            .unwrap();
        let mut seq = 0;
        for step in 1..=50u64 {
            let now = 100 + 10 * step as i64;
            tick(&bus, lock_step(step, now, seq, false)).await;
            // Every third step has no event.
            for _ in 0..step % 3 {
                seq += 1;
                send(&bus, &events(seq, &[("idle", &format!("n{seq}"))])[0], "").await;
            }
            tick(&bus, lock_step(step, now, seq, true)).await;
            let found = pool(&mut pools, |state| {
                state.pool.as_of == Timestamp::from_unix(now)
            })
            .await;
            assert_eq!(found.message.pool.seq, seq, "step {step}");
            assert_eq!(found.message.pool.holes.len() as u64, seq, "step {step}");
        }
    });
}

#[test]
fn a_restarted_service_has_learnt_from_the_stream() {
    in_virtual_time(async |nats| {
        let bus = nats.connect(&cluster(), "ingest").await;
        let changes: Vec<(&str, &str)> = (0..240)
            .flat_map(|_| [("idle", "a"), ("busy", "a")])
            .collect();
        for event in events(1, &changes) {
            send(&bus, &event, "").await;
        }
        send_snapshot(&bus, 480, 490, &[("z", 485)]).await;
        tick(&bus, slow(500)).await;
        let mut pools = bus
            .follow(&address::pool(&cluster()), Start::New)
            .await
            .unwrap();
        let _service = start(&nats, Config::default()).await;
        let first = pool(&mut pools, |_| true).await;
        assert!(
            first.message.predictor.contains("hazard, "),
            "{}",
            first.message.predictor
        );
        assert_eq!(names(&first.message), ["z"]);
    });
}
