//! Agents that come on demand, as pilots of the owner of the trainer that has a node.

use std::collections::{BTreeMap, BTreeSet};

use lacuna_model::{Action, Activity, Command, Epoch, NodeId, Span, TrainerSpec, Work};
use lacuna_trainer::agent::{Agent, Effect};
use lacuna_trainer::controller::{Input, NO_PILOT, Note, OnDemand};
use rand::RngExt;

use crate::common::{Chaos, World, config, node, regrouping, spec, trainer};
use crate::controller::apply;

const WAIT: Span = Span::from_secs(100);
const REST: Span = Span::from_secs(20);

fn program(name: &str, elastic: bool) -> TrainerSpec {
    let mut spec = spec(name, 1, 8, Work::Samples(1e9));
    spec.launch = regrouping();
    if !elastic
        && let lacuna_model::Launch::Command(lacuna_model::Program { elastic, .. }) =
            &mut spec.launch
    {
        *elastic = lacuna_model::Elastic::Restart;
    }
    spec
}

/// Six holes without any agent; trainers `a` and `b`, whose owners have signed.
fn world(seed: u64, elastic: bool) -> World {
    let mut config = config();
    config.on_demand = Some(OnDemand {
        agent_wait: WAIT,
        rest: REST,
        start: Span::from_secs(10),
    });
    // It does not count: agents never come first.
    config.control.require_agents = true;
    let mut w = World::new(seed, 6, config);
    w.absent = (0..6).map(node).collect();
    w.snapshot();
    w.input(Input::Submit {
        trainers: vec![program("a", elastic), program("b", elastic)],
        user: String::new(),
        tickets: ["a", "b"].map(|id| (trainer(id), "00".to_owned())).into(),
        test_only: false,
    });
    (0..6).for_each(|n| w.open(n));
    w
}

fn pass(w: &mut World, seconds: i64) {
    for _ in 0..seconds {
        w.pass(Span::from_secs(1));
        w.renew();
        w.statuses();
        w.all_ready();
        w.deliver(usize::MAX);
        w.input(Input::Timer);
        w.deliver(usize::MAX);
    }
}

/// A pilot comes to a node and its program is ready.
fn comes(w: &mut World, n: usize, of: &str) {
    w.pilot(&node(n), &trainer(of));
    w.deliver(usize::MAX);
    w.all_ready();
    w.deliver(usize::MAX);
}

fn given(w: &World) -> Vec<(String, String)> {
    let given = w.controller.given();
    given
        .iter()
        .map(|(n, id)| (n.to_string(), id.to_string()))
        .collect()
}

fn pair(n: &str, id: &str) -> (String, String) {
    (n.to_owned(), id.to_owned())
}

/// Commands that went out to a node and name a trainer.
fn commanded(w: &World, n: usize) -> Option<String> {
    match &w.commands.get(&node(n))?.action {
        Action::Run(part) | Action::Prepare(part) => Some(part.trainer.to_string()),
        Action::Release { .. } => None,
    }
}

#[test]
fn a_trainer_has_a_node_first_and_takes_it_once_its_agent_speaks() {
    for elastic in [false, true] {
        let mut w = world(1, elastic);
        assert!(w.present().unusable.is_empty(), "no agent has ever spoken");
        assert!(given(&w).is_empty());
        apply(&mut w, &[("a", &[0])]);
        assert_eq!(given(&w), [pair("n00", "a")]);
        assert_eq!((w.nodes_of("a"), commanded(&w, 0)), (0, None));
        // Long after the ten seconds that nodes of others are waited for.
        pass(&mut w, 60);
        assert_eq!(given(&w), [pair("n00", "a")]);
        comes(&mut w, 0, "a");
        assert_eq!(w.programs.len(), 1, "it starts without a further wait");
        assert_eq!(w.nodes_of("a"), 1);
        // It trains on while the next pilots come.
        pass(&mut w, 5);
        let run = w.record("a").run;
        apply(&mut w, &[("a", &[0, 1, 2])]);
        comes(&mut w, 1, "a");
        pass(&mut w, 5);
        let record = w.record("a");
        assert_eq!((record.run, record.nodes.len()), (run, 1));
        comes(&mut w, 2, "a");
        assert_eq!(w.nodes_of("a"), 3);
        assert_eq!(w.programs.len(), 3);
    }
}

