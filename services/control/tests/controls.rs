//! The operator's controls, ownership and the audit log.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may panic"
)]

use std::time::Duration;

use lacuna_control_service::Config;
use lacuna_model::{
    Allocation, ControlsChange, Launch, NodeId, Plan, Program, Timestamp, TrainerId, UseLimit,
    UseState, WithheldBy,
};
use lacuna_runtime::{Bus, Start};
use lacuna_testkit::{in_virtual_time, spec, submission, until};
use lacuna_trainer::settings::Quota;
use lacuna_wire::address;
use lacuna_wire::msg::{AuditRecord, LeaseRecord, PlanState, Reply, Request};

use crate::common::{cluster, start};

const LIMIT: Duration = Duration::from_secs(20);
const NODES: usize = 6;

fn name(n: usize) -> NodeId {
    NodeId::new(format!("n{n}")).unwrap()
}

fn trainer(name: &str) -> TrainerId {
    TrainerId::new(name).unwrap()
}

fn enforced() -> Config {
    let mut config = Config::default();
    config.control.access.operators = vec!["op".to_owned()];
    config.control.access.enforce = Some(true);
    config
}

/// Asks as a user, until control answers.
async fn ask(bus: &Bus, user: &str, request: &Request) -> Reply {
    let subject = address::requests_of(&cluster(), user);
    until("an answer", async || {
        bus.request(&subject, request, LIMIT).await.ok()
    })
    .await
}

async fn change(bus: &Bus, user: &str, change: ControlsChange) -> Reply {
    let changes = vec![change];
    ask(bus, user, &Request::Change { changes }).await
}

fn code(reply: &Reply) -> &str {
    match reply {
        Reply::Refused { code, .. } => code,
        other => panic!("not refused: {other:?}"),
    }
}

/// All nodes are idle.
async fn snapshot(bus: &Bus) {
    let snapshot = lacuna_testkit::snapshot(1, 100, (0..NODES).map(name));
    bus.store(&address::snapshot(&cluster()), &snapshot, "")
        .await
        .unwrap();
}

async fn plan(bus: &Bus, generation: u64, nodes: std::ops::Range<usize>) {
    let trainers = bus.last(&address::trainers(&cluster())).await.unwrap();
    let trainers = trainers.unwrap().message;
    let allocations = vec![Allocation {
        trainer: trainer("a"),
        nodes: nodes.map(name).collect(),
    }];
    let plan = PlanState {
        plan: Plan::by_hand(generation, Timestamp::from_unix(100), 1, allocations),
        trainers_version: trainers.version,
        runs: trainers.runs(),
        latency_s: 0.0,
        judged: None,
    };
    bus.store(&address::plan(&cluster()), &plan, "")
        .await
        .unwrap();
}

/// Waits until `wanted` nodes are leased.
async fn leased(bus: &Bus, wanted: usize) {
    let bucket = bus.bucket::<LeaseRecord>(address::leases_bucket(&cluster()));
    until(&format!("{wanted} nodes are leased"), async || {
        let entries = bucket.list().await.unwrap();
        let leased = entries.iter().filter(|e| e.value.trainer.is_some());
        (leased.count() == wanted).then_some(())
    })
    .await;
}

/// Waits for a use of nodes under the controls.
async fn used(bus: &Bus, what: &str, wanted: impl Fn(&UseState) -> bool) -> UseState {
    let subject = address::use_state(&cluster());
    until(what, async || {
        let newest = bus.last(&subject).await.unwrap();
        newest.map(|found| found.message).filter(&wanted)
    })
    .await
}

async fn audit(bus: &Bus, wanted: usize) -> Vec<AuditRecord> {
    let subject = address::audit_all(&cluster());
    let mut follow = bus.follow(&subject, Start::All).await.unwrap();
    let mut records = Vec::new();
    while records.len() < wanted {
        let next = tokio::time::timeout(LIMIT, follow.next()).await;
        records.push(next.expect("a record is missing").unwrap().message);
    }
    records
}

