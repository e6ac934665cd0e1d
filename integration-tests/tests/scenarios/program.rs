//! A real program from submission to its end: nodes by events of an external scheduler, a
//! node lost on the way, an agent killed, every sample counted once, nothing left behind.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use lacuna_cli::Config;
use lacuna_model::{Launch, Phase, Program, RescaleCost, ScalingCurve, Span, TrainerId};
use lacuna_model::{TrainerRecord, TrainerSpec};
use lacuna_wire::address;
use lacuna_wire::msg::{Reply, Request};

use super::cluster::{Cluster, SERVICES};

/// Samples after which the program ends.
const GOAL: f64 = 1000.0;

/// Rank 0 trains: ten samples and a checkpoint each tenth of a second, cut to the goal. The
/// others wait for its end. SIGTERM ends either at once, but between a checkpoint and its report.
const SCRIPT: &str = r#"
echo "run $LACUNA_RUN: rank $LACUNA_RANK of $LACUNA_WORLD_SIZE, checkpoint ${LACUNA_CHECKPOINT:-none}, $LACUNA_SAMPLES_DONE done"
trap 'exit 0' TERM
sleep 0.7 # As any real program takes its time to start.
at="$LACUNA_CHECKPOINT_DIR/at"
if [ "$LACUNA_RANK" != 0 ]; then
    while [ ! -e "$LACUNA_CHECKPOINT_DIR/finished" ]; do sleep 0.1; done
    exit 0
fi
done=$(cat "$at" 2>/dev/null || echo 0)
echo "run $LACUNA_RUN goes on from $done"
run=0
while [ "$done" -lt "$GOAL" ]; do
    sleep 0.1
    run=$((run + 10)); done=$((done + 10))
    (
        trap '' TERM
        echo "$done" > "$at.new" && mv "$at.new" "$at"
        echo "{\"t\":$(date +%s),\"step\":$((done / 10)),\"samples\":$run,\"world_size\":$LACUNA_WORLD_SIZE,\"checkpoint\":\"at-$done\"}" >> "$LACUNA_PROGRESS_FILE"
    )
done
echo finished; touch "$LACUNA_CHECKPOINT_DIR/finished"
"#;

fn trainer(dir: &Path) -> TrainerSpec {
    let script = dir.join("train.sh");
    std::fs::write(&script, SCRIPT).unwrap();
    TrainerSpec {
        owner: Some("ada".to_owned()),
        max_nodes: 2,
        rescale: RescaleCost::of(0.5, 0.5),
        launch: Launch::Command(Program {
            program: "/bin/sh".to_owned(),
            args: vec![script.display().to_string()],
            env: BTreeMap::from([("GOAL".to_owned(), GOAL.to_string())]),
            checkpoint_dir: Some(dir.display().to_string()),
            ..Program::default()
        }),
        ..TrainerSpec::simulated(id(), ScalingCurve::new([(1, 100.0), (2, 190.0)]).unwrap())
    }
}

fn id() -> TrainerId {
    TrainerId::new("counter.1").unwrap()
}

fn config() -> Config {
    let mut config = Config::default();
    config.control.renew_every = Span::from_secs(1);
    config.control.reconcile_every = Span::from_ms(500);
    config.agent.report_every = Span::from_ms(200);
    config.agent.grace = Span::from_secs(2);
    config
}

