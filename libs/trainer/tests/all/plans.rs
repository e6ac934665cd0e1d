//! Plans and losses: which plans are followed, which wait, and which losses are one change.

use lacuna_model::{RunId, Span, Work};
use lacuna_trainer::controller::{Input, Note, Taken};

use crate::common::{World, config, node, plan, spec};
use crate::controller::{apply, world};

fn refusals(w: &World) -> Vec<&'static str> {
    w.notes
        .iter()
        .filter_map(|n| match n {
            Note::PlanRefused { cause, .. } => Some(*cause),
            _ => None,
        })
        .collect()
}

#[test]
fn plans_for_other_trainers_or_of_an_older_number_are_refused() {
    let mut w = world(vec![spec("a", 1, 4, Work::UntilExit)]);
    w.open(0);
    let give = |g, w: &World| plan(g, w.seq, w.now.cluster, &[("a", &[0])]);
    // It does not name its runs, and its version is not the present one.
    let p = give(7, &w);
    let trainers_version = w.controller.version() + 1;
    w.input(Input::Plan {
        plan: p,
        trainers_version,
        runs: Vec::new(),
    });
    assert_eq!(w.nodes_of("a"), 0);
    let mut view = w.present();
    view.trainers.first_mut().unwrap().run = RunId(77);
    let p = give(8, &w);
    w.give(p, &view);
    assert_eq!(w.nodes_of("a"), 0);
    let (p, view) = (give(9, &w), w.present());
    w.give(p, &view);
    assert_eq!(w.nodes_of("a"), 1);
    let (p, view) = (plan(8, w.seq, w.now.cluster, &[]), w.present());
    w.give(p, &view);
    assert_eq!(w.nodes_of("a"), 1);
    assert_eq!(refusals(&w), ["stale", "stale", "older"]);
}

#[test]
fn a_node_of_the_plan_that_is_a_hole_again_brings_a_new_version_and_so_a_plan() {
    let mut w = world(vec![spec("a", 1, 4, Work::UntilExit)]);
    w.open(0);
    w.close(0);
    let (p, view) = (plan(7, w.seq, w.now.cluster, &[("a", &[0])]), w.present());
    w.give(p, &view);
    let before = w.controller.version();
    w.open(1);
    assert_eq!(w.controller.version(), before, "no node of the plan");
    w.open(0);
    assert!(w.controller.version() > before);
    assert_eq!(w.nodes_of("a"), 0);
}

#[test]
fn events_between_plan_and_application_do_not_keep_trainers_from_growing() {
    let mut w = world(vec![
        spec("a", 1, 4, Work::UntilExit),
        spec("b", 1, 6, Work::UntilExit),
        spec("c", 1, 6, Work::UntilExit),
    ]);
    (0..10).for_each(|n| w.open(n));
    apply(&mut w, &[("a", &[0, 1, 2]), ("b", &[3])]);
    for round in 0..5 {
        // The planner sets out from what is now...
        let view = w.present();
        w.generation += 1;
        let p = plan(
            w.generation,
            w.seq,
            w.now.cluster,
            &[
                ("a", &[0, 1, 2, 9]),
                ("b", &[3, 4, 5, 6, 2]),
                ("c", &[7, 8]),
            ],
        );
        // ...and meanwhile nodes come and go: every time the version that it knows is past.
        for _ in 0..30 {
            w.pass(Span::from_secs(1));
            w.renew();
            w.close(11);
            w.close(1);
            w.deliver(usize::MAX);
            w.open(11);
            w.open(1);
        }
        let version = w.controller.version();
        w.give(p, &view);
        w.deliver(usize::MAX);
        if round == 0 {
            assert!(version > view.version, "no flood");
            // a keeps its nodes (0 and 2), since its run has changed after the plan was made. b and
            // c grow, b without the node that a holds.
            assert_eq!(w.record("a").nodes, [node(0), node(2)]);
            assert_eq!(w.nodes_of("b"), 4);
            assert_eq!(w.nodes_of("c"), 2);
            assert!(refusals(&w).is_empty());
        }
    }
    // Once the flood is over, a grows too.
    apply(
        &mut w,
        &[("a", &[0, 1, 2, 9]), ("b", &[3, 4, 5, 6]), ("c", &[7, 8])],
    );
    assert_eq!(w.nodes_of("a"), 4);
}

