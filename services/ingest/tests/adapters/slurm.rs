//! A Slurm without faults.

use lacuna_model::{EventKind, Timestamp};
use lacuna_runtime::clock::wall;
use lacuna_testkit::TestNats;
use lacuna_wire::address;

use super::common::{Consumer, Fake, Service, cluster};

#[tokio::test]
async fn the_pool_follows_the_answers() {
    let nats = TestNats::start();
    let (fake, mut consumer) = (Fake::new(), Consumer::new(&nats).await);
    fake.slurm();
    fake.nodes(
        "n1 idle
         n2 allocated
         n3 idle+drain filler up bad fan
         n4 idle+planned
         n5 mixed
         n6 idle+completing",
    );
    fake.jobs(
        "1 RUNNING batch n2 - - - sim
         2 RUNNING filler n5 - - - lacuna-pilot-n5
         3 PENDING batch - 2000000000 - n[4,1] big",
    );
    let service = Service::start(&nats, fake.config()).await;
    // Of unknown nodes, only holes become events.
    let received = consumer.receive(3).await;
    assert_eq!(received, ["+n1", "+n5", "plan 3 [n4,n1] 2000000000"]);
    service.cycles(&fake, 2).await;
    assert!(consumer.quiet(), "the same answer causes no event");
    assert_eq!(
        service.metric("lacuna_ingest_scheduler_nodes{standing=\"hole\"}"),
        2.0
    );
    assert_eq!(
        service.metric("lacuna_ingest_scheduler_nodes{standing=\"taken\"}"),
        3.0
    );
    assert_eq!(
        service.metric("lacuna_ingest_scheduler_nodes{standing=\"unusable\"}"),
        1.0
    );
    assert_eq!(service.metric("lacuna_ingest_scheduler_promises"), 1.0);
    assert_eq!(service.check("slurm"), (true, String::new()));

    // The planned job starts on one node and on the node of our pilot, which is preempted.
    fake.jobs(
        "2 RUNNING filler n5 - 1700000000 - lacuna-pilot-n5
         3 RUNNING batch n[1,4] - - - big",
    );
    let before = wall();
    let received = [
        consumer.event().await,
        consumer.event().await,
        consumer.event().await,
    ];
    assert!(
        matches!(&received[0].kind, EventKind::NodeBusy { node } if node.as_str() == "n1"),
        "{received:?}"
    );
    // A choice in the past means that the node is wanted now.
    let EventKind::NodeWanted { node, deadline } = &received[1].kind else {
        panic!("{received:?}")
    };
    assert_eq!(node.as_str(), "n5");
    assert!(
        *deadline == received[1].at && deadline.since(before).as_ms() > -2000,
        "{received:?}"
    );
    let EventKind::JobPlanned { job, nodes, .. } = &received[2].kind else {
        panic!("{received:?}")
    };
    assert!(job == "3" && nodes.is_empty(), "{received:?}");

    // The pilot is gone, its node is taken and then free; the broken node is repaired.
    fake.nodes(
        "n1 down filler up power supply
         n2 idle
         n3 idle
         n4 idle
         n5 idle
         n6 idle",
    );
    fake.jobs("2 COMPLETING filler n5 - - - lacuna-pilot-n5");
    let received = consumer.receive(5).await;
    let expected = ["!n1 down: power supply", "+n2", "+n3", "+n4", "+n6"];
    assert_eq!(
        received, expected,
        "a node is no hole before its pilot's end is over"
    );
    fake.jobs("");
    assert_eq!(consumer.receive(1).await, ["+n5"]);
    // The requests are those of the reference: no JSON, one partition.
    let asked = std::fs::read_to_string(fake.path("asked")).unwrap();
    assert!(asked.contains("-h -N -p filler -O NodeList:"), "{asked}");
    assert!(
        asked.contains("SchedNodes:") && !asked.contains("json"),
        "{asked}"
    );
    service.end().await;
}

