//! Nodes of two kinds: one plan for both, the same as before where all are of one kind, and errors
//! at the door.

use std::collections::BTreeMap;

use lacuna_model::{
    HoleRecord, KindName, KindRates, MixedPoint, NodeId, Policy, ScalingCurve, Timestamp,
    TrainerSpec,
};
use lacuna_sim::{
    Annotated, Beside, History, HoleTrace, Hooks, PoolTrace, Practice, Replayed, Settings,
    SimError, replay,
};
use proptest::prelude::*;

use crate::common::{hole, trainer};

fn kind(name: &str) -> KindName {
    KindName::new(name).unwrap()
}

/// Nodes `n0`, `n1`, ... with these kinds.
fn kinds(of: &[&str]) -> BTreeMap<NodeId, KindName> {
    let named = of.iter().enumerate();
    named
        .map(|(at, name)| (NodeId::new(format!("n{at}")).unwrap(), kind(name)))
        .collect()
}

/// Rates by kind: linear curves up to a count, and points `(cpu, gpu, rate)`.
fn rates(alone: &[(&str, f64, u32)], points: &[(u32, u32, f64)]) -> KindRates {
    let curve = |&(name, rate, most): &(&str, f64, u32)| {
        (kind(name), ScalingCurve::linear(rate, most).unwrap())
    };
    let point = |&(cpu, gpu, rate): &(u32, u32, f64)| MixedPoint {
        counts: [(kind("cpu"), cpu), (kind("gpu"), gpu)].into(),
        rate,
    };
    let alone = alone.iter().map(curve).collect();
    KindRates::new(alone, points.iter().map(point).collect()).unwrap()
}

/// A trainer without end that takes these kinds.
fn by_kind(number: u32, kinds: KindRates, max: u32) -> TrainerSpec {
    let throughput = kinds.fastest().unwrap().clone();
    let spec = TrainerSpec {
        max_nodes: max,
        throughput,
        kinds,
        ..trainer(number, max, 1e12)
    };
    spec.check().unwrap();
    spec
}

fn run(
    trace: &dyn PoolTrace,
    trainers: &[TrainerSpec],
    settings: &Settings,
) -> Result<Replayed, SimError> {
    let mut progress = |_| {};
    let mut hooks = Hooks::new(&|| 0.0, &mut progress);
    replay(
        trace,
        trainers,
        settings,
        Some(History::default()),
        &mut hooks,
    )
}

fn trace(holes: &[HoleRecord]) -> HoleTrace {
    HoleTrace::new(holes, None, Timestamp::from_unix(0), None)
}

fn verified() -> Settings {
    Settings {
        verify: true,
        policy: Policy::Dp,
        ..Settings::default()
    }
}

#[test]
fn nodes_of_one_kind_or_trainers_without_kinds_are_as_before() {
    let holes: Vec<HoleRecord> = (0_i64..12)
        .map(|n| {
            hole(
                n as u32 % 5,
                n / 5 * 300 + n * 7,
                n / 5 * 300 + 200 + n * 11,
            )
        })
        .collect();
    let plain = trace(&holes);
    let trainers: Vec<TrainerSpec> = (0..3).map(|n| trainer(n, 4, 2e4)).collect();
    for policy in Policy::ALL {
        let settings = Settings {
            policy,
            ..Settings::default()
        };
        let expected = run(&plain, &trainers, &settings).unwrap();
        let one = Annotated::new(&plain)
            .with_kinds(&kinds(&["cpu"; 5]))
            .unwrap();
        assert_eq!(run(&one, &trainers, &settings).unwrap(), expected);
        let named = trainers.iter().map(|spec| TrainerSpec {
            kinds: rates(&[("cpu", 10.0, 4)], &[]),
            ..spec.clone()
        });
        let named: Vec<TrainerSpec> = named.collect();
        assert_eq!(run(&one, &named, &settings).unwrap(), expected);
        let two = kinds(&["cpu", "gpu", "cpu", "gpu", "cpu"]);
        let two = Annotated::new(&plain).with_kinds(&two).unwrap();
        assert_eq!(run(&two, &trainers, &settings).unwrap(), expected);
    }
}

#[test]
fn a_trainer_takes_the_kind_or_the_mix_that_is_best_for_it() {
    // One node of each kind for 100 s.
    let plain = trace(&[hole(0, 0, 100), hole(1, 0, 100)]);
    let two = Annotated::new(&plain)
        .with_kinds(&kinds(&["cpu", "gpu"]))
        .unwrap();
    let alone = [("cpu", 10.0, 1), ("gpu", 100.0, 1)];
    let cases = [
        (rates(&alone, &[]), 1, 10_000.0),
        (rates(&alone, &[(1, 1, 130.0)]), 2, 13_000.0),
        (rates(&alone[..1], &[]), 1, 1_000.0),
        // A mix that is slower than the GPU node alone.
        (rates(&alone, &[(1, 1, 90.0)]), 2, 10_000.0),
    ];
    for (kinds, max, samples) in cases {
        let done = run(&two, &[by_kind(0, kinds, max)], &verified()).unwrap();
        assert_eq!(done.summary.samples, samples);
        assert!(done.summary.verified.unwrap().is_good());
    }
}

