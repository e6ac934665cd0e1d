//! Broken groups: which members are asked, which are left out, and which continue at once.

use lacuna_model::{Activity, AgentStatus, NodeId, Phase, RunId, Span};
use lacuna_trainer::controller::{Input, Note};

use crate::common::{World, node};
use crate::controller::apply;
use crate::regroup::{report_progress, run_of, running};

/// The program on a node reports that its group is broken, or that it is whole again.
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
    w.report_all();
    w.deliver(usize::MAX);
    w
}

/// The programs on the first `n` nodes report that their group is broken.
fn all_say(w: &mut World, n: usize) {
    (0..n).for_each(|n| says(w, n, true));
    w.deliver(usize::MAX);
}

/// Three members whose next run, after a broken one, cannot be built.
fn unbuilt() -> World {
    let mut w = group(&[0, 1, 2]);
    all_say(&mut w, 3);
    assert_eq!(failures(&w), 0, "it had trained");
    all_say(&mut w, 3);
    let _ = until_due(&mut w);
    assert_eq!(failures(&w), 1);
    w
}

fn failures(w: &World) -> u32 {
    w.record("a").failures
}

/// Delivers all messages but those of nodes whose agents are frozen.
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

/// Advances time to the moment that the controller has asked for.
fn until_due(w: &mut World) -> Span {
    let due = w.controller.due().unwrap();
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
fn a_silent_member_of_a_broken_group_is_left_out_after_a_short_wait() {
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
    let record = w.record("a");
    assert_eq!(record.nodes, [node(0), node(1)]);
    assert_eq!(
        record.failures, 0,
        "its program is not known as the cause yet"
    );
    assert_eq!(broke(&w), [(2, 1)]);
    assert_eq!(w.leases[&node(2)].0, None);
    assert_eq!(
        w.present().unusable,
        [node(2)],
        "unusable before its agent reports"
    );
    assert_eq!(w.controller.due(), None);
    // It wakes, and stops its program.
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
    let record = w.record("a");
    assert_eq!(record.nodes, [node(0), node(1), node(2)]);
    assert_eq!(record.run, RunId(before.0 + 1));
    assert_eq!(broke(&w), [(2, 1)]);
}

#[test]
fn a_group_that_all_members_report_broken_restarts_at_once_with_all_but_not_in_a_row() {
    let mut w = group(&[0, 1, 2]);
    let before = run_of(&w);
    (0..3).for_each(|n| says(&mut w, n, true));
    w.deliver(usize::MAX);
    assert_eq!((run_of(&w).0, w.nodes_of("a")), (before.0 + 1, 3));
    assert_eq!(broke(&w), [(3, 0)]);
    // It breaks again soon: not another run at once.
    w.pass(Span::from_ms(500));
    w.report_all();
    all_say(&mut w, 3);
    assert_eq!(run_of(&w).0, before.0 + 1);
    assert_eq!(until_due(&mut w), Span::from_ms(1500));
    assert_eq!((run_of(&w).0, w.nodes_of("a")), (before.0 + 2, 3));
    assert_eq!(failures(&w), 0, "it has trained meanwhile");
}

#[test]
fn a_group_that_cannot_be_built_is_tried_at_growing_intervals_and_given_up() {
    let mut w = group(&[0, 1, 2]);
    all_say(&mut w, 3);
    let mut waits = Vec::new();
    for failure in 1..=5 {
        let run = run_of(&w);
        all_say(&mut w, 3);
        assert_eq!(until_due(&mut w), Span::from_secs(2));
        let record = w.record("a");
        assert_eq!((record.failures, record.run), (failure, run));
        let reason = format!(
            "its group could not be built: all 3 members of run {} have tried",
            run.0
        );
        assert!(record.reason.starts_with(&reason), "{}", record.reason);
        assert!(record.reason.contains("must reach each other"));
        waits.push(until_due(&mut w).as_ms() / 1000);
        w.renew();
        w.deliver(usize::MAX);
    }
    assert_eq!(waits, [1, 2, 4, 8, 16]);
    let record = w.record("a");
    assert_eq!(record.phase, Phase::Failed);
    let reason = "given up after 5 failures in a row; the last: its group could not be built";
    assert!(record.reason.starts_with(reason), "{}", record.reason);
    assert!(w.leases.values().all(|(owner, _)| owner.is_none()));
    assert!(w.present().unusable.is_empty(), "no node is to blame");
}

#[test]
fn a_member_that_is_lost_explains_why_a_group_could_not_be_built() {
    let mut w = unbuilt();
    let last = AgentStatus {
        activity: Activity::Free,
        leaving: true,
        ..w.agents[&node(2)].status()
    };
    w.input(Input::Agents(vec![last]));
    assert_eq!((failures(&w), w.nodes_of("a")), (0, 2));

    let mut w = unbuilt();
    w.close(2);
    assert_eq!((failures(&w), w.nodes_of("a")), (0, 2));

    // If its program was stopped or failed, that is counted instead.
    for (code, count) in [(75, 0), (1, 1)] {
        let mut w = unbuilt();
        w.exit(&node(2), code);
        w.deliver(usize::MAX);
        assert_eq!((failures(&w), w.nodes_of("a")), (count, 2));
    }
}

#[test]
fn members_that_form_a_group_while_the_next_run_waits_continue() {
    let mut w = unbuilt();
    let run = run_of(&w);
    says(&mut w, 0, false);
    w.deliver(usize::MAX);
    w.pass(Span::from_ms(100));
    (1..3).for_each(|n| says(&mut w, n, false));
    w.deliver(usize::MAX);
    assert_eq!(w.controller.due(), None);
    w.pass(Span::from_secs(5));
    w.input(Input::Timer);
    assert_eq!((run_of(&w), w.nodes_of("a")), (run, 3));

    // A member that does not meet the others is handled as before.
    let mut w = unbuilt();
    let run = run_of(&w);
    says(&mut w, 0, false);
    says(&mut w, 1, false);
    deliver_without(&mut w, &[2]);
    assert_eq!(until_due(&mut w), Span::from_ms(300));
    assert_eq!((run_of(&w).0, w.nodes_of("a")), (run.0 + 1, 3));
    assert_eq!(failures(&w), 1, "not all have reported it");
}

#[test]
fn an_event_that_explains_a_broken_group_comes_first() {
    let mut w = group(&[0, 1, 2]);
    let before = run_of(&w);
    says(&mut w, 0, true);
    says(&mut w, 1, true);
    w.deliver(2);
    w.exit(&node(2), 137);
    w.deliver(usize::MAX);
    assert_eq!((run_of(&w).0, w.nodes_of("a")), (before.0 + 1, 2));
    // Reports of the old run do not count for the new one.
    w.pass(Span::from_secs(5));
    w.statuses();
    w.deliver(usize::MAX);
    w.input(Input::Timer);
    assert_eq!(run_of(&w).0, before.0 + 1);
    assert!(broke(&w).is_empty());
}

#[test]
fn a_group_that_is_whole_again_is_not_touched() {
    let mut w = group(&[0, 1, 2]);
    let before = run_of(&w);
    says(&mut w, 0, true);
    deliver_without(&mut w, &[2]);
    assert!(w.controller.due().is_some());
    says(&mut w, 0, false);
    deliver_without(&mut w, &[2]);
    assert_eq!(w.controller.due(), None);
    w.pass(Span::from_secs(5));
    w.input(Input::Timer);
    assert_eq!((run_of(&w), w.nodes_of("a")), (before, 3));
}

#[test]
fn a_member_that_alone_reports_a_broken_group_does_not_stop_the_others() {
    let mut w = group(&[0, 1, 2]);
    let before = run_of(&w);
    says(&mut w, 0, true);
    // No member answers: perhaps the question was lost.
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
            report_progress(&mut w, run, base, f64::from(second));
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
