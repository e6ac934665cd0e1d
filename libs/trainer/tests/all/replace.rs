//! A trainer that was hit restarts anyway, and may take other nodes with that.

use lacuna_model::{NodeId, Span, Work};
use lacuna_trainer::controller::Note;

use crate::common::{World, node, plan, spec, trainer};
use crate::controller::{apply, world};

/// A plan that names the trainers that restart on other nodes.
fn replace(w: &mut World, sizes: &[(&str, &[usize])], replaced: &[&str]) {
    w.generation += 1;
    let mut plan = plan(w.generation, w.seq, w.now.cluster, sizes);
    plan.replaced = replaced.iter().map(|name| trainer(name)).collect();
    let view = w.present();
    w.give(plan, &view);
    w.deliver(usize::MAX);
}

fn nodes_of(w: &World, name: &str) -> Vec<NodeId> {
    let record = w.controller.record(&trainer(name));
    record.map(|r| r.nodes.clone()).unwrap_or_default()
}

/// `a` on 0 to 3 for 100 s, then 0 leaves; 4 to 7 are free.
fn hit() -> World {
    let mut w = world(vec![
        spec("a", 2, 8, Work::UntilExit),
        spec("b", 1, 8, Work::UntilExit),
    ]);
    (0..8).for_each(|n| w.open(n));
    apply(&mut w, &[("a", &[0, 1, 2, 3])]);
    w.pass(Span::from_secs(100));
    w.renew();
    w.close(0);
    w.deliver(usize::MAX);
    assert_eq!(nodes_of(&w, "a"), [node(1), node(2), node(3)]);
    w
}

#[test]
fn leaving_and_joining_at_a_hit_are_one_rescale_at_no_further_charge() {
    let mut w = hit();
    let before = w.record("a").clone();
    assert_eq!(before.hit_at, Some(w.now.cluster));
    // 12 s at 40 samples/s of stall debt.
    assert_eq!((before.preempt_cost, before.owed), (480.0, 480.0));
    let version = w.controller.version();
    replace(&mut w, &[("a", &[3, 4, 5, 6]), ("b", &[1])], &["a"]);
    assert_eq!(nodes_of(&w, "a"), [3, 4, 5, 6].map(node));
    assert_eq!(nodes_of(&w, "b"), [node(1)]);
    let record = w.record("a").clone();
    assert_eq!(record.rescales, before.rescales + 1);
    assert_eq!(
        (record.rescale_cost, record.owed),
        (before.rescale_cost, 480.0)
    );
    assert_eq!(record.hit_at, None, "it was placed");
    assert!(w.controller.version() > version);
    for n in [1, 2] {
        assert_ne!(w.leases[&node(n)].0, Some(trainer("a")));
    }
    assert_eq!(w.programs.len(), 5);
    // 40 samples/s: 12 s pay for the loss, and 8 s are work.
    w.pass(Span::from_secs(20));
    w.report_all();
    w.deliver(usize::MAX);
    assert_eq!(w.samples("a"), 4_000.0 + 320.0);
}

#[test]
fn a_stall_that_begins_again_costs_its_paid_part() {
    let mut w = hit();
    w.pass(Span::from_secs(4));
    w.report_all();
    w.deliver(usize::MAX);
    // 4 s at 30 samples/s of the 480 are over.
    assert_eq!(w.record("a").owed, 360.0);
    let costs = w.record("a").rescale_cost;
    replace(&mut w, &[("a", &[4, 5, 6, 7])], &["a"]);
    assert_eq!(nodes_of(&w, "a"), [4, 5, 6, 7].map(node));
    let record = w.record("a");
    assert_eq!((record.owed, record.rescale_cost - costs), (480.0, 120.0));
}

#[test]
fn a_trainer_that_was_not_hit_or_was_placed_already_stays() {
    let mut w = hit();
    // It stays: that is its choice.
    apply(&mut w, &[("a", &[1, 2, 3])]);
    assert_eq!(w.record("a").hit_at, None);
    let run = w.record("a").run;
    replace(&mut w, &[("a", &[4, 5, 6])], &["a"]);
    assert_eq!(nodes_of(&w, "a"), [1, 2, 3].map(node));
    assert_eq!(w.record("a").run, run);
}

