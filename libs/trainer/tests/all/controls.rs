//! Controls of the operator: withheld nodes are given back and stay free, caps and quotas hold,
//! and a lifted control has no effect.

use std::collections::BTreeSet;

use lacuna_model::{Elastic, Launch, NodeId, Program, Span, WithheldBy, Work};
use lacuna_trainer::controller::{ControllerConfig, Input, Note, Taken};
use lacuna_trainer::controls::{Pattern, Wanted};
use lacuna_trainer::settings::Quota;
use rand::RngExt;

use crate::common::{Chaos, World, config, node, spec, trainer};
use crate::controller;

const NODES: usize = 12;

fn world(seed: u64, config: ControllerConfig, sizes: &[(&str, u32, u32)]) -> World {
    let mut world = World::new(seed, NODES, config);
    world.snapshot();
    let of = |(name, min, max): &(&str, u32, u32)| spec(name, *min, *max, Work::UntilExit);
    world.submit("ann", sizes.iter().map(of).collect());
    for n in 0..NODES {
        world.open(n);
        world.pass(Span::from_secs(1));
    }
    world
}

/// Follows a plan with these nodes, and delivers all answers.
fn apply(world: &mut World, sizes: &[(&str, &[usize])]) {
    controller::apply(world, sizes);
    world.quiesce();
}

fn held(world: &World, name: &str) -> Vec<usize> {
    let record = world.record(name);
    (0..NODES)
        .filter(|n| record.nodes.contains(&node(*n)))
        .collect()
}

fn leased(world: &World) -> BTreeSet<NodeId> {
    let held = world
        .leases
        .iter()
        .filter(|(_, (owner, _))| owner.is_some());
    held.map(|(id, _)| id.clone()).collect()
}

fn unusable(world: &World) -> BTreeSet<NodeId> {
    let view = world.view.clone().unwrap();
    view.unusable.into_iter().collect()
}

fn want(world: &mut World, wanted: Wanted) {
    world.input(Input::Controls(wanted));
    world.quiesce();
}

fn only_version(version: u64) -> Wanted {
    Wanted {
        version,
        ..Wanted::default()
    }
}

#[test]
fn drained_nodes_go_back_at_once_and_come_into_use_again() {
    let mut w = world(1, config(), &[("a", 1, 8), ("b", 2, 8)]);
    apply(&mut w, &[("a", &[0, 1, 2]), ("b", &[3, 4])]);
    let drained: BTreeSet<NodeId> = [1, 4, 7].map(node).into();
    want(
        &mut w,
        Wanted {
            drained: drained.clone(),
            ..only_version(1)
        },
    );
    assert_eq!(held(&w, "a"), [0, 2]);
    assert_eq!(
        held(&w, "b"),
        Vec::<usize>::new(),
        "one is fewer than it needs"
    );
    assert_eq!(unusable(&w), drained);
    let note = |n: &&Note| {
        matches!(
            n,
            Note::Withheld {
                nodes: 2,
                by: WithheldBy::Drained
            }
        )
    };
    assert_eq!(w.notes.iter().filter(note).count(), 1);
    let harm = |n: &&Note| matches!(n, Note::GivenBack { .. });
    assert_eq!(
        w.notes.iter().filter(harm).count(),
        0,
        "no batch job waited"
    );
    // A plan of before that gives them is followed without them.
    apply(&mut w, &[("a", &[0, 2, 5, 7]), ("b", &[3, 4, 6])]);
    assert_eq!(held(&w, "a"), [0, 2, 5]);
    assert_eq!(held(&w, "b"), [3, 6]);
    want(&mut w, only_version(2));
    assert!(unusable(&w).is_empty());
    apply(&mut w, &[("a", &[0, 1, 2, 5, 7]), ("b", &[3, 4, 6])]);
    assert_eq!(held(&w, "a"), [0, 1, 2, 5, 7]);
}

#[test]
fn lists_hold_for_nodes_that_appear_later() {
    let mut w = World::new(2, NODES, config());
    w.snapshot();
    want(
        &mut w,
        Wanted {
            only: vec![Pattern::parse("n0[0-5]").unwrap()],
            avoid: vec![Pattern::parse("n03").unwrap()],
            ..only_version(1)
        },
    );
    for n in 0..NODES {
        w.open(n);
    }
    let left: BTreeSet<NodeId> = [0, 1, 2, 4, 5].map(node).into();
    let all: BTreeSet<NodeId> = (0..NODES).map(node).collect();
    assert_eq!(&all - &unusable(&w), left);
    assert_eq!(
        w.controller.node_use().withheld[&WithheldBy::List].len(),
        NODES - left.len()
    );
}

