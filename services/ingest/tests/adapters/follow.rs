//! Adapters of PBS and LSF, which follow files.

use std::io::Write;
use std::path::Path;

use lacuna_ingest_service::Config;
use lacuna_model::{EventKind, Span};
use lacuna_runtime::Misconfigured;
use lacuna_runtime::clock::wall;
use lacuna_scheduler::settings::{Following, Lsf, Marks, Pbs};
use lacuna_testkit::TestNats;

use super::common::{Consumer, Fake, Service, fast};

fn append(path: &Path, text: &str) {
    let mut file = std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

fn following(fake: &Fake) -> Following {
    Following {
        every: Span::from_ms(50),
        state_file: Some(fake.path("state.json")),
    }
}

fn marks() -> Marks {
    Marks {
        partition: Some("filler".to_owned()),
        ..Marks::default()
    }
}

/// A PBS whose `pbsnodes` is polled every `every`.
fn pbs(fake: &Fake, every: Span) -> Config {
    let mut polling = fast();
    polling.every = every;
    polling.longest_wait = Span::from_secs(600);
    polling.jitter = 0.0;
    let mut config = Config::default();
    config.ingest.pbs = Some(Pbs {
        pbsnodes: vec![fake.path("pbsnodes").display().to_string()],
        accounting: Some(fake.path("accounting")),
        time_zone: Some("UTC".to_owned()),
        pilots: marks(),
        polling,
        following: following(fake),
        ..Pbs::default()
    });
    config
}

/// A record of now.
fn record(letter: &str, id: &str, message: &str) -> String {
    let now = jiff::Timestamp::from_millisecond(wall().unix_ms()).unwrap();
    let now = now.to_zoned(jiff::tz::TimeZone::UTC);
    format!(
        "{};{letter};{id};{message}\n",
        now.strftime("%m/%d/%Y %H:%M:%S")
    )
}

const SIM: &str = "user=ann queue=workq jobname=sim";
const PILOT: &str = "user=lac queue=filler jobname=lacuna-pilot";

fn nodes(states: &[(&str, &str, &str)]) -> String {
    let one = |(name, state, jobs): &(&str, &str, &str)| {
        let jobs: Vec<String> = jobs
            .split_whitespace()
            .map(|j| format!("\"{j}/0\""))
            .collect();
        format!(
            "\"{name}\":{{\"state\":\"{state}\",\"jobs\":[{}]}}",
            jobs.join(",")
        )
    };
    let list: Vec<String> = states.iter().map(one).collect();
    format!("{{\"pbs_server\":\"s\",\"nodes\":{{{}}}}}", list.join(","))
}

#[tokio::test]
async fn records_of_pbs_count_at_once_and_a_restart_resumes_at_the_position() {
    let nats = TestNats::start();
    let (fake, mut consumer) = (Fake::new(), Consumer::new(&nats).await);
    std::fs::create_dir(fake.path("accounting")).unwrap();
    let monday = fake.path("accounting/20261116");
    append(
        &monday,
        &record("S", "1.s", &format!("{SIM} exec_host=n1/0")),
    );
    fake.script("pbsnodes", "echo asked >> asked; cat nodes.json");
    let all = [
        ("n1", "job-busy", "1.s"),
        ("n2", "free", ""),
        ("n3", "free", ""),
        ("n4", "offline", ""),
    ];
    fake.write("nodes.json", &nodes(&all));
    let config = pbs(&fake, Span::from_secs(500));
    let service = Service::start(&nats, config.clone()).await;
    assert_eq!(consumer.receive(2).await, ["+n2", "+n3"]);
    // Starts and ends, of a batch job and of pilots, by records alone.
    append(
        &monday,
        &record("S", "2.s", &format!("{SIM} exec_host=n2/0*4")),
    );
    assert_eq!(consumer.receive(1).await, ["-n2"]);
    append(
        &monday,
        &record("S", "3.s", &format!("{PILOT} exec_host=n3/0")),
    );
    let end = record("E", "2.s", &format!("{SIM} exec_host=n2/0*4 end=1"));
    // Torn: the line's end comes later.
    let (part, rest) = end.split_at(30);
    append(&monday, part);
    tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    assert!(
        consumer.quiet(),
        "a torn line has no meaning, and a pilot ends no hole"
    );
    append(&monday, rest);
    assert_eq!(consumer.receive(1).await, ["+n2"]);
    // Damage is counted and skipped; an offline node becomes no hole.
    append(&monday, "12/99/2026 damaged\n");
    append(
        &monday,
        &record("S", "4.s", &format!("{SIM} exec_host=n4/0")),
    );
    append(
        &monday,
        &record("E", "4.s", &format!("{SIM} exec_host=n4/0")),
    );
    append(
        &monday,
        &record("E", "1.s", &format!("{SIM} exec_host=n1/0")),
    );
    assert_eq!(consumer.receive(1).await, ["+n1"]);
    assert_eq!(
        service.metric("lacuna_ingest_follow_damaged_lines_total"),
        1.0
    );
    assert_eq!(service.metric("lacuna_ingest_follow_lines_total"), 8.0);
    assert_eq!(fake.asked(), 1);
    // A new day.
    let tuesday = fake.path("accounting/20261117");
    append(
        &tuesday,
        &record("S", "5.s", &format!("{SIM} exec_host=n1/0")),
    );
    assert_eq!(consumer.receive(1).await, ["-n1"]);
    service.end().await;

    // While ingest is down, a batch job joins the pilot, another job ends, and a day passes.
    append(
        &tuesday,
        &record("S", "6.s", &format!("{SIM} exec_host=n3/1")),
    );
    append(
        &fake.path("accounting/20261118"),
        &record("E", "5.s", &format!("{SIM} end=1")),
    );
    let all = [
        ("n1", "free", ""),
        ("n2", "free", ""),
        ("n3", "job-busy", "3.s 6.s"),
        ("n4", "offline", ""),
    ];
    fake.write("nodes.json", &nodes(&all));
    let service = Service::start(&nats, config).await;
    let mut received = consumer.receive(2).await;
    received.sort();
    assert_eq!(received, ["+n1", "-n3"]);
    service
        .until("all lines", |s| {
            s.metric("lacuna_ingest_follow_lines_total") == 2.0
        })
        .await;
    // The remaining job is a pilot, which only the saved state shows.
    append(
        &fake.path("accounting/20261118"),
        &record("E", "6.s", &format!("{SIM} end=1")),
    );
    assert_eq!(consumer.receive(1).await, ["+n3"]);
    assert!(consumer.quiet());
    assert_eq!(
        service.metric("lacuna_ingest_follow_files{what=\"lost\"}"),
        0.0
    );
    service.end().await;
}

#[tokio::test]
async fn pbsnodes_repairs_gaps_of_records_and_its_faults_change_nothing() {
    let nats = TestNats::start();
    let (fake, mut consumer) = (Fake::new(), Consumer::new(&nats).await);
    fake.script("pbsnodes", "cat nodes.json");
    fake.write(
        "nodes.json",
        &nodes(&[("n1", "free", ""), ("n2", "free", "")]),
    );
    // A missing accounting folder is reported, but not fatal.
    let service = Service::start(&nats, pbs(&fake, Span::from_ms(100))).await;
    assert_eq!(consumer.receive(2).await, ["+n1", "+n2"]);
    service
        .until("no records", |s| {
            s.metric("lacuna_ingest_follow_stale") == 1.0
        })
        .await;
    fake.write(
        "nodes.json",
        &nodes(&[("n1", "job-busy", "9.s"), ("n2", "down", "")]),
    );
    assert_eq!(consumer.receive(2).await, ["-n1", "!n2 down"]);
    fake.write("nodes.json", "pbsnodes: Server has no node list");
    let failures = "lacuna_ingest_scheduler_failures_total{command=\"pbsnodes\",reason=\"answer\"}";
    service
        .until("a failure", |s| s.metric(failures) >= 2.0)
        .await;
    let (ok, note) = service.check("pbs");
    assert!(ok && note.contains("no answer from pbs"), "{note}");
    assert!(consumer.quiet());
    fake.write("nodes.json", &nodes(&[("n2", "free", "")]));
    let received = consumer.receive(2).await;
    assert_eq!(
        received,
        ["+n2", "!n1 missing in 3 answers of the scheduler in a row"]
    );
    service.end().await;
}

fn lsf(fake: &Fake) -> Config {
    fake.write("nodes", "n1\nn2\nn3\n");
    let mut config = Config::default();
    config.ingest.nodes_file = Some(fake.path("nodes"));
    config.ingest.lsf = Some(Lsf {
        events: fake.path("lsb.events"),
        pilots: marks(),
        following: following(fake),
    });
    config
}

fn now() -> i64 {
    wall().unix_ms() / 1000
}

fn job_new(id: u32, queue: &str, name: &str) -> String {
    let limits = ["-1"; 11].join(" ");
    format!(
        "\"JOB_NEW\" \"10.1\" {} {id} 1501 33554434 1 1600000000 0 0 9 0 -1 \"ann\" {limits} \
         \"\" 1.0 18 \"{queue}\" \"\" \"login\" \"/home\" \"\" \"\" \"\" \"\" \"\" \"{id}.job\" 0 \"\" \
         \"\" \"{name}\" \"run\"\n",
        now()
    )
}

fn job_start(id: u32, host: &str) -> String {
    let now = now();
    format!("\"JOB_START\" \"10.1\" {now} {id} 4 0 0 1.0 1 \"{host}\" \"\" \"\" 0 \"\" 0 \"\" 0\n")
}

fn job_end(id: u32) -> String {
    let now = now();
    format!("\"JOB_STATUS\" \"10.1\" {now} {id} 64 0 0 1.0 {now} 0 0 0 0\n")
}

#[tokio::test]
async fn events_of_lsf_are_followed_through_rotation_and_restart() {
    let nats = TestNats::start();
    let (fake, mut consumer) = (Fake::new(), Consumer::new(&nats).await);
    let events = fake.path("lsb.events");
    let config = lsf(&fake);
    // Without the file, no node has an event.
    let service = Service::start(&nats, config.clone()).await;
    service
        .until("the reason", |s| s.check("lsf").1.contains("lsb.events"))
        .await;
    assert!(consumer.quiet());
    append(
        &events,
        &(job_new(1, "normal", "sim") + &job_start(1, "n1")),
    );
    assert_eq!(consumer.receive(2).await, ["+n2", "+n3"]);
    append(
        &events,
        &(job_new(2, "filler", "lacuna-pilot") + &job_start(2, "n2")),
    );
    append(&events, &job_new(3, "normal", "sim"));
    append(&events, &job_start(3, "n3"));
    assert_eq!(consumer.receive(1).await, ["-n3"]);
    // Rotated; the older file has unread lines.
    append(&events, &job_end(3));
    std::fs::rename(&events, fake.path("lsb.events.1")).unwrap();
    append(&events, "#1\n");
    append(&events, &job_new(1, "normal", "sim"));
    append(&events, &job_start(1, "n1"));
    append(&events, &job_start(4, "n2"));
    let mut received = consumer.receive(2).await;
    received.sort();
    assert_eq!(received, ["+n3", "-n2"]);
    service
        .until("kept", |_| {
            let kept = std::fs::read_to_string(fake.path("state.json")).unwrap_or_default();
            kept.contains("\"lsb.events\"") && kept.contains("\"4\"")
        })
        .await;
    service.end().await;
    // Jobs end and the file rotates twice while ingest is down.
    append(&events, &job_end(4));
    std::fs::rename(fake.path("lsb.events.1"), fake.path("lsb.events.2")).unwrap();
    std::fs::rename(&events, fake.path("lsb.events.1")).unwrap();
    append(&events, &job_end(1));
    append(
        &events,
        "\"HOST_CTRL\" \"10.1\" 1700000000 2 \"n3\" 0 \"root\" \"disk\"\n",
    );
    let service = Service::start(&nats, config.clone()).await;
    let mut received = consumer.receive(3).await;
    received.sort();
    assert_eq!(received, ["!n3 closed by root", "+n1", "+n2"]);
    assert_eq!(service.metric("lacuna_ingest_follow_lines_total"), 3.0);
    assert_eq!(
        service.metric("lacuna_ingest_follow_files{what=\"lost\"}"),
        0.0
    );
    // The pilot ends on a node that stays a hole; an unknown job starts.
    append(&events, &job_end(2));
    append(&events, &job_start(9, "n1"));
    assert_eq!(consumer.receive(1).await, ["-n1"]);
    service.end().await;
    // A damaged state file is put aside, and reading starts from the beginning.
    fake.write("state.json", "{\"version\":1,");
    let service = Service::start(&nats, config).await;
    service
        .until("put aside", |_| fake.path("state.refused").exists())
        .await;
    service
        .until("read again", |s| {
            s.metric("lacuna_ingest_follow_lines_total") == 4.0
        })
        .await;
    service.end().await;
}

#[tokio::test]
async fn a_position_that_cannot_be_read_or_saved_is_named() {
    let nats = TestNats::start();
    let fake = Fake::new();
    let mut config = lsf(&fake);
    append(&fake.path("lsb.events"), &job_start(1, "n1"));
    // A folder instead of the state file: the service does not start.
    std::fs::create_dir(fake.path("state.json")).unwrap();
    let service = Service::start(&nats, config.clone()).await;
    let error = service.running.await.unwrap().unwrap_err();
    assert!(error.is::<Misconfigured>(), "{error}");
    assert!(error.to_string().contains("state.json"), "{error}");
    // A missing folder: the service goes on, and reports that a restart reads the lines again.
    if let Some(lsf) = &mut config.ingest.lsf {
        lsf.following.state_file = Some(fake.path("absent/state.json"));
    }
    let service = Service::start(&nats, config).await;
    service
        .until("unsaved", |s| {
            s.metric("lacuna_ingest_follow_unsaved_total") >= 1.0
        })
        .await;
    assert_eq!(service.metric("lacuna_ingest_idle_nodes"), 2.0);
    service.end().await;
}

#[tokio::test]
async fn a_hole_that_lsf_opens_is_dated_by_our_clock() {
    let nats = TestNats::start();
    let (fake, mut consumer) = (Fake::new(), Consumer::new(&nats).await);
    let config = lsf(&fake);
    let events = fake.path("lsb.events");
    append(&events, &job_start(1, "n1"));
    let service = Service::start(&nats, config).await;
    consumer.receive(2).await;
    // The clock of LSF is some seconds behind ours, but its event is still the newest.
    let behind = now() - 5;
    append(
        &events,
        &format!("\"JOB_STATUS\" \"10.1\" {behind} 1 64 0 0 1.0 {behind} 0 0 0 0\n"),
    );
    let event = consumer.event().await;
    assert!(matches!(&event.kind, EventKind::NodeIdle { node } if node.as_str() == "n1"));
    assert!(wall().since(event.at) < Span::from_secs(4), "{event:?}");
    append(
        &events,
        &format!(
            "\"JOB_START\" \"10.1\" {behind} 2 4 0 0 1.0 1 \"n2\" \"\" \"\" 0 \"\" 0 \"\" 0\n"
        ),
    );
    assert_eq!(consumer.receive(1).await, ["-n2"]);
    service.end().await;
}
