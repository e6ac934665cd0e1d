//! Groups that break: who is asked, who is left out, who goes on at once.

use lacuna_model::{NodeId, RunId, Span};
use lacuna_trainer::book::{Input, Note};

use crate::book::apply;
use crate::common::{World, node, trainer};
use crate::regroup::{run_of, running, said};

/// The program on a node says that its group is broken, or that it is whole again.
fn says(w: &mut World, n: usize, broken: bool) {
    let (id, run) = (node(n), run_of(w));
    let started = w.started[&id];
    let effects = w.agents.get_mut(&id).unwrap().group(started, run, broken);
    w.agent_does(&id, effects);
}

/// `a` trains on the first nodes, for a while.
fn group(nodes: &[usize]) -> World {
    let mut w = running();
    apply(&mut w, &[("a", nodes)]);
    w.all_ready();
    w.deliver(usize::MAX);
    assert_eq!(w.nodes_of("a"), nodes.len());
    w.pass(Span::from_secs(10));
    w.renew();
    w
}

/// All mail but that of nodes whose agents do not run.
fn deliver_without(w: &mut World, frozen: &[usize]) {
    let frozen: Vec<NodeId> = frozen.iter().map(|n| node(*n)).collect();
    for _ in 0..10 {
        w.mail.retain(|letter| match letter {
            crate::common::Letter::ToAgent(command) => !frozen.contains(&command.node),
            crate::common::Letter::Status(status) => !frozen.contains(&status.node),
            crate::common::Letter::Report(_) => true,
        });
        w.deliver(1);
    }
}

/// Time goes on to the moment that the books have asked for.
fn until_due(w: &mut World) -> Span {
    let due = w.book.due().unwrap();
    let left = due.since(w.now.wall);
    w.pass(left);
    w.input(Input::Timer);
    left
}

fn broke(w: &World) -> Vec<(u32, u32)> {
    let broke = |n: &Note| match n {
        Note::Broke { said, silent, .. } => Some((*said, *silent)),
        _ => None,
    };
    w.notes.iter().filter_map(broke).collect()
}

#[test]
fn a_member_that_neither_says_so_nor_answers_is_left_out_after_a_short_wait() {
    let mut w = group(&[0, 1, 2]);
    let before = run_of(&w);
    says(&mut w, 0, true);
    deliver_without(&mut w, &[2]);
    assert_eq!(
        run_of(&w),
        before,
        "the others may have broken for the same reason"
    );
    says(&mut w, 1, true);
    deliver_without(&mut w, &[2]);
    assert_eq!(run_of(&w), before, "an explanation may be on the way");
    assert_eq!(until_due(&mut w), Span::from_ms(300));
    let record = w.book.record(&trainer("a")).unwrap();
    assert_eq!(record.nodes, [node(0), node(1)]);
    assert_eq!(
        record.failures, 0,
        "nobody knows yet that its program is to blame"
    );
    assert_eq!(broke(&w), [(2, 1)]);
    assert_eq!(w.leases[&node(2)].0, None);
    assert_eq!(
        w.present().unusable,
        [node(2)],
        "nobody's before an agent speaks there"
    );
    assert_eq!(w.book.due(), None);
    // It wakes, and stops what it runs.
    w.statuses();
    w.input(Input::Timer);
    w.pass(Span::from_secs(3));
    w.input(Input::Timer);
    w.deliver(usize::MAX);
    assert!(w.present().unusable.is_empty());
    assert_eq!(w.programs.len(), 2);
}

#[test]
fn a_member_that_still_computes_goes_on_with_the_others() {
    let mut w = group(&[0, 1, 2, 3]);
    let before = run_of(&w);
    says(&mut w, 0, true);
    says(&mut w, 1, true);
    // 2 computes: its agent answers. 3 is dead.
    deliver_without(&mut w, &[3]);
    let _ = until_due(&mut w);
    let record = w.book.record(&trainer("a")).unwrap();
    assert_eq!(record.nodes, [node(0), node(1), node(2)]);
    assert_eq!(record.run, RunId(before.0 + 1));
    assert_eq!(broke(&w), [(2, 1)]);
}