/// An event of a scheduler's own program: JSON, with a unique id.
pub(crate) async fn publish(cluster: &Cluster, number: u32, kind: &str, node: &str) {
    let subject = address::incoming_from(&cluster.id, "scheduler");
    let text = format!(r#"{{"type": "{kind}", "node": "{node}"}}"#);
    let ce_id = format!("event-{number}");
    let headers = [
        ("content-type", "application/json"),
        ("ce-id", ce_id.as_str()),
        ("ce-source", "scheduler"),
    ];
    let stored = cluster
        .bus
        .store_raw(subject.as_str(), &headers, text.into_bytes())
        .await
        .unwrap();
    stored.wait().await.unwrap();
}

async fn record(cluster: &Cluster) -> TrainerRecord {
    let all = cluster.trainers().await;
    all.into_iter().find(|r| r.spec.id == id()).unwrap()
}

/// Polls a trainer's record until a condition holds.
async fn wait(
    cluster: &Cluster,
    what: &str,
    wanted: impl Fn(&TrainerRecord) -> bool,
) -> TrainerRecord {
    let mut seen = record(cluster).await;
    for _ in 0..300 {
        if wanted(&seen) {
            return seen;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
        seen = record(cluster).await;
    }
    let output = output(cluster).await;
    panic!("not {what}: {seen:?}\n{output}\n{}", cluster.logs());
}

/// The output of the trainer, as `lacuna logs` shows it.
async fn output(cluster: &Cluster) -> String {
    let ask = Request::Logs {
        trainer: id(),
        lines: 100,
        after: None,
        since: None,
        is_raw: false,
    };
    match cluster.ask(&ask).await {
        Reply::Logs { lines, .. } => lines.join("\n"),
        other => format!("no output: {other:?}"),
    }
}

fn nodes(record: &TrainerRecord) -> Vec<&str> {
    record.nodes.iter().map(|n| n.as_str()).collect()
}

/// Processes that have this folder for their checkpoints.
pub(crate) fn left_behind(dir: &Path) -> Vec<String> {
    let mark = format!("LACUNA_CHECKPOINT_DIR={}", dir.display());
    let mut found = Vec::new();
    for process in std::fs::read_dir("/proc").unwrap().flatten() {
        let environment = std::fs::read(process.path().join("environ")).unwrap_or_default();
        if environment.split(|b| *b == 0).any(|e| e == mark.as_bytes()) {
            found.push(process.file_name().to_string_lossy().into_owned());
        }
    }
    found
}

pub(crate) async fn nothing_is_left(dir: &Path) {
    for _ in 0..100 {
        if left_behind(dir).is_empty() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("processes left behind: {:?}", left_behind(dir));
}

/// A cluster with two idle nodes on which the program trains.
async fn training(dir: &Path) -> Cluster {
    let mut cluster = Cluster::new(config()).await;
    for service in SERVICES {
        cluster.start(service);
    }
    cluster.submit(vec![trainer(dir)]).await;
    publish(&cluster, 1, "node.idle", "n1.example").await;
    publish(&cluster, 2, "node.idle", "n2.example").await;
    wait(&cluster, "training on two nodes", |r| {
        r.nodes.len() == 2 && r.samples_run >= 50.0
    })
    .await;
    cluster
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_trains_in_holes_loses_a_node_and_ends_with_every_sample_counted_once() {
    let dir = tempfile::tempdir().unwrap();
    let cluster = training(dir.path()).await;
    let said = output(&cluster).await;
    assert!(said.contains("rank 0 of 2"), "{said}");
    assert!(!left_behind(dir.path()).is_empty());

    // The scheduler takes the node of rank 0. Published twice, it is one event.
    let before = record(&cluster).await;
    publish(&cluster, 3, "node.busy", "n1.example").await;
    publish(&cluster, 3, "node.busy", "n1.example").await;
    let after = wait(&cluster, "training on one node", |r| {
        r.nodes.len() == 1 && r.samples_run >= 50.0
    })
    .await;
    assert_eq!(nodes(&after), ["n2.example"]);
    assert_eq!(after.preemptions, 1);
    assert!(after.samples_before >= before.samples(), "{after:?}");
    let said = output(&cluster).await;
    let first = said
        .lines()
        .find(|l| l.contains("rank 0 of 1, checkpoint at-"))
        .unwrap_or_else(|| panic!("no rank 0 of 1 with a checkpoint:\n{said}"));
    assert!(!first.contains(", 0 done"), "{first}");

    let end = wait(&cluster, "done", |r| r.phase == Phase::Done).await;
    assert!(end.reason.contains("exit code 0"), "{}", end.reason);
    // The last report may arrive after the exit.
    let end = wait(&cluster, "counted", |r| r.samples() >= GOAL).await;
    assert_eq!(end.samples(), GOAL);
    assert_eq!((end.failures, end.nodes.len()), (0, 0));
    assert_eq!(end.checkpoint.as_deref(), Some("at-1000"));
    nothing_is_left(dir.path()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_agent_leaves_no_program_and_its_successor_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let mut cluster = training(dir.path()).await;
    let before = record(&cluster).await;
    let programs = left_behind(dir.path());
    cluster.kill("agent");
    cluster.start("agent");
    let after = wait(&cluster, "training again", |r| {
        r.run > before.run && r.nodes.len() == 2 && r.samples_run >= 50.0
    })
    .await;
    assert!(after.samples_before >= before.samples(), "{after:?}");
    let now = left_behind(dir.path());
    assert!(
        programs.iter().all(|old| !now.contains(old)),
        "programs {programs:?} of the killed agent live beside {now:?}"
    );
    let end = wait(&cluster, "done", |r| r.phase == Phase::Done).await;
    assert_eq!(end.failures, 0, "{end:?}");
    tokio::time::sleep(Duration::from_secs(1)).await;
    let end = record(&cluster).await;
    // Work since the last report is not counted, and no work is counted twice.
    let lost = GOAL - end.samples();
    assert!(
        (0.0..=100.0).contains(&lost),
        "{lost} samples uncounted\n{end:?}"
    );
    nothing_is_left(dir.path()).await;
}
