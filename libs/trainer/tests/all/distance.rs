//! Simulated trainers whose nodes are apart, and the uplinks that they share.

use std::collections::BTreeMap;

use lacuna_model::{Distance, Span, Topology, TrainerSpec, Work};
use lacuna_trainer::controller::{ControllerConfig, Input};

use crate::common::{World, config, node, spec};
use crate::controller::apply;

/// It has 10 samples/s on each node, and half of that where its nodes are apart.
fn loses(name: &str) -> TrainerSpec {
    TrainerSpec {
        distance: Distance::Shares(vec![0.5]),
        ..spec(name, 1, 8, Work::UntilExit)
    }
}

#[test]
fn simulated_trainers_are_as_fast_as_distance_and_shared_uplinks_allow() {
    let config = ControllerConfig {
        uplink: Some(1),
        ..config()
    };
    let mut w = World::new(1, 8, config);
    w.snapshot();
    // Nodes 0 to 3 are on one leaf, 4 to 7 on another.
    let path = |n| vec![format!("leaf{}", n / 4)];
    let paths: BTreeMap<_, _> = (0..8).map(|n| (node(n), path(n))).collect();
    w.input(Input::Topology(Topology::new(paths).unwrap()));
    w.submit("ann", vec![loses("a"), loses("b")]);
    (0..8).for_each(|n| w.open(n));
    let record = |w: &World, name| w.record(name).clone();
    let rates =
        |w: &World| ["a", "b"].map(|name| lacuna_rates::Rates::of(&record(w, name)).present());
    apply(&mut w, &[("a", &[0, 1])]);
    assert_eq!(rates(&w)[0], 20.0, "on one leaf");
    apply(&mut w, &[("a", &[0, 1, 4, 5]), ("b", &[2, 3])]);
    assert_eq!(rates(&w), [20.0, 20.0], "half of 40, and 20 on one leaf");
    let before = record(&w, "a");
    // Growing cost 18 s at the rate before; then it trains.
    assert_eq!(before.rescale_cost, 360.0);
    w.pass(Span::from_secs(20));
    // Both cross now: crossing takes twice as long, so a third of the rate is left.
    apply(&mut w, &[("a", &[0, 1, 4, 5]), ("b", &[2, 3, 6])]);
    assert_eq!(w.samples("a"), 40.0);
    let [a, b] = rates(&w);
    assert!(
        (a - 40.0 / 3.0).abs() < 1e-9 && (b - 10.0).abs() < 1e-9,
        "{a} {b}"
    );
    let after = record(&w, "a");
    assert_eq!(
        (after.rescale_cost, after.rescales, after.preempt_cost),
        (before.rescale_cost, before.rescales, 0.0),
        "the rate alone is another"
    );
    w.pass(Span::from_secs(30));
    apply(&mut w, &[("a", &[0, 1, 4, 5])]);
    assert!((w.samples("a") - 440.0).abs() < 1e-6);
    assert_eq!(rates(&w)[0], 20.0, "alone on its uplinks again");
}
