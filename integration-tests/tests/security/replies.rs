//! A JetStream request names the subject of its answer. Answers to people and agents stay in their
//! account. The key of a service can have messages stored on any subject; no service stops by it.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::{FutureExt, StreamExt};
use lacuna_model::{ClusterId, Timestamp};
use lacuna_runtime::config::BusSettings;
use lacuna_runtime::metrics::Registry;
use lacuna_runtime::{Bus, Health, Identity};
use lacuna_wire::msg::{Clock, Pace};
use lacuna_wire::{access, address};

use super::keyed_server::{KeyedServer, Link, until};
use super::whole::{Up, phase};
use crate::support::{count, get};

/// Longer than a lead lasts.
const ROUNDS: usize = 25;
const PAUSE: Duration = Duration::from_millis(200);

#[tokio::test]
async fn answers_sent_to_subjects_of_services_stop_no_service() {
    let dir = tempfile::Builder::new()
        .prefix("lacuna-replies-")
        .tempdir()
        .unwrap();
    let data = dir.path().join("data");
    let up = Up::start(&data, &[], &[]).await;
    up.train(2400);
    until("the trainer trains", || phase(&up, "t").contains("active")).await;

    // A planner may read the state of the trainers.
    let settings = BusSettings {
        url: up.file()["nats"].as_str().unwrap().to_owned(),
        identity: Some(data.join("keys/main/planner.toml")),
        ..BusSettings::default()
    };
    let (registry, health) = (Registry::new(), Health::default());
    let main = ClusterId::new("main").unwrap();
    let bus = Bus::connect(&settings, &main, "planner", &registry, &health)
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
            let asked = bus
                .nats()
                .unwrap()
                .client
                .publish_with_reply(ask, target, "".into());
            asked.await.unwrap();
        }
        bus.nats().unwrap().client.flush().await.unwrap();
        tokio::time::sleep(PAUSE).await;
    }

    // The services got it and refused it.
    let control = get(&up.addresses()["control"], "/metrics").unwrap();
    assert!(
        count(
            &control,
            "lacuna_bus_dead_letters_total{service=\"control\"}"
        ) > 0
    );
    // Controls are kept, a batch job gets its node, and training goes on.
    up.lacuna(&["pause", "--reason", "to see whether it holds"])
        .unwrap();
    up.lacuna(&["resume"]).unwrap();
    up.lacuna(&["events", "publish", "node.busy", "n4"])
        .unwrap();
    until("the trainer has ended", || phase(&up, "t").contains("done")).await;
    up.nothing_was_refused();
    up.stop();
    // Services start all the same.
    let up = Up::start(&data, &[], &[]).await;
    assert!(phase(&up, "t").contains("done"));
    up.nothing_was_refused();
    up.stop();
}

/// For each stream but that of dead letters: its number of messages and its last sequence number.
async fn streams(control: &Link, id: &ClusterId) -> BTreeMap<String, (u64, u64)> {
    let mut found = BTreeMap::new();
    let dead = address::dead_all(id);
    for stream in access::all_streams(id) {
        if dead.stream() == Some(&stream) {
            continue;
        }
        let held = control
            .bus
            .nats()
            .unwrap()
            .jetstream
            .get_stream(&stream)
            .await
            .unwrap();
        let state = &held.cached_info().state;
        found.insert(stream, (state.messages, state.last_sequence));
    }
    found
}

/// One subject for each pattern that a stream keeps or a service hears.
fn targets(id: &ClusterId) -> Vec<String> {
    let kept = address::streams(id).into_iter().flat_map(|s| s.subjects);
    let buckets = [
        address::trainers_bucket(id).all().to_string(),
        address::leases_bucket(id).all().to_string(),
        address::observed_bucket(id).all().to_string(),
    ];
    let heard = [
        address::requests(id).to_string(),
        address::pilots(id).to_string(),
        address::agents(id).to_string(),
        address::renewals(id).to_string(),
        address::settled(id).to_string(),
    ];
    kept.chain(buckets)
        .chain(heard)
        .map(|subject| subject.replace(['*', '>'], "n1"))
        .collect()
}

