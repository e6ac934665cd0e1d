//! An agent keeps running while the server loses all its data and counts its messages from the
//! start.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

use std::process::Stdio;
use std::time::Duration;

use lacuna_model::{Action, Activity, AgentStatus, ClusterId, Command, Epoch, Launch, NodeId};
use lacuna_runtime::{Bus, Stopwatch, Subscription};
use lacuna_testkit::{Killed, TestNats};
use lacuna_wire::address;

/// Time limit, long enough on a loaded machine.
const LIMIT: Duration = Duration::from_secs(30);

fn cluster() -> ClusterId {
    ClusterId::new("c").unwrap()
}

fn run(node: &str, epoch: u64, trainer: &str) -> Command {
    let node = NodeId::new(node).unwrap();
    let assignment = lacuna_testkit::assignment(trainer, 1, Launch::Simulated);
    Command {
        node,
        epoch: Epoch(epoch),
        seq: 1,
        action: Action::Run(Box::new(assignment)),
    }
}

/// Repeats until the server has its streams again.
async fn send(bus: &Bus, command: &Command) -> u64 {
    let subject = address::command(&cluster(), &command.node);
    let watch = Stopwatch::start();
    loop {
        match bus.store(&subject, command, "").await {
            Ok(sequence) => return sequence,
            Err(error) => assert!(watch.seconds() < LIMIT.as_secs_f64(), "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Waits until the agent of a node reports that it runs this trainer under this epoch. It must
/// never report another trainer.
async fn until_runs(statuses: &mut Subscription<AgentStatus>, command: &Command, trainer: &str) {
    let found = tokio::time::timeout(LIMIT, async {
        loop {
            let status = statuses.next().await.unwrap().message;
            if status.node != command.node || status.epoch != command.epoch {
                continue;
            }
            if let Activity::Running { trainer: runs, .. } = &status.activity {
                assert_eq!(runs.as_str(), trainer, "two owners: {status:?}");
                return;
            }
        }
    });
    found.await.expect("it never ran there");
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_of_an_emptied_server_are_obeyed_and_no_epoch_gets_two_trainers() {
    let mut nats = TestNats::start();
    let bus = lacuna_testkit::connect(&nats, &cluster(), "test").await;
    // The last number that the server will give again.
    let mut last = 0;
    for epoch in 1..=40 {
        last = send(&bus, &run("elsewhere", epoch, "x")).await;
    }
    let mut statuses = bus.subscribe(&address::agents(&cluster())).await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("lacuna.toml");
    let config = format!(
        "[cluster]\nid = \"c\"\n[bus]\nurl = \"{}\"\n[agent]\nreport_every = \"200ms\"\n\
         work_dir = \"{}\"\n",
        nats.url(),
        dir.path().join("work").display()
    );
    std::fs::write(&file, config).unwrap();
    let child = std::process::Command::new(env!("CARGO_BIN_EXE_lacuna-agent"))
        .args(["--node", "n1", "--node", "n2", "--listen", "127.0.0.1:0"])
        .arg("--config")
        .arg(&file)
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    let _agent = Killed(child);
    let heard = tokio::time::timeout(LIMIT, statuses.next()).await;
    heard.expect("the agent sent no status").unwrap();
    let before = run("n1", 100, "a");
    send(&bus, &before).await;
    until_runs(&mut statuses, &before, "a").await;

    nats.kill();
    nats.wipe();
    nats.restart();
    // One node that runs something, and one that has heard nothing yet.
    for (node, epoch) in [("n1", 200), ("n2", 201)] {
        let command = run(node, epoch, "b");
        let sequence = send(&bus, &command).await;
        assert!(sequence <= last, "the server counts again: {sequence}");
        until_runs(&mut statuses, &command, "b").await;
    }
}
