//! The examples of `deploy/external.md`, run against a real nats-server and ingest and checked by
//! ingest's events; and the hook of `deploy/security.md`.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Mutex;
use std::time::Duration;

use lacuna_model::{EventKind, NodeEvent};
use lacuna_runtime::{Follow, Start};
use lacuna_testkit::{Missing, Need, or_skip};
use lacuna_wire::{address, external, schema};

use crate::security::keyed_server::KeyedServer;
use crate::support;
use crate::upgrade::fleet::Fleet;

const LIMIT: Duration = Duration::from_secs(30);

/// The version that the examples are tested with.
const NATS_PY: &str = "nats-py==2.16.0";
/// The package that nats-py needs for keys.
const NKEYS: &str = "nkeys==0.2.1";

fn example(name: &str) -> PathBuf {
    support::root().join("deploy/examples/events").join(name)
}

async fn fleet() -> (Fleet, Follow<NodeEvent>) {
    let mut fleet = Fleet::new().await;
    let event = address::event(&fleet.id);
    let events = fleet.bus.follow(&event, Start::All).await.unwrap();
    fleet.start("ingest");
    (fleet, events)
}

async fn next(events: &mut Follow<NodeEvent>, fleet: &Fleet) -> EventKind {
    let next = tokio::time::timeout(LIMIT, events.next()).await;
    let next = next.unwrap_or_else(|_| panic!("no event came\n{}", fleet.logs()));
    next.unwrap().message.kind
}

fn said(output: &Output) -> String {
    let err = String::from_utf8_lossy(&output.stderr);
    format!("{}{err}", String::from_utf8_lossy(&output.stdout))
}

/// The folder of nats-py, which is fetched once and kept beside what cargo builds.
fn nats_py() -> Result<PathBuf, Missing> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _one = ONE_AT_A_TIME.lock();
    let into = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{NATS_PY}-{NKEYS}"));
    let has = || {
        let mut python = Command::new("python3");
        python.args(["-c", "import nats.js, nkeys"]);
        let done = python.env("PYTHONPATH", &into).output();
        done.is_ok_and(|o| o.status.success())
    };
    if !has() {
        let mut pip = Command::new("python3");
        pip.args(["-m", "pip", "install", "--quiet", "--upgrade", "--target"]);
        let _ = pip.arg(&into).args([NATS_PY, NKEYS]).output();
        let what = format!("neither {NATS_PY} nor {NKEYS} can be had");
        Need::NatsPy.given(has(), what)?;
    }
    Ok(into)
}

#[test]
fn the_examples_are_valid_and_show_every_type() {
    let mut shown = Vec::new();
    for file in ["bare.jsonl", "cloudevents.jsonl"] {
        for line in std::fs::read_to_string(example(file)).unwrap().lines() {
            let event = external::read([], line.as_bytes());
            assert!(event.is_ok(), "{file}: {line}: {event:?}");
            let types = schema::EVENTS.iter().map(|event| event.name);
            shown.extend(types.filter(|name| line.contains(&format!("\"type\":\"{name}\""))));
        }
    }
    for event in &schema::EVENTS {
        assert!(shown.contains(&event.name), "no example of {}", event.name);
    }
}

#[tokio::test]
async fn the_python_example_publishes_what_counts_once() {
    let packages = or_skip!(nats_py());
    let (fleet, mut events) = fleet().await;
    let url = fleet.url();
    let publish = |args: &[&str]| {
        let mut python = Command::new("python3");
        python
            .arg(example("publish.py"))
            .args(["--nats", &url, "--cluster", "up"]);
        python.args(args).env("PYTHONPATH", &packages);
        python.output().unwrap()
    };
    // Ingest makes the stream; until then no acknowledgement comes.
    let first = publish(&["node.idle", "a01", "b.2", "--patience", "30"]);
    assert!(first.status.success(), "{}", said(&first));
    for args in [
        &["--structured", "node.busy", "a01", "--id", "job-1"][..],
        &["--structured", "node.busy", "a01", "--id", "job-1"],
        &["node.wanted", "b.2", "--deadline", "2036-01-31T12:00:00Z"],
    ] {
        let done = publish(args);
        assert!(done.status.success(), "{}", said(&done));
    }
    let mut seen = Vec::new();
    for _ in 0..4 {
        seen.push(match next(&mut events, &fleet).await {
            EventKind::NodeIdle { node } => format!("idle {node}"),
            EventKind::NodeBusy { node } => format!("busy {node}"),
            EventKind::NodeWanted { node, .. } => format!("wanted {node}"),
            other => panic!("{other:?}"),
        });
    }
    assert_eq!(seen, ["idle a01", "idle b.2", "busy a01", "wanted b.2"]);
    let unheard = publish(&["node.idle", "a01", "--nats", "nats://127.0.0.1:1"]);
    assert!(!unheard.status.success());
    assert!(
        said(&unheard).contains("no nats-server answers"),
        "{}",
        said(&unheard)
    );
}

