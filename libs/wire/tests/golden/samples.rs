//! One message of each kind, with every field in use.

mod asked;

use lacuna_model::{Measured, MeasuredPause, MeasuredStart, Span};

use super::*;

pub(crate) use asked::*;

pub(crate) fn node(name: &str) -> NodeId {
    NodeId::new(name).unwrap()
}

pub(crate) fn trainer(name: &str) -> TrainerId {
    TrainerId::new(name).unwrap()
}

pub(crate) fn at(seconds: i64) -> Timestamp {
    Timestamp::from_unix(seconds)
}

pub(crate) fn hole(name: &str, since: i64) -> Hole {
    Hole {
        node: node(name),
        since: at(since),
    }
}

pub(crate) fn curve() -> ScalingCurve {
    ScalingCurve::new([(1, 100.5), (2, 190.0)]).unwrap()
}

pub(crate) fn spec() -> TrainerSpec {
    TrainerSpec {
        owner: Some("ada".to_owned()),
        priority: -3,
        submit: at(1_613_347_732),
        max_nodes: 2,
        objective: Some(curve().speedup()),
        rescale: RescaleCost::of(20.0, 5.5),
        work: Work::Samples(1.5e9),
        launch: Launch::Command(Program {
            program: "python3".to_owned(),
            args: vec!["train.py".to_owned()],
            env: BTreeMap::from([("A".to_owned(), "b".to_owned())]),
            checkpoint_dir: Some("/scratch/ckpt".to_owned()),
            ..Program::default()
        }),
        ..TrainerSpec::simulated(trainer("res.net-1"), curve())
    }
}

pub(crate) fn record() -> TrainerRecord {
    TrainerRecord {
        spec: spec(),
        user: String::new(),
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
        hit_at: None,
        started: Some(at(100)),
        ended: None,
        reason: "lost a.1".to_owned(),
        failures: 0,
        tries: lacuna_model::Tries::default(),
        loss: Some(0.75),
        checkpoint: None,
        measured: None,
        ..TrainerRecord::new(spec(), 4)
    }
}

/// A record with stall costs.
pub(crate) fn measured_record() -> TrainerRecord {
    TrainerRecord {
        restart_cost: 3.0,
        stalls: stalls(),
        held: Held {
            seconds: 20.0,
            node_s: 35.0,
        },
        ..record()
    }
}

/// A record whose work is done while programs end, after failures and with a measured start.
pub(crate) fn tried_record() -> TrainerRecord {
    let mut tries = lacuna_model::Tries::default();
    tries.fail_on(
        &node("a.1"),
        "exit code 1",
        true,
        Span::from_secs(60),
        at(90),
    );
    tries.avoid(&node("b_2"), "silent", false, Span::from_secs(60), at(91));
    tries.rest_until(Some(at(120)), at(91));
    let pause = MeasuredPause {
        mean_s: 4.5,
        spread_s: 0.5,
        count: 2,
        at: at(92),
    };
    let measured = Measured {
        start: Some(MeasuredStart {
            pause,
            from: Some(trainer("other")),
        }),
        ..Measured::default()
    };
    TrainerRecord {
        ending: Some(lacuna_model::Ending::Exiting),
        tries,
        measured: Some(Box::new(measured)),
        ..record()
    }
}

pub(crate) fn ended_run() -> EndedRun {
    EndedRun {
        run: RunId(8),
        leaders: vec![node("a.1")],
        saved_only: true,
        counted: 6.0,
        reported: 7.5,
        cause: Some(LossCause::Preempt),
        until: at(96),
    }
}

pub(crate) fn stalls() -> Stalls {
    Stalls {
        preempt: Stall {
            seconds: 6.25,
            redone: 32.0,
        },
        ..Stalls::default()
    }
}

pub(crate) fn member(name: &str, epoch: u64) -> Member {
    Member {
        node: node(name),
        epoch: Epoch(epoch),
    }
}