#[test]
fn plans_learn_how_long_nodes_wait_for_their_pilots() {
    let mut w = world(1, true);
    assert_eq!(w.present().pilot_s, 10.0, "as assumed");
    apply(&mut w, &[("a", &[0, 1, 2]), ("b", &[3, 4, 5])]);
    pass(&mut w, 4);
    (0..3).for_each(|n| comes(&mut w, n, "a"));
    assert_eq!(w.present().pilot_s, 10.0, "three are too few");
    let version = w.present().version;
    pass(&mut w, 1);
    (3..6).for_each(|n| comes(&mut w, n, "b"));
    assert_eq!(w.present().pilot_s, 5.0);
    assert!(w.present().version > version, "plans depend on it");
}

#[test]
fn a_node_on_which_no_agent_comes_is_unusable_for_longer_each_time() {
    let mut w = world(1, false);
    for length in [100, 200, 400] {
        apply(&mut w, &[("a", &[0])]);
        pass(&mut w, 99);
        assert_eq!(given(&w), [pair("n00", "a")]);
        assert!(w.present().unusable.is_empty());
        pass(&mut w, 2);
        assert!(given(&w).is_empty());
        assert_eq!(w.present().unusable, [node(0)]);
        let cause = |note: &&Note| {
            matches!(
                note,
                Note::Unusable {
                    cause: "no agent",
                    ..
                }
            )
        };
        assert_eq!(w.notes.iter().filter(cause).count(), 1);
        w.notes.clear();
        assert_eq!(
            w.controller.unacknowledged(),
            0,
            "nothing is asked of no agent"
        );
        pass(&mut w, length - 3);
        assert_eq!(w.present().unusable, [node(0)], "{length}");
        pass(&mut w, 4);
        assert!(w.present().unusable.is_empty(), "{length}");
    }
    assert_eq!(w.record("a").failures, 0);
}

#[test]
fn a_late_trainer_goes_with_the_agents_that_are_there() {
    let mut w = world(1, true);
    apply(&mut w, &[("a", &[0, 1])]);
    comes(&mut w, 1, "a");
    pass(&mut w, 50);
    // Another plan does not begin the wait again.
    apply(&mut w, &[("a", &[0, 1, 2])]);
    pass(&mut w, 48);
    assert_eq!(w.nodes_of("a"), 0);
    pass(&mut w, 5);
    assert_eq!(w.record("a").nodes, [node(1)]);
    assert_eq!(given(&w), [pair("n01", "a")]);
}

#[test]
fn a_node_changes_hands_and_no_agent_gets_another_owners_command() {
    for elastic in [false, true] {
        let mut w = world(1, elastic);
        apply(&mut w, &[("a", &[0])]);
        comes(&mut w, 0, "a");
        assert_eq!(w.nodes_of("a"), 1);
        apply(&mut w, &[("b", &[0])]);
        w.deliver(usize::MAX);
        assert_eq!(given(&w), [pair("n00", "b")], "a's agent has given it back");
        // The agent of a reports on, then leaves. Neither touches the lease of b.
        pass(&mut w, 8);
        assert_eq!(commanded(&w, 0), None);
        w.pilot_leaves(&node(0));
        w.deliver(usize::MAX);
        pass(&mut w, 30);
        assert_eq!(given(&w), [pair("n00", "b")]);
        assert!(w.present().unusable.is_empty());
        comes(&mut w, 0, "b");
        assert_eq!(
            (w.nodes_of("b"), commanded(&w, 0)),
            (1, Some("b".to_owned()))
        );
        // Late words of the first agent are none of the second.
        let mut late = w.agents[&node(0)].status();
        late.serves = Some(trainer("a"));
        late.activity = Activity::Free;
        for leaving in [false, true] {
            late.leaving = leaving;
            w.input(Input::Agents(vec![late.clone()]));
        }
        assert_eq!((w.nodes_of("b"), given(&w)), (1, vec![pair("n00", "b")]));
        for id in ["a", "b"] {
            assert_eq!(w.record(id).failures, 0);
        }
    }
}

