//! Trainers with rates by kind of node: rates, broken mixes, refusals.

use std::collections::BTreeMap;

use lacuna_model::{
    Basis, Elastic, KindName, KindRates, MixedPoint, NodeKinds, Progress, ScalingCurve, Span, Tier,
    TrainerSpec, Work,
};
use lacuna_rates::{Rates, Shape, on_kind};
use lacuna_trainer::controller::Input;

use crate::common::{World, config, node, spec, trainer};
use crate::controller::apply;
use crate::elsewhere::fail;
use crate::probes::unknown;

fn kind(name: &str) -> KindName {
    KindName::new(name).unwrap()
}

/// Nodes 0 to 3 are of kind cpu, 4 to 11 of kind `second`.
fn kinds(second: &str) -> NodeKinds {
    let name = |n| kind(if n < 4 { "cpu" } else { second });
    NodeKinds::new((0..12).map(|n| (node(n), name(n))).collect())
}

/// 10 samples/s on each cpu node, 100 on each gpu node; 2 cpu nodes beside one gpu node 150.
fn by_kind(name: &str) -> TrainerSpec {
    let alone: BTreeMap<_, _> = [
        (kind("cpu"), ScalingCurve::linear(10.0, 2).unwrap()),
        (kind("gpu"), ScalingCurve::linear(100.0, 4).unwrap()),
    ]
    .into();
    let point = MixedPoint {
        counts: [(kind("cpu"), 2), (kind("gpu"), 1)].into(),
        rate: 150.0,
    };
    let kinds = KindRates::new(alone, vec![point]).unwrap();
    TrainerSpec {
        throughput: kinds.fastest().unwrap().clone(),
        kinds,
        ..spec(name, 1, 6, Work::UntilExit)
    }
}

fn world(kinds: Option<NodeKinds>) -> World {
    let mut world = World::new(1, 12, config());
    world.snapshot();
    if let Some(kinds) = kinds {
        world.input(Input::Kinds(kinds));
    }
    world
}

fn submit(world: &mut World, trainers: Vec<TrainerSpec>) -> Result<(), String> {
    world.submit("ann", trainers);
    world.replies.pop().unwrap().map(|_| ())
}

#[test]
fn samples_and_costs_follow_the_rate_of_the_mix() {
    let mut w = world(Some(kinds("gpu")));
    submit(&mut w, vec![by_kind("a")]).unwrap();
    (0..6).for_each(|n| w.open(n));
    apply(&mut w, &[("a", &[0, 1])]);
    w.pass(Span::from_secs(10));
    // Two cpu nodes make 20 samples/s. Growing costs 18 s of that.
    apply(&mut w, &[("a", &[0, 1, 4])]);
    assert_eq!(w.samples("a"), 200.0);
    let rate = |w: &World| Rates::of(w.record("a")).present();
    assert_eq!(rate(&w), 150.0);
    let record = w.record("a");
    assert_eq!((record.rescale_cost, record.owed), (360.0, 360.0));
    w.pass(Span::from_secs(10));
    apply(&mut w, &[("a", &[4])]);
    assert_eq!(w.samples("a"), 200.0 + 1500.0 - 360.0);
    assert_eq!(rate(&w), 100.0);
    // A node without a kind, or a mix beyond what was measured, is not taken.
    apply(&mut w, &[("a", &[0, 4, 5])]);
    assert_eq!(w.nodes_of("a"), 1);
}

#[test]
fn the_next_try_after_a_failure_is_on_a_node_of_the_same_kind() {
    let mut only_gpu = by_kind("a");
    let alone = [(kind("gpu"), ScalingCurve::linear(100.0, 4).unwrap())];
    only_gpu.kinds = KindRates::new(alone.into(), Vec::new()).unwrap();
    only_gpu.max_nodes = 4;
    for spec in [only_gpu, by_kind("a")] {
        let mut w = world(Some(kinds("gpu")));
        submit(&mut w, vec![spec]).unwrap();
        for n in [0, 1, 4, 5] {
            w.open(n);
        }
        apply(&mut w, &[("a", &[4])]);
        fail(&mut w, 4);
        apply(&mut w, &[("a", &[4])]);
        let record = w.record("a");
        assert_eq!(record.nodes, [node(5)]);
    }
}

