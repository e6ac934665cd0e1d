//! Sizes are tried for the sake of measuring: within a budget, on the trainer's own nodes, and
//! at nobody else's expense.

use std::collections::BTreeMap;

use lacuna_model::{
    Action, Activity, Basis, Elastic, Launch, NodeId, Progress, ScalingCurve, Span, TrainerRecord,
    TrainerSpec, Work,
};
use lacuna_trainer::controller::{Input, Note};
use lacuna_trainer::settings::ProfileOrder;

use crate::common::{World, config, node, plan, spec, trainer};

fn unknown(name: &str, elastic: Elastic) -> TrainerSpec {
    TrainerSpec {
        throughput: ScalingCurve::linear(1.0, 8).unwrap(),
        launch: Launch::Command {
            program: "train".to_owned(),
            args: Vec::new(),
            env: BTreeMap::new(),
            checkpoint_dir: None,
            profile: true,
            family: None,
            elastic,
        },
        ..spec(name, 1, 8, Work::UntilExit)
    }
}

fn world(share: f64, trial_order: ProfileOrder, elastic: Elastic) -> World {
    world_of(unknown("a", elastic), share, trial_order)
}

fn world_of(spec: TrainerSpec, share: f64, trial_order: ProfileOrder) -> World {
    let mut config = config();
    config.control.profile.share = share;
    config.control.profile.order = trial_order;
    let mut w = World::new(1, 12, config);
    w.input(Input::Submit {
        trainers: vec![spec],
        user: String::new(),
        test_only: false,
    });
    w.snapshot();
    (0..12).for_each(|n| w.open(n));
    give(&mut w, &(0..8).collect::<Vec<_>>());
    w
}

fn give(w: &mut World, nodes: &[usize]) {
    give_all(w, &[("a", nodes)]);
}

fn give_all(w: &mut World, sizes: &[(&str, &[usize])]) {
    w.generation += 1;
    let view = w.present();
    let plan = plan(w.generation, w.seq, w.now.cluster, sizes);
    w.give(plan, &view);
    settle(w);
}

fn settle(w: &mut World) {
    w.deliver(usize::MAX);
    w.all_ready();
    w.deliver(usize::MAX);
}

fn record(w: &World) -> TrainerRecord {
    w.controller.record(&trainer("a")).unwrap().clone()
}

/// The true rate: 100 samples/s on one node and 60 more for each further one.
fn truth(nodes: usize) -> f64 {
    40.0 + 60.0 * nodes as f64
}

/// A trainer's program reports for so long, every five seconds.
fn train(w: &mut World, name: &str, seconds: i64) {
    for _ in 0..seconds / 5 {
        w.pass(Span::from_secs(5));
        w.renew();
        w.statuses();
        w.deliver(usize::MAX);
        let record = w.controller.record(&trainer(name)).unwrap();
        let (run, nodes) = (record.run, record.nodes.len());
        if let Some(first) = record.nodes.first().cloned() {
            let samples = record.samples_run + 5.0 * truth(nodes);
            w.input(Input::Progress(Progress {
                node: first,
                trainer: trainer(name),
                run,
                at: w.now.cluster,
                samples,
                owed: 0.0,
                step: None,
                world_size: nodes as u32,
                loss: None,
                checkpoint: None,
                saved: None,
                base: None,
            }));
        }
        settle(w);
        w.input(Input::Timer);
        settle(w);
    }
}

/// Trains until a trial has begun.
fn until_tried(w: &mut World) -> TrainerRecord {
    for _ in 0..1000 {
        train(w, "a", 5);
        let record = record(w);
        if record.nodes.len() < 8 {
            return record;
        }
    }
    panic!("no size was tried");
}

/// Sizes of the runs since the beginning.
fn sizes(w: &World) -> Vec<u32> {
    let after = |note: &Note| match note {
        Note::Run { after, .. } => Some(*after),
        _ => None,
    };
    w.notes.iter().filter_map(after).collect()
}

fn aside(record: &TrainerRecord) -> Vec<NodeId> {
    record.measured.as_ref().unwrap().aside.clone()
}

fn held(w: &World, by: &str) -> usize {
    let owner = Some(trainer(by));
    w.leases.values().filter(|lease| lease.0 == owner).count()
}

#[test]
fn sizes_are_tried_until_the_curve_is_known_and_all_nodes_come_back() {
    for (order, expected) in [
        (ProfileOrder::LargeToSmall, [8, 4, 2, 1, 8]),
        (ProfileOrder::SmallToLarge, [8, 1, 2, 4, 8]),
    ] {
        for elastic in [Elastic::Restart, Elastic::Regroup] {
            let mut w = world(1.0, order, elastic);
            train(&mut w, "a", 3600);
            assert_eq!(sizes(&w), expected, "{order:?} {elastic:?}");
            let record = record(&w);
            let known: Vec<u32> = record
                .measured
                .iter()
                .flat_map(|m| &m.rates)
                .map(|r| r.nodes)
                .collect();
            assert_eq!(known, [1, 2, 4, 8]);
            for nodes in 1..=8 {
                assert!((record.spec.throughput.at(nodes) - truth(nodes as usize)).abs() < 1e-6);
            }
            assert_eq!(
                (record.nodes.len(), aside(&record).len(), held(&w, "a")),
                (8, 0, 8)
            );
            assert_eq!(
                w.records[&trainer("a")].measured,
                record.measured,
                "not kept"
            );
        }
    }
}

