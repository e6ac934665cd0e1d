//! Answers of real releases, which other tools have stumbled over: the public cases.

use lacuna_scheduler::settings::{Answers, Pbs};
use lacuna_testkit::{TestNats, data, or_skip};

use super::common::{Consumer, Fake, Service, fast};

/// A service whose commands print files.
async fn slurm(nats: &TestNats, fake: &Fake, answers: Answers) -> Service {
    let mut config = fake.config();
    if let Some(slurm) = &mut config.ingest.slurm {
        slurm.answers = answers;
        slurm.pilots.partition = None;
    }
    Service::start(nats, config).await
}

#[tokio::test]
async fn a_comment_that_is_no_json_costs_no_node_of_pbs() {
    let input = or_skip!(data("cases/pbs-json-quotes/input.json"));
    let nats = TestNats::start();
    let (fake, mut consumer) = (Fake::new(), Consumer::new(&nats).await);
    let mut config = fake.config();
    config.ingest.slurm = None;
    config.ingest.pbs = Some(Pbs {
        pbsnodes: vec!["cat".to_owned(), input.display().to_string()],
        polling: fast(),
        ..Pbs::default()
    });
    let service = Service::start(&nats, config).await;
    assert_eq!(consumer.receive(1).await, ["+n1"]);
    service
        .until("the comment is said", |s| {
            let (ok, note) = s.check("pbs");
            ok && note.contains("damaged")
        })
        .await;
    assert_eq!(service.metric("lacuna_ingest_idle_nodes"), 1.0);
    service.end().await;
}

#[tokio::test]
async fn sinfo_of_a_later_slurm_has_holes_and_a_damaged_node_costs_no_other() {
    let dir = or_skip!(data("cases/slurm-sinfo-json"));
    let nats = TestNats::start();
    let (fake, mut consumer) = (Fake::new(), Consumer::new(&nats).await);
    let read = |name: &str| std::fs::read_to_string(dir.join(name)).unwrap();
    fake.slurm();
    let whole = read("input-sinfo.json");
    fake.write("sinfo.txt", &whole);
    fake.write("squeue.txt", &read("input-squeue.json"));
    let service = slurm(&nats, &fake, Answers::Json).await;
    assert_eq!(consumer.receive(2).await, ["+n1", "+n2"]);
    // An entry and a job that cannot be read. The state of n2 is not known then; n1 stays.
    let damaged = whole.replacen("[\"n1\", \"n2\"]", "[\"n1\"]", 1).replacen(
        "{\"sinfo\": [",
        "{\"sinfo\": [{\"nodes\": {\"nodes\": [\"n 2\"]}},",
        1,
    );
    fake.write("sinfo.txt", &damaged);
    fake.write(
        "squeue.txt",
        "{\"jobs\": [{\"job_id\": \"x\"}], \"errors\": []}",
    );
    service
        .until("the damage is said", |s| {
            let (ok, note) = s.check("slurm");
            ok && note.contains("record 1")
        })
        .await;
    service
        .until("a missing node is no hole", |s| {
            s.metric("lacuna_ingest_idle_nodes") == 1.0
        })
        .await;
    service.end().await;
}

#[tokio::test]
async fn a_partition_without_nodes_says_nothing_of_any_node() {
    let nats = TestNats::start();
    let (fake, mut consumer) = (Fake::new(), Consumer::new(&nats).await);
    fake.slurm();
    let row = |node: &str, state: &str, partition: &str| {
        format!("{node}\u{1f}{state}\u{1f}{partition}\u{1f}up\u{1f}none\u{1e}\n")
    };
    let rows = [
        row("", "n/a", "future"),
        row("n3", "idle", "batch"),
        row("n4", "idle", "batch"),
    ];
    fake.write("sinfo.txt", &rows.concat());
    let service = slurm(&nats, &fake, Answers::Text).await;
    assert_eq!(consumer.receive(2).await, ["+n3", "+n4"]);
    assert!(service.check("slurm").0);
    service.end().await;
}
