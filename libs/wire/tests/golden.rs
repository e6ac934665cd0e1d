//! The bytes of every message, version 1, are kept in `golden/v1`: encoding must give them,
//! decoding must give the message. `LACUNA_GOLDEN=write` writes files that are missing or
//! differ; a change of bytes of a released version is a break.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on stops")]

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::path::Path;

use lacuna_model::{
    Allocation, Epoch, EventKind, Forecast, ForecastPoint, Generation, Hole, HoleVerdict, Launch,
    NodeEvent, NodeId, Outcome, Phase, Plan, PlanReport, Pool, PooledHole, RescaleCost, RunId,
    ScalingCurve, Solve, Timestamp, TrainerId, TrainerRecord, TrainerSpec, TrainerVerdict, Verdict,
    Work,
};
use lacuna_wire::msg::{
    Action, Activity, AgentStatus, Assignment, Clock, Command, DeadLetter, LeaseRecord, Member,
    Message, NodeView, Pace, PlanState, PoolState, Progress, Renewal, Reply, Request, Settled,
    Totals, TrainersState,
};
use lacuna_wire::{ContentType, DecodeError, Envelope, codec};
use proptest::prelude::*;

fn node(name: &str) -> NodeId {
    NodeId::new(name).unwrap()
}

fn trainer(name: &str) -> TrainerId {
    TrainerId::new(name).unwrap()
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_unix(seconds)
}

fn hole(name: &str, since: i64) -> Hole {
    Hole {
        node: node(name),
        since: at(since),
    }
}

fn curve() -> ScalingCurve {
    ScalingCurve::new([(1, 100.5), (2, 190.0)]).unwrap()
}

fn spec() -> TrainerSpec {
    TrainerSpec {
        id: trainer("res.net-1"),
        owner: Some("ada".to_owned()),
        weight: None,
        deadline: None,
        priority: -3,
        submit: at(1_613_347_732),
        min_nodes: 1,
        max_nodes: 2,
        throughput: curve(),
        objective: Some(curve().speedup()),
        rescale: RescaleCost {
            up_s: 20.0,
            down_s: 5.5,
        },
        work: Work::Samples(1.5e9),
        launch: Launch::Command {
            program: "python3".to_owned(),
            args: vec!["train.py".to_owned()],
            env: BTreeMap::from([("A".to_owned(), "b".to_owned())]),
            checkpoint_dir: Some("/scratch/ckpt".to_owned()),
            profile: false,
        },
    }
}

fn record() -> TrainerRecord {
    TrainerRecord {
        spec: spec(),
        order: 4,
        phase: Phase::Active,
        nodes: vec![node("a.1"), node("b_2")],
        run: RunId(9),
        samples_before: 10.25,
        samples_run: 3.0,
        saved_run: 2.0,
        owed: 0.5,
        run_since: at(95),
        run_owed: 1.5,
        rescale_cost: 7.0,
        preempt_cost: 2.0,
        preemptions: 1,
        rescales: 2,
        started: Some(at(100)),
        ended: None,
        reason: "lost a.1".to_owned(),
        failures: 0,
        loss: Some(0.75),
        checkpoint: None,
    }
}

fn member(name: &str, epoch: u64) -> Member {
    Member {
        node: node(name),
        epoch: Epoch(epoch),
    }
}

fn events() -> Vec<NodeEvent> {
    let kinds = vec![
        EventKind::NodeIdle { node: node("a.1") },
        EventKind::NodeBusy { node: node("a.1") },
        EventKind::NodeDown {
            node: node("a.1"),
            reason: "fan".to_owned(),
        },
        EventKind::NodeWanted {
            node: node("a.1"),
            deadline: at(60),
        },
        EventKind::NodeReleased { node: node("a.1") },
        EventKind::JobPlanned {
            job: "77".to_owned(),
            nodes: vec![node("a.1")],
            start: at(90),
        },
        EventKind::Reservation {
            name: "monday".to_owned(),
            nodes: vec![node("a.1")],
            start: at(90),
            end: at(99),
        },
        EventKind::Snapshot {
            idle: vec![hole("a.1", 5)],
        },
    ];
    (1..)
        .zip(kinds)
        .map(|(seq, kind)| NodeEvent {
            seq,
            at: Timestamp::from_unix_ms(1_613_347_732_500),
            kind,
        })
        .collect()
}

