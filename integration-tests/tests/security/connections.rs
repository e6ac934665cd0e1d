//! Connections: the keys that the server accepts, and the servers that a client trusts.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures::StreamExt;
use futures::future::join_all;
use lacuna_model::{NodeId, Progress, RunId, Span, Timestamp, TrainerId};
use lacuna_runtime::{BusError, Identity};
use lacuna_wire::address;
use lacuna_wire::msg::Settled;

use super::keyed_server::{KeyedServer, lacuna, until};

/// Writes a copy of an identity, changed by `change`.
fn forged(from: &Path, to: &Path, change: impl FnOnce(&mut Identity)) -> PathBuf {
    let mut identity = Identity::load(from).unwrap();
    change(&mut identity);
    std::fs::write(to, identity.text().unwrap().reveal()).unwrap();
    std::fs::set_permissions(to, std::fs::Permissions::from_mode(0o600)).unwrap();
    to.to_owned()
}

/// An identity of other keys.
fn stranger(server: &KeyedServer) -> Identity {
    let dir = server.dir.path().join("other-keys");
    let text = dir.display().to_string();
    lacuna(&["keys", "init", &text, "--cluster", "main"], &[]).unwrap();
    Identity::load(&dir.join("main/control.toml")).unwrap()
}

async fn refused(server: &KeyedServer, identity: PathBuf) -> BusError {
    let settings = server.settings(identity);
    match server.open(&settings, "control").await {
        Ok(_) => panic!("it got in\n{}", server.log()),
        Err(error) => error,
    }
}

#[tokio::test]
async fn a_wrong_key_is_refused_at_once_with_what_to_do() {
    let server = KeyedServer::start().await;
    let other = stranger(&server);
    let path = server.dir.path().join("forged.toml");
    let forged = forged(&server.identity("control"), &path, |own| {
        own.seed = other.seed
    });
    let error = refused(&server, forged).await;
    assert!(matches!(error, BusError::Refused { .. }), "{error}");
    assert!(error.to_string().contains("lacuna keys"), "{error}");
    assert!(
        server.log().contains("authentication error"),
        "{}",
        server.log()
    );
}

#[tokio::test]
async fn people_hear_what_agents_and_services_say() {
    let server = KeyedServer::start().await;
    server
        .keys(&["add-user", "obs", "--role", "observer", "--cluster", "main"])
        .await;
    let control = server.connect("control").await;
    let (agent, observer) = (server.connect("agent").await, server.connect("obs").await);
    let gateway = server.connect("gateway").await;
    let node = NodeId::new("n1").unwrap();
    let all = address::progress_all(&server.id);
    let mut heard = Vec::new();
    for link in [&observer, &gateway] {
        heard.push(link.bus.subscribe(&all).await.unwrap());
    }
    let mut settled = observer
        .bus
        .subscribe(&address::settled(&server.id))
        .await
        .unwrap();
    let (trainer, at) = (TrainerId::new("t").unwrap(), Timestamp::from_unix(1));
    let report = Progress::new(node.clone(), trainer, RunId(1), at, 7.0);
    let subject = address::progress(&server.id, &node, &report.trainer);
    agent.bus.store(&subject, &report, "").await.unwrap();
    let limit = Duration::from_secs(20);
    for one in &mut heard {
        let said = tokio::time::timeout(limit, one.next()).await;
        assert_eq!(said.unwrap().unwrap().message, report);
    }
    let done = Settled {
        step: 1,
        complete: true,
    };
    let subject = address::settled(&server.id);
    control.bus.publish(&subject, &done, "").await.unwrap();
    let said = tokio::time::timeout(limit, settled.next()).await;
    assert_eq!(said.unwrap().unwrap().message, done);
}

/// The most connections of an account of people, in `lacuna-accounts.conf`.
const OF_PEOPLE: usize = 512;