#[test]
fn losses_in_quick_succession_are_one_new_run_and_releases_go_out_at_once() {
    let mut w = World::new(1, 60, config());
    w.snapshot();
    w.submit("", vec![spec("a", 1, 60, Work::UntilExit)]);
    (0..60).for_each(|n| w.open(n));
    let all: Vec<usize> = (0..60).collect();
    apply(&mut w, &[("a", &all)]);
    w.pass(Span::from_secs(50));
    w.renew();
    let run = w.record("a").run;
    // Fifty nodes leave in fifty events, of which the first takes rank 0.
    for n in 0..50 {
        w.pool.remove(&node(n));
        w.seq += 1;
        w.now.cluster = w.now.cluster + Span::from_ms(20);
        w.input(Input::Pool {
            seq: w.seq,
            at: w.now.cluster,
            opened: Vec::new(),
            closed: vec![(node(n), Taken::Busy)],
        });
        assert_eq!(w.leases[&node(n)].0, None, "released at once");
        assert_eq!(w.record("a").run, run);
    }
    w.deliver(usize::MAX);
    let record = w.record("a");
    assert_eq!((record.run, record.nodes.len()), (RunId(run.0 + 1), 10));
    assert_eq!(record.preemptions, 1);
    // 50.02 s at 600 samples/s: to the first loss and no further, and nothing is late.
    assert!(
        (record.samples_before - 30_012.0).abs() < 1e-6,
        "{record:?}"
    );
    let late = |n: &Note| matches!(n, Note::LateReport { .. });
    assert!(!w.notes.iter().any(late));
    let runs = |n: &&Note| {
        matches!(
            n,
            Note::Run {
                cause: "preempted",
                ..
            }
        )
    };
    assert_eq!(w.notes.iter().filter(runs).count(), 1);
    assert_eq!(w.programs.len(), 10);
}

#[test]
fn a_plan_that_comes_too_early_or_while_the_bus_is_gone_is_held() {
    let mut w = World::new(1, 4, config());
    w.snapshot();
    w.open(3);
    w.submit("", vec![spec("a", 1, 4, Work::UntilExit)]);
    w.restart_control();
    w.pool.insert(node(0), w.now.cluster);
    apply(&mut w, &[("a", &[0])]);
    assert_eq!(w.nodes_of("a"), 0, "the pool is unknown");
    w.snapshot();
    w.deliver(usize::MAX);
    assert_eq!(w.nodes_of("a"), 1);
    w.open(1);
    w.input(Input::Disconnected);
    apply(&mut w, &[("a", &[0, 1])]);
    assert_eq!(w.nodes_of("a"), 1);
    w.input(Input::Connected);
    assert_eq!(w.nodes_of("a"), 2);
    assert!(refusals(&w).is_empty());
}

#[test]
fn the_same_plan_again_does_not_prolong_the_wait_for_a_node() {
    let mut w = world(vec![
        spec("a", 1, 4, Work::UntilExit),
        spec("b", 1, 4, Work::UntilExit),
    ]);
    (0..3).for_each(|n| w.open(n));
    apply(&mut w, &[("a", &[0, 1])]);
    let dead = node(1);
    w.commands.remove(&dead);
    for second in 0..12 {
        // The agent of node 1 does not confirm its release.
        w.generation += 1;
        let p = plan(
            w.generation,
            w.seq,
            w.now.cluster,
            &[("a", &[0]), ("b", &[1, 2])],
        );
        let view = w.present();
        w.give(p, &view);
        w.mail.retain(|letter| match letter {
            crate::common::Letter::ToAgent(command) => command.node != dead,
            crate::common::Letter::Status(status) => status.node != dead,
            crate::common::Letter::Report(_) => true,
        });
        w.deliver(usize::MAX);
        w.pass(Span::from_secs(1));
        w.renew();
        w.input(Input::Timer);
        if second < 8 {
            assert_eq!(w.nodes_of("b"), 0, "second {second}");
        }
    }
    // After ten seconds it grows without the node, and the view says why.
    assert_eq!(w.record("b").nodes, [node(2)]);
    assert_eq!(w.present().unusable, [node(1)]);
    for _ in 0..40 {
        w.pass(Span::from_secs(1));
        w.renew();
        w.input(Input::Timer);
        w.deliver(usize::MAX);
    }
    assert!(w.present().unusable.is_empty(), "given back in the end");
}

#[test]
fn a_command_is_repeated_at_growing_intervals() {
    let mut w = world(vec![spec("a", 1, 4, Work::UntilExit)]);
    w.open(0);
    w.generation += 1;
    let p = plan(w.generation, w.seq, w.now.cluster, &[("a", &[0])]);
    let view = w.present();
    w.give(p, &view);
    w.mail.clear();
    for _ in 0..31 {
        w.pass(Span::from_secs(1));
        w.input(Input::Timer);
        w.mail.clear();
    }
    let resent = |n: &&Note| matches!(n, Note::Resent { .. });
    // After 2, 4, 8, 16 s.
    assert_eq!(w.notes.iter().filter(resent).count(), 4);
}

#[test]
fn an_unchanged_view_is_published_again_after_five_seconds() {
    let mut w = world(vec![spec("a", 1, 8, Work::UntilExit)]);
    let first = w.view.take().unwrap();
    for (seconds, again) in [(4, false), (1, true), (4, false), (1, true)] {
        w.now.wall = w.now.wall + Span::from_secs(seconds);
        w.input(Input::Timer);
        let view = w.view.take();
        assert_eq!(view.is_some(), again, "{view:?}");
        // No input of a plan has changed.
        assert!(view.is_none_or(|view| view.version == first.version));
    }
}
