//! Stale and forged commands: a node obeys none of them.

use std::fs::File;
use std::process::{Command, Stdio};

use lacuna_model::{
    Action, Assignment, Command as Order, Epoch, Launch, Members, NodeId, RunId, Work,
};
use lacuna_runtime::Identity;
use lacuna_testkit::Killed;
use lacuna_wire::address;
use lacuna_wire::msg::Renewal;

use super::keyed_server::{KeyedServer, Link, program, until};
use crate::support::{count, get};

/// The agent of node `n1`, with a key of its own, as a process.
struct Agent {
    _child: Killed,
    server: KeyedServer,
    control: Link,
}

impl Agent {
    async fn start() -> Self {
        let server = KeyedServer::start().await;
        let add = ["add-user", "agent-n1", "--role", "agent", "--node", "n1"];
        server
            .keys(&[&add[..], &["--cluster", "main"]].concat())
            .await;
        let control = server.connect("control").await;
        let mut statuses = control
            .bus
            .subscribe(&address::agents(&server.id))
            .await
            .unwrap();
        let log = File::create(server.dir.path().join("agent.log")).unwrap();
        let config = server.dir.path().join("agent.toml");
        let work = server.dir.path().join("work");
        std::fs::write(&config, format!("[agent]\nwork_dir = {work:?}\n")).unwrap();
        let child = Command::new(program("lacuna-agent"))
            .env_remove("LACUNA_IDENTITY")
            .arg("--config")
            .arg(&config)
            .arg("--identity")
            .arg(server.identity("agent-n1"))
            .args(["--node", "n1", "--listen", "127.0.0.1:0"])
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        let agent = Self {
            _child: Killed(child),
            server,
            control,
        };
        until("the agent is ready", || agent.log().contains("ready")).await;
        // The agent takes kept commands for old. Its first report shows that it listens.
        let limit = std::time::Duration::from_secs(60);
        let said = tokio::time::timeout(limit, statuses.next()).await;
        said.unwrap().unwrap();
        agent
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.server.dir.path().join("agent.log")).unwrap_or_default()
    }

    fn metrics(&self) -> String {
        let log = self.log();
        let at = log
            .lines()
            .find_map(|l| l.split_once("address=").map(|(_, at)| at.trim().to_owned()));
        at.and_then(|at| get(&at, "/metrics")).unwrap_or_default()
    }

    fn commands(&self, outcome: &str) -> u64 {
        let name = format!("lacuna_agent_commands_total{{outcome=\"{outcome}\"}}");
        count(&self.metrics(), &name)
    }

    async fn command(&self, epoch: u64, seq: u64, action: Action) {
        let node = NodeId::new("n1").unwrap();
        let order = Order {
            node: node.clone(),
            epoch: Epoch(epoch),
            seq,
            action,
        };
        let subject = address::command(&self.server.id, &node);
        self.control.bus.store(&subject, &order, "").await.unwrap();
    }
}

fn run(run: u64) -> Action {
    Action::Run(Box::new(Assignment {
        work: Work::Samples(1e9),
        ..lacuna_testkit::assignment("t", run, Launch::Simulated)
    }))
}

fn release() -> Action {
    Action::Release {
        reason: "forged".to_owned(),
        at: None,
    }
}

#[tokio::test]
async fn a_command_of_an_older_epoch_is_refused_logged_and_counted() {
    let agent = Agent::start().await;
    agent.command(10, 1, run(1)).await;
    until("the run is obeyed", || agent.commands("run") == 1).await;
    agent.command(9, 99, release()).await;
    until("the older one is refused", || {
        agent.commands("refused") == 1
    })
    .await;
    assert!(
        agent.log().contains("older command refused"),
        "{}",
        agent.log()
    );
    assert_eq!(agent.commands("release"), 0);
}

#[tokio::test]
async fn a_number_that_was_obeyed_already_is_not_obeyed_again() {
    let agent = Agent::start().await;
    agent.command(10, 5, run(1)).await;
    until("the run is obeyed", || agent.commands("run") == 1).await;
    // An older number of the same epoch, and the same number with another content.
    agent.command(10, 4, release()).await;
    until("the older number is refused", || {
        agent.commands("refused") == 1
    })
    .await;
    agent.command(10, 5, run(2)).await;
    until("the same number is not obeyed", || {
        agent.commands("repeated") + agent.commands("refused") == 2
    })
    .await;
    assert_eq!(agent.commands("run"), 1);
    assert_eq!(agent.commands("release"), 0);
    assert!(
        agent.log().contains("older command refused"),
        "{}",
        agent.log()
    );
}