#[tokio::test]
async fn connections_of_one_person_lock_out_no_other() {
    let server = KeyedServer::start().await;
    for (name, role) in [("eve", "researcher"), ("ann", "researcher")] {
        server
            .keys(&["add-user", name, "--role", role, "--cluster", "main"])
            .await;
    }
    let _control = server.connect("control").await;
    let mut held = Vec::new();
    while held.len() < OF_PEOPLE {
        held.extend(join_all((0..32).map(|_| server.connect("eve"))).await);
    }
    let mut settings = server.settings(server.identity("eve"));
    settings.connect_limit = Span::from_secs(1);
    let refused = server.open(&settings, "cli").await.err();
    assert!(
        matches!(refused, Some(BusError::Full { .. })),
        "{refused:?}"
    );
    let url = settings.url;
    let key = server.identity("eve").display().to_string();
    let said = lacuna(&["trainers", "--nats", &url, "--identity", &key], &[]).unwrap_err();
    assert!(
        said.contains("connections exceeded") && said.contains("same key"),
        "{said}"
    );
    for other in ["ann", "operator", "gateway"] {
        server.connect(other).await;
    }
    drop(held);
}

#[tokio::test]
async fn without_a_key_no_client_connects() {
    let server = KeyedServer::start().await;
    let ca = server.keys_dir().join("ca/ca.pem");
    let url = format!("nats://127.0.0.1:{}", server.port());
    let options = async_nats::ConnectOptions::new().add_root_certificates(ca);
    let error = options.connect(url).await.unwrap_err();
    let kind = error.kind();
    let wanted = async_nats::ConnectErrorKind::AuthorizationViolation;
    assert_eq!(kind, wanted, "{error}");
}

#[tokio::test]
async fn a_client_without_tls_is_not_heard() {
    let server = KeyedServer::start().await;
    let mut stream = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    stream
        .write_all(b"CONNECT {\"verbose\":true,\"tls_required\":false}\r\nPING\r\n")
        .unwrap();
    let mut answer = Vec::new();
    // The server greets, and hangs up.
    let _ = stream.read_to_end(&mut answer);
    let answer = String::from_utf8_lossy(&answer);
    assert!(answer.starts_with("INFO "), "{answer}");
    assert!(!answer.contains("PONG"), "{answer}");
    assert!(!answer.contains("+OK"), "{answer}");
    until("nats-server logs it", || server.log().contains("TLS")).await;
}

#[tokio::test]
async fn a_server_that_the_authority_does_not_vouch_for_is_not_trusted() {
    let server = KeyedServer::start().await;
    let other = stranger(&server);
    let path = server.dir.path().join("forged.toml");
    let forged = forged(&server.identity("control"), &path, |own| own.ca = other.ca);
    let error = refused(&server, forged).await;
    assert!(matches!(error, BusError::NotTrusted { .. }), "{error}");
    assert!(error.to_string().contains("renew-tls"), "{error}");
}

#[tokio::test]
async fn a_client_exports_how_long_the_certificate_holds() {
    let server = KeyedServer::start().await;
    for name in ["control", "agent"] {
        let seconds = server
            .connect(name)
            .await
            .count("lacuna_bus_certificate_seconds");
        // A year, from today.
        let days = seconds / 86_400;
        assert!((360..=366).contains(&days), "{name}: {days} days");
    }
}

#[tokio::test]
async fn an_identity_that_others_can_read_is_not_used() {
    let server = KeyedServer::start().await;
    let path = server.identity("control");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
    let error = refused(&server, path).await;
    assert!(error.to_string().contains("chmod 600"), "{error}");
}

