//! A JetStream request names the subject of its answer. A reader of a stream can so have its
//! messages stored on any subject. No service stops because of that.

use std::time::Duration;

use lacuna_model::ClusterId;
use lacuna_runtime::config::BusSettings;
use lacuna_runtime::metrics::Registry;
use lacuna_runtime::{Bus, Health};
use lacuna_wire::address;

use super::bed::until;
use super::whole::{Up, phase};
use crate::support::{count, get};

/// Longer than a lead lasts.
const ROUNDS: usize = 25;
const PAUSE: Duration = Duration::from_millis(200);

#[tokio::test]
async fn answers_sent_to_what_services_live_by_stop_nobody() {
    let dir = tempfile::Builder::new()
        .prefix("lacuna-replies-")
        .tempdir()
        .unwrap();
    let data = dir.path().join("data");
    let up = Up::start(&data, &[], &[]).await;
    up.train(2400);
    until("the trainer trains", || phase(&up, "t").contains("active")).await;

    // The page may read the state of the trainers.
    let settings = BusSettings {
        url: up.file()["nats"].as_str().unwrap().to_owned(),
        identity: Some(data.join("keys/main/gateway.toml")),
        ..BusSettings::default()
    };
    let (registry, health) = (Registry::new(), Health::default());
    let main = ClusterId::new("main").unwrap();
    let bus = Bus::connect(&settings, &main, "gateway", &registry, &health)
        .await
        .unwrap();
    let read = address::trainers(&main);
    let read = format!("$JS.API.DIRECT.GET.{}.{read}", read.stream().unwrap());
    let mut targets: Vec<String> = ["control", "planner", "forecast", "ingest"]
        .map(|service| address::leader(&main, service).to_string())
        .into();
    targets.extend(["n1", "n2", "n3", "n4"].map(|n| format!("$KV.lac_main_leases.{n}")));
    targets.push("$KV.lac_main_trainers.t".to_owned());
    targets.push(address::controls(&main).to_string());
    targets.push(address::snapshot(&main).to_string());
    targets.push(address::plan(&main).to_string());
    for _ in 0..ROUNDS {
        for target in &targets {
            let (ask, target) = (read.clone(), target.clone());
            let asked = bus.client().publish_with_reply(ask, target, "".into());
            asked.await.unwrap();
        }
        bus.client().flush().await.unwrap();
        tokio::time::sleep(PAUSE).await;
    }

    // It has come to them, and was refused.
    let control = get(&up.addresses()["control"], "/metrics").unwrap();
    assert!(
        count(
            &control,
            "lacuna_bus_dead_letters_total{service=\"control\"}"
        ) > 0
    );
    // What the operator wants is kept, what a batch job wants it gets, and training goes on.
    up.lacuna(&["pause", "--reason", "to see whether it holds"])
        .unwrap();
    up.lacuna(&["resume"]).unwrap();
    up.lacuna(&["events", "publish", "node.busy", "n4"])
        .unwrap();
    until("the trainer has ended", || phase(&up, "t").contains("done")).await;
    up.nothing_was_refused();
    up.stop();
    // Nothing of it stands in the way of a start.
    let up = Up::start(&data, &[], &[]).await;
    assert!(phase(&up, "t").contains("done"));
    up.nothing_was_refused();
    up.stop();
}