#[test]
fn a_trainer_with_too_few_of_its_old_nodes_waits_for_the_new_ones() {
    // One old node is kept, and it needs two.
    let mut w = hit();
    replace(&mut w, &[("a", &[3, 4])], &["a"]);
    assert_eq!(nodes_of(&w, "a"), [3, 4].map(node));
    let runs = w.notes.iter().filter(|n| matches!(n, Note::Run { .. }));
    let sizes: Vec<u32> = runs
        .filter_map(|n| match n {
            Note::Run { after, .. } => Some(*after),
            _ => None,
        })
        .collect();
    assert_eq!(sizes, [4, 3, 0, 2]);
    let record = w.record("a");
    assert_eq!((record.rescales, record.rescale_cost), (1, 0.0));
}

#[test]
fn the_same_number_of_other_nodes_is_no_rescale() {
    let mut w = hit();
    replace(&mut w, &[("a", &[4, 5, 6])], &["a"]);
    assert_eq!(nodes_of(&w, "a"), [4, 5, 6].map(node));
    let record = w.record("a");
    assert_eq!((record.rescales, record.hit_at), (0, None));
}

#[test]
fn a_plan_for_a_hit_trainer_costs_the_paid_part_of_its_stall() {
    for (seconds, sizes, cost, cause) in [
        (0, [1, 2, 3, 4].as_slice(), 0.0, "replaced"),
        (0, &[1, 2], 0.0, "replaced"),
        (0, &[], 0.0, "replaced"),
        // 30 samples/s have paid for four seconds of the stall, which begins again.
        (4, &[1, 2, 3, 4], 120.0, "replaced"),
        // The stall of 12 s is over.
        (12, &[1, 2, 3, 4], 18.0 * 30.0, "grown"),
        (12, &[1, 2], 12.0 * 30.0, "shrunk"),
    ] {
        let mut w = hit();
        w.pass(Span::from_secs(seconds));
        w.report_all();
        w.deliver(usize::MAX);
        let restarts: &[&str] = if cause == "replaced" { &["a"] } else { &[] };
        replace(&mut w, &[("a", sizes)], restarts);
        let record = w.record("a");
        assert_eq!(record.nodes.len(), sizes.len());
        assert_eq!(record.rescale_cost, cost, "{sizes:?} after {seconds} s");
        assert_eq!((record.rescales, record.hit_at), (1, None));
        let mut causes = w.notes.iter().filter_map(|n| match n {
            Note::Run {
                trainer: of, cause, ..
            } if *of == trainer("a") => Some(*cause),
            _ => None,
        });
        assert_eq!(causes.next_back(), Some(cause));
    }
}

#[test]
fn growth_after_the_stall_is_charged() {
    for (seconds, cost) in [(2, 2.0 * 30.0), (5, 18.0 * 30.0)] {
        let mut short = spec("a", 2, 8, Work::UntilExit);
        short.rescale.down_s = 3.0;
        let mut w = world(vec![short, spec("b", 1, 8, Work::UntilExit)]);
        (0..8).for_each(|n| w.open(n));
        apply(&mut w, &[("a", &[0, 1, 2, 3]), ("b", &[4])]);
        w.close(0);
        w.deliver(usize::MAX);
        w.generation += 1;
        let mut p = plan(w.generation, w.seq, w.now.cluster, &[("a", &[1, 2, 3, 4])]);
        p.replaced = vec![trainer("a")];
        let view = w.present();
        w.give(p, &view);
        assert_eq!(w.nodes_of("a"), 3, "node 4 has not been given back");
        w.pass(Span::from_secs(seconds));
        w.deliver(usize::MAX);
        let record = w.record("a");
        assert_eq!((record.nodes.len(), record.rescales), (4, 1));
        assert_eq!(record.rescale_cost, cost, "after {seconds} s");
    }
}

