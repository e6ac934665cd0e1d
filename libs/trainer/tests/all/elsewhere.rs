//! The next try of a trainer whose programs failed.

use lacuna_model::{NodeId, Phase, Span, TrainerSpec, Work};
use lacuna_trainer::controller::Input;

use crate::common::{World, node, spec};
use crate::controller::{apply, world};

fn one(name: &str) -> TrainerSpec {
    spec(name, 1, 1, Work::UntilExit)
}

/// These holes, and these trainers.
fn of(trainers: Vec<TrainerSpec>, holes: usize) -> World {
    let mut w = world(trainers);
    (0..holes).for_each(|n| w.open(n));
    w
}

pub(crate) fn beat(w: &mut World, ms: i64) {
    w.pass(Span::from_ms(ms));
    w.renew();
    w.statuses();
    w.deliver(usize::MAX);
    w.input(Input::Timer);
    w.deliver(usize::MAX);
}

pub(crate) fn fail(w: &mut World, n: usize) {
    w.exit(&node(n), 1);
    w.deliver(usize::MAX);
    beat(w, 400);
}

fn nodes(w: &World, name: &str) -> Vec<NodeId> {
    w.record(name).nodes.clone()
}

fn planned(w: &World) -> Vec<String> {
    let view = w.present();
    view.trainers
        .iter()
        .map(|t| t.spec.id.to_string())
        .collect()
}

#[test]
fn the_next_try_goes_to_another_node_as_soon_as_one_is_free() {
    let mut w = of(vec![one("a")], 1);
    apply(&mut w, &[("a", &[0])]);
    fail(&mut w, 0);
    assert_eq!(planned(&w), [""; 0], "it rests");
    w.open(1);
    w.deliver(usize::MAX);
    assert_eq!(planned(&w), ["a"]);
    // The plan knows nothing of failures.
    apply(&mut w, &[("a", &[0])]);
    assert_eq!(nodes(&w, "a"), [node(1)]);
    // Alike on two nodes: the program is the cause, and waits.
    fail(&mut w, 1);
    w.open(2);
    w.deliver(usize::MAX);
    assert_eq!(planned(&w), [""; 0]);
    beat(&mut w, 2000);
    assert_eq!(planned(&w), ["a"]);
    apply(&mut w, &[("a", &[1])]);
    assert_eq!(nodes(&w, "a"), [node(2)], "two nodes have failed it");
}

#[test]
fn a_trainer_that_fails_changes_its_node_with_one_that_does_not() {
    let mut w = of(vec![one("a"), one("b")], 2);
    apply(&mut w, &[("a", &[0])]);
    fail(&mut w, 0);
    apply(&mut w, &[("a", &[0]), ("b", &[1])]);
    assert_eq!(
        (nodes(&w, "a"), nodes(&w, "b")),
        (vec![node(1)], vec![node(0)])
    );
    // A node that is trained on is not taken for it.
    let mut w = of(vec![one("a"), one("b")], 2);
    apply(&mut w, &[("a", &[0]), ("b", &[1])]);
    fail(&mut w, 0);
    beat(&mut w, 1000);
    apply(&mut w, &[("a", &[0]), ("b", &[1])]);
    assert_eq!(
        (nodes(&w, "a"), nodes(&w, "b")),
        (vec![node(0)], vec![node(1)])
    );
}

#[test]
fn failures_on_one_node_alone_do_not_end_a_trainer_that_could_have_others() {
    let mut w = of(vec![one("a"), one("b")], 2);
    for _ in 0..5 {
        apply(&mut w, &[("a", &[0]), ("b", &[1])]);
        fail(&mut w, 0);
        (0..20).for_each(|_| beat(&mut w, 1000));
    }
    let phase = |w: &World| w.record("a").phase;
    assert_eq!(
        (phase(&w), planned(&w)),
        (Phase::Active, vec!["b".to_owned()])
    );
    w.exit(&node(1), 0);
    w.deliver(usize::MAX);
    beat(&mut w, 1000);
    apply(&mut w, &[("a", &[0])]);
    assert_eq!(nodes(&w, "a"), [node(1)]);
    // Without another node its own limit holds.
    fail(&mut w, 1);
    (0..20).for_each(|_| beat(&mut w, 1000));
    assert_eq!(phase(&w), Phase::Failed);
}

#[test]
fn a_trainer_of_several_nodes_goes_on_without_the_one_that_failed() {
    let mut w = of(vec![spec("a", 2, 4, Work::UntilExit)], 4);
    apply(&mut w, &[("a", &[0, 1, 2, 3])]);
    fail(&mut w, 2);
    assert_eq!(w.present().trainers[0].spec.max_nodes, 3);
    apply(&mut w, &[("a", &[0, 1, 2, 3])]);
    assert_eq!(nodes(&w, "a"), [node(0), node(1), node(3)]);
    // Where its least cannot be had otherwise, it waits and takes that node once more.
    let mut w = of(vec![spec("a", 4, 4, Work::UntilExit)], 4);
    apply(&mut w, &[("a", &[0, 1, 2, 3])]);
    fail(&mut w, 2);
    assert_eq!(planned(&w), [""; 0]);
    beat(&mut w, 1000);
    apply(&mut w, &[("a", &[0, 1, 2, 3])]);
    assert_eq!(nodes(&w, "a").len(), 4);
}

#[test]
fn a_trainer_that_waits_leaves_its_place_to_others() {
    let mut w = of(Vec::new(), 1);
    w.config.control.max_parallel = 1;
    let mut w = {
        let mut fresh = World::new(1, 2, w.config.clone());
        fresh.snapshot();
        fresh.open(0);
        fresh
    };
    for name in ["a", "b"] {
        w.submit("", vec![one(name)]);
    }
    assert_eq!(planned(&w), ["a"]);
    apply(&mut w, &[("a", &[0])]);
    fail(&mut w, 0);
    assert_eq!(planned(&w), ["b"]);
    apply(&mut w, &[("b", &[0])]);
    assert_eq!(nodes(&w, "b"), [node(0)]);
}

#[test]
fn a_start_of_control_forgets_no_failure() {
    let mut w = of(vec![one("a")], 2);
    apply(&mut w, &[("a", &[0])]);
    fail(&mut w, 0);
    w.crash_control();
    w.deliver(usize::MAX);
    beat(&mut w, 100);
    apply(&mut w, &[("a", &[0])]);
    assert_eq!(nodes(&w, "a"), [node(1)]);
}