fn plan() -> Plan {
    let verdict = |name: &str, before, after, verdict| TrainerVerdict {
        trainer: trainer(name),
        before,
        after,
        verdict,
    };
    Plan {
        generation: Generation(12),
        as_of: at(500),
        seq: 41,
        allocations: vec![Allocation {
            trainer: trainer("t"),
            nodes: vec![node("a.1")],
        }],
        report: PlanReport {
            solve: Solve {
                outcome: Outcome::Feasible { gap: 0.01 },
                objective: 1234.5,
                solver: "highs".to_owned(),
                shortcut: Some("pegging".to_owned()),
            },
            trainers: vec![
                verdict("t", 0, 1, Verdict::Start),
                verdict(
                    "u",
                    2,
                    4,
                    Verdict::Grow {
                        gain: 9.0,
                        cost: 4.0,
                    },
                ),
                verdict(
                    "v",
                    4,
                    2,
                    Verdict::Shrink {
                        loss: 9.0,
                        cost: 4.0,
                    },
                ),
                verdict("w", 4, 4, Verdict::Keep),
                verdict(
                    "x",
                    4,
                    4,
                    Verdict::RescaleNotWorthIt {
                        gain: 1.0,
                        cost: 4.0,
                    },
                ),
                verdict("y", 0, 0, Verdict::TooFewNodes { pool: 2, min: 4 }),
                verdict("z", 0, 0, Verdict::Outbid),
            ],
            holes: vec![
                (
                    node("a.1"),
                    HoleVerdict::Assigned {
                        trainer: trainer("t"),
                    },
                ),
                (
                    node("a.2"),
                    HoleVerdict::Kept {
                        trainer: trainer("t"),
                    },
                ),
                (node("a.3"), HoleVerdict::NoTaker),
                (node("a.4"), HoleVerdict::NotWorthIt),
                (node("a.5"), HoleVerdict::Unusable),
            ],
        },
    }
}

fn commands() -> Vec<Command> {
    let run = Action::Run(Box::new(Assignment {
        trainer: trainer("t"),
        run: RunId(3),
        rank: 1,
        members: vec![member("a.1", 7), member("b", 8)],
        launch: Launch::Simulated,
        throughput: curve(),
        rescale: RescaleCost {
            up_s: 1.0,
            down_s: 2.0,
        },
        work: Work::UntilExit,
        samples_before: 5.0,
        owed: 1.0,
        since: at(20),
        checkpoint: Some("step-9".to_owned()),
    }));
    let release = Action::Release {
        reason: "plan 12".to_owned(),
        at: Some(at(30)),
    };
    [(1, run), (2, release)]
        .map(|(seq, action)| Command {
            node: node("b"),
            epoch: Epoch(8),
            seq,
            action,
        })
        .into()
}

fn statuses() -> Vec<AgentStatus> {
    let running = Activity::Running {
        trainer: trainer("t"),
        run: RunId(3),
    };
    let exited = Activity::Exited {
        trainer: trainer("t"),
        run: RunId(3),
        code: 137,
        reason: "killed".to_owned(),
    };
    [Activity::Free, running, exited]
        .map(|activity| AgentStatus {
            node: node("b"),
            epoch: Epoch(8),
            seq: 2,
            activity,
            released: Some("dead man".to_owned()),
        })
        .into()
}

fn clocks() -> Vec<Clock> {
    let scaled = Pace::Scaled {
        rate: 600.0,
        wall_at: at(1_700_000_000),
    };
    [Pace::Real, scaled, Pace::LockStep]
        .map(|pace| Clock {
            now: at(1_613_347_732),
            pace,
            step: 4,
            events_upto: 41,
            complete: true,
            ended: false,
            recording: "holes.csv 812 B, first 4 nodes".to_owned(),
        })
        .into()
}

fn requests() -> Vec<Request> {
    vec![
        Request::Submit {
            trainers: vec![spec()],
            test_only: true,
        },
        Request::Cancel {
            trainer: trainer("t"),
        },
        Request::Trainers { all: true },
        Request::Nodes,
        Request::Logs {
            trainer: trainer("t"),
            lines: 20,
        },
        Request::Totals,
    ]
}