#[test]
fn a_kind_that_vanishes_while_it_trains_leaves_the_other() {
    // The CPU node leaves after 50 s, and one comes again at 80 s.
    let holes = [hole(0, 0, 50), hole(1, 0, 100), hole(0, 80, 100)];
    let plain = trace(&holes);
    let two = Annotated::new(&plain)
        .with_kinds(&kinds(&["cpu", "gpu"]))
        .unwrap();
    let both = rates(&[("cpu", 10.0, 1), ("gpu", 100.0, 1)], &[(1, 1, 130.0)]);
    let done = run(&two, &[by_kind(0, both, 2)], &verified()).unwrap();
    // 130/s, less 2 s at that rate; 100/s, less 3 s at that rate; 130/s.
    let expected = 130.0 * 50.0 - 2.0 * 130.0 + 100.0 * 30.0 - 3.0 * 100.0 + 130.0 * 20.0;
    assert_eq!(done.summary.samples, expected);
    // One that takes CPU nodes alone stops, and starts again free of charge.
    let cpu = rates(&[("cpu", 10.0, 1)], &[]);
    let done = run(&two, &[by_kind(0, cpu, 1)], &verified()).unwrap();
    assert_eq!(done.summary.samples, 10.0 * 50.0 - 2.0 * 10.0 + 10.0 * 20.0);
}

#[test]
fn more_of_one_kind_changes_nothing_on_the_other() {
    let gpu_holes = [hole(0, 0, 400), hole(1, 100, 300)];
    let gpu = || by_kind(0, rates(&[("gpu", 100.0, 2)], &[]), 2);
    let cpu = |n| by_kind(n, rates(&[("cpu", 10.0, 3)], &[]), 3);
    let names = kinds(&["gpu", "gpu", "cpu", "cpu", "cpu", "cpu"]);
    let samples = |holes: &[HoleRecord], trainers: &[TrainerSpec]| {
        let plain = trace(holes);
        let two = Annotated::new(&plain).with_kinds(&names).unwrap();
        let done = run(&two, trainers, &verified()).unwrap();
        let history = done.history.unwrap();
        let life = history.lives.iter().find(|life| life.name.as_str() == "t0");
        (life.unwrap().clone(), done.summary.kinds.unwrap())
    };
    let idle = [hole(2, 0, 400)];
    let few: Vec<HoleRecord> = gpu_holes.iter().chain(&idle).cloned().collect();
    let (before, _) = samples(&few, &[gpu()]);
    let busy = (2..6).map(|n| hole(n, i64::from(n) * 31, 390 - i64::from(n) * 17));
    let many: Vec<HoleRecord> = gpu_holes.iter().cloned().chain(busy).collect();
    let (after, harvest) = samples(&many, &[gpu(), cpu(1), cpu(2)]);
    assert_eq!(before.sizes, after.sizes);
    assert_eq!(before.preemptions, after.preemptions);
    let trained: Vec<f64> = harvest
        .iter()
        .map(|kind| kind.harvested_node_hours)
        .collect();
    assert!(trained[0] > 0.0, "no CPU node trained");
    assert!((trained[1] - 600.0 / 3600.0).abs() < 1e-9, "{harvest:?}");
}

#[test]
fn bad_kinds_are_refused_with_a_remedy() {
    let plain = trace(&[hole(0, 0, 100), hole(1, 0, 100), hole(2, 0, 100)]);
    let text = |error: SimError| error.to_string();
    let refuse = |of: &[&str]| text(Annotated::new(&plain).with_kinds(&kinds(of)).err().unwrap());
    assert!(refuse(&["cpu", "gpu"]).contains("node n2 has no kind: add it"));
    let five = ["cpu", "gpu", "fat", "old", "fpga"];
    assert!(refuse(&five).contains("4 kinds at most"));
    let trainers = [by_kind(0, rates(&[("fpga", 1.0, 1)], &[]), 1)];
    let settings = Settings::default();
    let error = text(run(&plain, &trainers, &settings).unwrap_err());
    assert!(error.contains("--kinds FILE"), "{error}");
    let two = Annotated::new(&plain)
        .with_kinds(&kinds(&["cpu", "gpu", "gpu"]))
        .unwrap();
    let error = text(run(&two, &trainers, &settings).unwrap_err());
    assert!(
        error.contains("names kind fpga, and no node is of it"),
        "{error}"
    );
    assert!(error.contains("cpu, gpu"), "{error}");
}