#[test]
fn a_fill_in_of_one_kind_leaves_the_others_harvest_and_harm_as_they_are() {
    let mut w = world(Some(kinds("gpu")));
    submit(&mut w, vec![by_kind("a")]).unwrap();
    (0..6).for_each(|n| w.open(n));
    apply(&mut w, &[("a", &[4, 5])]);
    w.pass(Span::from_secs(10));
    // Batch jobs take a cpu node, which is free, and a gpu node, which trains.
    w.close(0);
    w.pass(Span::from_secs(10));
    w.close(4);
    w.pass(Span::from_secs(2));
    w.deliver(usize::MAX);
    let tally = w.controller.tally();
    let of = |name| tally.kinds[&kind(name)];
    let idle = |name| (of(name).idle_node_s, of(name).harvested_node_s);
    assert_eq!(idle("cpu"), (4.0 * 10.0 + 3.0 * 12.0, 0.0));
    assert_eq!(idle("gpu"), (2.0 * 20.0 + 2.0, 2.0 * 20.0 + 2.0));
    assert_eq!(of("cpu").given_back, 0);
    assert_eq!((of("gpu").given_back, of("gpu").longest_harm_s), (1, 2.0));
    // The sums go on after a restart, and one kind has none.
    w.restart_control();
    assert_eq!(w.controller.tally().kinds, tally.kinds);
    let mut one = world(Some(kinds("cpu")));
    (0..6).for_each(|n| one.open(n));
    one.pass(Span::from_secs(10));
    assert!(one.controller.tally().kinds.is_empty());
}

#[test]
fn a_mix_that_breaks_gives_its_nodes_back() {
    let mut w = world(Some(kinds("gpu")));
    let mut spec = by_kind("a");
    // Without cpu nodes it runs on gpu nodes alone, and it cannot run on one cpu node.
    spec.kinds = {
        let alone = [
            (kind("cpu"), ScalingCurve::new([(1, 10.0)]).unwrap()),
            (kind("gpu"), ScalingCurve::linear(100.0, 2).unwrap()),
        ];
        let point = MixedPoint {
            counts: [(kind("cpu"), 2), (kind("gpu"), 1)].into(),
            rate: 150.0,
        };
        KindRates::new(alone.into(), vec![point]).unwrap()
    };
    spec.max_nodes = 4;
    spec.throughput = spec.kinds.fastest().unwrap().clone();
    submit(&mut w, vec![spec]).unwrap();
    (0..6).for_each(|n| w.open(n));
    apply(&mut w, &[("a", &[0, 1, 4])]);
    assert_eq!(w.nodes_of("a"), 3);
    // The gpu node is taken: two cpu nodes alone were not measured.
    w.close(4);
    w.deliver(usize::MAX);
    assert_eq!(w.nodes_of("a"), 0);
    assert!(w.leases.values().all(|(owner, _)| owner.is_none()));
    // A plan starts it again.
    apply(&mut w, &[("a", &[5])]);
    assert_eq!(w.nodes_of("a"), 1);
    // Its kind vanishes while it trains.
    w.input(Input::Kinds(kinds("big")));
    w.deliver(usize::MAX);
    assert_eq!(w.nodes_of("a"), 0);
    assert!(w.leases.values().all(|(owner, _)| owner.is_none()));
    // Where kinds are not known any more, its curve holds.
    w.input(Input::Kinds(NodeKinds::default()));
    apply(&mut w, &[("a", &[0])]);
    assert_eq!(w.nodes_of("a"), 1);
}

#[test]
fn a_submission_that_cannot_be_planned_is_refused_with_a_remedy() {
    let refused = |kinds: Option<NodeKinds>, change: &dyn Fn(&mut TrainerSpec)| {
        let mut spec = by_kind("a");
        change(&mut spec);
        submit(&mut world(kinds), vec![spec]).unwrap_err()
    };
    let gpu = || Some(kinds("gpu"));
    let same = |_: &mut TrainerSpec| ();
    assert!(refused(None, &same).contains("set ingest.kinds"));
    let error = refused(Some(kinds("fpga")), &same);
    assert!(error.contains("no node is of kind gpu") && error.contains("cpu, fpga"));
    let mut five: BTreeMap<_, _> = kinds("gpu")
        .iter()
        .map(|(n, k)| (n.clone(), k.clone()))
        .collect();
    for (n, name) in [(9, "old"), (10, "fat"), (11, "big")] {
        five.insert(node(n), kind(name));
    }
    let error = refused(Some(NodeKinds::new(five)), &same);
    assert!(
        error.contains("5 kinds (big, cpu, fat, gpu, old)"),
        "{error}"
    );
    let error = refused(gpu(), &|spec| {
        spec.throughput = ScalingCurve::linear(55.0, 6).unwrap();
    });
    assert!(error.contains("contradict the scaling curve"), "{error}");
    // Distance counts beside kinds.
    let mut far = by_kind("a");
    far.distance = lacuna_model::Distance::Shares(vec![0.5]);
    submit(&mut world(gpu()), vec![far]).unwrap();
}

