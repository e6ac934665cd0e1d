//! Nodes on which programs fail, and the owners to which they are closed.

use lacuna_model::{NodeId, Phase, Span, StepCosts, TrainerSpec, TroubleKind, Work};
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

fn unusable(w: &World) -> Vec<NodeId> {
    w.present().unusable
}

fn nodes(w: &World, name: &str) -> Vec<NodeId> {
    w.record(name).nodes.clone()
}

fn closed(w: &World) -> Vec<(NodeId, &str)> {
    let closed = w.notes.iter().filter_map(|note| match note {
        Note::Closed { node, owner, .. } => Some((node.clone(), owner.as_str())),
        _ => None,
    });
    closed.collect()
}

/// The program of a trainer fails on node 0 and is sound on node 1.
fn fail_and_be_sound(w: &mut World, name: &str) {
    apply(w, &[(name, &[0])]);
    w.exit(&node(0), 1);
    w.deliver(usize::MAX);
    seconds(w, 2);
    apply(w, &[(name, &[1])]);
    assert_eq!(nodes(w, name), [node(1)]);
    w.exit(&node(1), 0);
    w.deliver(usize::MAX);
    assert_eq!(w.record(name).phase, Phase::Done);
    seconds(w, 1);
}

fn suspects(w: &World) -> Vec<(NodeId, &str)> {
    let found = w.notes.iter().filter_map(|note| match note {
        Note::Suspect { node, trainer, .. } => Some((node.clone(), trainer.as_str())),
        _ => None,
    });
    found.collect()
}

fn troubles(w: &World) -> Vec<(NodeId, TroubleKind)> {
    let views = w.controller.node_views(w.now).into_iter();
    // Agents speak on more nodes than the holes.
    let named = views.filter(|view| view.node < node(4));
    let found = named.filter_map(|view| Some((view.node, view.trouble?.kind)));
    found.collect()
}

#[test]
fn a_program_that_fails_wherever_it_is_tried_says_nothing_against_nodes() {
    let mut w = owned(&[("eve", "a"), ("eve", "b"), ("ann", "c"), ("ann", "good")]);
    for name in ["a", "b", "c"] {
        for n in [0, 1, 0, 2, 1] {
            apply(&mut w, &[(name, &[n])]);
            let at = nodes(&w, name).first().cloned();
            w.exit(&at.unwrap(), 1);
            w.deliver(usize::MAX);
            seconds(&mut w, 20);
        }
        assert_eq!(w.record(name).phase, Phase::Failed);
    }
    assert_eq!(
        (closed(&w), suspects(&w), unusable(&w)),
        (vec![], vec![], vec![])
    );
    assert_eq!(troubles(&w), []);
    apply(&mut w, &[("good", &[0, 1, 2])]);
    assert_eq!(w.nodes_of("good"), 3);
}

#[test]
fn a_node_is_named_after_one_program_and_the_last_after_two_of_its_only_owner() {
    let mut w = owned(&[("eve", "a"), ("eve", "b"), ("eve", "c")]);
    fail_and_be_sound(&mut w, "a");
    assert_eq!((suspects(&w), closed(&w)), (vec![(node(0), "a")], vec![]));
    assert_eq!(troubles(&w), [(node(0), TroubleKind::Suspect)]);
    fail_and_be_sound(&mut w, "b");
    assert_eq!(closed(&w), [(node(0), "eve")]);
    assert_eq!(troubles(&w), [(node(0), TroubleKind::Last)]);
    assert_eq!(unusable(&w), [], "no node is closed to the only owner");
    // The next one gets another node where there is one, and this one if there is no other.
    apply(&mut w, &[("c", &[0])]);
    assert_ne!(nodes(&w, "c"), [node(0)]);
    (1..4).for_each(|n| w.close(n));
    w.deliver(usize::MAX);
    apply(&mut w, &[("c", &[0])]);
    assert_eq!(nodes(&w, "c"), [node(0)]);
    // Sound there, it clears the node.
    seconds(&mut w, 70);
    assert_eq!(troubles(&w), []);
}

#[test]
fn programs_of_two_owners_put_a_node_into_quarantine_until_an_operator_opens_it() {
    let mut w = owned(&[("eve", "a"), ("ann", "b"), ("bob", "c")]);
    fail_and_be_sound(&mut w, "a");
    fail_and_be_sound(&mut w, "b");
    assert_eq!(unusable(&w), [node(0)]);
    assert_eq!(troubles(&w), [(node(0), TroubleKind::Quarantined)]);
    apply(&mut w, &[("c", &[0, 1])]);
    assert_eq!(nodes(&w, "c"), [node(1)]);
    w.input(Input::Reopen(vec![node(0), node(1)]));
    let reopened = |note: &&Note| matches!(note, Note::Reopened { node: n } if *n == node(0));
    assert_eq!(w.notes.iter().filter(reopened).count(), 1);
    assert_eq!((unusable(&w), troubles(&w)), (vec![], vec![]));
    apply(&mut w, &[("c", &[0, 1])]);
    assert_eq!(w.nodes_of("c"), 2);
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
