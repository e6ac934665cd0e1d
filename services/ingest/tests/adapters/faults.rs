//! A Slurm with faults: the pool does not change, and the cause is visible.

use std::time::Duration;

use lacuna_model::Span;
use lacuna_testkit::TestNats;

use super::common::{Consumer, Fake, Service, runs};

/// A fault of `sinfo` or `squeue`, its label, and a part of its message.
const FAULTS: [(&str, &str, &str, &str); 9] = [
    ("squeue", "exit 1", "exit", "exit status: 1"),
    (
        "squeue",
        "echo 'slurm_load_jobs error: Unable to contact slurm controller' >&2; exit 1",
        "exit",
        "Unable to contact",
    ),
    (
        "sinfo",
        "echo 'sinfo: error: Access denied to requested operation: Permission denied' >&2; exit 1",
        "denied",
        "not permitted",
    ),
    ("sinfo", "exit 0", "answer", "empty"),
    (
        "sinfo",
        "echo Segmentation fault",
        "answer",
        "ends within record 1",
    ),
    (
        "squeue",
        "head -c 100000 /dev/urandom",
        "answer",
        "squeue: ",
    ),
    // An old Slurm reports an unknown field and prints the others.
    (
        "sinfo",
        "echo 'sinfo: error: Invalid job format specification: StateComplete' >&2; \
         printf 'n1\\037filler\\036\\n'",
        "answer",
        "StateComplete",
    ),
    // The answer is cut off in the middle of its second record.
    (
        "sinfo",
        "printf 'n1\\037down\\037filler\\037up\\037x\\036\\nn2\\037do'",
        "answer",
        "ends within record 2",
    ),
    ("sinfo", "kill -9 $$", "exit", "signal: 9"),
];

#[tokio::test]
async fn a_failed_request_changes_nothing_and_is_named() {
    let nats = TestNats::start();
    let (fake, mut consumer) = (Fake::new(), Consumer::new(&nats).await);
    fake.slurm();
    fake.nodes("n1 idle\nn2 idle");
    let service = Service::start(&nats, fake.config()).await;
    assert_eq!(consumer.receive(2).await, ["+n1", "+n2"]);
    for (command, fault, reason, word) in FAULTS {
        let name = format!(
            "lacuna_ingest_scheduler_failures_total{{command=\"{command}\",reason=\"{reason}\"}}"
        );
        let before = service.metric(&name);
        fake.script(command, fault);
        service
            .until(fault, |s| {
                s.metric(&name) >= before + 2.0 && s.check("slurm").1.contains(word)
            })
            .await;
        let (ok, note) = service.check("slurm");
        assert!(
            ok && note.contains("no answer from slurm"),
            "{fault}: {note}"
        );
        assert_eq!(service.metric("lacuna_ingest_scheduler_stale"), 1.0);
        assert_eq!(service.metric("lacuna_ingest_idle_nodes"), 2.0);
        fake.script(command, &format!("echo \"$@\" >> asked; cat {command}.txt"));
        service
            .until("recovery", |s| {
                s.metric("lacuna_ingest_scheduler_stale") == 0.0
            })
            .await;
        assert!(consumer.quiet(), "{fault} has caused an event");
    }
    service.end().await;
}

#[tokio::test]
async fn a_command_that_hangs_is_killed_with_all_its_processes() {
    let nats = TestNats::start();
    let fake = Fake::new();
    fake.slurm();
    // A child that ignores SIGTERM and would outlive its parent.
    let mark = format!("77{}.125", std::process::id());
    fake.script(
        "squeue",
        &format!("echo hang >> asked; (trap '' TERM; sleep {mark}) & sleep {mark}"),
    );
    fake.nodes("n1 idle");
    let mut config = fake.config();
    if let Some(slurm) = &mut config.ingest.slurm {
        slurm.polling.limit = Span::from_ms(300);
    }
    let service = Service::start(&nats, config).await;
    let limit = "lacuna_ingest_scheduler_failures_total{command=\"squeue\",reason=\"limit\"}";
    service
        .until("two limits", |s| s.metric(limit) >= 2.0)
        .await;
    // At its end the service kills running commands, too.
    let asked = fake.asked();
    service.until("another", |_| fake.asked() > asked).await;
    service.end().await;
    for _ in 0..100 {
        if !runs(&mark) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("a process of the killed command still runs");
}

#[tokio::test]
async fn a_missing_or_forbidden_program_is_named() {
    let nats = TestNats::start();
    let fake = Fake::new();
    fake.slurm();
    std::fs::remove_file(fake.path("sinfo")).unwrap();
    let service = Service::start(&nats, fake.config()).await;
    service
        .until("absent", |s| s.check("slurm").1.contains("cannot be found"))
        .await;
    // A file without the execute permission.
    fake.write("sinfo", "#!/bin/sh\n");
    let denied = "lacuna_ingest_scheduler_failures_total{command=\"sinfo\",reason=\"denied\"}";
    service.until("denied", |s| s.metric(denied) > 0.0).await;
    assert!(service.check("slurm").1.contains("not permitted"));
    fake.slurm();
    fake.nodes("n1 idle");
    service
        .until("recovery", |s| s.metric("lacuna_ingest_idle_nodes") == 1.0)
        .await;
    assert_eq!(service.check("slurm"), (true, String::new()));
    service.end().await;
}

#[tokio::test]
async fn polling_of_a_slow_scheduler_pauses_and_resumes() {
    let nats = TestNats::start();
    let fake = Fake::new();
    fake.slurm();
    fake.nodes("n1 idle");
    fake.script("sinfo", "echo slow >> asked; sleep 0.2; cat sinfo.txt");
    let mut config = fake.config();
    if let Some(slurm) = &mut config.ingest.slurm {
        slurm.polling.slow_after = Span::from_ms(150);
        slurm.polling.pause = Span::from_ms(1500);
        slurm.polling.longest_wait = Span::from_secs(3);
    }
    let service = Service::start(&nats, config).await;
    let breaker = "lacuna_ingest_scheduler_breaker";
    service.until("open", |s| s.metric(breaker) == 2.0).await;
    // Three cycles of two requests; slow answers also count as answers.
    assert_eq!(fake.asked(), 6);
    assert_eq!(service.metric("lacuna_ingest_idle_nodes"), 1.0);
    tokio::time::sleep(Duration::from_millis(1000)).await;
    assert_eq!(fake.asked(), 6, "asked while the breaker was open");
    fake.script("sinfo", "echo fast >> asked; cat sinfo.txt");
    service.until("closed", |s| s.metric(breaker) == 0.0).await;
    service.end().await;
}

#[tokio::test]
async fn the_budget_holds() {
    let nats = TestNats::start();
    let fake = Fake::new();
    fake.slurm();
    fake.nodes("n1 idle");
    let mut config = fake.config();
    if let Some(slurm) = &mut config.ingest.slurm {
        // The pace asks for ten cycles a second; the budget allows sixty requests a minute.
        slurm.polling.requests_per_minute = 60;
    }
    let service = Service::start(&nats, config).await;
    tokio::time::sleep(Duration::from_secs(4)).await;
    let asked = fake.asked();
    // Ten at once, and one a second.
    assert!((10..=15).contains(&asked), "{asked} requests in 4 s");
    assert!(service.metric("lacuna_ingest_scheduler_delayed_total") >= 1.0);
    service.end().await;
}
