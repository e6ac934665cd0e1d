//! Builders of data that many tests need.

use std::collections::BTreeMap;

use lacuna_model::{
    Activity, AgentStatus, Assignment, Cause, CauseCost, Elastic, Epoch, EventKind, Forecast,
    ForecastPoint, Hole, Launch, Learning, NodeEvent, NodeId, Phase, Pool, PooledHole, Program,
    RescaleCost, RunId, ScalingCurve, StepCosts, Timestamp, TrainerId, TrainerRecord, TrainerSpec,
    Work,
};
use lacuna_wire::msg::Request;

/// A node by name.
///
/// # Panics
/// If the name is not usable.
#[must_use]
#[expect(clippy::panic, reason = "for tests alone")]
pub fn node(name: &str) -> NodeId {
    match NodeId::new(name) {
        Ok(node) => node,
        Err(error) => panic!("{error}"),
    }
}

/// A hole of a node since `since` (Unix seconds).
#[must_use]
pub fn hole(name: &str, since: i64) -> Hole {
    Hole {
        node: node(name),
        since: Timestamp::from_unix(since),
    }
}

/// A pool of these nodes, idle since time 0, each expected to stay open for 120 s.
#[must_use]
pub fn pool(seq: u64, as_of: i64, names: &[&str]) -> Pool {
    let mut holes: Vec<PooledHole> = names
        .iter()
        .map(|name| PooledHole {
            hole: hole(name, 0),
            forecast: 0,
        })
        .collect();
    holes.sort_by(|a, b| a.hole.cmp(&b.hole));
    let forecast = Forecast {
        points: vec![
            ForecastPoint {
                after_s: 120.0,
                open: 1.0,
            },
            ForecastPoint {
                after_s: 121.0,
                open: 0.0,
            },
        ],
    };
    Pool {
        as_of: Timestamp::from_unix(as_of),
        seq,
        holes,
        forecasts: vec![forecast],
        joint: None,
    }
}

/// A program under a launcher, without arguments, environment and checkpoint.
#[must_use]
pub fn launch(elastic: Elastic) -> Launch {
    Launch::Command(Program {
        program: "train".to_owned(),
        elastic,
        ..Program::default()
    })
}

/// A program with arguments under a launcher, without environment and checkpoint.
#[must_use]
pub fn command(program: &str, arguments: &[impl AsRef<str>], elastic: Elastic) -> Launch {
    let mut launch = launch(elastic);
    if let Launch::Command(Program {
        program: own, args, ..
    }) = &mut launch
    {
        program.clone_into(own);
        *args = arguments
            .iter()
            .map(|word| word.as_ref().to_owned())
            .collect();
    }
    launch
}

/// A shell with a script, which starts again at each change of nodes.
#[must_use]
pub fn shell(script: &str) -> Launch {
    command("/bin/sh", &["-c", script], Elastic::Restart)
}

/// The start of an incarnation on one node, whose work begins and is its program's.
///
/// # Panics
/// If the name is not usable.
#[must_use]
pub fn assignment(name: &str, run: u64, launch: Launch) -> Assignment {
    let spec = spec(name, 4);
    Assignment {
        trainer: spec.id,
        run: RunId(run),
        rank: 0,
        nodes: 1,
        launch: launch.into(),
        throughput: spec.throughput,
        rescale: spec.rescale.scaled(0.0),
        work: Work::UntilExit,
        samples_before: 0.0,
        owed: 0.0,
        since: Timestamp::from_unix(0),
        checkpoint: None,
        store: None,
        token: None,
        owner: None,
        shared_account: None,
    }
}

/// A simulated trainer that scales linearly from 1 to `max_nodes` nodes at 100 samples/s each.
///
/// # Panics
/// If the name is not usable or `max_nodes` is 0.
#[must_use]
#[expect(clippy::panic, reason = "for tests alone")]
pub fn spec(name: &str, max_nodes: u32) -> TrainerSpec {
    let (Ok(id), Ok(throughput)) = (
        TrainerId::new(name),
        ScalingCurve::linear(100.0, max_nodes.max(1)),
    ) else {
        panic!("trainer {name:?} with {max_nodes} nodes is not usable");
    };
    TrainerSpec {
        submit: Timestamp::from_unix(0),
        max_nodes,
        rescale: RescaleCost::of(20.0, 5.0),
        work: Work::Samples(1e9),
        ..TrainerSpec::simulated(id, throughput)
    }
}

/// The submission of trainers, without tickets.
#[must_use]
pub const fn submission(trainers: Vec<TrainerSpec>) -> Request {
    Request::Submit {
        trainers,
        tickets: BTreeMap::new(),
        test_only: false,
    }
}

/// The snapshot of a main scheduler: these nodes are idle since `at` (Unix seconds).
pub fn snapshot(seq: u64, at: i64, names: impl IntoIterator<Item = NodeId>) -> NodeEvent {
    let at = Timestamp::from_unix(at);
    let idle = names.into_iter().map(|node| Hole { node, since: at });
    let idle = idle.collect();
    NodeEvent {
        seq,
        at,
        kind: EventKind::Snapshot { idle },
    }
}

/// A free agent of a node, which has obeyed no command yet.
#[must_use]
pub fn status(name: &str) -> AgentStatus {
    AgentStatus {
        node: node(name),
        epoch: Epoch(0),
        seq: 0,
        activity: Activity::Free,
        released: None,
        leaving: false,
        gave_back_in: None,
        broken: None,
        ending: None,
        terms: None,
        place: None,
        serves: None,
    }
}

/// An admitted trainer on these nodes.
#[must_use]
pub fn record(spec: TrainerSpec, order: u64, nodes: &[&str]) -> TrainerRecord {
    let mut nodes: Vec<NodeId> = nodes.iter().map(|n| node(n)).collect();
    nodes.sort();
    TrainerRecord {
        phase: Phase::Active,
        nodes,
        run: RunId(0),
        ..TrainerRecord::new(spec, order)
    }
}

/// A trainer on node n1 that reports its steps: of 200 ms two members compute 150 ms and wait 50 ms
/// for the link, and a sample of its batch of 64 is worth .9 of one of its user's batch of 32.
#[must_use]
pub fn reporting(name: &str) -> TrainerRecord {
    let link = CauseCost {
        cause: Cause::Link,
        seconds: 0.05,
        percent: 25.0,
    };
    TrainerRecord {
        step_costs: Some(Box::new(StepCosts {
            workers: 0,
            remote: 0,
            members: 2,
            follows: None,
            steps: 16,
            left_out: 0,
            measured: 0.2,
            replayed: 0.2,
            trusted: true,
            costs: vec![link],
            computes: 0.15,
            loaders: Vec::new(),
            elsewhere: Vec::new(),
            slow: None,
            advice: Vec::new(),
        })),
        learning: Some(Learning {
            noise_scale: 640.0,
            error: 0.1,
            user_batch: 32,
            batch: 64,
            efficiency: 0.9,
            counts_progress: false,
            sizing: None,
        }),
        ..record(spec(name, 4), 1, &["n1"])
    }
}

/// Events numbered from `first`, one second apart, from (`idle` or `busy`, node) pairs.
#[must_use]
pub fn events(first: u64, changes: &[(&str, &str)]) -> Vec<NodeEvent> {
    changes
        .iter()
        .zip(first..)
        .map(|((what, name), seq)| NodeEvent {
            seq,
            at: Timestamp::from_unix(i64::try_from(seq).unwrap_or(0)),
            kind: match *what {
                "idle" => EventKind::NodeIdle { node: node(name) },
                _ => EventKind::NodeBusy { node: node(name) },
            },
        })
        .collect()
}