#[test]
fn an_agent_of_another_trainer_that_falls_silent_takes_no_lease_along() {
    let mut w = world(1, false);
    apply(&mut w, &[("a", &[0])]);
    comes(&mut w, 0, "a");
    apply(&mut w, &[("b", &[0])]);
    w.deliver(usize::MAX);
    w.absent.insert(node(0));
    pass(&mut w, 90);
    assert_eq!(given(&w), [pair("n00", "b")]);
    comes(&mut w, 0, "b");
    assert_eq!(w.nodes_of("b"), 1);
    // Its own agent does: the trainer loses the node, which is usable again after a while.
    w.absent.insert(node(0));
    w.programs.clear();
    pass(&mut w, 62);
    assert_eq!((w.nodes_of("b"), given(&w)), (0, vec![]));
    assert_eq!(w.present().unusable, [node(0)]);
    pass(&mut w, 130);
    assert!(w.present().unusable.is_empty());
}

#[test]
fn a_node_rests_after_its_agent_has_left_unless_it_was_busy() {
    let mut w = world(1, false);
    apply(&mut w, &[("a", &[0, 1])]);
    comes(&mut w, 0, "a");
    comes(&mut w, 1, "a");
    assert_eq!(w.nodes_of("a"), 2);
    w.pilot_leaves(&node(0));
    w.pilot_leaves(&node(1));
    w.deliver(usize::MAX);
    assert_eq!((w.nodes_of("a"), given(&w)), (0, vec![]));
    assert_eq!(w.present().unusable, [node(0), node(1)]);
    // The scheduler had taken one of them.
    w.close(0);
    w.open(0);
    assert_eq!(w.present().unusable, [node(1)]);
    pass(&mut w, 21);
    assert!(w.present().unusable.is_empty());
    assert_eq!(w.controller.unacknowledged(), 0);
}

#[test]
fn what_an_owner_may_not_have_holds_back_their_trainer_alone() {
    let mut w = world(1, false);
    apply(&mut w, &[("a", &[0, 1]), ("b", &[2])]);
    comes(&mut w, 2, "b");
    w.input(Input::NoPilots {
        trainer: trainer("a"),
        reason: "the ticket is stale".to_owned(),
        again_in: Span::from_secs(30),
    });
    assert_eq!(given(&w), [pair("n02", "b")]);
    let view = w.present();
    let ids = |view: &lacuna_trainer::controller::TrainersView| -> Vec<String> {
        view.trainers
            .iter()
            .map(|t| t.spec.id.to_string())
            .collect()
    };
    assert_eq!(ids(&view), ["b"], "no plan gives nodes to a meanwhile");
    assert!(view.unusable.is_empty(), "the nodes are not to blame");
    let record = w.record("a");
    assert_eq!(record.reason, format!("{NO_PILOT}: the ticket is stale"));
    assert_eq!(record.failures, 0);
    // Its owner signs again.
    let mut signs = world(2, false);
    apply(&mut signs, &[("a", &[0, 1])]);
    signs.input(Input::NoPilots {
        trainer: trainer("a"),
        reason: "the ticket is stale".to_owned(),
        again_in: Span::from_secs(3000),
    });
    assert_eq!(ids(&signs.present()), ["b"]);
    signs.input(Input::Renew {
        trainer: trainer("a"),
        ticket: "11".to_owned(),
    });
    assert_eq!(ids(&signs.present()), ["a", "b"]);
    let renewed = signs.record("a");
    assert_eq!(renewed.ticket.as_deref(), Some("11"));
    assert_eq!(renewed.reason, "");
    // One that has nodes keeps them and gets no more.
    w.input(Input::NoPilots {
        trainer: trainer("b"),
        reason: "many".to_owned(),
        again_in: Span::from_secs(60),
    });
    let most = |w: &World| w.present().trainers[0].spec.max_nodes;
    assert_eq!((w.nodes_of("b"), most(&w)), (1, 1));
    pass(&mut w, 31);
    assert_eq!(ids(&w.present()), ["a", "b"]);
    pass(&mut w, 30);
    assert_eq!(w.present().trainers[1].spec.max_nodes, 8);
    apply(&mut w, &[("a", &[0, 1]), ("b", &[2])]);
    assert_eq!(given(&w).len(), 3);
}