#[tokio::test]
async fn without_the_key_of_control_no_sender_commands_a_node() {
    let agent = Agent::start().await;
    let node = NodeId::new("n1").unwrap();
    let subject = address::command(&agent.server.id, &node);
    let refused = || {
        let name = "lacuna_bus_dead_letters_total{service=\"agent\"}";
        count(&agent.metrics(), name)
    };
    // This user has the permissions of control, and a key that the agent does not know.
    let add = [
        "add-user",
        "thief",
        "--role",
        "control",
        "--cluster",
        "main",
    ];
    agent.server.keys(&add).await;
    let settings = agent.server.settings(agent.server.identity("thief"));
    let thief = agent.server.open(&settings, "control").await.unwrap();
    let order = |epoch| Order {
        node: node.clone(),
        epoch: Epoch(epoch),
        seq: 1,
        action: run(1),
    };
    thief
        .bus
        .store(&subject, &order(1 << 40), "")
        .await
        .unwrap();
    until("what another key has signed is refused", || refused() == 1).await;
    // Without a signature.
    let headers = [
        ("ce-specversion", "1.0"),
        ("ce-id", "thief-1"),
        ("ce-source", "lacuna/control"),
        ("ce-type", "lacuna.command"),
        ("ce-dataversion", "2"),
        ("content-type", "application/msgpack"),
    ];
    let forged = lacuna_wire::codec::encode(&order(1 << 41)).unwrap();
    let stored = thief
        .bus
        .store_raw(subject.as_str(), &headers, forged.clone());
    stored.await.unwrap().wait().await.unwrap();
    until("an unsigned command is refused", || refused() == 2).await;
    // A renewal, which would keep a lease forever.
    let renewal = Renewal {
        lead: u64::MAX,
        number: 1,
        leases: Vec::new(),
        forgotten: Vec::new(),
    };
    let of = address::renewal(&agent.server.id, address::shard(&node));
    thief.bus.publish(&of, &renewal, "").await.unwrap();
    until("the renewal is refused", || refused() == 3).await;
    let log = agent.log();
    assert!(log.contains("its signature is not control's"), "{log}");
    assert!(log.contains("it has no signature of control"), "{log}");

    // Control's own command is obeyed, live and from the stream. Its signature fits no other
    // command.
    agent.command(10, 1, run(1)).await;
    until("the true one is obeyed", || agent.commands("run") == 1).await;
    let stream = agent
        .control
        .bus
        .nats()
        .unwrap()
        .jetstream
        .get_stream(subject.stream().unwrap());
    let kept = stream.await.unwrap();
    let kept = kept
        .direct_get_last_for_subject(subject.as_str())
        .await
        .unwrap();
    let mut headers: Vec<(String, String)> = Vec::new();
    for (name, values) in kept.headers.iter() {
        let name: &str = name.as_ref();
        if name.starts_with("ce-") || name.starts_with("Lacuna-") || name == "content-type" {
            headers.push((name.to_owned(), values[0].as_str().to_owned()));
        }
    }
    assert!(headers.iter().any(|(name, _)| name == "Lacuna-Signature"));
    let headers: Vec<(&str, &str)> = headers
        .iter()
        .map(|(n, v)| (n.as_str(), v.as_str()))
        .collect();
    let stored = thief.bus.store_raw(subject.as_str(), &headers, forged);
    stored.await.unwrap().wait().await.unwrap();
    until("a signature of something else is refused", || {
        refused() == 4
    })
    .await;
    assert_eq!((agent.commands("run"), agent.commands("refused")), (1, 0));
}