fn totals() -> Totals {
    Totals {
        since: at(1),
        now: at(2),
        idle_node_s: 3.0,
        harvested_node_s: 4.0,
        samples: 5.0,
        active: 6,
        ..Totals::default()
    }
}

fn replies() -> Vec<Reply> {
    vec![
        Reply::Accepted {
            trainers: vec![trainer("t")],
        },
        Reply::Refused {
            code: "L0007".to_owned(),
            reason: "no".to_owned(),
        },
        Reply::Trainers {
            now: at(9),
            trainers: vec![record()],
        },
        Reply::Nodes {
            now: at(9),
            nodes: vec![NodeView {
                node: node("a.1"),
                idle_since: Some(at(3)),
                trainer: Some(trainer("t")),
                epoch: Epoch(8),
                activity: Some(Activity::Free),
                silent_s: Some(1.5),
            }],
        },
        Reply::Logs {
            lines: vec!["step 1".to_owned()],
        },
        Reply::Totals(totals()),
    ]
}

fn pool() -> PoolState {
    PoolState {
        pool: Pool {
            as_of: at(500),
            seq: 41,
            holes: vec![PooledHole {
                hole: hole("a.1", 20),
                forecast: 0,
            }],
            forecasts: vec![Forecast {
                points: vec![ForecastPoint {
                    after_s: 120.0,
                    open: 0.5,
                }],
            }],
        },
        predictor: "survival".to_owned(),
    }
}

fn progress() -> Progress {
    Progress {
        trainer: trainer("t"),
        run: RunId(3),
        at: at(90),
        samples: 12.5,
        owed: 0.0,
        step: Some(4),
        world_size: 2,
        loss: None,
        checkpoint: Some("step-9".to_owned()),
        saved: Some(8.0),
    }
}

/// Compares the bytes of messages of one kind with their golden file: one line of hexadecimal
/// for each message.
fn check<M: Message + PartialEq + Debug>(messages: &[M]) {
    let name = M::KIND.trim_start_matches("lacuna.");
    let file = format!("golden/v{}/{name}.mp.hex", M::VERSION);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(&file);
    let hex = |m: &M| -> String {
        let bytes = codec::encode(m).unwrap();
        bytes.iter().map(|b| format!("{b:02x}")).collect()
    };
    let now: Vec<String> = messages.iter().map(hex).collect();
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    if std::env::var_os("LACUNA_GOLDEN").is_some_and(|v| v == "write") {
        std::fs::write(&path, now.join("\n") + "\n").unwrap();
    } else {
        let kept: Vec<&str> = written.lines().collect();
        assert_eq!(now, kept, "{file}: the bytes of {} have changed", M::KIND);
    }
    let envelope = envelope::<M>();
    for (line, message) in now.iter().zip(messages) {
        let bytes: Vec<u8> = (0..line.len())
            .step_by(2)
            .map(|i| u8::from_str_radix(line.get(i..i + 2).unwrap(), 16).unwrap())
            .collect();
        assert_eq!(&codec::decode::<M>(&envelope, &bytes).unwrap(), message);
        // The same fields as JSON are the same message.
        let json = Envelope {
            content_type: ContentType::Json,
            ..envelope.clone()
        };
        let text = serde_json::to_vec(message).unwrap();
        assert_eq!(&codec::decode::<M>(&json, &text).unwrap(), message);
    }
}

fn envelope<M: Message>() -> Envelope {
    Envelope::of::<M>("1".to_owned(), "lacuna/test".to_owned(), at(1), "cause")
}

#[test]
fn every_message_keeps_its_bytes() {
    check(&clocks());
    check(&events());
    check(&[pool()]);
    check(&[TrainersState {
        version: 3,
        as_of: at(4),
        trainers: vec![record()],
        unusable: vec![node("b")],
    }]);
    check(&[PlanState {
        plan: plan(),
        trainers_version: 3,
        runs: vec![(trainer("t"), RunId(3))],
        latency_s: 0.125,
    }]);
    check(&commands());
    check(&statuses());
    check(&[progress()]);
    check(&[Renewal {
        leases: vec![member("a.1", 7)],
    }]);
    check(&[Settled {
        step: 4,
        complete: false,
    }]);
    check(&[record()]);
    check(&[
        LeaseRecord { trainer: None },
        LeaseRecord {
            trainer: Some(trainer("t")),
        },
    ]);
    check(&requests());
    check(&replies());
    check(&[totals()]);
    check(&[DeadLetter {
        subject: "lacuna.v1.c.event".to_owned(),
        service: "forecast".to_owned(),
        reason: "no".to_owned(),
        payload: vec![0, 255],
    }]);
}

