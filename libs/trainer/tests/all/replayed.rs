//! Sizes and distances that were never tried have what the replay of a step says.

use lacuna_model::{
    Basis, Cause, CauseCost, Distance, Elastic, Follows, Launch, NodeId, Program, Span, StepCosts,
    StepElsewhere, StepModel, Tier, Topology, TrainerRecord,
};
use lacuna_rates::Rates;
use lacuna_trainer::controller::Input;
use lacuna_trainer::settings::ProfileOrder;

use crate::common::{World, node, step_costs};
use crate::probes::{give, give_all, settle, sizes, unknown, world_of};

/// Samples of a node in a step.
const SAMPLES: u32 = 8;
/// How many times as long a byte takes between leaves.
const FAR: f64 = 3.0;

/// Seconds of a step: 100 ms of computing, and a link that takes `link` s, `slower` than on a leaf.
fn step(link: f64, nodes: u32, slower: f64) -> f64 {
    0.1 + link * slower * (1.0 - 1.0 / f64::from(nodes))
}

fn rate(link: f64, nodes: u32, slower: f64) -> f64 {
    f64::from(SAMPLES * nodes) / step(link, nodes, slower)
}

/// What the replay of such a step says.
fn costs(link: f64, nodes: u32, slower: f64) -> StepCosts {
    let sizes = [1, 2, 4, 8, 16].map(|members| (members, 1.0));
    let links = [0.125, 0.25, 0.5, 2.0, 4.0].map(|factor| (nodes, factor));
    let rows = sizes
        .into_iter()
        .filter(|size| size.0 != nodes)
        .chain(links);
    let replayed = step(link, nodes, slower);
    StepCosts {
        members: nodes,
        follows: Some(Follows::PerNode {
            samples: SAMPLES.into(),
        }),
        measured: 1.01 * replayed,
        replayed,
        elsewhere: rows
            .map(|(members, factor)| StepElsewhere {
                members,
                link: factor,
                step: step(link, members, slower / factor),
            })
            .collect(),
        ..step_costs(None)
    }
}

fn record(w: &World, name: &str) -> TrainerRecord {
    w.record(name).clone()
}

/// A program reports every five seconds for `seconds`, at a rate and with the costs of a step.
fn train(
    w: &mut World,
    name: &str,
    seconds: i64,
    says: impl Fn(&[NodeId]) -> (f64, Option<StepCosts>),
) {
    for _ in 0..seconds / 5 {
        w.pass(Span::from_secs(5));
        w.renew();
        w.statuses();
        w.deliver(usize::MAX);
        let record = record(w, name);
        if !record.nodes.is_empty() {
            let (rate, costs) = says(&record.nodes);
            let samples = record.samples_run + 5.0 * rate;
            w.progress(name, samples, |report| {
                report.world_size = record.nodes.len() as u32;
                report.step_costs = costs.map(Box::new);
            });
        }
        settle(w);
        w.input(Input::Timer);
        settle(w);
    }
}

/// A trainer that has four nodes, may have eight, and probes no size.
fn on_four() -> World {
    let mut w = world_of(
        unknown("a", Elastic::REGROUP),
        0.0,
        ProfileOrder::LargeToSmall,
    );
    give(&mut w, &[0, 1, 2, 3]);
    train(&mut w, "a", 30, |_| (rate(0.04, 4, 1.0), None));
    w
}

/// It reports the costs of its step once.
fn says(w: &mut World, costs: StepCosts) -> TrainerRecord {
    let at = rate(0.04, record(w, "a").nodes.len() as u32, 1.0);
    train(w, "a", 5, |_| (at, Some(costs.clone())));
    record(w, "a")
}

fn off(record: &TrainerRecord, nodes: u32) -> f64 {
    (Rates::of(record).curve().at(nodes) / rate(0.04, nodes, 1.0) - 1.0).abs()
}

