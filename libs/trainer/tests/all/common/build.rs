//! Names, trainers and plans in a line each.

use lacuna_model::{
    Allocation, Elastic, Launch, NodeId, Plan, Program, Progress, RescaleCost, RunId, ScalingCurve,
    Timestamp, TrainerId, TrainerSpec, Work,
};

pub(crate) fn node(n: usize) -> NodeId {
    NodeId::new(format!("n{n:02}")).unwrap()
}

pub(crate) fn trainer(name: &str) -> TrainerId {
    TrainerId::new(name).unwrap()
}

/// A trainer with 10 samples/s and node, up to 8 nodes.
pub(crate) fn spec(name: &str, min: u32, max: u32, work: Work) -> TrainerSpec {
    TrainerSpec {
        submit: Timestamp::from_unix(1000),
        min_nodes: min,
        max_nodes: max,
        rescale: RescaleCost::of(18.0, 12.0),
        work,
        ..TrainerSpec::simulated(trainer(name), ScalingCurve::linear(10.0, max).unwrap())
    }
}

pub(crate) fn plan(
    generation: u64,
    seq: u64,
    as_of: Timestamp,
    sizes: &[(&str, &[usize])],
) -> Plan {
    plan_of(
        generation,
        seq,
        as_of,
        sizes
            .iter()
            .map(|(name, nodes)| (trainer(name), nodes.iter().map(|n| node(*n)).collect()))
            .collect(),
    )
}

pub(crate) fn plan_of(
    generation: u64,
    seq: u64,
    as_of: Timestamp,
    sizes: Vec<(TrainerId, Vec<NodeId>)>,
) -> Plan {
    let allocations = sizes
        .into_iter()
        .filter(|(_, nodes)| !nodes.is_empty())
        .map(|(trainer, nodes)| Allocation { trainer, nodes })
        .collect();
    Plan::by_hand(generation, as_of, seq, allocations)
}

/// A report of trainer a's incarnation by a node.
pub(crate) fn said(by: usize, run: u64, at: i64, samples: f64) -> Progress {
    let at = Timestamp::from_unix(at);
    Progress::new(node(by), trainer("a"), RunId(run), at, samples)
}

/// A program that lives on over its runs.
pub(crate) fn regrouping() -> Launch {
    program(Elastic::REGROUP, false, false)
}

/// A program; one that saves has a folder for checkpoints.
pub(crate) fn program(elastic: Elastic, saves: bool, profile: bool) -> Launch {
    Launch::Command(Program {
        program: "train".to_owned(),
        checkpoint_dir: saves.then(|| "ckpt".to_owned()),
        profile,
        elastic,
        ..Program::default()
    })
}