#[test]
fn after_a_restart_of_control_nodes_without_agents_become_free() {
    let mut w = world(1, true);
    apply(&mut w, &[("a", &[0]), ("b", &[1])]);
    comes(&mut w, 0, "a");
    // b waits for its pilot; a node was used before.
    w.crash_control();
    w.deliver(usize::MAX);
    pass(&mut w, 5);
    assert_eq!(w.nodes_of("a"), 1);
    assert_eq!(given(&w), [pair("n00", "a")]);
    pass(&mut w, 130);
    assert!(w.present().unusable.is_empty());
    assert_eq!(w.controller.unacknowledged(), 0);
    apply(&mut w, &[("a", &[0]), ("b", &[1])]);
    comes(&mut w, 1, "b");
    assert_eq!((w.nodes_of("a"), w.nodes_of("b")), (1, 1));
    // What the owners have signed outlives control, and is shown to no user.
    assert_eq!(w.controller.signed().count(), 2);
    let shown = w.present();
    assert!(shown.trainers.iter().all(|record| record.ticket.is_none()));
}

#[test]
fn an_agent_with_a_ticket_neither_obeys_nor_acknowledges_another_trainers_command() {
    let mut w = world(1, false);
    apply(&mut w, &[("a", &[0])]);
    comes(&mut w, 0, "a");
    let run = w.commands[&node(0)].clone();
    let now = w.now;
    let agent = || Agent::new(node(0), Span::from_secs(60)).with_serves(Some(trainer("b")));
    let newer = |epoch| Command {
        epoch: Epoch(epoch),
        ..run.clone()
    };
    let mut others = agent();
    let only_report = |effects: Vec<Effect>| match effects.as_slice() {
        [Effect::Report(status)] => {
            assert_eq!((status.epoch, status.seq), (Epoch(0), 0));
            assert_eq!(status.activity, Activity::Free);
            assert_eq!(status.serves, Some(trainer("b")));
        }
        other => panic!("{other:?}"),
    };
    only_report(others.command(newer(7), now));
    only_report(others.hold(newer(8), now));
    assert!(others.recover(&newer(9), now).is_empty());
    assert!(others.renewed(Epoch(8), now).is_empty());
    // Its own program ends when the node is another's, and not for an old command.
    let Action::Run(part) = &run.action else {
        panic!("{run:?}");
    };
    let mut part = part.clone();
    part.trainer = trainer("b");
    let own = Command {
        epoch: Epoch(20),
        action: Action::Run(part),
        ..run.clone()
    };
    let started = others.command(own, now);
    assert!(matches!(started[0], Effect::Start(_)), "{started:?}");
    assert!(
        !others
            .command(newer(19), now)
            .iter()
            .any(|e| matches!(e, Effect::Stop { .. }))
    );
    assert!(
        others
            .command(newer(21), now)
            .iter()
            .any(|e| matches!(e, Effect::Stop { .. }))
    );
    let stopped = others.stopped(run_of(&run));
    let status = match stopped.as_slice() {
        [Effect::Report(status)] => status,
        other => panic!("{other:?}"),
    };
    assert_eq!(
        (status.epoch, &status.activity),
        (Epoch(20), &Activity::Free)
    );
}