#[test]
fn what_trials_cost_stays_within_its_share_and_is_told() {
    let (mut w, share) = (
        world(0.02, ProfileOrder::LargeToSmall, Elastic::Regroup),
        0.02,
    );
    let begun = w.now.cluster;
    for _ in 0..400 {
        train(&mut w, "a", 20);
        let held = 8.0 * w.now.cluster.since(begun).as_secs_f64();
        let spent = record(&w).measured.unwrap().spent_node_s;
        // The time between two looks may be spent beyond the share.
        assert!(spent <= share * held + 8.0 * 20.0, "{spent} of {held}");
    }
    assert!(sizes(&w).len() > 2, "nothing was tried: {:?}", sizes(&w));
    let told: f64 = w
        .notes
        .iter()
        .map(|note| match note {
            Note::TrialOver { node_s, .. } => *node_s,
            _ => 0.0,
        })
        .sum();
    let spent = record(&w).measured.unwrap().spent_node_s;
    assert!(
        told > 0.0 && (told - spent).abs() < 1e-6,
        "{told} of {spent}"
    );
}

#[test]
fn nothing_is_tried_without_a_budget_or_for_a_curve_that_its_owner_knows() {
    let mut w = world(0.0, ProfileOrder::LargeToSmall, Elastic::Restart);
    train(&mut w, "a", 3600);
    assert_eq!(sizes(&w), [8]);
    assert_eq!(record(&w).measured.unwrap().spent_node_s, 0.0);
    let mut known = unknown("a", Elastic::Restart);
    if let Launch::Command { profile, .. } = &mut known.launch {
        *profile = false;
    }
    let mut w = world_of(known, 1.0, ProfileOrder::LargeToSmall);
    train(&mut w, "a", 3600);
    assert_eq!((sizes(&w), record(&w).measured), (vec![8], None));
}

#[test]
fn a_trial_is_nobody_elses_business() {
    let mut w = world(1.0, ProfileOrder::LargeToSmall, Elastic::Restart);
    let tried = until_tried(&mut w);
    assert_eq!((tried.nodes.len(), aside(&tried).len()), (4, 4));
    assert_eq!(held(&w, "a"), 8, "nodes aside were given back");
    let view = w.present();
    assert_eq!(
        view.trainers[0].nodes.len(),
        8,
        "the planner is told of all nodes"
    );
    // A plan that changes nothing ends no trial.
    give(&mut w, &(0..8).collect::<Vec<_>>());
    assert_eq!(record(&w).run, tried.run);
    for n in 4..8 {
        assert_eq!(w.agents[&node(n)].status().activity, Activity::Free);
    }
}

#[test]
fn a_plan_comes_before_a_trial() {
    // Those who are left are among the members of the run: others get their nodes at once.
    let mut w = world(1.0, ProfileOrder::LargeToSmall, Elastic::Regroup);
    until_tried(&mut w);
    give(&mut w, &[0, 1, 2, 3, 4]);
    assert_eq!((record(&w).nodes.len(), held(&w, "a")), (5, 5));
    // It grows beyond what it had.
    let mut w = world(1.0, ProfileOrder::LargeToSmall, Elastic::Restart);
    until_tried(&mut w);
    give(&mut w, &(0..10).collect::<Vec<_>>());
    assert_eq!((record(&w).nodes.len(), held(&w, "a")), (10, 10));
    assert!(aside(&record(&w)).is_empty());
    // All that it trains on is to go, and what it knows lives there: first it takes the others in.
    let mut w = world(1.0, ProfileOrder::LargeToSmall, Elastic::Regroup);
    let before = until_tried(&mut w);
    give(&mut w, &[4, 5]);
    assert_eq!(record(&w).nodes.len(), 8);
    assert!(record(&w).nodes.starts_with(&before.nodes));
    give(&mut w, &[4, 5]);
    assert_eq!(
        (record(&w).nodes, held(&w, "a")),
        (vec![node(4), node(5)], 2)
    );
    // It is to have nothing.
    let mut w = world(1.0, ProfileOrder::LargeToSmall, Elastic::Regroup);
    until_tried(&mut w);
    give(&mut w, &[]);
    assert_eq!((record(&w).nodes.len(), held(&w, "a")), (0, 0));
}

#[test]
fn nodes_that_are_lost_end_no_training() {
    for elastic in [Elastic::Restart, Elastic::Regroup] {
        let mut w = world(1.0, ProfileOrder::SmallToLarge, elastic);
        let tried = until_tried(&mut w);
        assert_eq!(tried.nodes, [node(0)]);
        // A node aside is taken: the others do not notice.
        w.close(7);
        settle(&mut w);
        assert_eq!((record(&w).run, aside(&record(&w)).len()), (tried.run, 6));
        // The only one that trains is taken: those aside go on.
        w.close(0);
        settle(&mut w);
        assert_eq!((record(&w).nodes.len(), aside(&record(&w)).len()), (6, 0));
        assert_eq!(held(&w, "a"), 6);
        assert_eq!(w.answered.len(), 2);
    }
}

