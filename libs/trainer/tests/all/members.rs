//! Who trains in a run is said once, and commands name nobody.

use lacuna_model::{Action, Launch, Members, NodeId, Span, TrainerSpec, Work};
use lacuna_trainer::controller::Input;

use crate::common::{World, node, regrouping, spec, trainer};
use crate::controller::{apply, world};

/// A trainer whose program is started anew for each run.
fn restarting(name: &str) -> TrainerSpec {
    let mut launch = regrouping();
    if let Launch::Command { elastic, .. } = &mut launch {
        *elastic = lacuna_model::Elastic::Restart;
    }
    TrainerSpec {
        launch,
        ..spec(name, 1, 8, Work::UntilExit)
    }
}

/// `a` on these nodes.
fn commanded(spec: TrainerSpec, nodes: &[usize]) -> World {
    let mut w = world(vec![spec]);
    (0..6).for_each(|n| w.open(n));
    w.said.clear();
    apply(&mut w, &[("a", nodes)]);
    w
}

fn said(w: &World, nodes: &[usize]) -> Members {
    Members {
        trainer: trainer("a"),
        run: w.controller.record(&trainer("a")).unwrap().run,
        nodes: nodes.iter().map(|n| node(*n)).collect(),
    }
}

#[test]
fn a_change_of_many_nodes_is_one_list_and_a_short_command_for_each() {
    let mut w = commanded(restarting("a"), &[0, 1, 2]);
    assert_eq!(w.said, [said(&w, &[0, 1, 2])]);
    apply(&mut w, &[("a", &[0, 1, 2, 3, 4])]);
    assert_eq!(w.said.len(), 2);
    assert_eq!(w.said[1], said(&w, &[0, 1, 2, 3, 4]));
    for (rank, n) in (0..).zip(0..5) {
        let Action::Run(part) = &w.commands[&node(n)].action else {
            panic!("{:?}", w.commands[&node(n)]);
        };
        assert_eq!((part.rank, part.nodes), (rank, 5));
        let text = format!("{part:?}");
        let named: Vec<NodeId> = (0..6).map(node).collect();
        assert!(named.iter().all(|id| !text.contains(id.as_str())), "{text}");
    }
}

#[test]
fn of_simulated_trainers_nobody_asks_and_nothing_is_said() {
    let w = commanded(spec("a", 1, 8, Work::UntilExit), &[0, 1, 2]);
    assert_eq!((w.nodes_of("a"), w.said.len()), (3, 0));
}

#[test]
fn who_trains_is_said_again_with_the_commands_that_are_said_again() {
    let mut w = world(vec![restarting("a")]);
    (0..3).for_each(|n| w.open(n));
    let view = w.present();
    let plan = crate::common::plan(1, w.seq, w.now.cluster, &[("a", &[0, 1, 2])]);
    w.give(plan, &view);
    let first = said(&w, &[0, 1, 2]);
    assert_eq!(w.said, std::slice::from_ref(&first));
    // All is lost: the server was emptied, and nobody has heard.
    w.mail.clear();
    w.said.clear();
    w.pass(Span::from_secs(3));
    w.input(Input::Timer);
    assert_eq!(w.said, std::slice::from_ref(&first));
    w.deliver(usize::MAX);
    assert_eq!(w.programs.len(), 3);
    // Who has obeyed may still be about to ask.
    w.said.clear();
    w.input(Input::Connected);
    assert_eq!(w.said, std::slice::from_ref(&first));
    w.said.clear();
    w.restart_control();
    assert_eq!(w.said, std::slice::from_ref(&first));
}

#[test]
fn nobody_trains_in_the_run_of_a_trainer_that_is_over() {
    let mut w = commanded(restarting("a"), &[0, 1]);
    w.input(Input::Cancel(trainer("a")));
    assert_eq!(w.said.len(), 2);
    assert_eq!(w.said[1], said(&w, &[]));
    assert!(w.said[1].run >= w.said[0].run);
    // Of one that never had a node nothing was said.
    let mut w = world(vec![restarting("a")]);
    w.input(Input::Cancel(trainer("a")));
    assert!(w.said.is_empty());
}
