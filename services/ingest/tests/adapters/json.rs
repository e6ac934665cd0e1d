//! A Slurm that answers in JSON, as slurmrestd.

use lacuna_scheduler::settings::Answers;
use lacuna_testkit::TestNats;

use super::common::{Consumer, Fake, Service};

#[tokio::test]
async fn json_and_text_give_the_same_events() {
    let nats = TestNats::start();
    let (fake, mut consumer) = (Fake::new(), Consumer::new(&nats).await);
    fake.slurm();
    fake.write(
        "sinfo.txt",
        r#"{"errors": [], "nodes": [
            {"name": "n1", "state": ["IDLE"], "partitions": ["filler"]},
            {"name": "n2", "state": "idle", "state_flags": ["PLANNED"], "partitions": ["filler"]},
            {"name": "n3", "state": ["ALLOCATED"], "partitions": ["filler"]}]}"#,
    );
    fake.write(
        "squeue.txt",
        r#"{"errors": [], "jobs": [
            {"job_id": 4, "job_state": ["RUNNING"], "partition": "filler", "nodes": "n3",
             "name": "lacuna-pilot"}]}"#,
    );
    let mut config = fake.config();
    if let Some(slurm) = &mut config.ingest.slurm {
        slurm.answers = Answers::Json;
    }
    let service = Service::start(&nats, config).await;
    assert_eq!(consumer.receive(2).await, ["+n1", "+n3"]);
    // The commands are complete and get no further arguments.
    let asked = std::fs::read_to_string(fake.path("asked")).unwrap();
    assert!(asked.lines().all(str::is_empty), "{asked}");
    // The answer of slurmrestd without slurmctld: an object with errors and no nodes.
    fake.write(
        "sinfo.txt",
        r#"{"errors": [{"description": "slurmctld config is unable to load"}], "nodes": []}"#,
    );
    service
        .until("the error", |s| {
            s.check("slurm").1.contains("unable to load")
        })
        .await;
    assert_eq!(service.metric("lacuna_ingest_idle_nodes"), 2.0);
    service.end().await;
}