#[test]
fn sizes_never_tried_have_what_the_replay_says_and_a_plan_follows() {
    let mut w = on_four();
    let before = record(&w, "a");
    assert!(
        off(&before, 2) > 0.05 && off(&before, 8) > 0.02,
        "{before:?}"
    );
    let version = w.controller.version();
    let spec = says(&mut w, costs(0.04, 4, 1.0));
    for nodes in [1, 2, 4, 8] {
        assert!(off(&spec, nodes) < 1e-6, "{nodes}: {spec:?}");
    }
    assert!(w.controller.version() > version, "no new plan");
    let measured = record(&w, "a").measured.unwrap();
    assert!(matches!(measured.basis(4), Basis::Measured(_)));
    let error = measured.replay.as_deref().unwrap().off;
    assert!((error - 0.01).abs() < 0.001, "{error}");
    assert_eq!(measured.basis(8), Basis::Replayed { nodes: 4, error });
    // The same again is no news, and what is not trusted takes nothing back.
    let version = w.controller.version();
    says(&mut w, costs(0.04, 4, 1.0));
    let mut off_by_more = costs(0.5, 4, 1.0);
    off_by_more.measured *= 1.05;
    let mut endless = costs(0.04, 4, 1.0);
    endless
        .elsewhere
        .iter_mut()
        .for_each(|one| one.step = f64::NAN);
    let mut of_others = costs(0.5, 4, 1.0);
    of_others.members = 8;
    for bad in [off_by_more, endless, of_others] {
        assert_eq!(says(&mut w, bad).in_force(), spec.in_force());
    }
    assert_eq!(w.controller.version(), version);
    // It outlives control.
    w.crash_control();
    settle(&mut w);
    assert_eq!(
        record(&w, "a").measured.unwrap().basis(8),
        measured.basis(8)
    );
}

#[test]
fn a_measured_trainer_is_worth_as_much_at_its_least_size_as_one_that_is_not() {
    let mut rigid = unknown("a", Elastic::REGROUP);
    rigid.min_nodes = 8;
    rigid.objective = Some(rigid.throughput.speedup());
    let mut w = world_of(rigid.clone(), 1.0, ProfileOrder::LargeToSmall);
    let at = rate(0.04, 8, 1.0);
    train(&mut w, "a", 60, |_| (at, Some(costs(0.04, 8, 1.0))));
    let measured = record(&w, "a");
    assert!((Rates::of(&measured).curve().at(8) / at - 1.0).abs() < 1e-6);
    assert_eq!(Rates::of(&measured).objective().unwrap().at(8), 8.0);
    assert_eq!(measured.spec, rigid, "what was submitted stays");
    let replay = measured.measured.unwrap().replay.unwrap();
    assert!(replay.judged.rates.iter().any(|point| point.nodes == 1));
}

#[test]
fn a_measured_rate_wins_and_one_that_is_far_off_refutes_the_replay() {
    for (far, is_model) in [(0.95, true), (0.7, false)] {
        let mut w = on_four();
        says(&mut w, costs(0.04, 4, 1.0));
        give(&mut w, &(0..8).collect::<Vec<_>>());
        let at = far * rate(0.04, 8, 1.0);
        train(&mut w, "a", 30, |_| (at, None));
        let record = record(&w, "a");
        assert!((Rates::of(&record).curve().at(8) / at - 1.0).abs() < 1e-6);
        let judged = &record
            .measured
            .as_deref()
            .unwrap()
            .replay
            .as_deref()
            .unwrap()
            .judged;
        assert_eq!(!judged.rates.is_empty(), is_model, "{judged:?}");
        assert_eq!(judged.met, u32::from(is_model));
        assert_eq!(off(&record, 2) < 1e-6, is_model, "{judged:?}");
        assert_eq!(judged.error > StepModel::MOST_OFF, !is_model);
    }
}

