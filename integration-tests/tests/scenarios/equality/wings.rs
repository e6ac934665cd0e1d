//! The same for what came to the core later: kinds of nodes, distance, goodput, owners.

use std::collections::BTreeMap;

use lacuna_model::{
    Distance, KindName, KindRates, MixedPoint, NodeId, Policy, ScalingCurve, Topology, TrainerSpec,
};

use super::{Case, machine};

/// A day of a machine of 200 nodes.
fn day(objective: &'static str) -> Case {
    machine(200, 16, objective)
}

/// The nodes of a case, in the order of their names.
fn nodes(case: &Case) -> Vec<NodeId> {
    let mut nodes: Vec<NodeId> = case.holes.iter().map(|hole| hole.node.clone()).collect();
    nodes.sort_unstable();
    nodes.dedup();
    nodes
}

/// A curve with every rate times a factor.
fn times(curve: &ScalingCurve, factor: f64) -> ScalingCurve {
    let points = curve.points().iter();
    ScalingCurve::new(points.map(|point| (point.nodes, point.rate * factor))).unwrap()
}

/// The trainer with rates on two kinds: of three trainers one takes both kinds together, one takes
/// either alone, and one has its curve on every node.
fn on_two_kinds(number: usize, spec: &TrainerSpec) -> TrainerSpec {
    let [fast, slow] = ["fast", "slow"].map(|name| KindName::new(name).unwrap());
    if number % 3 == 2 {
        return spec.clone();
    }
    let curve = &spec.throughput;
    let slower = times(curve, 0.55);
    let mut together = Vec::new();
    let most = spec.max_nodes;
    if number.is_multiple_of(3) {
        for (a, b) in [(1, 1), (1, most), (most, 1), (most, most)] {
            together.push(MixedPoint {
                counts: [(fast.clone(), a), (slow.clone(), b)].into(),
                rate: 0.9 * (curve.at(a) + slower.at(b)),
            });
        }
    }
    let alone = [(fast, curve.clone()), (slow, slower)];
    TrainerSpec {
        kinds: KindRates::new(alone.into(), together).unwrap(),
        ..spec.clone()
    }
}

/// The case with every other node of a slower kind, and trainers that tell them apart.
fn two_kinds(case: Case) -> Case {
    let names = ["fast", "slow"].map(|name| KindName::new(name).unwrap());
    let kinds = nodes(&case).into_iter().zip(names.into_iter().cycle());
    let trainers = case.trainers.iter().enumerate();
    Case {
        kinds: kinds.collect(),
        trainers: trainers.map(|(at, spec)| on_two_kinds(at, spec)).collect(),
        ..case
    }
}

/// The case on leaves of 16 nodes with shared uplinks, and trainers that lose by distance.
fn apart(case: Case, uplink: Option<u32>) -> Case {
    let mut paths = BTreeMap::new();
    for (leaf, nodes) in (1..).zip(nodes(&case).chunks(16)) {
        paths.extend(
            nodes
                .iter()
                .map(|node| (node.clone(), vec![format!("leaf{leaf}")])),
        );
    }
    let loses = |(at, spec): (usize, &TrainerSpec)| TrainerSpec {
        distance: match at % 3 {
            0 => Distance::Free,
            1 => Distance::Shares(vec![0.8]),
            _ => Distance::Shares(vec![0.5]),
        },
        ..spec.clone()
    };
    Case {
        topology: Topology::new(paths).unwrap(),
        trainers: case.trainers.iter().enumerate().map(loses).collect(),
        uplink,
        ..case
    }
}

/// The case with the trainers of two owners, who submit them in turn.
fn of_two_owners(case: Case) -> Case {
    let owned = |(at, spec): (usize, &TrainerSpec)| TrainerSpec {
        owner: Some(["ann", "bob"][usize::from(at % 5 == 0)].to_owned()),
        ..spec.clone()
    };
    Case {
        trainers: case.trainers.iter().enumerate().map(owned).collect(),
        objective: "fair",
        ..case
    }
}

/// The case with the trainers of which it is known how fast they learn: far below their samples,
/// and worse on many nodes.
fn learning(case: Case) -> Case {
    let of = |(at, spec): (usize, &TrainerSpec)| {
        let points = spec.throughput.points().iter();
        let worth = |nodes: u32| 0.9 / (1.0 + f64::from(nodes) * [0.02, 0.1, 0.4][at % 3]);
        let points = points.map(|point| (point.nodes, point.rate * worth(point.nodes)));
        (spec.id.clone(), ScalingCurve::new(points).unwrap())
    };
    Case {
        goodput: case.trainers.iter().enumerate().map(of).collect(),
        ..case
    }
}

#[test]
fn services_and_replay_make_the_same_plans_by_goodput() {
    learning(day("goodput")).check();
}

#[test]
fn services_and_replay_make_the_same_plans_for_two_kinds_of_nodes() {
    two_kinds(day("as-given")).check();
}

#[test]
fn services_and_replay_make_the_same_plans_for_two_kinds_of_nodes_without_forecasts() {
    let case = Case {
        policy: Policy::Dp,
        ..day("as-given")
    };
    two_kinds(case).check();
}

#[test]
fn services_and_replay_make_the_same_plans_over_distance() {
    apart(day("as-given"), None).check();
}

#[test]
fn services_and_replay_make_the_same_plans_over_shared_uplinks() {
    apart(day("as-given"), Some(1)).check();
}

#[test]
fn services_and_replay_make_the_same_plans_for_two_owners() {
    of_two_owners(day("fair")).check();
}

#[test]
fn services_and_replay_make_the_same_plans_for_two_owners_of_two_kinds() {
    of_two_owners(two_kinds(day("fair"))).check();
}

#[test]
fn services_and_replay_make_the_same_plans_for_two_kinds_of_nodes_over_shared_uplinks() {
    apart(two_kinds(day("as-given")), Some(1)).check();
}
