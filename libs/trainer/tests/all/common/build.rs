//! Names, trainers and plans in a line each.

use lacuna_model::{
    Allocation, Directory, Distance, Elastic, Launch, NodeId, Plan, Progress, RescaleCost, RunId,
    ScalingCurve, Timestamp, TrainerId, TrainerSpec, Work,
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
        id: trainer(name),
        owner: None,
        weight: None,
        deadline: None,
        priority: 0,
        submit: Timestamp::from_unix(1000),
        min_nodes: min,
        max_nodes: max,
        distance: Distance::default(),
        kinds: lacuna_model::KindRates::default(),
        throughput: ScalingCurve::linear(10.0, max).unwrap(),
        objective: None,
        rescale: RescaleCost {
            up_s: 18.0,
            down_s: 12.0,
            start_s: None,
        },
        work,
        launch: Launch::Simulated,
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
    Launch::Command {
        program: "train".to_owned(),
        args: Vec::new(),
        env: std::collections::BTreeMap::new(),
        checkpoint_dir: saves.then(|| "ckpt".to_owned()),
        directory: Directory::default(),
        environment_from: Vec::new(),
        profile,
        family: None,
        elastic,
    }
}