#[test]
fn every_policy_and_objective_plans_kinds_for_several_owners() {
    let holes: Vec<HoleRecord> = (0..6_i64).map(|n| hole(n as u32, n * 5, 400 + n)).collect();
    let plain = trace(&holes);
    let names = kinds(&["cpu", "gpu", "cpu", "gpu", "cpu", "cpu"]);
    let two = Annotated::new(&plain).with_kinds(&names).unwrap();
    let owned = |n, owner: &str| TrainerSpec {
        owner: Some(owner.to_owned()),
        ..by_kind(
            n,
            rates(&[("cpu", 10.0, 3), ("gpu", 30.0, 2)], &[(1, 1, 42.0)]),
            3,
        )
    };
    let trainers = [
        owned(0, "ann"),
        owned(1, "ann"),
        owned(2, "bob"),
        trainer(3, 3, 1e12),
    ];
    for policy in Policy::ALL {
        for objective in ["fair", "as-given", "goodput", "speedup^0.9"] {
            let settings = Settings {
                policy,
                objective: objective.parse().unwrap(),
                ..Settings::default()
            };
            let done = run(&two, &trainers, &settings).unwrap();
            let history = done.history.unwrap();
            let trained = history
                .lives
                .iter()
                .filter(|life| life.samples > 0.0)
                .count();
            assert!(trained > 1, "{policy:?} {objective}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn every_decision_is_that_of_the_plain_program(
        spans in prop::collection::vec((0_u32..8, 0_i64..900, 20_i64..400), 4..24),
        points in prop::collection::vec(5.0..40.0_f64, 4),
    ) {
        let mut ends = [0_i64; 8];
        let mut holes = Vec::new();
        for (node, from, length) in spans {
            let end = &mut ends[node as usize];
            let from = from.max(*end + 1);
            *end = from + length;
            holes.push(hole(node, from, *end));
        }
        let all = ["cpu", "gpu", "cpu", "cpu", "gpu", "cpu", "gpu", "cpu"];
        let plain = trace(&holes);
        let two = Annotated::new(&plain).with_kinds(&kinds(&all)).unwrap();
        let alone = [("cpu", 4.0, 3), ("gpu", 11.0, 2)];
        let grid = [(1, 1, points[0]), (1, 2, points[1]), (3, 1, points[2]), (3, 2, points[3])];
        let trainers = [
            by_kind(0, rates(&alone, &grid), 5),
            by_kind(1, rates(&alone, &[]), 3),
            trainer(2, 3, 1e12),
            by_kind(3, rates(&alone[1..], &[]), 2),
        ];
        let settings = verified();
        let done = run(&two, &trainers, &settings).unwrap();
        let verified = done.summary.verified.unwrap();
        prop_assert!(verified.is_good(), "{:?}", verified);
        prop_assert!(verified.decisions > 0);
        // The same nodes of three kinds, of which each trainer uses two at most.
        let all = ["cpu", "gpu", "cpu", "fat", "gpu", "fat", "gpu", "cpu"];
        let three = Annotated::new(&plain).with_kinds(&kinds(&all)).unwrap();
        let done = run(&three, &trainers, &settings).unwrap();
        let verified = done.summary.verified.unwrap();
        prop_assert!(verified.is_good(), "{:?}", verified);
        prop_assert_eq!(verified.unproven, 0);
        let of_kinds = done.summary.kinds.unwrap();
        prop_assert_eq!(of_kinds.len(), 3);
        prop_assert!(of_kinds.iter().all(|of| of.taken_nodes <= of.left_nodes));
    }
}

#[test]
fn practices_beside_the_policy_take_nodes_of_one_kind_at_a_time() {
    // Two gpu nodes of 30/s and three cpu nodes of 10/s for 100 s. The first job takes the gpu nodes,
    // the second cpu nodes. A gpu node that is lost at 50 s has no other to take its place.
    let ends = [50, 100, 100, 100, 100];
    let holes: Vec<HoleRecord> = (0..5).map(|n| hole(n, 0, ends[n as usize])).collect();
    let plain = trace(&holes);
    let names = kinds(&["gpu", "gpu", "cpu", "cpu", "cpu"]);
    let two = Annotated::new(&plain).with_kinds(&names).unwrap();
    let both = || rates(&[("cpu", 10.0, 3), ("gpu", 30.0, 2)], &[(1, 1, 45.0)]);
    let trainers = [by_kind(0, both(), 3), by_kind(1, both(), 3)];
    let settings = Settings {
        beside: Beside {
            practices: Practice::ALL.to_vec(),
            ..Beside::default()
        },
        cost_scale: 0.0,
        ..Settings::default()
    };
    let done = run(&two, &trainers, &settings).unwrap().summary;
    let of = |practice: Practice| {
        let mut all = done.beside.iter();
        all.find(|figures| figures.practice == practice).unwrap()
    };
    let elastic = of(Practice::TorchrunElastic);
    // Until 50 s 60/s and 30/s; the loss takes the 3,000 samples that are in no checkpoint.
    let expected = 30.0 * 50.0 + 30.0 * 100.0;
    assert!((elastic.samples - expected).abs() < 1e-6, "{elastic:?}");
    let requeue = of(Practice::Requeue);
    // Of jobs of one node each takes a gpu node, and one is killed. Of two nodes the second has 20/s.
    assert_eq!(requeue.nodes, Some(1));
    assert!((requeue.samples - 30.0 * 100.0).abs() < 1e-6, "{requeue:?}");
    for rule in [Practice::Dp, Practice::EqualShare] {
        assert!(of(rule).samples > expected, "{:?}", of(rule));
    }
}