#[tokio::test]
async fn a_revoked_key_is_thrown_out_and_stays_out() {
    let server = KeyedServer::start().await;
    let control = server.connect("control").await;
    server
        .keys(&[
            "add-user",
            "ann",
            "--role",
            "researcher",
            "--cluster",
            "main",
        ])
        .await;
    let ann = server.connect("ann").await;
    let copy = server.dir.path().join("copy.toml");
    forged(&server.identity("ann"), &copy, |_| {});
    let mut link = ann.bus.link();
    server.keys(&["revoke", "ann", "--cluster", "main"]).await;
    let gone = async {
        while link.seen().up {
            link.changed().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), gone)
        .await
        .unwrap();
    let settings = server.settings(copy);
    let error = server.open(&settings, "cli").await.err().unwrap();
    assert!(matches!(error, BusError::Refused { .. }), "{error}");
    assert!(control.bus.connected(), "the others stay");
}

#[tokio::test]
async fn clusters_do_not_hear_each_other() {
    let server = KeyedServer::start().await;
    let main = server.connect("control").await;
    let other = server.keys_dir().join("other/control.toml");
    let mut settings = server.settings(other);
    settings.connect_limit = lacuna_model::Span::from_secs(3);
    let (registry, health) = Default::default();
    let id = lacuna_model::ClusterId::new("other").unwrap();
    let theirs = lacuna_runtime::Bus::connect(&settings, &id, "control", &registry, &health).await;
    let theirs = theirs.unwrap();
    // The same stream names would be two streams: each account has its own.
    let streams = |bus: &lacuna_runtime::Bus| bus.nats().unwrap().jetstream.clone();
    streams(&theirs).get_stream("lac_other_plan").await.unwrap();
    assert!(streams(&main.bus).get_stream("lac_main_plan").await.is_ok());
    // With the same subject in both, each hears its own messages.
    let renewal = address::renewals(&server.id);
    let error = theirs
        .nats()
        .unwrap()
        .client
        .subscribe(renewal.to_string())
        .await
        .map(|_| ());
    error.unwrap();
    let denied = || {
        let text = lacuna_runtime::metrics::expose(&registry).unwrap();
        crate::support::count(&text, "lacuna_bus_denied_total") > 0
    };
    until("the other cluster's word is refused", denied).await;
}

#[tokio::test]
async fn a_scheduler_publishes_with_acknowledgement_and_hears_what_came_back() {
    let server = KeyedServer::start().await;
    let control = server.connect("control").await;
    server
        .keys(&["add-user", "slurm", "--role", "events", "--cluster", "main"])
        .await;
    let slurm = server.connect("slurm").await;
    let subject = address::incoming_from(&server.id, "slurm");
    let body = br#"{"type":"node.idle","node":"n1"}"#.to_vec();
    let headers = [("content-type", "application/json"), ("ce-id", "1")];
    for expected in 1..=2 {
        let sent = slurm
            .bus
            .store_raw(subject.as_str(), &headers, body.clone())
            .await;
        assert_eq!(sent.unwrap().wait().await.unwrap(), expected);
    }
    let ingest = server.connect("ingest").await;
    let mut queue = ingest
        .bus
        .queue(&address::incoming(&server.id))
        .await
        .unwrap();
    for _ in 0..2 {
        let delivery = queue.next().await.unwrap();
        assert_eq!(delivery.payload(), body);
        assert!(delivery.headers().any(|h| h == ("ce-id", "1")));
        queue.done(&delivery);
    }
    let released = address::released(&server.id).to_string();
    let mut heard = slurm
        .bus
        .nats()
        .unwrap()
        .client
        .subscribe(released.clone())
        .await
        .unwrap();
    slurm.bus.nats().unwrap().client.flush().await.unwrap();
    // The import reaches the other account a moment later.
    let repeated = async {
        loop {
            let client = &control.bus.nats().unwrap().client;
            client
                .publish(released.clone(), "back".into())
                .await
                .unwrap();
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::select! {
        message = heard.next() => assert_eq!(message.unwrap().payload, "back"),
        () = repeated => unreachable!(),
        () = tokio::time::sleep(Duration::from_secs(60)) => panic!("nothing came back"),
    }
    for link in [&slurm, &ingest, &control] {
        assert_eq!(link.denied(), 0, "{}", server.log());
    }
}