#[test]
fn a_program_that_fails_on_few_nodes_is_tried_there_no_more() {
    let mut w = world(1.0, ProfileOrder::SmallToLarge, Elastic::Restart);
    let tried = until_tried(&mut w);
    w.exit(&tried.nodes[0], 1);
    train(&mut w, "a", 40);
    assert_eq!(record(&w).nodes.len(), 8, "{:?}", sizes(&w));
}

#[test]
fn a_trial_ends_with_control_and_what_was_measured_stays() {
    let mut w = world(1.0, ProfileOrder::LargeToSmall, Elastic::Restart);
    let tried = until_tried(&mut w);
    train(&mut w, "a", 5);
    let before = record(&w).measured.unwrap();
    w.crash_control();
    settle(&mut w);
    assert_eq!((record(&w).nodes, held(&w, "a")), (tried.nodes, 4));
    let after = record(&w).measured.unwrap();
    assert!(after.aside.is_empty());
    assert_eq!(after.rates, before.rates);
    assert!(after.spent_node_s > 0.0);
    // It goes on measuring from there: older measurements are not forgotten.
    give(&mut w, &(0..8).collect::<Vec<_>>());
    train(&mut w, "a", 30);
    let eight = record(&w).measured.unwrap().rates.last().unwrap().clone();
    let known = before.rates.last().unwrap();
    assert_eq!((eight.nodes, known.nodes), (8, 8));
    assert!(eight.count > known.count && eight.at > known.at);
}

#[test]
fn what_was_measured_holds_for_the_family() {
    let mut w = world(1.0, ProfileOrder::LargeToSmall, Elastic::Restart);
    train(&mut w, "a", 3600);
    let runs = sizes(&w).len();
    let mut stranger = unknown("c", Elastic::Restart);
    if let Launch::Command { args, .. } = &mut stranger.launch {
        args.push("--wide".to_owned());
    }
    // Another owner's programs may say anything of themselves, and are told nothing.
    let mut of_another = unknown("d", Elastic::Restart);
    of_another.owner = Some("eve".to_owned());
    let mut relative = unknown("b", Elastic::Restart);
    relative.rescale.up_s = 77.0;
    relative.rescale.down_s = 33.0;
    w.input(Input::Submit {
        trainers: vec![relative, stranger, of_another],
        user: String::new(),
        test_only: false,
    });
    let of = |w: &World, name: &str| w.controller.record(&trainer(name)).unwrap().clone();
    let (b, c) = (of(&w, "b"), of(&w, "c"));
    assert_eq!(b.spec.throughput, of(&w, "a").spec.throughput);
    // It has shrunk often enough to know what that costs, and grown but once.
    let a = of(&w, "a").measured.unwrap();
    assert_eq!((a.up, b.spec.rescale.up_s), (None, 77.0));
    assert_eq!(b.spec.rescale.down_s, a.down.unwrap().mean_s);
    let measured = b.measured.unwrap();
    assert!(
        measured
            .rates
            .iter()
            .all(|rate| rate.from == Some(trainer("a")))
    );
    assert!(matches!(measured.basis(4), Basis::Measured(rate) if rate.count >= 3));
    assert_eq!((c.measured, c.spec.throughput), (None, stranger_curve()));
    assert_eq!(of(&w, "d").measured, None);
    // It tries nothing that is known, and what it measures itself is its own.
    give_all(
        &mut w,
        &[("a", &[0, 1, 2, 3, 4, 5, 6, 7]), ("b", &[8, 9, 10, 11])],
    );
    train(&mut w, "b", 3600);
    assert_eq!(sizes(&w).len(), runs + 1);
    let rates = of(&w, "b").measured.unwrap().rates;
    let own: Vec<(u32, bool)> = rates.iter().map(|r| (r.nodes, r.from.is_none())).collect();
    assert_eq!(own, [(1, false), (2, false), (4, true), (8, false)]);
}

fn stranger_curve() -> ScalingCurve {
    unknown("c", Elastic::Restart).throughput
}

#[test]
fn programs_that_regroup_wait_aside_until_they_are_taken_in() {
    let mut w = world(1.0, ProfileOrder::LargeToSmall, Elastic::Regroup);
    let tried = until_tried(&mut w);
    let command = &w.commands[&node(7)];
    assert!(matches!(command.action, Action::Prepare(_)));
    assert_eq!(command.seq, tried.run.0);
    let status = w.agents[&node(7)].status();
    assert!(matches!(
        status.activity,
        Activity::Prepared { ready: true, .. }
    ));
    let begun = w.started[&node(0)];
    train(&mut w, "a", 600);
    assert_eq!(record(&w).nodes.len(), 8);
    assert_eq!(w.started[&node(0)], begun, "rank 0 was started again");
}
