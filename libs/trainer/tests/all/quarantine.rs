//! Nodes on which programs fail, and the owners to which they are closed.

use lacuna_model::{NodeId, Span, StepCosts, TrainerSpec, Work};
use lacuna_trainer::controller::{Input, Note};

use crate::common::{World, node, spec, step_costs, trainer};
use crate::controller::{apply, world};

fn of(owner: &str, name: &str) -> TrainerSpec {
    TrainerSpec {
        owner: Some(owner.to_owned()),
        ..spec(name, 1, 4, Work::UntilExit)
    }
}

/// Four holes, and trainers of these names with their owners.
fn owned(trainers: &[(&str, &str)]) -> World {
    let specs = trainers.iter().map(|(owner, name)| of(owner, name));
    let mut w = world(specs.collect());
    (0..4).for_each(|n| w.open(n));
    w
}

fn submit(w: &mut World, trainer: TrainerSpec) {
    w.input(Input::Submit {
        trainers: vec![trainer],
        user: String::new(),
        tickets: std::collections::BTreeMap::new(),
        test_only: false,
    });
    w.deliver(usize::MAX);
}

fn seconds(w: &mut World, count: u32) {
    for _ in 0..count {
        w.pass(Span::from_secs(1));
        w.renew();
        w.statuses();
        w.report_all();
        w.deliver(usize::MAX);
        w.input(Input::Timer);
        w.deliver(usize::MAX);
    }
}

/// The programs on a node fail three times in a row: the waits between are 1, 2 and 4 s.
fn fail(w: &mut World, n: usize) {
    for _ in 0..3 {
        w.exit(&node(n), 1);
        w.deliver(usize::MAX);
        seconds(w, 6);
    }
}

fn unusable(w: &World) -> Vec<NodeId> {
    w.present().unusable
}

fn nodes(w: &World, name: &str) -> Vec<NodeId> {
    w.controller.record(&trainer(name)).unwrap().nodes.clone()
}

fn closed(w: &World) -> Vec<(NodeId, &str)> {
    let closed = w.notes.iter().filter_map(|note| match note {
        Note::Closed { node, owner, .. } => Some((node.clone(), owner.as_str())),
        _ => None,
    });
    closed.collect()
}

#[test]
fn an_owners_failing_programs_close_a_node_to_that_owner_alone() {
    let mut w = owned(&[("eve", "bad"), ("ann", "good"), ("eve", "next")]);
    apply(&mut w, &[("bad", &[0]), ("good", &[1])]);
    fail(&mut w, 0);
    assert_eq!(closed(&w), [(node(0), "eve")]);
    assert_eq!((unusable(&w), nodes(&w, "bad")), (vec![], vec![]));
    // Her trainers get other free nodes instead; trainers keep the nodes that they hold.
    apply(&mut w, &[("bad", &[0]), ("good", &[1])]);
    assert_eq!(nodes(&w, "bad"), [node(2)]);
    apply(&mut w, &[("bad", &[2]), ("good", &[1, 3]), ("next", &[0])]);
    assert_eq!((w.nodes_of("next"), w.nodes_of("good")), (0, 2));
    // The others may have it.
    apply(&mut w, &[("bad", &[2]), ("good", &[0, 1, 3])]);
    assert_eq!(nodes(&w, "good"), [node(0), node(1), node(3)]);
    // After its time she is admitted there again.
    apply(&mut w, &[("bad", &[2]), ("good", &[1])]);
    seconds(&mut w, 300);
    apply(&mut w, &[("bad", &[2]), ("good", &[1]), ("next", &[0])]);
    assert_eq!(nodes(&w, "next"), [node(0)]);
}

#[test]
fn two_owners_failing_programs_put_a_node_into_quarantine() {
    let mut w = owned(&[("eve", "a"), ("ann", "b"), ("bob", "c")]);
    apply(&mut w, &[("a", &[0]), ("c", &[1])]);
    fail(&mut w, 0);
    apply(&mut w, &[("b", &[0]), ("c", &[1])]);
    assert_eq!((unusable(&w), nodes(&w, "b")), (vec![], vec![node(0)]));
    fail(&mut w, 0);
    assert_eq!(closed(&w), [(node(0), "eve"), (node(0), "ann")]);
    assert_eq!((unusable(&w), nodes(&w, "b")), (vec![node(0)], vec![]));
    apply(&mut w, &[("c", &[0, 1])]);
    assert_eq!(nodes(&w, "c"), [node(1)]);
    // The first of them may try it again after 300 s, and then so may all but the second.
    seconds(&mut w, 285);
    assert_eq!(unusable(&w), []);
    apply(&mut w, &[("b", &[0]), ("c", &[1, 2, 3])]);
    assert_eq!((nodes(&w, "b"), w.nodes_of("c")), (vec![], 3));
}

