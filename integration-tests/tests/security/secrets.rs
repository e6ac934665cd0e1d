//! No secret is written anywhere: logs at their most talkative, configuration, metrics, health,
//! dead letters.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::time::Duration;

use lacuna_model::ClusterId;
use lacuna_runtime::config::BusSettings;
use lacuna_runtime::metrics::Registry;
use lacuna_runtime::nats_server::{NatsServer, find};
use lacuna_runtime::{Bus, Health, Identity, Start};
use lacuna_wire::address;

use super::keyed_server::{program, until};
use super::whole::Up;
use crate::support::get;

const PASSWORD: &str = "geheim-password-4711";
const TOKEN: &str = "geheim-token-0815-geheim-token";
const SERVICES: [&str; 6] = [
    "ingest", "forecast", "planner", "control", "agent", "gateway",
];

/// Checks that a text has none of the secrets.
fn clean(place: &str, text: &str, secrets: &BTreeMap<String, String>) {
    assert!(!text.is_empty(), "{place} is empty: nothing was looked at");
    for (name, secret) in secrets {
        assert!(!text.contains(secret.as_str()), "{place} shows the {name}");
    }
}

#[tokio::test]
async fn no_secret_of_a_secure_cluster_is_written_anywhere() {
    let dir = tempfile::Builder::new()
        .prefix("lacuna-secrets-")
        .tempdir()
        .unwrap();
    let data = dir.path().join("data");
    let token = dir.path().join("token");
    std::fs::write(&token, TOKEN).unwrap();
    let config = dir.path().join("lacuna.toml");
    std::fs::write(
        &config,
        format!(
            "[telemetry]\nlog = \"trace,async_nats=trace\"\n[gateway]\ntoken_file = {token:?}\n"
        ),
    )
    .unwrap();
    let config = config.display().to_string();
    let env = [("LACUNA_NATS_PASSWORD", PASSWORD)];
    let up = Up::start(&data, &["--config", &config], &env).await;
    let mut secrets = BTreeMap::from([
        ("password".to_owned(), PASSWORD.to_owned()),
        ("token".to_owned(), TOKEN.to_owned()),
    ]);
    let keys = data.join("keys");
    for entry in std::fs::read_dir(keys.join("main")).unwrap() {
        let path = entry.unwrap().path();
        let identity = Identity::load(&path).unwrap();
        let name = format!("seed of {}", identity.holder.user);
        secrets.insert(name, identity.seed.reveal().to_owned());
    }
    assert_eq!(secrets.len(), 2 + SERVICES.len() + 1);
    for name in ["ca/ca-key.pem", "server/server-key.pem"] {
        let text = std::fs::read_to_string(keys.join(name)).unwrap();
        let body = text.lines().nth(1).unwrap().to_owned();
        secrets.insert(name.to_owned(), body);
    }
    // Some activity: an event, the page with and without a token, and an unreadable message.
    up.lacuna(&["events", "publish", "node.idle", "n1"])
        .unwrap();
    let page = up.file()["page"].as_str().unwrap().to_owned();
    let page = page.trim_start_matches("http://").trim_end_matches('/');
    let _ = get(page, &format!("/?token={TOKEN}"));
    let _ = get(page, "/");
    let file = up.file();
    let settings = BusSettings {
        url: file["nats"].as_str().unwrap().to_owned(),
        identity: Some(file["identity"].as_str().unwrap().into()),
        ..BusSettings::default()
    };
    let id = ClusterId::new("main").unwrap();
    let (registry, health) = (Registry::new(), Health::default());
    let bus = Bus::connect(&settings, &id, "cli", &registry, &health)
        .await
        .unwrap();
    let subject = address::incoming_from(&id, "x");
    let sent = bus.store_raw(subject.as_str(), &[], b"nonsense".to_vec());
    sent.await.unwrap().wait().await.unwrap();
    let mut dead = bus
        .follow_direct(&address::dead_all(&id), Start::All)
        .await
        .unwrap();
    let letter = tokio::time::timeout(Duration::from_secs(60), dead.next());
    let letter = format!("{:?}", letter.await.unwrap().unwrap().message);
    clean("a dead letter", &letter, &secrets);
    for service in SERVICES {
        let logged = || up.log(service).contains("TRACE");
        until(&format!("{service} logs all it can"), logged).await;
        clean(&format!("the log of {service}"), &up.log(service), &secrets);
        let identity = keys.join("main").join(format!("{service}.toml"));
        let shown = Command::new(program(&format!("lacuna-{service}")))
            .args(["--print-config", "--config", &config])
            .arg("--identity")
            .arg(identity)
            .env("LACUNA_NATS_PASSWORD", PASSWORD)
            .output()
            .unwrap();
        assert!(shown.status.success());
        let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
        clean(&format!("--print-config of {service}"), &shown, &secrets);
    }
    for (name, at) in up.addresses() {
        for path in ["/metrics", "/healthz"] {
            let shown = get(&at, path).unwrap_or_default();
            clean(&format!("{path} of {name}"), &shown, &secrets);
        }
    }
    clean("the log of nats-server", &up.log("nats"), &secrets);
    for name in [
        "up.json",
        "up.log",
        "lacuna.toml",
        "nats.conf",
        "keys/users.toml",
        "keys/server/lacuna-accounts.conf",
    ] {
        let text = std::fs::read_to_string(data.join(name)).unwrap();
        clean(name, &text, &secrets);
    }
    up.stop();
}

#[tokio::test]
async fn a_password_is_sent_and_never_logged() {
    let dir = tempfile::Builder::new()
        .prefix("lacuna-password-")
        .tempdir()
        .unwrap();
    let mut server = NatsServer::start(&find().unwrap(), dir.path(), 0).unwrap();
    let conf = dir.path().join("nats.conf");
    let mut text = std::fs::read_to_string(&conf).unwrap();
    text.push_str(&format!(
        "\nauthorization {{ user: lacuna, password: \"{PASSWORD}\" }}\n"
    ));
    std::fs::write(&conf, text).unwrap();
    server.restart().unwrap();
    let quiet = Stdio::null;
    let config = dir.path().join("lacuna.toml");
    let text = format!(
        "[bus]\nurl = \"{}\"\nuser = \"lacuna\"\n[telemetry]\nlog = \"trace,async_nats=trace\"\n",
        server.url()
    );
    std::fs::write(&config, text).unwrap();
    let path = dir.path().join("control.log");
    let log = std::fs::File::create(&path).unwrap();
    let mut control = Command::new(program("lacuna-control"))
        .arg("--config")
        .arg(&config)
        .args(["--listen", "127.0.0.1:0"])
        .env("LACUNA_NATS_PASSWORD", PASSWORD)
        .env_remove("LACUNA_IDENTITY")
        .stdin(quiet())
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .spawn()
        .unwrap();
    let read = || std::fs::read_to_string(&path).unwrap_or_default();
    until("control is ready", || {
        read()
            .lines()
            .any(|l| l.contains("ready") && l.contains("INFO"))
    })
    .await;
    let _ = (control.kill(), control.wait());
    server.kill();
    let secrets = BTreeMap::from([("password".to_owned(), PASSWORD.to_owned())]);
    clean("the log of control", &read(), &secrets);
}