#[test]
fn without_growth_nodes_change_hands_and_none_is_added() {
    let mut w = world(3, config(), &[("a", 1, 8), ("b", 1, 8)]);
    apply(&mut w, &[("a", &[0, 1, 2, 3]), ("b", &[4])]);
    want(
        &mut w,
        Wanted {
            no_growth: Some(WithheldBy::Paused),
            ..only_version(1)
        },
    );
    assert_eq!(leased(&w).len(), 5, "what is used goes on");
    apply(&mut w, &[("a", &[0, 1]), ("b", &[2, 3, 4, 5, 6])]);
    assert_eq!(held(&w, "a"), [0, 1]);
    assert_eq!(
        held(&w, "b"),
        [2, 3, 4],
        "two changed hands, none was added"
    );
    // Nodes that the main scheduler takes do not come back.
    w.close(2);
    w.quiesce();
    w.open(2);
    apply(&mut w, &[("a", &[0, 1]), ("b", &[2, 3, 4])]);
    assert_eq!(held(&w, "b"), [3, 4]);
    want(&mut w, only_version(2));
    apply(&mut w, &[("a", &[0, 1]), ("b", &[2, 3, 4, 5])]);
    assert_eq!(held(&w, "b"), [2, 3, 4, 5]);
}

#[test]
fn beyond_the_cap_the_cheapest_nodes_go_first_of_these_the_youngest_holes() {
    let mut w = world(4, config(), &[("a", 1, 8), ("b", 3, 8)]);
    apply(&mut w, &[("a", &[0, 1, 2, 3]), ("b", &[4, 5, 6])]);
    let cap = |version, most| Wanted {
        at_most: Some((most, WithheldBy::Cap)),
        ..only_version(version)
    };
    // Every node brings 10 samples/s: b at its least gives all or none, 30 for 3.
    want(&mut w, cap(1, 5));
    assert_eq!(leased(&w).len(), 5);
    assert_eq!(held(&w, "a"), [0, 1], "the holes of 2 and 3 are younger");
    assert_eq!(held(&w, "b"), [4, 5, 6]);
    // The rest is withheld, and the plan gets no more than the cap.
    apply(&mut w, &[("a", &[0, 1, 2, 7]), ("b", &[4, 5, 6, 8])]);
    assert_eq!(leased(&w).len(), 5);
    // One node is over, or three of b: a's one at its least is cheaper only when it frees all.
    want(&mut w, cap(2, 3));
    assert_eq!(leased(&w).len(), 3);
    want(&mut w, cap(3, 0));
    assert!(leased(&w).is_empty());
    assert_eq!(unusable(&w).len(), NODES);
    want(&mut w, cap(4, 2));
    apply(&mut w, &[("a", &[0, 1])]);
    assert_eq!(held(&w, "a"), [0, 1], "free nodes are left by name");
    want(&mut w, only_version(5));
    assert!(unusable(&w).is_empty());
}

#[test]
fn idle_nodes_stay_free_and_one_that_a_batch_job_takes_is_replaced() {
    let mut w = world(6, config(), &[("a", 1, 12)]);
    let keep = |version, at_most| Wanted {
        keep_idle: 2,
        at_most,
        ..only_version(version)
    };
    let everything: Vec<usize> = (0..NODES).collect();
    apply(&mut w, &[("a", &everything)]);
    want(&mut w, keep(1, None));
    let free = |w: &World| w.controller.node_use().withheld[&WithheldBy::Reserve].clone();
    assert_eq!((held(&w, "a").len(), free(&w).len()), (10, 2));
    assert_eq!(w.controller.node_use().at_most, Some(10));
    // A plan of before gets no more.
    apply(&mut w, &[("a", &everything)]);
    assert_eq!(held(&w, "a").len(), 10);
    let taken = (0..NODES).find(|n| free(&w).contains(&node(*n))).unwrap();
    w.close(taken);
    w.quiesce();
    assert_eq!((held(&w, "a").len(), free(&w).len()), (9, 2));
    // A batch job that takes a node in use costs no other one.
    w.close(held(&w, "a")[0]);
    w.quiesce();
    assert_eq!((held(&w, "a").len(), free(&w).len()), (8, 2));
    // Under a cap nodes stay free all the same, so that their pilots end.
    want(&mut w, keep(2, Some((3, WithheldBy::Cap))));
    assert_eq!((held(&w, "a").len(), free(&w).len()), (3, 2));
    want(&mut w, only_version(3));
    assert!(unusable(&w).is_empty());
    assert_eq!(w.controller.node_use().at_most, None);
}