#[test]
fn a_sound_run_of_another_owner_between_failures_clears_the_node() {
    let mut w = owned(&[("eve", "a"), ("bob", "c"), ("ann", "b")]);
    apply(&mut w, &[("a", &[0])]);
    fail(&mut w, 0);
    apply(&mut w, &[("c", &[0])]);
    // Longer than the minute after which failures are forgotten.
    seconds(&mut w, 70);
    apply(&mut w, &[("b", &[0])]);
    fail(&mut w, 0);
    assert_eq!(closed(&w), [(node(0), "eve"), (node(0), "ann")]);
    assert_eq!(unusable(&w), []);
}

#[test]
fn an_owner_alone_has_a_quarantine_that_ends_when_another_comes() {
    let mut w = owned(&[("eve", "bad")]);
    apply(&mut w, &[("bad", &[0])]);
    fail(&mut w, 0);
    assert_eq!((unusable(&w), nodes(&w, "bad")), (vec![node(0)], vec![]));
    // Another trainer of hers changes nothing.
    submit(&mut w, of("eve", "next"));
    assert_eq!(unusable(&w), [node(0)]);
    submit(&mut w, of("ann", "good"));
    assert_eq!(unusable(&w), []);
    assert_eq!(w.view.as_ref().unwrap().unusable, []);
    apply(&mut w, &[("good", &[0])]);
    assert_eq!(nodes(&w, "good"), [node(0)]);
    // Gone again, she leaves the other alone with it.
    w.input(Input::Cancel(trainer("good")));
    w.deliver(usize::MAX);
    w.input(Input::Timer);
    assert_eq!(unusable(&w), [node(0)]);
    seconds(&mut w, 300);
    assert_eq!(unusable(&w), []);
}

/// A trainer reports which of its members the others wait for.
fn waits(w: &mut World, name: &str, rank: Option<u32>) {
    seconds(w, 1);
    let mut report = w.reports.get(&trainer(name)).unwrap().clone();
    report.step_costs = Some(Box::new(step_costs(rank)));
    w.input(Input::Progress(report));
    w.deliver(usize::MAX);
}

/// A trainer reports so of steps whose replay is another step than the measured one.
fn doubts(w: &mut World, name: &str, rank: Option<u32>) {
    let mut report = w.reports.get(&trainer(name)).unwrap().clone();
    let costs = StepCosts {
        trusted: false,
        ..step_costs(rank)
    };
    report.step_costs = Some(Box::new(costs));
    w.input(Input::Progress(report));
    w.deliver(usize::MAX);
}

#[test]
fn a_node_that_keeps_two_trainers_waiting_is_set_aside() {
    let mut w = owned(&[("ann", "a"), ("bob", "b")]);
    apply(&mut w, &[("a", &[0, 1]), ("b", &[2, 3])]);
    waits(&mut w, "a", Some(1));
    waits(&mut w, "a", Some(1));
    // Perhaps this trainer gives its second member more work, as the other does with its first.
    waits(&mut w, "b", Some(0));
    assert_eq!((closed(&w), nodes(&w, "a").len()), (vec![], 2));
    apply(&mut w, &[("a", &[0, 3]), ("b", &[1, 2])]);
    assert_eq!(nodes(&w, "b"), [node(1), node(2)]);
    doubts(&mut w, "b", Some(0));
    assert_eq!(closed(&w), []);
    waits(&mut w, "b", Some(0));
    assert_eq!(closed(&w), [(node(1), "ann"), (node(1), "bob")]);
    assert_eq!(
        (unusable(&w), nodes(&w, "b")),
        (vec![node(1)], vec![node(2)])
    );
    let slow = |note: &Note| matches!(note, Note::Slow { node: n, trainers } if *n == node(1) && trainers.len() == 2);
    assert_eq!(w.notes.iter().filter(|note| slow(note)).count(), 1);
    seconds(&mut w, 300);
    assert_eq!(unusable(&w), []);
}