#[tokio::test]
async fn a_missing_node_is_gone_only_after_three_answers() {
    let nats = TestNats::start();
    let (fake, mut consumer) = (Fake::new(), Consumer::new(&nats).await);
    fake.slurm();
    fake.nodes("n1 idle\nn2 idle");
    let service = Service::start(&nats, fake.config()).await;
    assert_eq!(consumer.receive(2).await, ["+n1", "+n2"]);
    // For one answer.
    fake.script(
        "sinfo",
        "echo \"$@\" >> asked; if [ -e once ]; then cat sinfo.txt; else touch once; cat one.txt; fi",
    );
    fake.write(
        "one.txt",
        "n1\u{1f}idle\u{1f}filler\u{1f}up\u{1f}none\u{1e}\n",
    );
    service.cycles(&fake, 4).await;
    assert!(fake.path("once").exists() && consumer.quiet());
    // Forever.
    fake.nodes("n1 idle");
    assert_eq!(
        consumer.receive(1).await,
        ["!n2 missing in 3 answers of the scheduler in a row"]
    );
    service.end().await;
}

#[tokio::test]
async fn a_restart_of_slurmctld_ends_no_hole() {
    let nats = TestNats::start();
    let (fake, mut consumer) = (Fake::new(), Consumer::new(&nats).await);
    fake.slurm();
    fake.nodes("n1 idle\nn2 allocated");
    fake.jobs("1 RUNNING filler n2 - - - lacuna-pilot-n2");
    let service = Service::start(&nats, fake.config()).await;
    assert_eq!(consumer.receive(2).await, ["+n1", "+n2"]);
    // First slurmctld does not answer, then all nodes are unknown.
    fake.script(
        "sinfo",
        "echo \"$@\" >> asked; echo 'Unable to contact' >&2; exit 1",
    );
    service
        .until("no answer", |s| s.check("slurm").1.contains("contact"))
        .await;
    fake.nodes("n1 unknown\nn2 unknown");
    fake.script("sinfo", "echo \"$@\" >> asked; cat sinfo.txt");
    let silent = "lacuna_ingest_scheduler_silent_nodes";
    service.until("silence", |s| s.metric(silent) == 2.0).await;
    service.cycles(&fake, 4).await;
    assert!(consumer.quiet(), "a hole has ended without reason");
    fake.nodes("n1 idle\nn2 allocated");
    service
        .until("all known", |s| s.metric(silent) == 0.0)
        .await;
    assert!(consumer.quiet());
    service.end().await;
}

#[tokio::test]
async fn a_restart_repeats_no_event_and_detects_missing_nodes() {
    let nats = TestNats::start();
    let (fake, mut consumer) = (Fake::new(), Consumer::new(&nats).await);
    fake.slurm();
    fake.nodes("n1 idle\nn2 idle\nn3 idle");
    let service = Service::start(&nats, fake.config()).await;
    assert_eq!(consumer.receive(3).await, ["+n1", "+n2", "+n3"]);
    service.end().await;
    fake.nodes("n1 idle\nn3 allocated");
    let service = Service::start(&nats, fake.config()).await;
    let received = consumer.receive(2).await;
    assert_eq!(
        received,
        ["-n3", "!n2 missing in 3 answers of the scheduler in a row"]
    );
    service.cycles(&fake, 2).await;
    assert!(consumer.quiet());
    service.end().await;
}

#[tokio::test]
async fn a_faster_hook_holds_until_an_answer_is_newer() {
    let nats = TestNats::start();
    let (fake, mut consumer) = (Fake::new(), Consumer::new(&nats).await);
    fake.slurm();
    // A slow answer is of the moment of its request.
    fake.script("sinfo", "echo \"$@\" >> asked; cat sinfo.txt; sleep 0.5");
    fake.nodes("n1 idle");
    let service = Service::start(&nats, fake.config()).await;
    assert_eq!(consumer.receive(1).await, ["+n1"]);
    // The prolog of a batch job sends its event while an answer is under way.
    let asked = fake.asked();
    service.until("a cycle", |_| fake.asked() > asked).await;
    let subject = address::incoming_from(&cluster(), "prolog");
    let at = wall().unix_ms() as f64 / 1000.0;
    let body = format!(r#"{{"type":"node.busy","node":"n1","time":{at}}}"#);
    let sent = consumer
        .bus
        .store_raw(subject.as_str(), &[], body.into())
        .await;
    sent.unwrap().wait().await.unwrap();
    let busy = consumer.event().await;
    assert!(matches!(busy.kind, EventKind::NodeBusy { .. }), "{busy:?}");
    // The next answer, requested later, holds again.
    let idle = consumer.event().await;
    assert!(matches!(idle.kind, EventKind::NodeIdle { .. }), "{idle:?}");
    assert!(idle.at > busy.at && idle.at > Timestamp::default());
    service.end().await;
}