#[tokio::test]
async fn the_python_example_publishes_with_the_identity_of_an_external_scheduler() {
    let packages = or_skip!(nats_py());
    let server = KeyedServer::start().await;
    server
        .keys(&[
            "add-user",
            "site.7",
            "--cluster",
            "main",
            "--role",
            "events",
        ])
        .await;
    // Control may make the streams.
    let control = server.connect("control").await;
    let publish = |identity: PathBuf| {
        let mut python = Command::new("python3");
        python
            .arg(example("publish.py"))
            .arg("--identity")
            .arg(identity)
            .args(["node.busy", "a01", "--patience", "3"])
            .env("PYTHONPATH", &packages);
        python.output().unwrap()
    };
    let done = publish(server.identity("site.7"));
    assert!(done.status.success(), "{}", said(&done));
    assert!(
        said(&done).contains("node.busy of a01 kept as 1"),
        "{}",
        said(&done)
    );
    // The gateway may read, and not publish.
    let refused = publish(server.identity("gateway"));
    assert!(!refused.status.success(), "{}", said(&refused));
    drop(control);
}

#[tokio::test]
async fn the_hook_of_slurm_publishes_what_ingest_reads() {
    let (fleet, mut events) = fleet().await;
    fleet.publish_until_kept("node.idle", "other").await;
    assert!(matches!(
        next(&mut events, &fleet).await,
        EventKind::NodeIdle { .. }
    ));
    let dir = tempfile::tempdir().unwrap();
    let conf = dir.path().join("hook.conf");
    let server = fleet.url().trim_start_matches("nats://").to_owned();
    std::fs::write(&conf, format!("nats={server}\ncluster=up\ntimeout=20\n")).unwrap();
    let hook = support::root().join("deploy/slurm/prolog.sh");
    let mut hook = Command::new(hook);
    hook.env("LACUNA_HOOK_CONF", &conf)
        .env("SLURMD_NODENAME", "a01.x");
    let ran = hook.env("SLURM_JOB_ID", "7").output().unwrap();
    assert!(ran.status.success(), "{}", said(&ran));
    let event = next(&mut events, &fleet).await;
    assert!(
        matches!(&event, EventKind::NodeBusy { node } if node.as_str() == "a01.x"),
        "{event:?}"
    );
}

/// The lines of `deploy/security.md` for a prolog, with other paths.
fn prolog(program: &str, identity: &str) -> String {
    let guide = support::read("deploy/security.md");
    let lines = guide
        .split("```sh\n")
        .filter_map(|block| block.split_once("```"))
        .map(|(lines, _)| lines)
        .find(|lines| lines.contains("SLURM_JOB_PARTITION"))
        .unwrap();
    let mut lines = lines.to_owned();
    for (there, here) in [
        ("/opt/lacuna/lacuna ", format!("'{program}' ")),
        ("/etc/lacuna/hook.toml ", format!("'{identity}' ")),
        // A machine that runs tests is slow.
        ("timeout 5 ", "timeout 60 ".to_owned()),
    ] {
        assert_eq!(lines.matches(there).count(), 1, "{there}: {lines}");
        lines = lines.replace(there, &here);
    }
    lines
}

#[tokio::test]
async fn the_prolog_with_keys_publishes_without_any_environment() {
    let server = KeyedServer::start().await;
    server
        .keys(&["add-user", "slurm", "--cluster", "main", "--role", "events"])
        .await;
    // Control may make the streams.
    let control = server.connect("control").await;
    let identity = server.identity("slurm").display().to_string();
    let lines = prolog(&support::lacuna(), &identity);
    // No event is published about pilots, which are Lacuna's own.
    for (partition, node) in [("filler", "own"), ("batch", "a01.x")] {
        let mut shell = Command::new("/bin/sh");
        // Without PATH a shell would take its own default.
        shell.args(["-c", &lines]).env_clear().env("PATH", "");
        shell.env("SLURM_JOB_PARTITION", partition);
        let ran = shell.env("SLURMD_NODENAME", node).output().unwrap();
        assert!(ran.status.success(), "{}", said(&ran));
    }
    let ingest = server.connect("ingest").await;
    let incoming = address::incoming(&server.id);
    let mut queue = ingest.bus.queue(&incoming).await.unwrap();
    let delivery = tokio::time::timeout(LIMIT * 2, queue.next()).await;
    let delivery = delivery.unwrap_or_else(|_| panic!("no event came\n{}", server.log()));
    let delivery = delivery.unwrap();
    let event = external::read(delivery.headers(), delivery.payload()).unwrap();
    assert!(
        matches!(&event.kind, EventKind::NodeBusy { node } if node.as_str() == "a01.x"),
        "{event:?}"
    );
    assert_eq!(event.source.as_deref(), Some("slurm-hook"));
    drop(control);
}

#[tokio::test]
async fn the_shell_example_publishes_where_the_nats_cli_is_installed() {
    let found = Command::new("nats").arg("--version").output();
    let found = found.is_ok_and(|o| o.status.success());
    or_skip!(Need::NatsCli.given(found, "no command `nats`"));
    let (fleet, mut events) = fleet().await;
    fleet.publish_until_kept("node.idle", "other").await;
    assert!(matches!(
        next(&mut events, &fleet).await,
        EventKind::NodeIdle { .. }
    ));
    let mut shell = Command::new(example("publish.sh"));
    shell
        .args(["node.idle", "a01"])
        .env("NATS_URL", fleet.url())
        .env("LACUNA_CLUSTER", "up");
    let done = shell.output().unwrap();
    assert!(done.status.success(), "{}", said(&done));
    let event = next(&mut events, &fleet).await;
    assert!(
        matches!(&event, EventKind::NodeIdle { node } if node.as_str() == "a01"),
        "{event:?}"
    );
}