#[test]
fn a_group_that_all_call_broken_goes_on_at_once_with_all_but_not_in_a_row() {
    let mut w = group(&[0, 1, 2]);
    let before = run_of(&w);
    (0..3).for_each(|n| says(&mut w, n, true));
    w.deliver(usize::MAX);
    assert_eq!((run_of(&w).0, w.nodes_of("a")), (before.0 + 1, 3));
    assert_eq!(broke(&w), [(3, 0)]);
    // It breaks again at once: not another run at once.
    (0..3).for_each(|n| says(&mut w, n, true));
    w.deliver(usize::MAX);
    assert_eq!(run_of(&w).0, before.0 + 1);
    assert_eq!(until_due(&mut w), Span::from_secs(2));
    assert_eq!((run_of(&w).0, w.nodes_of("a")), (before.0 + 2, 3));
}

#[test]
fn news_that_explain_it_come_first() {
    let mut w = group(&[0, 1, 2]);
    let before = run_of(&w);
    says(&mut w, 0, true);
    says(&mut w, 1, true);
    w.deliver(2);
    w.exit(&node(2), 137);
    w.deliver(usize::MAX);
    assert_eq!((run_of(&w).0, w.nodes_of("a")), (before.0 + 1, 2));
    // What was said of the old run says nothing of the new one.
    w.pass(Span::from_secs(5));
    w.statuses();
    w.deliver(usize::MAX);
    w.input(Input::Timer);
    assert_eq!(run_of(&w).0, before.0 + 1);
    assert!(broke(&w).is_empty());
}

#[test]
fn a_group_that_met_again_is_left_alone() {
    let mut w = group(&[0, 1, 2]);
    let before = run_of(&w);
    says(&mut w, 0, true);
    deliver_without(&mut w, &[2]);
    assert!(w.book.due().is_some());
    says(&mut w, 0, false);
    deliver_without(&mut w, &[2]);
    assert_eq!(w.book.due(), None);
    w.pass(Span::from_secs(5));
    w.input(Input::Timer);
    assert_eq!((run_of(&w), w.nodes_of("a")), (before, 3));
}

#[test]
fn one_who_hears_nobody_takes_nothing_from_the_others() {
    let mut w = group(&[0, 1, 2]);
    let before = run_of(&w);
    says(&mut w, 0, true);
    // Nobody answers: perhaps nobody has heard the question.
    deliver_without(&mut w, &[1, 2]);
    w.pass(Span::from_secs(5));
    w.input(Input::Timer);
    assert_eq!((run_of(&w), w.nodes_of("a")), (before, 3));
    assert!(broke(&w).is_empty());
}

#[test]
fn failures_are_forgotten_after_a_minute_of_progress_over_all_runs() {
    let mut w = group(&[0, 1, 2]);
    w.exit(&node(2), 1);
    w.deliver(usize::MAX);
    let failures = |w: &World| w.book.record(&trainer("a")).unwrap().failures;
    assert_eq!(failures(&w), 1);
    let mut base = 1000.0;
    // Preempted every twenty seconds.
    for turn in 0..4 {
        apply(&mut w, &[("a", &[0, 1])]);
        w.all_ready();
        w.deliver(usize::MAX);
        let run = run_of(&w);
        for second in 1..=20 {
            w.pass(Span::from_secs(1));
            w.renew();
            said(&mut w, run, base, f64::from(second));
        }
        base += 20.0;
        assert_eq!(failures(&w), u32::from(turn < 2), "turn {turn}");
        w.close(0);
        w.deliver(usize::MAX);
        w.open(0);
        w.pass(Span::from_secs(1));
        w.deliver(usize::MAX);
    }
}
