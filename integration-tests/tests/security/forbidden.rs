//! Forbidden acts of each role: the server refuses and logs them, and the process counts them.

use std::time::Duration;

use futures::StreamExt as _;
use lacuna_model::NodeId;
use lacuna_runtime::{BusError, Start};
use lacuna_wire::address;
use lacuna_wire::msg::{PilotsRequest, Reply, Request};

use super::keyed_server::{KeyedServer, Link, until};

/// An act: a publication on a subject, or a subscription. `C` is short for `lacuna.v1.main`.
#[derive(Debug, Clone, Copy)]
enum Act {
    Say(&'static str),
    Hear(&'static str),
}

use Act::{Hear, Say};

/// The forbidden acts of each role.
const TABLE: &[(&str, &[Act])] = &[
    (
        "planner",
        &[
            Say("C.cmd.n1"),
            Say("C.event"),
            Say("C.state.trainers"),
            Say("C.state.clock"),
            Say("C.controls"),
            Say("C.req.planner"),
            Say("C.audit.control"),
            Say("C.audit.planner"),
            Say("C.leader.control"),
            Say("$KV.lac_main_leases.n1"),
            Say("lacuna.v1.other.state.plan"),
            Hear("C.req.*"),
            Hear("_INBOX_control.>"),
            Hear(">"),
            Say("$JS.API.STREAM.DELETE.lac_main_plan"),
            Say("$JS.API.STREAM.PURGE.lac_main_plan"),
            Say("$JS.API.STREAM.UPDATE.lac_main_plan"),
            Say("$JS.API.STREAM.CREATE.lac_main_x"),
            Say("$JS.API.STREAM.MSG.DELETE.lac_main_plan"),
            Say("$JS.API.CONSUMER.CREATE.lac_main_in.x.C.in.>"),
        ],
    ),
    (
        "forecast",
        &[
            Say("C.state.plan"),
            Say("C.event"),
            Say("C.cmd.n1"),
            Say("C.audit.control"),
            Say("C.audit.forecast"),
        ],
    ),
    (
        "ingest",
        &[
            Say("C.state.plan"),
            Say("C.cmd.n1"),
            Say("$KV.lac_main_trainers.t"),
            Say("C.audit.control"),
            Say("C.audit.ingest"),
            Say("$JS.API.STREAM.DELETE.lac_main_in"),
            Say("$JS.API.STREAM.CREATE.lac_main_in"),
            Say("$JS.API.STREAM.CREATE.lac_main_audit"),
            Say("$JS.API.STREAM.UPDATE.lac_main_in"),
            Say("$JS.API.STREAM.UPDATE.lac_main_audit"),
            Say("$JS.API.STREAM.UPDATE.KV_lac_main_leases"),
            Hear("C.req.*"),
        ],
    ),
    (
        "control",
        &[
            Say("C.event"),
            Say("C.state.plan"),
            Say("C.in.x"),
            Say("C.agent.n1"),
            Say("$JS.API.STREAM.DELETE.lac_main_cmds"),
            Say("$JS.API.STREAM.PURGE.KV_lac_main_leases"),
            Hear("C.in.>"),
        ],
    ),
    (
        "gateway",
        &[
            Say("C.req.gateway"),
            Say("C.cmd.n1"),
            Say("C.controls"),
            Say("C.state.plan"),
            Hear("C.req.*"),
            Say("$JS.API.CONSUMER.CREATE.lac_main_progress.x.C.progress.*.*"),
            Say("$JS.API.STREAM.INFO.lac_main_progress"),
        ],
    ),
    (
        "agent",
        &[
            Say("$JS.API.CONSUMER.CREATE.lac_main_cmds.x.C.cmd.*"),
            Say("C.cmd.n1"),
            Say("C.event"),
            Say("C.renewal.44"),
            Say("C.run.t"),
            Hear("C.run.*"),
            Say("C.state.trainers"),
            Say("$KV.lac_main_leases.n1"),
            Hear("C.req.*"),
        ],
    ),
    (
        "agent-n1",
        &[
            Say("C.agent.n2"),
            Say("C.progress.n2.t"),
            Say("C.progress.t"),
            Hear("C.cmd.n2"),
            Hear("C.cmd.*"),
            // That of n1 is 44, that of a01n02 is 7.
            Hear("C.renewal.7"),
            Hear("C.renewal.*"),
            Hear("C.logs.n2"),
            Hear("C.agent.*"),
            Say("$JS.API.CONSUMER.CREATE.lac_main_cmds.x.C.cmd.n1"),
            Say("$JS.API.CONSUMER.CREATE.lac_main_cmds.x.C.cmd.n2"),
            Say("$JS.API.DIRECT.GET.lac_main_cmds"),
            Say("$JS.API.DIRECT.GET.lac_main_progress"),
            Say("$JS.API.DIRECT.GET.lac_main_runs"),
            Say("$JS.API.CONSUMER.CREATE.lac_main_runs.x.C.run.*"),
            Say("C.run.t"),
            Hear("C.run.t"),
            Say("$JS.API.CONSUMER.CREATE.lac_main_cmds.x.C.cmd.*"),
            Say("$JS.API.CONSUMER.CREATE.lac_main_cmds"),
            Say("$JS.API.DIRECT.GET.lac_main_cmds.C.cmd.n2"),
        ],
    ),
    (
        "ann",
        &[
            Say("C.event"),
            Say("C.state.plan"),
            Say("C.cmd.n1"),
            Say("$KV.lac_main_leases.n1"),
            Say("$KV.lac_main_trainers.t"),
            Say("C.req.bob"),
            Say("C.req.root"),
            Say("C.req"),
            Say("C.pilots.ann"),
            Say("C.pilots.root"),
            Say("C.in.ann"),
            Say("C.controls"),
            Say("lacuna.v1.other.req.ann"),
            Hear("_INBOX_bob.>"),
            Hear("_INBOX.>"),
            Hear("C.cmd.*"),
            Hear("C.req.*"),
            Hear("C.req.bob"),
            Hear("C.>"),
            Hear("C.audit.*"),
            Say("$JS.API.CONSUMER.CREATE.lac_main_state.x.C.state.plan"),
            Say("$JS.API.STREAM.MSG.GET.lac_main_state"),
        ],
    ),
    (
        "watcher",
        &[
            Say("C.req.watcher"),
            Say("C.in.watcher"),
            Say("C.controls"),
            Say("$JS.API.STREAM.PURGE.lac_main_audit"),
            Say("$JS.API.CONSUMER.CREATE.lac_main_progress.x.C.progress.*.*"),
            Say("$JS.API.CONSUMER.CREATE.lac_main_cmds"),
            Say("$JS.API.DIRECT.GET.lac_main_cmds.C.cmd.n1"),
            Say("$JS.API.DIRECT.GET.lac_main_secret.C.state.secret"),
            Hear("C.cmd.*"),
            Hear("C.req.*"),
        ],
    ),
    (
        "root",
        &[
            Say("$JS.API.CONSUMER.CREATE.lac_main_audit.x.C.audit.control"),
            Say("C.cmd.n1"),
            Say("C.req.ann"),
            Say("C.audit.control"),
            Say("C.controls"),
            Say("$JS.API.STREAM.PURGE.lac_main_audit"),
        ],
    ),
    (
        "slurm",
        &[
            Say("C.event"),
            Say("C.req.slurm"),
            Say("C.state.plan"),
            Say("$JS.API.STREAM.INFO.lac_main_in"),
            Hear("C.in.>"),
            Hear("C.event"),
            Hear("C.state.>"),
        ],
    ),
];

async fn server() -> KeyedServer {
    let server = KeyedServer::start().await;
    let main = ["--cluster", "main"];
    let people = [
        ("ann", "researcher"),
        ("bob", "researcher"),
        ("root", "operator"),
        ("watcher", "observer"),
        ("slurm", "events"),
    ];
    for (name, role) in people {
        server
            .keys(&[&["add-user", name, "--role", role][..], &main].concat())
            .await;
    }
    let agent = ["add-user", "agent-n1", "--role", "agent", "--node", "n1"];
    server.keys(&[&agent[..], &main].concat()).await;
    server
}

/// Tries an act; returns the outcome. The subscription for its own answer comes first, and must not
/// count as a request.
async fn attempt(link: &Link, act: Act) -> String {
    let client = &link.bus.nats().unwrap().client;
    let full = |subject: &str| match subject.strip_prefix("C.") {
        Some(rest) => format!("lacuna.v1.main.{rest}"),
        None => subject.replace(".C.", ".lacuna.v1.main."),
    };
    let (subject, what) = match act {
        Say(subject) => {
            let subject = full(subject);
            let own = client.new_inbox();
            let mut echo = client.subscribe(own.clone()).await.unwrap();
            let asked = client.publish_with_reply(own, subject.clone(), "".into());
            asked.await.unwrap();
            echo.next().await.unwrap();
            client.publish(subject.clone(), "x".into()).await.unwrap();
            (subject, "Publish Violation")
        }
        Hear(subject) => {
            let subject = full(subject);
            // Held until the server has decided, then dropped.
            let heard = client.subscribe(subject.clone()).await.unwrap();
            client.flush().await.unwrap();
            drop(heard);
            (subject, "Subscription Violation")
        }
    };
    client.flush().await.unwrap();
    format!("{what}|Subject \"{subject}\"")
}

#[tokio::test]
async fn forbidden_acts_of_a_role_are_refused_logged_and_counted() {
    let server = server().await;
    // Control makes the streams, for which the others wait.
    let control = server.connect("control").await;
    for (user, acts) in TABLE {
        let link = if *user == "control" {
            None
        } else {
            Some(server.connect(user).await)
        };
        let link = link.as_ref().unwrap_or(&control);
        for act in *acts {
            let before = link.denied();
            let done = attempt(link, *act).await;
            until(&format!("{user} must not {act:?}"), || {
                link.denied() > before
            })
            .await;
            let (what, subject) = done.split_once('|').unwrap();
            let logged = || {
                let log = server.log();
                let mut lines = log.lines();
                lines.any(|l| l.contains(what) && l.contains(subject))
            };
            until(&format!("nats-server logs {user} {act:?}"), logged).await;
        }
    }
    // All streams are still there: each can be read.
    let stream = control
        .bus
        .nats()
        .unwrap()
        .jetstream
        .get_stream("lac_main_plan")
        .await;
    stream.unwrap();
}

#[tokio::test]
async fn a_refused_request_fails_at_once() {
    let server = server().await;
    let control = server.connect("control").await;
    let ann = server.connect("ann").await;
    let denied = |error: BusError| {
        assert!(matches!(error, BusError::Denied { .. }), "{error}");
        let text = error.to_string();
        assert!(text.contains("ann") && text.contains("identity"), "{text}");
    };
    // Far longer than a test may take, so a missing answer would show.
    let limit = Duration::from_secs(3600);
    let other = address::requests_of(&server.id, "bob");
    let asked = ann.bus.request::<_, Reply>(&other, &Request::Totals, limit);
    denied(asked.await.unwrap_err());
    let pilots = address::pilots_of(&server.id, "ann");
    let asked = ann
        .bus
        .request::<_, Reply>(&pilots, &PilotsRequest::Stop, limit);
    denied(asked.await.unwrap_err());
    let agents = address::agents(&server.id);
    denied(ann.bus.subscribe(&agents).await.unwrap_err());
    let plan = address::plan(&server.id);
    denied(ann.bus.follow(&plan, Start::Last).await.unwrap_err());
    let command = address::command(&server.id, &NodeId::new("n1").unwrap());
    denied(ann.bus.last(&command).await.unwrap_err());
    let stored = ann.bus.store_raw(plan.as_str(), &[], b"x".to_vec()).await;
    denied(stored.unwrap().wait().await.unwrap_err());
    drop(control);
}

/// The refusals of a command line.
const REFUSED: &str = "lacuna_bus_dead_letters_total{service=\"cli\"}";

#[tokio::test]
async fn an_answer_stays_in_the_account_of_its_request_and_is_no_message_there() {
    let server = server().await;
    let control = server.connect("control").await;
    let ann = server.connect("ann").await;
    let mut asked = control
        .bus
        .subscribe(&address::requests(&server.id))
        .await
        .unwrap();
    // Ann may ask, and names a subject on which only ingest may speak.
    let (watch, root) = (server.connect("ann").await, server.connect("root").await);
    let event = address::event(&server.id);
    let mut heard = root
        .bus
        .nats()
        .unwrap()
        .client
        .subscribe(event.to_string())
        .await
        .unwrap();
    root.bus.nats().unwrap().client.flush().await.unwrap();
    let mut understood = watch.bus.subscribe(&event).await.unwrap();
    let mut headers = async_nats::HeaderMap::new();
    for (name, value) in [
        ("ce-specversion", "1.0"),
        ("ce-id", "x-1"),
        ("ce-source", "x"),
        ("ce-type", "lacuna.request"),
        ("ce-dataversion", "1"),
        ("content-type", "application/json"),
    ] {
        headers.insert(name, value);
    }
    let subject = address::requests_of(&server.id, "ann").to_string();
    let payload = r#"{"ask":"totals"}"#;
    ann.bus
        .nats()
        .unwrap()
        .client
        .publish_with_reply_and_headers(subject, event.to_string(), headers, payload.into())
        .await
        .unwrap();
    let request = asked.next().await.unwrap();
    let answer = Reply::Trainers {
        now: lacuna_model::Timestamp::from_unix(1),
        trainers: Vec::new(),
    };
    control.bus.respond(&request, &answer).await.unwrap();
    // Only clients of Ann's account get it, and they refuse it.
    tokio::select! {
        word = understood.next() => panic!("{word:?}"),
        () = until("it is refused", || watch.count(REFUSED) > 0) => {}
    }
    nothing_comes(&mut heard).await;
}

/// Nothing comes.
async fn nothing_comes(heard: &mut async_nats::Subscriber) {
    use futures::StreamExt;
    let wait = tokio::time::timeout(Duration::from_millis(500), heard.next());
    assert!(wait.await.is_err(), "an answer went where it must not");
}