#[test]
fn a_trainer_with_kinds_refuses_no_other_owners_in_any_order() {
    let of = |spec: TrainerSpec, owner: &str| TrainerSpec {
        owner: Some(owner.to_owned()),
        ..spec
    };
    let plain = |name: &str| spec(name, 1, 2, Work::UntilExit);
    let mut w = world(Some(kinds("gpu")));
    submit(&mut w, vec![of(by_kind("a"), "ann")]).unwrap();
    submit(&mut w, vec![of(plain("b"), "bob")]).unwrap();
    submit(&mut w, vec![of(by_kind("c"), "cyd")]).unwrap();
    submit(&mut w, vec![of(plain("d"), "ann")]).unwrap();
}

#[test]
fn rates_are_measured_by_kind_and_the_specification_stays() {
    let submitted = TrainerSpec {
        launch: unknown("a", Elastic::REGROUP).launch,
        ..by_kind("a")
    };
    let mut config = config();
    config.control.profile.share = 0.0;
    let mut w = World::new(1, 12, config);
    w.snapshot();
    w.input(Input::Kinds(kinds("gpu")));
    submit(&mut w, vec![submitted.clone()]).unwrap();
    (0..6).for_each(|n| w.open(n));
    let names = [kind("cpu"), kind("gpu")];
    let at = |w: &World, mix: [u32; 2]| {
        let record = w.record("a");
        let shape = Shape::new([mix[0], mix[1], 0, 0], 0);
        let rate = Rates::of(record).at(&shape, &names);
        (rate.value, matches!(rate.basis, Basis::Measured(_)))
    };
    let train = |w: &mut World, nodes: &[usize], rate: f64| {
        apply(w, &[("a", nodes)]);
        w.all_ready();
        w.deliver(usize::MAX);
        for n in 0..5 {
            w.pass(Span::from_secs(10));
            w.renew();
            let record = w.record("a");
            let (first, run) = (record.nodes[0].clone(), record.run);
            let samples = 10.0 * rate * f64::from(n + 1);
            w.input(Input::Progress(Progress::new(
                first,
                trainer("a"),
                run,
                w.now.cluster,
                samples,
            )));
        }
    };
    assert_eq!(at(&w, [2, 0]), (20.0, false));
    // Two cpu nodes are half as fast again as submitted. That says nothing of gpu nodes, and of both
    // together as much as they are of the sum.
    train(&mut w, &[0, 1], 30.0);
    assert_eq!(at(&w, [2, 0]), (30.0, true));
    assert_eq!(at(&w, [0, 1]), (100.0, false));
    assert_eq!(at(&w, [2, 1]), (150.0 * 130.0 / 120.0, false));
    // Nodes of both kinds are not measured.
    train(&mut w, &[0, 1, 4], 400.0);
    assert_eq!(at(&w, [2, 1]), (150.0 * 130.0 / 120.0, false));
    train(&mut w, &[4], 80.0);
    assert_eq!(at(&w, [0, 1]), (80.0, true));
    assert_eq!(at(&w, [2, 0]), (30.0, true));
    let record = w.record("a");
    assert_eq!(Rates::of(record).present(), 80.0);
    // On a cluster of one kind its measurements are those of that kind.
    let alone = on_kind(record, &kind("cpu"));
    assert_eq!(Rates::of(&alone).curve().at(2), 30.0);
    assert!(matches!(
        Rates::of(&alone).basis(2, Tier(0)),
        Basis::Measured(_)
    ));
    // All that outlives control, beside what was submitted.
    w.restart_control();
    assert_eq!(at(&w, [0, 1]), (80.0, true));
    let record = w.record("a");
    let bytes = |spec: &TrainerSpec| serde_json::to_vec(spec).unwrap();
    assert_eq!(bytes(&record.spec), bytes(&submitted));
}
