//! Members of a run are published once, and commands do not name them.

use lacuna_model::{Action, Launch, Members, NodeId, Program, Span, TrainerSpec, Work};
use lacuna_trainer::controller::Input;

use crate::common::{World, node, regrouping, spec, trainer};
use crate::controller::{apply, world};

/// A trainer whose program is started again for each run.
fn restarting(name: &str) -> TrainerSpec {
    let mut launch = regrouping();
    if let Launch::Command(Program { elastic, .. }) = &mut launch {
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
    w.members.clear();
    apply(&mut w, &[("a", nodes)]);
    w
}

fn members_on(w: &World, nodes: &[usize]) -> Members {
    Members {
        trainer: trainer("a"),
        run: w.record("a").run,
        nodes: nodes.iter().map(|n| node(*n)).collect(),
    }
}

#[test]
fn a_change_of_many_nodes_is_one_list_and_a_short_command_for_each() {
    let mut w = commanded(restarting("a"), &[0, 1, 2]);
    assert_eq!(w.members, [members_on(&w, &[0, 1, 2])]);
    apply(&mut w, &[("a", &[0, 1, 2, 3, 4])]);
    assert_eq!(w.members.len(), 2);
    assert_eq!(w.members[1], members_on(&w, &[0, 1, 2, 3, 4]));
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
fn members_of_simulated_trainers_are_not_published() {
    let w = commanded(spec("a", 1, 8, Work::UntilExit), &[0, 1, 2]);
    assert_eq!((w.nodes_of("a"), w.members.len()), (3, 0));
}

#[test]
fn members_are_published_again_with_repeated_commands() {
    let mut w = world(vec![restarting("a")]);
    (0..3).for_each(|n| w.open(n));
    let view = w.present();
    let plan = crate::common::plan(1, w.seq, w.now.cluster, &[("a", &[0, 1, 2])]);
    w.give(plan, &view);
    let first = members_on(&w, &[0, 1, 2]);
    assert_eq!(w.members, std::slice::from_ref(&first));
    // All messages are lost: the server was emptied before any agent read them.
    w.mail.clear();
    w.members.clear();
    w.pass(Span::from_secs(3));
    w.input(Input::Timer);
    assert_eq!(w.members, std::slice::from_ref(&first));
    w.deliver(usize::MAX);
    assert_eq!(w.programs.len(), 3);
    // An agent that has obeyed may still ask for the members.
    w.members.clear();
    w.input(Input::Connected);
    assert_eq!(w.members, std::slice::from_ref(&first));
    w.members.clear();
    w.restart_control();
    assert_eq!(w.members, std::slice::from_ref(&first));
}

#[test]
fn an_ended_trainer_has_no_members() {
    let mut w = commanded(restarting("a"), &[0, 1]);
    w.input(Input::Cancel(trainer("a")));
    assert_eq!(w.members.len(), 2);
    assert_eq!(w.members[1], members_on(&w, &[]));
    assert!(w.members[1].run >= w.members[0].run);
    // The members of a trainer that never had a node were not published.
    let mut w = world(vec![restarting("a")]);
    w.input(Input::Cancel(trainer("a")));
    assert!(w.members.is_empty());
}