#[tokio::test]
async fn requests_of_people_and_agents_reach_no_stream_and_no_service() {
    let server = KeyedServer::start().await;
    let main = ["--cluster", "main"];
    for (name, role) in [
        ("ann", "researcher"),
        ("root", "operator"),
        ("watcher", "observer"),
        ("slurm", "events"),
    ] {
        server
            .keys(&[&["add-user", name, "--role", role][..], &main].concat())
            .await;
    }
    let agent = ["add-user", "agent-n1", "--role", "agent", "--node", "n1"];
    server.keys(&[&agent[..], &main].concat()).await;
    let control = server.connect("control").await;
    // A message in each stream, from a user that may write there.
    for service in ["control", "ingest", "forecast", "planner"] {
        let link = server.connect(service).await;
        let identity = Identity::load(&server.identity(service)).unwrap();
        for subject in identity.access(&server.id).publish {
            let kept = subject.starts_with("lacuna.") || subject.starts_with("$KV.");
            // Control's broadcasts are not kept, and do not matter here.
            if kept {
                let subject = subject.replace(['*', '>'], "n1");
                let said = link.bus.nats().unwrap().client.publish(subject, "x".into());
                said.await.unwrap();
            }
        }
        link.bus.nats().unwrap().client.flush().await.unwrap();
    }
    let mut heard = Vec::new();
    for subject in [
        address::requests(&server.id).to_string(),
        address::pilots(&server.id).to_string(),
        address::agents(&server.id).to_string(),
    ] {
        heard.push(
            control
                .bus
                .nats()
                .unwrap()
                .client
                .subscribe(subject)
                .await
                .unwrap(),
        );
    }
    control.bus.nats().unwrap().client.flush().await.unwrap();
    tokio::time::sleep(PAUSE).await;
    // The users of the same account. All of them may read the clock.
    let tick = Clock {
        now: Timestamp::from_unix(1),
        pace: Pace::Real,
        step: 1,
        events_upto: 0,
        complete: true,
        ended: false,
        recording: String::new(),
    };
    let (clock, renewals) = (address::clock(&server.id), address::renewals(&server.id));
    let ingest = server.connect("ingest").await;
    ingest.bus.store(&clock, &tick, "").await.unwrap();
    let (page, nodes) = (
        server.connect("gateway").await,
        server.connect("agent").await,
    );
    let mut ticks = [
        page.bus.subscribe(&clock).await.unwrap(),
        nodes.bus.subscribe(&clock).await.unwrap(),
    ];
    let mut renewals = nodes.bus.subscribe(&renewals).await.unwrap();
    let commands = address::commands(&server.id);
    let mut commands = nodes.bus.subscribe(&commands).await.unwrap();
    let before = streams(&control, &server.id).await;

    let targets = targets(&server.id);
    for user in [
        "ann", "root", "watcher", "slurm", "agent-n1", "agent", "gateway",
    ] {
        let link = server.connect(user).await;
        let client = &link.bus.nats().unwrap().client;
        let may = Identity::load(&server.identity(user)).unwrap();
        let may = may.access(&server.id).publish;
        let (mut asked, mut answered) = (0, 0);
        for read in may.iter().filter(|s| s.starts_with("$JS.API.DIRECT.GET.")) {
            // Any message of a stream, the newest of a subject.
            let any = !read.contains(".lacuna.") && !read.contains(".$KV.");
            let body = if any {
                r#"{"seq":1,"next_by_subj":">"}"#
            } else {
                ""
            };
            let read = read.replace(['*', '>'], "n1");
            asked += 1;
            let answer = client.request(read.clone(), body.into()).await.unwrap();
            answered += usize::from(answer.status.is_none());
            for target in &targets {
                let sent = client.publish_with_reply(read.clone(), target.clone(), body.into());
                sent.await.unwrap();
            }
        }
        client.flush().await.unwrap();
        println!("{user}: {answered} of {asked} reads gave a message");
        assert_eq!(asked > 0, user != "slurm", "{user}");
        assert!(answered * 2 >= asked, "{user}: {answered} of {asked}");
        assert_eq!(link.denied(), 0, "{user}");
    }
    tokio::time::sleep(PAUSE).await;
    for words in &mut heard {
        let word = words.next().now_or_never();
        assert!(word.is_none(), "{word:?}");
    }
    assert_eq!(streams(&control, &server.id).await, before);
    // Clients of the same account took none of it for a message.
    for words in &mut ticks {
        assert!(words.next().now_or_never().is_none());
    }
    assert!(renewals.next().now_or_never().is_none());
    assert!(commands.next().now_or_never().is_none());
    for (link, service) in [(&page, "gateway"), (&nodes, "agent")] {
        let refused = format!("lacuna_bus_dead_letters_total{{service=\"{service}\"}}");
        assert!(link.count(&refused) > 0, "{service}");
    }

    // From a service's account it is stored: so the check would find it.
    let trainers = address::trainers(&server.id);
    let read = format!(
        "$JS.API.DIRECT.GET.{}.{trainers}",
        trainers.stream().unwrap()
    );
    let target = address::controls(&server.id).to_string();
    let client = &control.bus.nats().unwrap().client;
    let sent = client.publish_with_reply(read, target, "".into());
    sent.await.unwrap();
    client.flush().await.unwrap();
    tokio::time::sleep(PAUSE).await;
    assert_ne!(streams(&control, &server.id).await, before);
}