/// As [`hit`], but all four nodes leave, and a start costs 5 s.
fn hit_hard() -> World {
    let mut starts = spec("a", 2, 8, Work::UntilExit);
    starts.rescale.start_s = Some(5.0);
    let mut w = world(vec![starts, spec("b", 1, 8, Work::UntilExit)]);
    (0..8).for_each(|n| w.open(n));
    apply(&mut w, &[("a", &[0, 1, 2, 3])]);
    // 5 s at 40 samples/s.
    let record = w.record("a");
    assert_eq!((record.rescale_cost, record.owed), (200.0, 200.0));
    w.pass(Span::from_secs(100));
    w.renew();
    (0..4).for_each(|n| w.close(n));
    w.deliver(usize::MAX);
    let record = w.record("a");
    assert_eq!((record.nodes.len(), record.owed), (0, 480.0));
    assert_eq!(record.hit_at, Some(w.now.cluster));
    w
}

#[test]
fn a_start_after_the_loss_of_all_nodes_comes_with_its_restart() {
    let mut w = hit_hard();
    replace(&mut w, &[("a", &[4, 5])], &["a"]);
    let record = w.record("a").clone();
    assert_eq!((record.nodes.len(), record.hit_at), (2, None));
    // The loss is paid for at the new rate, and nothing else.
    assert_eq!((record.rescale_cost, record.owed), (200.0, 480.0));
    assert_eq!((record.preemptions, record.rescales), (1, 0));
    let last = w.notes.iter().rev().find(|n| matches!(n, Note::Run { .. }));
    assert!(
        matches!(last, Some(Note::Run { cause: "start", .. })),
        "{last:?}"
    );
    // 20 samples/s: 24 s pay, 6 s are work.
    w.pass(Span::from_secs(30));
    w.report_all();
    w.deliver(usize::MAX);
    assert_eq!(w.samples("a"), 3_800.0 + 120.0);
}

#[test]
fn a_start_after_a_plan_without_nodes_or_after_the_stall_is_charged() {
    for (followed, seconds) in [(true, 1), (false, 12)] {
        let mut w = hit_hard();
        if followed {
            apply(&mut w, &[("b", &[7])]);
            assert_eq!(w.record("a").hit_at, None);
        }
        w.pass(Span::from_secs(seconds));
        apply(&mut w, &[("a", &[4, 5])]);
        let record = w.record("a");
        // 5 s at 20 samples/s.
        assert_eq!((record.rescale_cost, record.owed), (300.0, 580.0));
        assert_eq!((record.rescales, record.hit_at), (0, None));
    }
}

#[test]
fn plans_made_between_leaving_and_joining_do_not_undo_the_placement() {
    let mut w = world(vec![
        spec("a", 2, 8, Work::UntilExit),
        spec("b", 1, 8, Work::UntilExit),
    ]);
    (0..8).for_each(|n| w.open(n));
    apply(&mut w, &[("a", &[0, 1, 2, 3]), ("b", &[4])]);
    w.close(0);
    w.deliver(usize::MAX);
    let given = |w: &mut World| {
        w.generation += 1;
        let of_a: &[usize] = &[1, 3, 4, 5];
        let mut p = plan(w.generation, w.seq, w.now.cluster, &[("a", of_a)]);
        p.replaced = vec![trainer("a")];
        p
    };
    let view = w.present();
    let p = given(&mut w);
    w.give(p, &view);
    // Node 4 has not been given back yet, and the planner gets a view of the first step.
    let between = w.present();
    let mut shown = between.trainers.iter();
    let record = shown.find(|t| t.spec.id == trainer("a")).unwrap();
    assert_eq!(record.nodes, [node(1), node(3)]);
    assert!(record.hit_at.is_some());
    // It comes to the same nodes again.
    let p = given(&mut w);
    w.give(p, &between);
    w.deliver(usize::MAX);
    assert_eq!(nodes_of(&w, "a"), [1, 3, 4, 5].map(node));
    let record = w.record("a");
    assert_eq!((record.rescales, record.hit_at), (1, None));
}