#[test]
fn beyond_the_size_at_which_loaders_limit_nothing_is_gained() {
    let mut w = on_four();
    give(&mut w, &[0, 1]);
    // Two nodes read half as much again for each of them.
    train(&mut w, "a", 30, |_| (0.75 * rate(0.04, 4, 1.0), None));
    let linear = record(&w, "a");
    let linear = Rates::of(&linear);
    assert!(linear.curve().at(8) > 1.2 * linear.curve().at(4));
    give(&mut w, &[0, 1, 2, 3]);
    let mut waits = costs(0.04, 4, 1.0);
    waits.costs = vec![CauseCost {
        cause: Cause::Fetch,
        seconds: 0.06,
        percent: 46.0,
    }];
    let limited = says(&mut w, waits);
    let limited = Rates::of(&limited);
    assert_eq!(limited.curve().at(8), limited.curve().at(4));
    let basis = limited.basis(8, Tier(0));
    assert_eq!(basis, Basis::Limited { last: 4 });
}

#[test]
fn sizes_that_a_replay_says_are_not_tried_once_it_was_met() {
    for (is_said, expected) in [(false, vec![8, 4, 2, 1, 8]), (true, vec![8, 4, 8])] {
        let mut w = world_of(
            unknown("a", Elastic::REGROUP),
            1.0,
            ProfileOrder::LargeToSmall,
        );
        train(&mut w, "a", 3600, |nodes| {
            let nodes = nodes.len() as u32;
            let said = (nodes > 1 && is_said).then(|| costs(0.04, nodes, 1.0));
            (rate(0.04, nodes, 1.0), said)
        });
        assert_eq!(sizes(&w), expected);
        let record = record(&w, "a");
        for nodes in [1, 2, 4, 8] {
            assert!(off(&record, nodes) < 1e-6, "{is_said}, {nodes}");
        }
    }
}

#[test]
fn a_trainer_that_was_never_apart_has_the_links_of_others_of_its_owner() {
    let paths = (0..12).map(|n| (node(n), vec![format!("leaf{}", n / 4)]));
    let topology = Topology::new(paths.collect()).unwrap();
    let slower = |nodes: &[NodeId]| match topology.tier(nodes) {
        Tier(0) => 1.0,
        _ => FAR,
    };
    let says = |link: f64| {
        move |nodes: &[NodeId], slower: f64| {
            let nodes = nodes.len() as u32;
            let said = (nodes > 1).then(|| costs(link, nodes, slower));
            (rate(link, nodes, slower), said)
        }
    };
    let (dear, cheap) = (says(0.08), says(0.02));
    let mut w = world_of(
        unknown("a", Elastic::REGROUP),
        1.0,
        ProfileOrder::LargeToSmall,
    );
    w.input(Input::Topology(topology.clone()));
    train(&mut w, "a", 3600, |nodes| dear(nodes, slower(nodes)));
    assert!(matches!(
        Rates::of(&record(&w, "a")).distance(),
        Distance::Measured(_)
    ));
    let submit = |w: &mut World, name: &str, owner: Option<&str>| {
        let mut spec = unknown(name, Elastic::REGROUP);
        spec.owner = owner.map(str::to_owned);
        if let Launch::Command(Program { family, .. }) = &mut spec.launch {
            *family = Some(name.to_owned());
        }
        w.submit("", vec![spec]);
        settle(w);
    };
    submit(&mut w, "b", None);
    submit(&mut w, "c", Some("eve"));
    for name in ["b", "c"] {
        let all: Vec<usize> = (0..8).collect();
        give_all(&mut w, &[("a", &all), (name, &[8, 9, 10, 11])]);
        train(&mut w, name, 30, |nodes| cheap(nodes, slower(nodes)));
    }
    let b = record(&w, "b");
    let b = Rates::of(&b);
    let share = b.distance().share(b.curve(), 4, Tier(1));
    let expected = step(0.02, 4, 1.0) / step(0.02, 4, FAR);
    assert!((share - expected).abs() < 0.03, "{share} {expected}");
    assert_eq!(b.distance().basis(), Some("the replay of a step"));
    // Another owner's programs may say what they like.
    assert!(Rates::of(&record(&w, "c")).distance().is_free());
}