#[test]
fn a_drained_node_is_told_until_its_agent_has_left_or_it_comes_back() {
    let mut w = world(7, config(), &[("a", 1, 8)]);
    apply(&mut w, &[("a", &[0, 1])]);
    w.close_for(1, Taken::Down);
    w.quiesce();
    assert_eq!(held(&w, "a"), [0]);
    assert_eq!(w.controller.node_use().down, [node(1)]);
    w.open(1);
    assert!(w.controller.node_use().down.is_empty());
    w.close(1);
    assert!(
        w.controller.node_use().down.is_empty(),
        "a batch job has it"
    );
}

#[test]
fn a_users_nodes_are_shared_and_trainers_are_counted() {
    let of_ann = Quota {
        trainers: Some(3),
        nodes: Some(6),
    };
    let mut config = config();
    config.control.access.users = [("ann".to_owned(), of_ann)].into();
    let mut w = world(5, config, &[("a", 1, 8)]);
    let most = |w: &World, name: &str| {
        let view = w.view.clone().unwrap();
        let found = view
            .trainers
            .into_iter()
            .find(|t| t.spec.id == trainer(name));
        found.map(|t| t.spec.max_nodes)
    };
    assert_eq!(most(&w, "a"), Some(6));
    apply(&mut w, &[("a", &[0, 1, 2, 3, 4, 5, 6, 7])]);
    assert_eq!(held(&w, "a").len(), 6, "a plan that gives more is cut");
    let submit = |w: &mut World, user: &str, specs: &[(&str, u32, u32)]| {
        let of = |(name, min, max): &(&str, u32, u32)| spec(name, *min, *max, Work::UntilExit);
        w.submit(user, specs.iter().map(of).collect());
        let reply = w.replies.last().unwrap().clone();
        w.quiesce();
        reply
    };
    // With a second trainer both have half, and the first gives the rest back.
    submit(&mut w, "ann", &[("b", 2, 8)]).unwrap();
    assert_eq!((most(&w, "a"), most(&w, "b")), (Some(3), Some(3)));
    assert_eq!(held(&w, "a"), [0, 1, 2]);
    // A third one whose least does not fit waits; another user's does not.
    submit(&mut w, "ann", &[("c", 5, 8)]).unwrap();
    submit(&mut w, "bob", &[("d", 5, 8)]).unwrap();
    assert_eq!((most(&w, "c"), most(&w, "d")), (None, Some(8)));
    let error = submit(&mut w, "ann", &[("e", 1, 2)]).unwrap_err();
    assert!(error.contains("ann may have 3 trainers"), "{error}");
    let error = submit(&mut w, "ann", &[("e", 7, 8)]).unwrap_err();
    assert!(error.contains("needs 7 nodes"), "{error}");
    w.input(Input::Cancel(trainer("a")));
    w.input(Input::Cancel(trainer("b")));
    w.quiesce();
    assert_eq!(most(&w, "c"), Some(6), "there is room now");
}

/// Random controls.
fn anything(w: &mut World, version: u64) -> Wanted {
    let mut wanted = only_version(version);
    match w.rng.random_range(0..7) {
        0 => {}
        1 => {
            let some = w.rng.random_range(1..4);
            wanted.drained = (0..some)
                .map(|_| node(w.rng.random_range(0..NODES)))
                .collect();
        }
        2 => wanted.only = vec![Pattern::parse("n0[0-6]").unwrap()],
        3 => wanted.no_growth = Some(WithheldBy::Window),
        4 => wanted.at_most = Some((w.rng.random_range(0..8), WithheldBy::Cap)),
        5 => wanted.keep_idle = w.rng.random_range(1..8),
        _ => {
            wanted.avoid = vec![Pattern::parse("n*1").unwrap()];
            wanted.at_most = Some((w.rng.random_range(1..8), WithheldBy::Paused));
        }
    }
    wanted
}

/// Delivers messages for a while.
fn settle(w: &mut World) {
    for _ in 0..15 {
        w.deliver(usize::MAX);
        w.pass(Span::from_secs(1));
        w.renew();
        w.input(Input::Timer);
    }
}