fn run_of(command: &Command) -> lacuna_model::RunId {
    lacuna_model::RunId(command.seq)
}

/// Seconds in which agents report, and pilots come at once.
fn let_pass(w: &mut World, seconds: u32) {
    for _ in 0..seconds {
        w.pass(Span::from_secs(1));
        w.all_ready();
        w.renew();
        w.statuses();
        w.deliver(usize::MAX);
        w.input(Input::Timer);
        pilots(w, true);
        w.deliver(usize::MAX);
    }
}

/// The executor: pilots come to nodes that trainers have, and go from the others.
fn pilots(w: &mut World, hurry: bool) {
    let given = w.controller.given();
    for n in 0..6 {
        let id = node(n);
        let owner = given.get(&id);
        let status = w.agents[&id].status();
        let wait = !hurry && !w.rng.random_bool(0.3);
        if w.absent.contains(&id) {
            if let Some(owner) = owner.filter(|_| !wait && w.pool.contains_key(&id)) {
                w.pilot(&id, owner);
            }
        } else if !wait
            && status.activity == Activity::Free
            && owner.is_some_and(|owner| status.serves.as_ref() != Some(owner))
        {
            w.pilot_leaves(&id);
        }
    }
}

#[test]
fn owners_run_their_own_programs_whatever_happens_and_all_converge() {
    let mut ran: BTreeMap<String, BTreeSet<NodeId>> = BTreeMap::new();
    for seed in 0..150 {
        println!("seed {seed}");
        let mut w = world(seed, seed % 2 == 0);
        w.chaos = Chaos {
            lose: 15,
            repeat: 20,
            reorder: 30,
        };
        for _ in 0..400 {
            let n = w.rng.random_range(0..6);
            match w.rng.random_range(0..100) {
                0..15 => w.open(n),
                15..20 => {
                    w.close(n);
                    // Preempted, with its last words or without.
                    if !w.absent.contains(&node(n)) {
                        w.pilot_leaves(&node(n));
                    }
                }
                20..35 => w.random_plan(),
                35..60 => {
                    let seconds = w.rng.random_range(0..8);
                    w.pass(Span::from_secs(seconds));
                    w.renew();
                    w.input(Input::Timer);
                }
                60..65 => w.statuses(),
                65 => w.crash_control(),
                66 if !w.absent.contains(&node(n)) => w.pilot_leaves(&node(n)),
                67 => w.snapshot(),
                68 => {
                    let id = ["a", "b"][n % 2];
                    w.input(Input::NoPilots {
                        trainer: trainer(id),
                        reason: "no".to_owned(),
                        again_in: Span::from_secs(20),
                    });
                }
                69..80 => pilots(&mut w, false),
                _ => {
                    let most = w.rng.random_range(1..10);
                    w.deliver(most);
                }
            }
            for (id, part) in &w.programs {
                let serves = w.agents[id].status().serves;
                assert_eq!(serves.as_ref(), Some(&part.trainer), "seed {seed}: {id}");
                let of = ran.entry(part.trainer.to_string()).or_default();
                of.insert(id.clone());
            }
        }
        // Then nothing fails any more. What was closed may last for half an hour.
        w.chaos = Chaos::default();
        (0..6).for_each(|n| w.open(n));
        w.snapshot();
        let_pass(&mut w, 2400);
        assert!(
            w.present().unusable.is_empty(),
            "seed {seed}: {:?}",
            w.present()
        );
        apply(&mut w, &[("a", &[0, 1, 2]), ("b", &[3, 4, 5])]);
        let_pass(&mut w, 200);
        assert_eq!((w.nodes_of("a"), w.nodes_of("b")), (3, 3), "seed {seed}");
        assert_eq!(w.programs.len(), 6, "seed {seed}");
        assert_eq!(w.controller.unacknowledged(), 0, "seed {seed}");
    }
    assert!(ran.values().all(|nodes| nodes.len() == 6), "{ran:?}");
}
