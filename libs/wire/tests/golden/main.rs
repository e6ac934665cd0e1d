//! The bytes of every message are kept in `golden/v<version>`. Encoding must give these bytes, and
//! decoding them must give the message. `LACUNA_GOLDEN=write` writes files of the newest version
//! that are missing or differ. A change of the bytes of a released version breaks compatibility.
//! Files of older versions are never written again, and are read for as long as the version is.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on stops")]

mod samples;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::path::Path;

use lacuna_model::{
    Allocation, Attained, Drain, Efficiency, EndedRun, Epoch, EventKind, Forecast, ForecastPoint,
    Generation, Harm, Held, Hole, HoleVerdict, JudgedPlan, Launch, LimitInForce, LossCause,
    NodeEvent, NodeId, Outcome, OwnerUse, PastKind, Pause, Phase, Plan, PlanReport, Pool,
    PooledHole, Program, RescaleCost, RunId, ScalingCurve, Solve, Stall, Stalls, Timestamp, Token,
    Topology, TrainerId, TrainerRecord, TrainerSpec, TrainerVerdict, TroubleKind, Troubled,
    UseLimit, UseState, UseWindow, Verdict, WithheldBy, Work,
};
use lacuna_wire::msg::{
    Action, Activity, AgentStatus, Assignment, AuditRecord, Clock, Command, Controls,
    ControlsChange, DeadLetter, Kept, Leader, LeaseRecord, Member, Members, NodeView, ObservedHour,
    Pace, Past, PilotsRequest, PlanState, PoolState, Progress, Reading, Renewal, Reply, Request,
    Settled, StoreSecret, TopologyState, Totals, TrainersState,
};
use lacuna_wire::{ContentType, DecodeError, Envelope, HeaderText, Message, codec};
use proptest::prelude::*;

use samples::*;

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
        let bytes = unhex(line);
        assert_eq!(&codec::decode::<M>(&envelope, &bytes).unwrap(), message);
        // The same fields as JSON decode to the same message.
        let json = Envelope {
            content_type: ContentType::Json,
            ..envelope.clone()
        };
        let text = serde_json::to_vec(message).unwrap();
        assert_eq!(&codec::decode::<M>(&json, &text).unwrap(), message);
    }
    for version in M::OLDEST..M::VERSION {
        let file = format!("golden/v{version}/{name}.mp.hex");
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(&file);
        for line in std::fs::read_to_string(&path).unwrap().lines() {
            let envelope = Envelope {
                version,
                ..envelope.clone()
            };
            let read = codec::decode::<M>(&envelope, &unhex(line));
            assert!(read.is_ok(), "{file}: {read:?}");
        }
    }
}

fn unhex(line: &str) -> Vec<u8> {
    (0..line.len())
        .step_by(2)
        .map(|i| u8::from_str_radix(line.get(i..i + 2).unwrap(), 16).unwrap())
        .collect()
}

fn envelope<M: Message>() -> Envelope {
    Envelope::of::<M>("1", "lacuna/test", at(1), "cause")
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
        pilot_s: 0.0,
        followed: Generation(0),
    }]);
    check(&[PlanState {
        plan: plan(),
        trainers_version: 3,
        runs: vec![(trainer("t"), RunId(3))],
        latency_s: 0.125,
        judged: Some(JudgedPlan {
            generation: Generation(2),
            as_of: at(1),
            gap: 0.0625,
            shortfall: 0.03125,
            proven: false,
        }),
    }]);
    check(&commands());
    check(&[
        Members {
            trainer: trainer("t.1"),
            run: RunId(3),
            nodes: vec![node("a.1"), node("b")],
        },
        Members {
            trainer: trainer("t.1"),
            run: RunId(4),
            nodes: Vec::new(),
        },
    ]);
    check(&statuses());
    check(&[progress()]);
    let renewal = Renewal {
        lead: 1_700_000_000_000,
        number: 5,
        leases: vec![member("a.1", 7)],
        forgotten: Vec::new(),
    };
    check(&[
        renewal.clone(),
        Renewal {
            forgotten: vec!["4711".to_owned()],
            ..renewal
        },
    ]);
    check(&[Settled {
        step: 4,
        complete: false,
    }]);
    check(&[
        record(),
        TrainerRecord {
            user: "ann".to_owned(),
            ..record()
        },
        measured_record(),
        TrainerRecord {
            ticket: Some("7b7d".to_owned()),
            ..record()
        },
        TrainerRecord {
            ended_runs: vec![ended_run()],
            ..record()
        },
        tried_record(),
    ]);
    check(&[
        LeaseRecord {
            trainer: None,
            epoch: None,
        },
        LeaseRecord {
            trainer: Some(trainer("t")),
            epoch: None,
        },
        LeaseRecord {
            trainer: Some(trainer("t")),
            epoch: Some(Epoch(7)),
        },
    ]);
    check(&requests());
    check(&replies());
    let figures = |efficiency| Totals {
        restart_cost: 1.5,
        stalls: stalls(),
        efficiency,
        ..totals()
    };
    check(&[
        totals(),
        figures(Efficiency::Known(0.75)),
        figures(Efficiency::CurveExceeded),
        harmed(),
        owned(),
    ]);
    check(&[observed()]);
    let of_owners = Past {
        owners: owned().owners,
        ..past_sums()
    };
    check(&[past_sums(), of_owners]);
    check(&[controls()]);
    check(&[use_state()]);
    check(&[AuditRecord {
        at: at(5),
        user: "ann".to_owned(),
        proven: true,
        action: "cancel".to_owned(),
        target: vec!["t".to_owned()],
        outcome: "refused".to_owned(),
        code: "L0020".to_owned(),
        detail: "not yours".to_owned(),
    }]);
    let leader = |failing| Leader {
        instance: "0123".to_owned(),
        seat: "here".to_owned(),
        since: at(5),
        ttl_ms: 3000,
        resigned: false,
        failing,
    };
    check(&[
        leader(vec![]),
        leader(vec!["scheduler: sinfo does not answer".to_owned()]),
    ]);
    check(&[StoreSecret {
        secret: "0123".to_owned(),
    }]);
    check(&[
        TopologyState::default(),
        TopologyState {
            topology: topology(),
            source: "/etc/slurm/topology.conf".to_owned(),
            kinds: lacuna_model::NodeKinds::default(),
        },
        TopologyState {
            kinds: kinds(),
            ..TopologyState::default()
        },
    ]);
    check(&[PilotsRequest::Stop, PilotsRequest::Resume]);
    check(&[
        Reading::default(),
        Reading {
            at: 7,
            ended: vec![(5, 2), (7, 1)],
        },
    ]);
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
    envelope.version = 1;
    let error = codec::decode::<Progress>(&envelope, &bytes).unwrap_err();
    assert!(matches!(error, DecodeError::Older { .. }), "{error}");
    envelope.version = 3;
    let error = codec::decode::<Progress>(&envelope, &bytes).unwrap_err();
    assert!(matches!(error, DecodeError::Newer { .. }), "{error}");
    envelope.version = 2;
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
    envelope.id = HeaderText::of("a b%\u{e9}\n");
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
            codec::encode(&PlanState { plan: plan(), trainers_version: 1, runs: vec![], latency_s: 0.0, judged: None }).unwrap(),
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