pub(crate) fn events() -> Vec<NodeEvent> {
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

pub(crate) fn plan() -> Plan {
    let verdict = |name: &str, before, after, verdict| TrainerVerdict {
        trainer: trainer(name),
        before,
        after,
        verdict,
        basis: None,
        share: None,
    };
    Plan {
        generation: Generation(12),
        as_of: at(500),
        seq: 41,
        allocations: vec![Allocation {
            trainer: trainer("t"),
            nodes: vec![node("a.1")],
        }],
        replaced: Vec::new(),
        report: PlanReport {
            solve: Solve {
                outcome: Outcome::Feasible { gap: 0.01 },
                objective: 1234.5,
                solver: "highs".to_owned(),
                shortcut: Some("pegging".to_owned()),
                stopped_by_clock: false,
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
                (node("a.3"), HoleVerdict::NoBidder),
                (node("a.4"), HoleVerdict::NotWorthIt),
                (node("a.5"), HoleVerdict::Unusable),
            ],
            forecast: None,
            followed: None,
        },
    }
}

pub(crate) fn commands() -> Vec<Command> {
    let run = Action::Run(Box::new(Assignment {
        trainer: trainer("t"),
        run: RunId(3),
        rank: 1,
        nodes: 2,
        launch: Launch::Simulated.into(),
        throughput: curve(),
        rescale: RescaleCost::of(1.0, 2.0),
        work: Work::UntilExit,
        samples_before: 5.0,
        owed: 1.0,
        since: at(20),
        checkpoint: Some("step-9".to_owned()),
        store: None,
        token: None,
        owner: None,
        shared_account: None,
    }));
    let release = Action::Release {
        reason: "plan 12".to_owned(),
        at: Some(at(30)),
    };
    let Launch::Command(Program {
        program,
        args,
        env,
        checkpoint_dir,
        ..
    }) = spec().launch
    else {
        unreachable!("the sample has a program");
    };
    let prepare = Action::Prepare(Box::new(Assignment {
        trainer: trainer("t"),
        run: RunId(3),
        rank: 0,
        nodes: 0,
        launch: Launch::Command(Program {
            program,
            args,
            env,
            checkpoint_dir,
            profile: true,
            elastic: lacuna_model::Elastic::REGROUP,
            ..Program::default()
        })
        .into(),
        throughput: curve(),
        rescale: RescaleCost::of(0.5, 0.5),
        work: Work::UntilExit,
        samples_before: 5.0,
        owed: 0.0,
        since: at(20),
        checkpoint: None,
        store: Some("ctl:29400".to_owned()),
        token: None,
        owner: Some("ann".to_owned()),
        shared_account: Some("lacuna".to_owned()),
    }));
    let mut meeting = run.clone();
    if let Action::Run(run) = &mut meeting {
        run.store = Some("ctl:29400".to_owned());
        run.token = Some(Token::new(7));
    }
    [(1, run), (2, release), (3, prepare), (4, meeting)]
        .map(|(seq, action)| Command {
            node: node("b"),
            epoch: Epoch(8),
            seq,
            action,
        })
        .into()
}

pub(crate) fn statuses() -> Vec<AgentStatus> {
    let running = Activity::Running {
        trainer: trainer("t"),
        run: RunId(3),
    };
    let exited = Activity::Exited {
        trainer: trainer("t"),
        run: RunId(3),
        code: 137,
        reason: "killed".to_owned(),
        killed: false,
        at: None,
        lost_peer: false,
    };
    let prepared = Activity::Prepared {
        trainer: trainer("t"),
        ready: true,
    };
    let last = [
        (Activity::Free, false),
        (running.clone(), false),
        (exited, false),
        (prepared, false),
        (Activity::Free, true),
    ];
    let status = |(activity, leaving)| AgentStatus {
        node: node("b"),
        epoch: Epoch(8),
        seq: 2,
        activity,
        released: Some("lease timeout".to_owned()),
        leaving,
        gave_back_in: None,
        broken: None,
        ending: None,
        terms: None,
        place: None,
        serves: None,
    };
    let gone = AgentStatus {
        gave_back_in: Some(lacuna_model::Span::from_ms(34)),
        ..status((Activity::Free, true))
    };
    let broken = AgentStatus {
        broken: Some(RunId(3)),
        ..status((running.clone(), false))
    };
    let placed = AgentStatus {
        place: Some("top.leaf1.b".to_owned()),
        ..status((Activity::Free, false))
    };
    let of_one = AgentStatus {
        serves: Some(trainer("t")),
        ..status((Activity::Free, false))
    };
    let ending = AgentStatus {
        ending: Some(lacuna_model::Ending::Exiting),
        ..status((running, false))
    };
    let silenced = Activity::Exited {
        trainer: trainer("t"),
        run: RunId(3),
        code: 137,
        reason: "was silent for 5s".to_owned(),
        killed: true,
        at: None,
        lost_peer: false,
    };
    let silenced = status((silenced, false));
    let follower = Activity::Exited {
        trainer: trainer("t"),
        run: RunId(3),
        code: 1,
        reason: "RuntimeError: Connection closed by peer".to_owned(),
        killed: false,
        at: Some(Timestamp::from_unix(1_000_000)),
        lost_peer: true,
    };
    let follower = status((follower, false));
    last.map(status)
        .into_iter()
        .chain([gone, broken, placed, of_one, ending, silenced, follower])
        .collect()
}

pub(crate) fn topology() -> Topology {
    let path = |path: [&str; 2]| path.map(str::to_owned).into();
    let paths = [
        (node("a.1"), path(["leaf1", "top"])),
        (node("b"), path(["leaf2", "top"])),
    ];
    Topology::new(paths.into()).unwrap()
}

pub(crate) fn kinds() -> lacuna_model::NodeKinds {
    let kind = |name| lacuna_model::KindName::new(name).unwrap();
    let kinds = [(node("a.1"), kind("cpu")), (node("b"), kind("gpu"))];
    lacuna_model::NodeKinds::new(kinds.into())
}

pub(crate) fn clocks() -> Vec<Clock> {
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

pub(crate) fn pool() -> PoolState {
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
            joint: None,
        },
        predictor: "survival".to_owned(),
    }
}

pub(crate) fn progress() -> Progress {
    Progress {
        step: Some(4),
        world_size: 2,
        checkpoint: Some("step-9".to_owned()),
        saved: Some(8.0),
        base: Some(1200.0),
        ..Progress::new(node("a.1"), trainer("t"), RunId(3), at(90), 12.5)
    }
}

pub(crate) fn use_state() -> UseState {
    UseState {
        version: 4,
        at: at(8),
        at_most: Some(12),
        no_growth: true,
        limits: vec![LimitInForce {
            by: WithheldBy::Window,
            limit: UseLimit::AtMost { nodes: 12 },
            note: "day".to_owned(),
            until: Some(at(9)),
        }],
        next: Some(at(9)),
        used: 3,
        withheld: BTreeMap::from([
            (WithheldBy::Drained, vec![node("a.1")]),
            (WithheldBy::Cap, vec![node("b_2")]),
        ]),
        down: Vec::new(),
    }
}