/// Asserts the controls once all agents have answered.
fn obeyed(w: &World, wanted: &Wanted, seed: u64) {
    let leased = leased(w);
    for id in &leased {
        assert_eq!(wanted.bars(id), None, "seed {seed}: {id} is held");
    }
    let most = w.pool.len().saturating_sub(wanted.keep_idle as usize);
    if wanted.keep_idle > 0 {
        let usable = w.pool.keys().filter(|id| !unusable(w).contains(*id));
        assert!(usable.count() <= most, "seed {seed}: too few are kept");
        let idle = leased.iter().filter(|id| w.pool.contains_key(*id));
        assert!(idle.count() <= most, "seed {seed}: too many are used");
    }
    if let Some((most, _)) = wanted.at_most {
        assert!(
            leased.len() <= most as usize,
            "seed {seed}: {} nodes under a cap of {most}",
            leased.len()
        );
        let usable = w.pool.keys().filter(|id| !unusable(w).contains(*id));
        assert!(
            usable.count() <= most as usize,
            "seed {seed}: more are offered"
        );
    }
}

#[test]
fn all_controls_are_obeyed_although_messages_are_lost_and_repeated() {
    let (mut taken, mut lifted) = (0, 0);
    for seed in 0..60 {
        println!("seed {seed}");
        let mut config = config();
        config.control.max_parallel = 3;
        let sizes = [("a", 1, 4), ("b", 2, 8), ("c", 1, 8), ("d", 3, 5)];
        let mut w = world(seed, config, &sizes);
        let mut wanted = Wanted::default();
        for version in 1..12 {
            w.chaos = Chaos {
                lose: 10,
                repeat: 15,
                reorder: 20,
            };
            for _ in 0..25 {
                let n = w.rng.random_range(0..NODES);
                match w.rng.random_range(0..100) {
                    0..20 => w.open(n),
                    20..28 => w.close(n),
                    28..50 => w.random_plan(),
                    50..65 => {
                        w.pass(Span::from_secs(2));
                        w.renew();
                        w.input(Input::Timer);
                    }
                    65 => {
                        // A restarted control reads the controls before anything else.
                        w.crash_control();
                        w.input(Input::Controls(wanted.clone()));
                    }
                    66 => {
                        w.input(Input::Disconnected);
                        w.pass(Span::from_secs(5));
                        w.input(Input::Connected);
                    }
                    _ => w.deliver(5),
                }
            }
            let used = leased(&w).len();
            wanted = anything(&mut w, version);
            w.input(Input::Controls(wanted.clone()));
            w.quiesce();
            obeyed(&w, &wanted, seed);
            // Without growth, no plan adds a node.
            let before = leased(&w);
            taken += used.saturating_sub(before.len());
            for _ in 0..5 {
                w.random_plan();
                settle(&mut w);
                obeyed(&w, &wanted, seed);
                if wanted.no_growth.is_some() {
                    let now = leased(&w);
                    assert!(
                        now.is_subset(&before),
                        "seed {seed}: {now:?} after {before:?}"
                    );
                }
            }
        }
        w.input(Input::Controls(only_version(99)));
        w.quiesce();
        assert!(unusable(&w).is_empty(), "seed {seed}: {:?}", unusable(&w));
        for _ in 0..10 {
            w.random_plan();
            settle(&mut w);
        }
        lifted += leased(&w).len();
    }
    println!("{taken} nodes taken back, {lifted} in use after all was lifted");
    // Without a withheld node this test would prove nothing.
    assert!(taken > 100 && lifted > 100);
}

#[test]
fn the_published_trainer_has_no_environment_and_no_arguments() {
    let mut world = World::new(1, NODES, config());
    world.snapshot();
    world.open(3);
    let mut secret = spec("a", 1, 4, Work::UntilExit);
    secret.launch = Launch::Command(Program {
        program: "train".to_owned(),
        args: vec!["--token=geheim".to_owned()],
        env: [("WANDB_API_KEY".to_owned(), "geheim".to_owned())].into(),
        checkpoint_dir: Some("ckpt".to_owned()),
        profile: true,
        family: Some("cnn".to_owned()),
        elastic: Elastic::REGROUP,
        ..Program::default()
    });
    let whole = secret.launch.clone();
    world.submit("ann", vec![secret]);
    for view in [world.view.clone().unwrap(), world.present()] {
        let shown = &view.trainers[0].spec.launch;
        assert!(!format!("{view:?}").contains("geheim"), "{view:?}");
        let kept = Launch::Command(Program {
            program: "train".to_owned(),
            checkpoint_dir: Some("ckpt".to_owned()),
            profile: true,
            family: Some("cnn".to_owned()),
            elastic: Elastic::REGROUP,
            ..Program::default()
        });
        assert_eq!(*shown, kept);
    }
    // The controller keeps them, since it starts the program.
    assert_eq!(world.record("a").spec.launch, whole);
}
