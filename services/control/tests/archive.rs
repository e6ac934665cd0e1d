//! Trainers that ended long ago are moved to the archive.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]

use std::time::Duration;

use lacuna_control_service::Config;
use lacuna_model::{Span, TrainerId, TrainerRecord};
use lacuna_runtime::Bus;
use lacuna_runtime::clock::wall;
use lacuna_testkit::{in_virtual_time, until};
use lacuna_wire::address;
use lacuna_wire::msg::{Clock, Kept, Pace, Reply, Request};

use crate::common::{cluster, start};

const LIMIT: Duration = Duration::from_secs(20);

/// Asks, also while control starts.
async fn ask(bus: &Bus, request: &Request) -> Reply {
    let subject = address::requests_of(&cluster(), "ann");
    until("an answer", async || {
        bus.request(&subject, request, LIMIT).await.ok()
    })
    .await
}

fn trainer(name: &str) -> TrainerId {
    TrainerId::new(name).unwrap()
}

fn submit(names: &[&str]) -> Request {
    lacuna_testkit::submission(names.iter().map(|n| lacuna_testkit::spec(n, 4)).collect())
}

fn code(reply: Reply) -> String {
    match reply {
        Reply::Refused { code, .. } => code,
        other => panic!("not refused: {other:?}"),
    }
}

/// The names on all pages.
async fn listed(bus: &Bus, of: Kept) -> Vec<String> {
    let (mut names, mut from) = (Vec::new(), 0);
    loop {
        match ask(bus, &Request::Page { of, from }).await {
            Reply::Page { trainers, next, .. } => {
                names.extend(trainers.into_iter().map(|t| t.spec.id.to_string()));
                match next {
                    Some(next) => from = next,
                    None => break,
                }
            }
            other => panic!("{other:?}"),
        }
    }
    names.sort();
    names
}

async fn in_bucket(bus: &Bus) -> Vec<String> {
    let bucket = bus.bucket::<TrainerRecord>(address::trainers_bucket(&cluster()));
    let entries = bucket.list().await.unwrap();
    let mut names: Vec<String> = entries.into_iter().map(|entry| entry.key).collect();
    names.sort();
    names
}

async fn until_in_bucket(bus: &Bus, wanted: &[&str]) {
    let what = format!("only {wanted:?} are in the bucket");
    until(&what, async || {
        (in_bucket(bus).await == wanted).then_some(())
    })
    .await;
}

#[test]
fn ended_trainers_move_to_the_archive_once_wherever_control_dies() {
    in_virtual_time(async |nats| {
        let bus = nats.connect(&cluster(), "test").await;
        let control = start(&nats, Config::default()).await;
        let many: Vec<String> = (0..70).map(|n| format!("t{n:02}")).collect();
        let mut names: Vec<&str> = many.iter().map(String::as_str).collect();
        let reply = ask(&bus, &submit(&names)).await;
        assert!(matches!(reply, Reply::Accepted { .. }), "{reply:?}");
        for name in &names {
            let cancelled = ask(
                &bus,
                &Request::Cancel {
                    trainer: trainer(name),
                },
            )
            .await;
            assert!(matches!(cancelled, Reply::Accepted { .. }), "{cancelled:?}");
        }
        let reply = ask(&bus, &submit(&["stays"])).await;
        assert!(matches!(reply, Reply::Accepted { .. }), "{reply:?}");
        assert_eq!(listed(&bus, Kept::Archive).await, [""; 0]);
        let records = bus.bucket::<TrainerRecord>(address::trainers_bucket(&cluster()));
        let one = records.get("t69").await.unwrap().unwrap().value;

        // A month goes by.
        let clock = Clock {
            now: wall() + Span::from_secs(30 * 86_400),
            pace: Pace::Scaled {
                rate: 1.0,
                wall_at: wall(),
            },
            step: 1,
            events_upto: 0,
            complete: true,
            ended: false,
            recording: String::new(),
        };
        let subject = address::clock(&cluster());
        bus.store(&subject, &clock, "").await.unwrap();
        until_in_bucket(&bus, &["stays"]).await;
        assert_eq!(listed(&bus, Kept::Live).await, ["stays"]);
        names.sort_unstable();
        assert_eq!(listed(&bus, Kept::Archive).await, names);
        let past = bus.newest(&address::past(&cluster())).await.unwrap();
        let past = past.decoded().unwrap().message;
        assert_eq!(past.trainers, 70);
        assert!(past.moved.contains(&trainer("t69")), "{past:?}");

        // Their names are taken, and a request for one says where it is.
        assert_eq!(code(ask(&bus, &submit(&["new", "t07"])).await), "L0008");
        let t07 = trainer("t07");
        let found = Request::Trainer {
            trainer: t07.clone(),
        };
        let Reply::Trainer { trainer, kept, .. } = ask(&bus, &found).await else {
            panic!("not found");
        };
        assert_eq!((trainer.spec.id, kept), (t07.clone(), Kept::Archive));
        let logs = Request::Logs {
            trainer: t07.clone(),
            lines: 1,
            after: None,
            since: None,
            is_raw: false,
        };
        assert_eq!(code(ask(&bus, &logs).await), "L0016");
        assert_eq!(
            code(ask(&bus, &Request::Cancel { trainer: t07 }).await),
            "L0016"
        );

        // Control dies between the sums and the deletion of the last record.
        control.stop().await;
        records.put("t69", &one, "").await.unwrap();
        let control = start(&nats, Config::default()).await;
        assert_eq!(listed(&bus, Kept::Live).await, ["stays"]);
        until_in_bucket(&bus, &["stays"]).await;
        assert_eq!(listed(&bus, Kept::Archive).await, names);
        assert_eq!(code(ask(&bus, &submit(&["t69"])).await), "L0008");
        let again = bus.newest(&address::past(&cluster())).await.unwrap();
        assert_eq!(again.decoded().unwrap().message, past, "counted once");

        // And before the sums: a record in the archive alone is moved once more.
        control.stop().await;
        let mut early = one;
        early.spec.id = self::trainer("early");
        records.create("early", &early, "").await.unwrap();
        let place = address::archived(&cluster(), &early.spec.id);
        bus.store(&place, &early, "").await.unwrap();
        let control = start(&nats, Config::default()).await;
        until_in_bucket(&bus, &["stays"]).await;
        names.insert(0, "early");
        assert_eq!(listed(&bus, Kept::Archive).await, names);
        let last = bus.newest(&address::past(&cluster())).await.unwrap();
        assert_eq!(last.decoded().unwrap().message.trainers, 71);
        control.stop().await;
    });
}