#[tokio::test]
async fn only_control_names_the_members_of_a_program() {
    let agent = Agent::start().await;
    let add = [
        "add-user",
        "thief",
        "--role",
        "control",
        "--cluster",
        "main",
    ];
    agent.server.keys(&add).await;
    let settings = agent.server.settings(agent.server.identity("thief"));
    let thief = agent.server.open(&settings, "control").await.unwrap();
    let Action::Run(mut part) = run(7) else {
        panic!("no run");
    };
    let names = agent.server.dir.path().join("names");
    let script = format!("echo $LACUNA_MEMBERS > {}; sleep 600", names.display());
    part.launch = lacuna_testkit::shell(&script).into();
    let subject = address::members(&agent.server.id, &part.trainer);
    let members = |run, node: &str| Members {
        trainer: part.trainer.clone(),
        run: RunId(run),
        nodes: vec![NodeId::new(node).unwrap()],
    };
    // Of a later incarnation: an agent that believed it would wait forever.
    let forged = members(9, "n9");
    thief.bus.store(&subject, &forged, "").await.unwrap();
    let own = members(7, "n1");
    agent.command(10, 7, Action::Run(part.clone())).await;
    until("what another key has signed is refused", || {
        count(
            &agent.metrics(),
            "lacuna_bus_dead_letters_total{service=\"agent\"}",
        ) > 0
    })
    .await;
    assert!(!names.exists());
    agent.control.bus.store(&subject, &own, "").await.unwrap();
    until("the program knows with whom it trains", || {
        std::fs::read_to_string(&names).is_ok_and(|said| said == "n1\n")
    })
    .await;
}

#[tokio::test]
async fn an_agent_that_does_not_know_control_does_not_start() {
    let server = KeyedServer::start().await;
    let path = server.identity("agent");
    let own = Identity::load(&path).unwrap();
    let old = Identity {
        control: Vec::new(),
        ..own.clone()
    };
    std::fs::write(&path, old.text().unwrap().reveal()).unwrap();
    let output = Command::new(program("lacuna-agent"))
        .env_remove("LACUNA_IDENTITY")
        .arg("--identity")
        .arg(&path)
        .args(["--node", "n1", "--listen", "127.0.0.1:0"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(64), "{said}");
    assert!(said.contains("lacuna keys init"), "{said}");
}

#[tokio::test]
async fn a_command_from_one_who_may_not_never_reaches_the_node() {
    let agent = Agent::start().await;
    let planner = agent.server.connect("planner").await;
    let order = Order {
        node: NodeId::new("n1").unwrap(),
        epoch: Epoch(u64::MAX / 2),
        seq: 1,
        action: run(1),
    };
    let subject = address::command(&agent.server.id, &order.node);
    let error = planner.bus.store(&subject, &order, "").await.unwrap_err();
    assert!(
        matches!(error, lacuna_runtime::BusError::Denied { .. }),
        "{error}"
    );
    assert_eq!(planner.denied(), 1);
    // A permitted message after it is heard, so the forged one did not arrive.
    agent.command(10, 1, run(1)).await;
    until("the true one is obeyed", || agent.commands("run") == 1).await;
    assert_eq!(agent.commands("refused"), 0);
    let log = agent.server.log();
    assert!(log.contains("Publish Violation"), "{log}");
}

#[tokio::test]
async fn the_key_of_a_node_speaks_of_no_other_node() {
    let agent = Agent::start().await;
    let mut heard = agent
        .control
        .bus
        .subscribe(&address::agents(&agent.server.id))
        .await
        .unwrap();
    let thief = agent.server.connect("agent-n1").await;
    let status = lacuna_testkit::status;
    let own = NodeId::new("n1").unwrap();
    let subject = address::agent(&agent.server.id, &own);
    thief
        .bus
        .publish(&subject, &status("n2"), "")
        .await
        .unwrap();
    thief
        .bus
        .publish(&subject, &status("n1"), "")
        .await
        .unwrap();
    // Only messages of n1 are heard; the other one is a counted dead letter.
    let mut from_thief = false;
    while !from_thief {
        let received = heard.next().await.unwrap();
        assert_eq!(received.message.node, own);
        let sender = lacuna_runtime::Bus::sender(&received.envelope);
        from_thief = sender == thief.bus.instance();
    }
    assert_eq!(
        agent
            .control
            .count("lacuna_bus_dead_letters_total{service=\"control\"}"),
        1
    );
}
