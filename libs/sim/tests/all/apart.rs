//! Replays in which distance costs trainers something, and in which it does not.

use std::collections::BTreeMap;

use lacuna_model::{Distance, HoleRecord, NodeId, Policy, Timestamp, Topology, TrainerSpec};
use lacuna_sim::{
    Annotated, History, HoleTrace, Hooks, Replayed, Settings, leaves_by_name, replay,
};
use proptest::prelude::*;

use crate::common::{hole, machine, trainer};

fn run(
    holes: &[HoleRecord],
    topology: impl Fn(&HoleTrace) -> Topology,
    trainers: &[TrainerSpec],
    settings: &Settings,
) -> Replayed {
    let trace = HoleTrace::new(holes, None, Timestamp::from_unix(0), None);
    let located = Annotated::new(&trace).with_topology(topology(&trace));
    let mut progress = |_| {};
    let mut hooks = Hooks::new(&|| 0.0, &mut progress);
    let history = Some(History::default());
    replay(&located, trainers, settings, history, &mut hooks).unwrap()
}

/// Nodes n1 and n2 on leaf a, n3 on leaf b.
fn two_leaves(_: &HoleTrace) -> Topology {
    let paths = [("n1", "a"), ("n2", "a"), ("n3", "b")];
    let path = |(node, leaf): (&str, &str)| (NodeId::new(node).unwrap(), vec![leaf.to_owned()]);
    Topology::new(paths.map(path).into()).unwrap()
}

#[test]
fn work_is_counted_at_the_distance_of_the_nodes() {
    let holes = [hole(1, 0, 400), hole(2, 0, 400), hole(3, 0, 400)];
    let mut spec = trainer(0, 3, 3_000.0);
    spec.distance = Distance::Shares(vec![0.5]);
    let of = |unaware| {
        let settings = Settings {
            policy: Policy::Dp,
            unaware,
            ..Settings::default()
        };
        run(&holes, two_leaves, std::slice::from_ref(&spec), &settings).summary
    };
    // Two nodes of one leaf train at 20/s, three on both at 15/s.
    let aware = of(false);
    assert!((aware.hours * 3600.0 - 150.0).abs() < 1e-9, "{aware:?}");
    let apart = aware.apart.unwrap();
    assert_eq!(apart.leaves, 2);
    assert_eq!((apart.crossing, apart.most_crossing), (0.0, 0));
    assert!((apart.node_hours[0] - 300.0 / 3600.0).abs() < 1e-9);
    let unaware = of(true);
    assert!((unaware.hours * 3600.0 - 200.0).abs() < 1e-9, "{unaware:?}");
    let apart = unaware.apart.unwrap();
    assert_eq!((apart.node_hours[0], apart.most_crossing), (0.0, 1));
    assert!((apart.node_hours[1] - 600.0 / 3600.0).abs() < 1e-9);
    let samples: f64 = apart.quarters.iter().map(|quarter| quarter.samples).sum();
    assert!((samples - 3_000.0).abs() < 1e-6);
}

#[test]
fn crossing_trainers_share_an_uplink() {
    let holes = [1, 2, 3, 4].map(|number| hole(number, 0, 1000));
    // A plan that does not know leaves keeps neighbours by name together: both cross both leaves.
    let leaves = |_: &HoleTrace| {
        let paths = [("n1", "a"), ("n2", "b"), ("n3", "a"), ("n4", "b")];
        let path = |(node, leaf): (&str, &str)| (NodeId::new(node).unwrap(), vec![leaf.to_owned()]);
        Topology::new(paths.map(path).into()).unwrap()
    };
    let trainers = [0, 1].map(|number| TrainerSpec {
        distance: Distance::Shares(vec![0.5]),
        min_nodes: 2,
        ..trainer(number, 2, 2_000.0)
    });
    let hours = |unaware, uplink| {
        let mut settings = Settings {
            policy: Policy::Dp,
            unaware,
            ..Settings::default()
        };
        settings.forecast.joint.uplink = uplink;
        run(&holes, leaves, &trainers, &settings).summary.hours * 3600.0
    };
    // Alone each trains at 20 * 1/2; two on an uplink for one at 20 / (1 + 2).
    assert!((hours(true, None) - 200.0).abs() < 1e-9);
    assert!((hours(true, Some(2)) - 200.0).abs() < 1e-9);
    assert!((hours(true, Some(1)) - 300.0).abs() < 1e-9);
    assert!((hours(false, Some(1)) - 100.0).abs() < 1e-9);
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 40,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn distance_that_costs_nothing_changes_nothing(holes in machine(), shuffle in 0_u64..4) {
        for policy in [Policy::Dp, Policy::Forecast] {
            let settings = Settings { policy, ..Settings::default() };
            let trainers = [trainer(0, 3, 900.0), trainer(1, 2, 500.0)];
            let nowhere = run(&holes, |_| Topology::default(), &trainers, &settings);
            let leaves = |trace: &HoleTrace| leaves_by_name(trace, 2, Some(shuffle)).unwrap();
            let free = run(&holes, leaves, &trainers, &settings);
            prop_assert_eq!(&nowhere.history, &free.history);
            // On one leaf a cost of distance is no cost.
            let costly = trainers.map(|spec| TrainerSpec {
                distance: Distance::Shares(vec![0.3]),
                kinds: lacuna_model::KindRates::default(),
                ..spec
            });
            let one = |trace: &HoleTrace| leaves_by_name(trace, 100, None).unwrap();
            let near = run(&holes, one, &costly, &settings);
            prop_assert_eq!(near.summary.apart, None);
            prop_assert_eq!(&near.history, &free.history);
        }
    }
}

#[test]
fn a_topology_of_unknown_nodes_is_none() {
    let topology = Topology::new(BTreeMap::new()).unwrap();
    let holes = [hole(1, 0, 50)];
    let replayed = run(
        &holes,
        |_| topology.clone(),
        &[trainer(0, 1, 1.0)],
        &Settings::default(),
    );
    assert_eq!(replayed.summary.apart, None);
}
