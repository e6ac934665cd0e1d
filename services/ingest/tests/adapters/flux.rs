//! A Flux that is polled, with a journal that shows changes between polls.

use std::io::Write as _;

use lacuna_ingest_service::Config;
use lacuna_model::Span;
use lacuna_scheduler::settings::{Flux, Following, Marks, Polling};
use lacuna_testkit::TestNats;

use super::common::{Consumer, Fake, Service, fast};

/// Answer of `flux resource list`: `state queue properties nodes` a line.
fn nodes(fake: &Fake, lines: &[&str]) {
    let line = |line: &&str| format!("{}\u{1e}\n", line.replace(' ', "\u{1f}"));
    fake.write("nodes.txt", &lines.iter().map(line).collect::<String>());
}

/// Answer of `flux jobs`: `id state user name nodes` of each job.
fn jobs(fake: &Fake, jobs: &[[&str; 5]]) {
    let job = |[id, state, user, name, nodes]: &[&str; 5]| {
        format!(
            r#"{{"id": {id}, "state": "{state}", "username": "{user}", "name": "{name}",
                "queue": "batch", "nodelist": "{nodes}", "exception": {{"occurred": false}}}}"#
        )
    };
    let jobs: Vec<String> = jobs.iter().map(job).collect();
    fake.write("jobs.txt", &format!(r#"{{"jobs": [{}]}}"#, jobs.join(",")));
}

fn config(fake: &Fake, polling: Polling) -> Config {
    let body = "case $1 in resource) cat nodes.txt ;; jobs) cat jobs.txt ;; *) exit 2 ;; esac";
    fake.script("flux", &format!("echo \"$@\" >> asked; {body}"));
    let mut config = fake.config();
    config.ingest.slurm = None;
    config.ingest.flux = Some(Flux {
        flux: vec![fake.path("flux").display().to_string()],
        pilots: Marks {
            partition: Some("batch".to_owned()),
            user: Some("lacuna".to_owned()),
            ..Marks::default()
        },
        polling,
        ..Flux::default()
    });
    config
}

#[tokio::test]
async fn the_pool_follows_flux() {
    let nats = TestNats::start();
    let (fake, mut consumer) = (Fake::new(), Consumer::new(&nats).await);
    nodes(
        &fake,
        &[
            "free batch batch n[1-2]",
            "allocated batch batch n[3-4]",
            "down batch batch n5",
        ],
    );
    let pilot = ["2", "RUN", "lacuna", "lacuna-pilot/n4/lacuna:c", "n4"];
    jobs(&fake, &[["1", "RUN", "alice", "sim", "n3"], pilot]);
    let config = config(&fake, fast());
    let service = Service::start(&nats, config).await;
    assert_eq!(consumer.receive(3).await, ["+n1", "+n2", "+n4"]);
    service.cycles(&fake, 2).await;
    assert!(consumer.quiet(), "the same answer causes no event");
    assert_eq!(service.check("flux"), (true, String::new()));

    // A job starts on a node that was free; another node is drained; the job of a third is over.
    nodes(
        &fake,
        &[
            "free batch batch n3",
            "allocated batch batch n[1,4]",
            "down batch batch n[2,5]",
        ],
    );
    jobs(&fake, &[["3", "RUN", "bob", "sim", "n1"], pilot]);
    let drained = "!n2 down, drained or torpid: flux resource status";
    let mut received = consumer.receive(3).await;
    received.sort();
    assert_eq!(received, [drained, "+n3", "-n1"]);

    // An answer that is no answer changes nothing, and health says so.
    fake.write(
        "nodes.txt",
        "flux-resource: ERROR: Unable to connect to Flux\n",
    );
    service
        .until("health says the failure", |s| {
            s.check("flux").1.contains("flux resource")
        })
        .await;
    assert!(consumer.quiet());
    assert_eq!(service.metric("lacuna_ingest_scheduler_stale"), 1.0);
    service.end().await;
}

#[tokio::test]
async fn the_journal_tells_between_two_polls() {
    let nats = TestNats::start();
    let (fake, mut consumer) = (Fake::new(), Consumer::new(&nats).await);
    nodes(&fake, &["free batch batch n[1-2]"]);
    jobs(&fake, &[]);
    fake.write("journal", "");
    let polling = Polling {
        every: Span::from_secs(250),
        ..Polling::default()
    };
    let mut config = config(&fake, polling);
    if let Some(flux) = &mut config.ingest.flux {
        flux.journal = Some(fake.path("journal"));
        flux.following = Following {
            every: Span::from_ms(50),
            state_file: Some(fake.path("state.json")),
        };
    }
    let service = Service::start(&nats, config).await;
    assert_eq!(consumer.receive(2).await, ["+n1", "+n2"]);
    let tell = |id: u64, user: &str, name: &str, more: &str| {
        let journal = fake.path("journal");
        let journal = std::fs::File::options().append(true).open(journal);
        let mut journal = journal.unwrap();
        let now = lacuna_runtime::clock::wall().unix_seconds();
        let event = format!(r#""event": {{"timestamp": {now:.3}, "name": "{name}"}}"#);
        writeln!(
            journal,
            r#"{{"id": {id}, "user": "{user}", {event}{more}}}"#
        )
        .unwrap();
    };
    let held = |nodes: &str| format!(r#", "R": {{"execution": {{"nodelist": ["{nodes}"]}}}}"#);
    tell(7, "bob", "alloc", &held("n[1-2]"));
    assert_eq!(consumer.receive(2).await, ["-n1", "-n2"]);
    // Nodes of a job that has ended are cleaned first: only a pilot of ours shows that one is idle.
    tell(7, "bob", "free", "");
    let job = r#"{"queue": "batch", "job": {"name": "lacuna-pilot/n2/lacuna:c"}}"#;
    let spec = format!(r#", "jobspec": {{"attributes": {{"system": {job}}}}}"#);
    tell(8, "lacuna", "submit", &spec);
    tell(8, "lacuna", "alloc", &held("n2"));
    assert_eq!(consumer.receive(1).await, ["+n2"]);
    tell(9, "bob", "alloc", &held("n[1-2]"));
    assert_eq!(consumer.receive(1).await, ["-n2"]);
    service
        .until("the position is kept", |_| fake.path("state.json").exists())
        .await;
    service.end().await;
}