#[test]
fn controls_hold_at_once_and_over_restarts_of_control_and_an_emptied_server() {
    in_virtual_time(async |mut nats| {
        let bus = nats.connect(&cluster(), "test").await;
        snapshot(&bus).await;
        let control = start(&nats, Config::default()).await;
        let accepted = ask(&bus, "ann", &submission(vec![spec("a", 8)])).await;
        assert!(matches!(accepted, Reply::Accepted { .. }), "{accepted:?}");
        plan(&bus, 1, 0..4).await;
        leased(&bus, 4).await;

        let pause = ControlsChange::Pause {
            limit: UseLimit::Nothing,
            until: None,
            reason: "power".to_owned(),
        };
        let reply = change(&bus, "op", pause).await;
        let Reply::Controls(controls) = reply else {
            panic!("{reply:?}");
        };
        assert_eq!(controls.version, 1);
        let kept = bus.last(&address::controls(&cluster())).await.unwrap();
        assert_eq!(
            kept.unwrap().message,
            controls,
            "kept before it was answered"
        );
        leased(&bus, 0).await;
        let state = used(&bus, "paused", |s| s.at_most == Some(0) && s.used == 0).await;
        assert_eq!(state.withheld[&WithheldBy::Paused].len(), NODES);
        let text = control.exposition();
        assert!(text.contains("lacuna_control_use_limit 0"), "{text}");
        assert!(text.contains(r#"lacuna_control_withheld_nodes{cause="paused"} 6"#));
        assert!(
            text.contains(r#"lacuna_control_requests_total{action="pause",outcome="accepted"} 1"#)
        );
        control.stop().await;

        // Another start: nothing is used before it is resumed.
        let control = start(&nats, Config::default()).await;
        ask(&bus, "ann", &Request::Totals).await;
        plan(&bus, 2, 0..4).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        leased(&bus, 0).await;

        // The server loses all; control, which runs, still knows.
        nats.kill();
        nats.wipe();
        nats.restart();
        let kept = until("kept again", async || {
            bus.last(&address::controls(&cluster()))
                .await
                .ok()
                .flatten()
        });
        assert_eq!(kept.await.message, controls);
        let Reply::Controls(now) = change(&bus, "op", ControlsChange::Resume).await else {
            panic!("not resumed");
        };
        assert_eq!((now.version, now.pause), (2, None));
        used(&bus, "resumed", |s| {
            s.at_most.is_none() && s.withheld.is_empty()
        })
        .await;
        control.stop().await;
    });
}

#[test]
fn only_owners_and_operators_may_and_every_request_is_noted() {
    in_virtual_time(async |nats| {
        let bus = nats.connect(&cluster(), "test").await;
        let mut config = enforced();
        config.control.access.quota = Quota {
            trainers: Some(2),
            nodes: None,
        };
        let control = start(&nats, config).await;
        let mut of_bob = spec("b", 4);
        of_bob.owner = Some("bob".to_owned());
        let a = ask(&bus, "ann", &submission(vec![spec("a", 4)])).await;
        assert!(matches!(a, Reply::Accepted { .. }), "{a:?}");
        let cancel = Request::Cancel {
            trainer: trainer("a"),
        };
        let logs = Request::Logs {
            trainer: trainer("a"),
            lines: 1,
            after: None,
            since: None,
            is_raw: false,
        };
        let refused = [
            ("ann", submission(vec![of_bob.clone()]), "L0021"),
            ("ann", submission(vec![spec("c", 4), spec("d", 4)]), "L0022"),
            ("bob", cancel.clone(), "L0021"),
            ("bob", logs, "L0021"),
        ];
        for (user, request, expected) in &refused {
            let reply = ask(&bus, user, request).await;
            assert_eq!(code(&reply), *expected, "{user} {request:?}");
        }
        let drain = || ControlsChange::Drain {
            nodes: vec![name(1)],
            reason: "fan".to_owned(),
        };
        assert_eq!(code(&change(&bus, "ann", drain()).await), "L0020");
        assert!(matches!(
            change(&bus, "op", drain()).await,
            Reply::Controls(_)
        ));
        let nonsense = ControlsChange::RemoveWindow {
            name: "x".to_owned(),
        };
        assert_eq!(code(&change(&bus, "op", nonsense).await), "L0023");
        let b = ask(&bus, "op", &submission(vec![of_bob])).await;
        assert!(matches!(b, Reply::Accepted { .. }), "{b:?}");
        let Reply::Trainers { trainers, .. } =
            ask(&bus, "x", &Request::Trainers { all: true }).await
        else {
            panic!("no trainers");
        };
        let whose: Vec<(&str, Option<&str>)> = trainers
            .iter()
            .map(|t| (t.user.as_str(), t.spec.owner.as_deref()))
            .collect();
        assert_eq!(whose, [("ann", Some("ann")), ("op", Some("bob"))]);
        assert!(matches!(
            ask(&bus, "ann", &cancel).await,
            Reply::Accepted { .. }
        ));

        let records = audit(&bus, 10).await;
        let seen: Vec<(&str, &str, &str, &str)> = records
            .iter()
            .map(|r| {
                (
                    r.user.as_str(),
                    r.action.as_str(),
                    r.outcome.as_str(),
                    r.code.as_str(),
                )
            })
            .collect();
        assert_eq!(
            seen,
            [
                ("ann", "submit", "accepted", ""),
                ("ann", "submit", "refused", "L0021"),
                ("ann", "submit", "refused", "L0022"),
                ("bob", "cancel", "refused", "L0021"),
                ("bob", "logs", "refused", "L0021"),
                ("ann", "drain", "refused", "L0020"),
                ("op", "drain", "accepted", ""),
                ("op", "window", "refused", "L0023"),
                ("op", "submit", "accepted", ""),
                ("ann", "cancel", "accepted", ""),
            ]
        );
        let text = control.exposition();
        assert!(
            text.contains(r#"lacuna_control_requests_total{action="cancel",outcome="refused"} 1"#)
        );
        control.stop().await;
    });
}

#[test]
fn a_refused_request_of_any_size_leaves_short_plain_records_and_later_ones_are_kept() {
    in_virtual_time(async |nats| {
        let bus = nats.connect(&cluster(), "test").await;
        let control = start(&nats, enforced()).await;
        let odd = format!("x\n2026-01-01 op resume\u{1b}[2J{}", "ö".repeat(200_000));
        let pause = ControlsChange::Pause {
            limit: UseLimit::Nothing,
            until: None,
            reason: odd.clone(),
        };
        let only = ControlsChange::Only {
            patterns: vec![odd.clone(); 2],
        };
        let mut changes = vec![pause, only];
        changes.extend(vec![ControlsChange::Resume; 1_000]);
        let reply = ask(&bus, "ann\u{1b}[2J", &Request::Change { changes }).await;
        assert_eq!(code(&reply), "L0020");
        let mut owned = spec("a", 4);
        owned.owner = Some(odd);
        let reply = ask(&bus, "ann", &submission(vec![owned])).await;
        assert_eq!(code(&reply), "L0021");
        assert!(matches!(
            change(&bus, "op", ControlsChange::Resume).await,
            Reply::Controls(_)
        ));

        let records = audit(&bus, 18).await;
        for record in &records {
            let said = [&record.user, &record.detail].into_iter();
            for text in said.chain(&record.target) {
                assert!(text.len() < 1_200, "{record:?}");
                assert!(!text.chars().any(char::is_control), "{record:?}");
            }
        }
        assert!(records[0].detail.contains("ann") && records[0].action == "pause");
        assert_eq!(records[1].target.len(), 2);
        let left_out = "and 986 more changes";
        assert!(
            records[15].detail.starts_with(left_out),
            "{:?}",
            records[15]
        );
        assert_eq!(records[16].code, "L0021");
        let last = &records[17];
        assert_eq!(
            (last.user.as_str(), last.outcome.as_str()),
            ("op", "accepted")
        );
        control.stop().await;
    });
}

#[test]
fn only_users_of_a_trainer_see_its_arguments_and_environment() {
    in_virtual_time(async |nats| {
        let bus = nats.connect(&cluster(), "test").await;
        let mut secret = spec("a", 4);
        secret.launch = Launch::Command(Program {
            program: "train".to_owned(),
            args: vec!["--token=geheim".to_owned()],
            env: [("WANDB_API_KEY".to_owned(), "geheim".to_owned())].into(),
            ..Program::default()
        });
        let all = Request::Trainers { all: true };
        // The pool comes first: the trainer must fit.
        snapshot(&bus).await;
        let control = start(&nats, enforced()).await;
        let accepted = ask(&bus, "ann", &submission(vec![secret])).await;
        assert!(matches!(accepted, Reply::Accepted { .. }), "{accepted:?}");
        for (user, sees) in [("ann", true), ("op", true), ("bob", false)] {
            let said = format!("{:?}", ask(&bus, user, &all).await);
            assert!(said.contains(r#"program: "train""#), "{said}");
            assert_eq!(said.contains("geheim"), sees, "{user}: {said}");
            assert_eq!(said.contains("WANDB_API_KEY"), sees, "{user}: {said}");
        }
        // The state on the bus is for all readers.
        let state = until("it is published", async || {
            let state = bus.last(&address::trainers(&cluster())).await.unwrap();
            Some(state.unwrap().message).filter(|state| !state.trainers.is_empty())
        })
        .await;
        assert_eq!(state.trainers.len(), 1);
        assert!(!format!("{state:?}").contains("geheim"), "{state:?}");
        control.stop().await;

        // Without enforcement every user may act. Nothing was lost meanwhile.
        let control = start(&nats, Config::default()).await;
        let said = format!("{:?}", ask(&bus, "bob", &all).await);
        assert_eq!(said.matches("geheim").count(), 2, "{said}");
        control.stop().await;
    });
}

#[test]
fn controls_that_cannot_be_read_are_waited_for() {
    in_virtual_time(async |nats| {
        let bus = nats.connect(&cluster(), "test").await;
        let subject = address::controls(&cluster());
        // As a later release might write it.
        let headers = [
            ("ce-id", "1"),
            ("ce-type", "lacuna.controls"),
            ("ce-dataversion", "9"),
        ];
        let garbage = bus.store_raw(subject.as_str(), &headers, vec![0xc1]).await;
        garbage.unwrap().wait().await.unwrap();
        snapshot(&bus).await;
        let control = start(&nats, Config::default()).await;
        tokio::time::sleep(Duration::from_secs(3)).await;
        let trainers = bus.last(&address::trainers(&cluster())).await.unwrap();
        assert!(trainers.is_none(), "control has begun without the controls");
        let controls = lacuna_model::Controls {
            version: 7,
            max_nodes: Some(3),
            ..Default::default()
        };
        bus.store(&subject, &controls, "").await.unwrap();
        let state = used(&bus, "read", |state| state.version == 7).await;
        assert_eq!(state.at_most, Some(3));
        control.stop().await;
    });
}

#[test]
fn unreadable_controls_are_a_pause_without_growth() {
    in_virtual_time(async |nats| {
        let bus = nats.connect(&cluster(), "test").await;
        let subject = address::controls(&cluster());
        let garbage = bus.store_raw(subject.as_str(), &[], vec![0xc1]).await;
        garbage.unwrap().wait().await.unwrap();
        snapshot(&bus).await;
        let control = start(&nats, Config::default()).await;
        let state = used(&bus, "paused", |state| state.no_growth).await;
        assert_eq!(state.at_most, None);
        // The operator resumes: the change is kept in place of the unreadable message.
        let said = format!("{:?}", change(&bus, "op", ControlsChange::Resume).await);
        let state = used(&bus, &said, |state| !state.no_growth).await;
        let kept = bus.last(&subject).await.unwrap().unwrap();
        assert_eq!(kept.message.version, state.version);
        control.stop().await;
    });
}