#[test]
fn unknown_fields_are_tolerated_and_unknown_versions_refused() {
    let mut fields = serde_json::to_value(progress()).unwrap();
    let Some(object) = fields.as_object_mut() else {
        panic!("not an object");
    };
    object.insert("colour".to_owned(), serde_json::json!({"deep": [1, 2]}));
    let bytes = rmp_serde::to_vec_named(&fields).unwrap();
    let mut envelope = envelope::<Progress>();
    assert_eq!(
        codec::decode::<Progress>(&envelope, &bytes).unwrap(),
        progress()
    );
    envelope.version = 2;
    let error = codec::decode::<Progress>(&envelope, &bytes).unwrap_err();
    assert!(matches!(
        error,
        DecodeError::Version {
            found: 2,
            known: 1,
            ..
        }
    ));
    envelope.version = 1;
    let error = codec::decode::<Settled>(&envelope, &bytes).unwrap_err();
    assert!(matches!(error, DecodeError::Kind { .. }), "{error}");
    let mut fields = fields.clone();
    let Some(object) = fields.as_object_mut() else {
        panic!("not an object");
    };
    object.remove("samples");
    let bytes = rmp_serde::to_vec_named(&fields).unwrap();
    let error = codec::decode::<Progress>(&envelope, &bytes)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("lacuna.progress") && error.contains("samples"),
        "{error}"
    );
}

#[test]
fn headers_carry_the_envelope() {
    let mut envelope = envelope::<Clock>();
    envelope.id = "a b%\u{e9}\n".to_owned();
    let headers = envelope.headers();
    assert!(
        headers
            .iter()
            .all(|(_, v)| v.bytes().all(|b| (0x21..0x7f).contains(&b)))
    );
    let pairs = headers.iter().map(|(n, v)| (*n, v.as_str()));
    assert_eq!(Envelope::read(pairs).unwrap(), envelope);
    let without = headers.iter().filter(|(n, _)| *n != "ce-type");
    let error = Envelope::read(without.map(|(n, v)| (*n, v.as_str()))).unwrap_err();
    assert_eq!(error, DecodeError::MissingHeader { header: "ce-type" });
    let bad = [("ce-id", "1"), ("ce-type", "x"), ("ce-dataversion", "one")];
    assert!(matches!(
        Envelope::read(bad),
        Err(DecodeError::BadHeader { .. })
    ));
}

fn any_message(bytes: &[u8]) {
    let _ = codec::decode::<NodeEvent>(&envelope::<NodeEvent>(), bytes);
    let _ = codec::decode::<PlanState>(&envelope::<PlanState>(), bytes);
    let _ = codec::decode::<Command>(&envelope::<Command>(), bytes);
    let _ = codec::decode::<Request>(&envelope::<Request>(), bytes);
    let _ = codec::decode::<DeadLetter>(&envelope::<DeadLetter>(), bytes);
}

proptest! {
    #[test]
    fn decoding_never_panics(bytes: Vec<u8>) {
        any_message(&bytes);
    }

    #[test]
    fn decoding_never_panics_on_damaged_messages(at in 0_usize..4000, with: u8, cut in 0_usize..4000) {
        for mut bytes in [
            codec::encode(&commands()[0]).unwrap(),
            codec::encode(&events()[7]).unwrap(),
            codec::encode(&PlanState { plan: plan(), trainers_version: 1, runs: vec![], latency_s: 0.0 }).unwrap(),
        ] {
            let length = bytes.len();
            if let Some(byte) = bytes.get_mut(at % length) {
                *byte = with;
            }
            any_message(&bytes);
            bytes.truncate(cut % length);
            any_message(&bytes);
        }
    }
}
