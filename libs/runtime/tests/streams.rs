//! Full streams and buckets of a real server.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on stops")]

use lacuna_model::ClusterId;
use lacuna_runtime::metrics::{Registry, expose};
use lacuna_runtime::{Bus, BusError, Health};
use lacuna_testkit::TestNats;
use lacuna_wire::address;

/// Just below the largest message that a server accepts.
const LARGE: usize = 900 << 10;

async fn bus(nats: &TestNats, registry: &Registry) -> Bus {
    let cluster = ClusterId::new("full").unwrap();
    let health = Health::default();
    let settings = nats.settings();
    let connected = Bus::connect(&settings, &cluster, "test", registry, &health);
    connected.await.unwrap()
}

async fn keep(bus: &Bus, subject: &str) -> Result<u64, BusError> {
    let stored = bus
        .store_raw(subject, &[("ce-id", "1")], vec![7; LARGE])
        .await;
    stored.unwrap().wait().await
}

#[tokio::test]
async fn a_full_log_deletes_its_oldest_messages_and_takes_new_ones() {
    let nats = TestNats::start();
    let bus = bus(&nats, &Registry::new()).await;
    let subject = address::dead(bus.cluster(), "test");
    let all = address::streams(bus.cluster());
    let name = subject.stream().unwrap();
    let limit = all.iter().find(|def| def.name == name).unwrap().max_bytes;
    let count = u64::try_from(limit).unwrap() / LARGE as u64 + 3;
    for _ in 0..count {
        keep(&bus, subject.as_str()).await.unwrap();
    }
    let mut stream = bus
        .nats()
        .unwrap()
        .jetstream
        .get_stream(name)
        .await
        .unwrap();
    let state = stream.info().await.unwrap().state.clone();
    assert_eq!(state.last_sequence, count);
    assert!(state.first_sequence > 1, "nothing has gone");
    assert!(
        state.bytes <= u64::try_from(limit).unwrap(),
        "{} bytes",
        state.bytes
    );
}

#[tokio::test]
async fn a_full_bucket_refuses_new_values_and_keeps_the_old_ones() {
    let nats = TestNats::start();
    let registry = Registry::new();
    let bus = bus(&nats, &registry).await;
    let bucket = address::observed_bucket(bus.cluster());
    let count = bucket.max_bytes / i64::try_from(LARGE).unwrap() + 2;
    let mut refused = None;
    for number in 0..count {
        let key = bucket.key(&format!("k{number}"));
        if let Err(error) = keep(&bus, key.as_str()).await {
            refused = Some((number, error.to_string()));
            break;
        }
    }
    let (number, error) = refused.expect("the bucket accepted more than its limit");
    assert!(number > 10, "refused after {number} already");
    assert!(error.contains("maximum bytes"), "{error}");
    assert!(
        expose(&registry)
            .unwrap()
            .contains("lacuna_bus_publish_failures_total 1")
    );
    let mut stream = bus
        .nats()
        .unwrap()
        .jetstream
        .get_stream(bucket.stream())
        .await
        .unwrap();
    let state = stream.info().await.unwrap().state.clone();
    assert_eq!(
        (state.first_sequence, state.messages),
        (1, u64::try_from(number).unwrap())
    );
}

#[tokio::test]
async fn the_server_has_the_limits_that_the_addresses_name() {
    let nats = TestNats::start();
    let bus = bus(&nats, &Registry::new()).await;
    for def in address::streams(bus.cluster()) {
        let mut stream = bus
            .nats()
            .unwrap()
            .jetstream
            .get_stream(&def.name)
            .await
            .unwrap();
        let config = stream.info().await.unwrap().config.clone();
        assert_eq!(config.max_bytes, def.max_bytes, "{}", def.name);
        assert_eq!(config.max_age, def.max_age.to_std(), "{}", def.name);
        assert_eq!(
            config.max_messages_per_subject, def.max_per_subject,
            "{}",
            def.name
        );
    }
}
