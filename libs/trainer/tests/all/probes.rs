//! Probes: sizes are tried in order to measure them, within a budget, on the trainer's own nodes,
//! and without a cost to other trainers.

use lacuna_model::{
    Action, Activity, Basis, Elastic, Launch, NodeId, Program, ScalingCurve, Span, Tier, Topology,
    TrainerRecord, TrainerSpec, Work,
};
use lacuna_rates::Rates;
use lacuna_trainer::controller::{Input, Note};
use lacuna_trainer::settings::ProfileOrder;

use crate::common::{World, config, node, program, spec, trainer};

/// A program without a curve. One that every change starts again has a checkpoint after each report.
pub(crate) fn unknown(name: &str, elastic: Elastic) -> TrainerSpec {
    let saves = elastic == Elastic::Restart;
    TrainerSpec {
        throughput: ScalingCurve::linear(1.0, 8).unwrap(),
        launch: program(elastic, saves, true),
        ..spec(name, 1, 8, Work::UntilExit)
    }
}

fn world(share: f64, order: ProfileOrder, elastic: Elastic) -> World {
    world_of(unknown("a", elastic), share, order)
}

pub(crate) fn world_of(spec: TrainerSpec, share: f64, order: ProfileOrder) -> World {
    let mut config = config();
    config.control.profile.share = share;
    config.control.profile.order = order;
    let mut w = World::new(1, 12, config);
    w.submit("", vec![spec]);
    w.snapshot();
    (0..12).for_each(|n| w.open(n));
    give(&mut w, &(0..8).collect::<Vec<_>>());
    w
}

pub(crate) fn give(w: &mut World, nodes: &[usize]) {
    give_all(w, &[("a", nodes)]);
}

pub(crate) fn give_all(w: &mut World, sizes: &[(&str, &[usize])]) {
    w.planned(sizes);
    settle(w);
}

pub(crate) fn settle(w: &mut World) {
    w.deliver(usize::MAX);
    w.all_ready();
    w.deliver(usize::MAX);
}

fn record(w: &World) -> TrainerRecord {
    w.record("a").clone()
}

/// The true rate: 100 samples/s on one node and 60 more for each further one.
fn truth(nodes: usize) -> f64 {
    40.0 + 60.0 * nodes as f64
}

/// A trainer's program reports every five seconds, for `seconds`.
fn train(w: &mut World, name: &str, seconds: i64) {
    train_at(w, name, seconds, |nodes| truth(nodes.len()));
}

/// The same, at a rate that depends on its nodes.
fn train_at(w: &mut World, name: &str, seconds: i64, rate: impl Fn(&[NodeId]) -> f64) {
    for _ in 0..seconds / 5 {
        w.pass(Span::from_secs(5));
        w.renew();
        w.statuses();
        w.deliver(usize::MAX);
        let record = w.record(name);
        let nodes = record.nodes.len();
        let launch = &record.spec.launch;
        let saves = matches!(
            launch,
            Launch::Command(Program {
                checkpoint_dir: Some(_),
                ..
            })
        );
        if nodes > 0 {
            let samples = record.samples_run + 5.0 * rate(&record.nodes);
            w.progress(name, samples, |report| {
                (report.world_size, report.saved) = (nodes as u32, saves.then_some(samples));
            });
        }
        settle(w);
        w.input(Input::Timer);
        settle(w);
    }
}

/// Trains until a probe has begun.
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
pub(crate) fn sizes(w: &World) -> Vec<u32> {
    let after = |note: &Note| match note {
        Note::Run { after, .. } => Some(*after),
        _ => None,
    };
    w.notes.iter().filter_map(after).collect()
}

#[test]
fn nodes_on_two_leaves_are_measured_near_and_far() {
    let paths = (0..12).map(|n| (node(n), vec![format!("leaf{}", n / 4)]));
    let topology = Topology::new(paths.collect()).unwrap();
    let rate = |nodes: &[NodeId]| match topology.tier(nodes) {
        Tier(0) => truth(nodes.len()),
        _ => 0.5 * truth(nodes.len()),
    };
    for order in [ProfileOrder::LargeToSmall, ProfileOrder::SmallToLarge] {
        let mut w = world(1.0, order, Elastic::REGROUP);
        w.input(Input::Topology(topology.clone()));
        train_at(&mut w, "a", 2000, rate);
        let record = record(&w);
        assert_eq!(record.nodes.len(), 8, "{order:?}: it is back at its size");
        let measured = record.measured.as_ref().unwrap();
        for (nodes, tier, expected) in [
            (1, 0, truth(1)),
            (2, 0, truth(2)),
            (4, 0, truth(4)),
            (2, 1, 0.5 * truth(2)),
            (4, 1, 0.5 * truth(4)),
            (8, 1, 0.5 * truth(8)),
        ] {
            let found = measured.rate(nodes, Tier(tier)).map(|rate| rate.rate);
            let found = found.unwrap_or_else(|| panic!("{order:?}: {nodes} at {tier}"));
            assert!(
                (found / expected - 1.0).abs() < 1e-6,
                "{order:?}: {found} {expected}"
            );
        }
        let rates = Rates::of(&record);
        assert!((rates.curve().at(4) / truth(4) - 1.0).abs() < 1e-6);
        let share = rates.distance().share(rates.curve(), 4, Tier(1));
        assert!((share - 0.5).abs() < 1e-6, "{order:?}: {share}");
    }
}

#[test]
fn without_a_topology_no_tier_is_tried() {
    let mut w = world(1.0, ProfileOrder::LargeToSmall, Elastic::REGROUP);
    train(&mut w, "a", 2000);
    let record = record(&w);
    assert!(record.measured.as_ref().unwrap().apart.is_empty());
    assert!(Rates::of(&record).distance().is_free());
}

fn parked(record: &TrainerRecord) -> Vec<NodeId> {
    record.measured.as_ref().unwrap().parked.clone()
}

fn held(w: &World, by: &str) -> usize {
    let owner = Some(trainer(by));
    w.leases.values().filter(|lease| lease.0 == owner).count()
}

#[test]
fn sizes_are_probed_until_the_curve_is_known_and_all_nodes_come_back() {
    for (order, expected) in [
        (ProfileOrder::LargeToSmall, [8, 4, 2, 1, 8]),
        (ProfileOrder::SmallToLarge, [8, 1, 2, 4, 8]),
    ] {
        for elastic in [Elastic::Restart, Elastic::REGROUP] {
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
                assert!(
                    (Rates::of(&record).curve().at(nodes) - truth(nodes as usize)).abs() < 1e-6
                );
            }
            assert_eq!(
                (record.nodes.len(), parked(&record).len(), held(&w, "a")),
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
fn the_cost_of_probes_stays_within_its_share_and_is_reported() {
    let (mut w, share) = (
        world(0.02, ProfileOrder::LargeToSmall, Elastic::REGROUP),
        0.02,
    );
    let begun = w.now.cluster;
    for _ in 0..400 {
        train(&mut w, "a", 20);
        let held = 8.0 * w.now.cluster.since(begun).as_secs_f64();
        let spent = record(&w).measured.unwrap().spent_node_s;
        // The time between two checks may be spent beyond the share.
        assert!(spent <= share * held + 8.0 * 20.0, "{spent} of {held}");
    }
    assert!(sizes(&w).len() > 2, "nothing was tried: {:?}", sizes(&w));
    let noted: f64 = w
        .notes
        .iter()
        .map(|note| match note {
            Note::ProbeEnded { node_s, .. } => *node_s,
            _ => 0.0,
        })
        .sum();
    let spent = record(&w).measured.unwrap().spent_node_s;
    assert!(
        noted > 0.0 && (noted - spent).abs() < 1e-6,
        "{noted} of {spent}"
    );
}

#[test]
fn no_size_is_probed_without_a_budget_or_with_a_submitted_curve() {
    let mut w = world(0.0, ProfileOrder::LargeToSmall, Elastic::Restart);
    train(&mut w, "a", 3600);
    assert_eq!(sizes(&w), [8]);
    assert_eq!(record(&w).measured.unwrap().spent_node_s, 0.0);
    let mut known = unknown("a", Elastic::Restart);
    if let Launch::Command(Program { profile, .. }) = &mut known.launch {
        *profile = false;
    }
    let mut w = world_of(known, 1.0, ProfileOrder::LargeToSmall);
    train(&mut w, "a", 3600);
    assert_eq!(sizes(&w), [8]);
    assert!(record(&w).measured.unwrap().is_without_rate());
}

#[test]
fn a_size_is_not_probed_at_the_price_of_work_that_no_checkpoint_has() {
    let mut unsaved = unknown("a", Elastic::Restart);
    if let Launch::Command(Program { checkpoint_dir, .. }) = &mut unsaved.launch {
        *checkpoint_dir = None;
    }
    for order in [ProfileOrder::LargeToSmall, ProfileOrder::SmallToLarge] {
        let mut w = world_of(unsaved.clone(), 1.0, order);
        train(&mut w, "a", 3600);
        assert_eq!(sizes(&w), [8], "{order:?}");
    }
}

#[test]
fn a_probe_is_invisible_to_planner_and_other_trainers() {
    let mut w = world(1.0, ProfileOrder::LargeToSmall, Elastic::Restart);
    let tried = until_tried(&mut w);
    assert_eq!((tried.nodes.len(), parked(&tried).len()), (4, 4));
    assert_eq!(held(&w, "a"), 8, "parked nodes were given back");
    let view = w.present();
    assert_eq!(
        view.trainers[0].nodes.len(),
        8,
        "the planner gets all nodes"
    );
    // A plan without a change ends no probe.
    give(&mut w, &(0..8).collect::<Vec<_>>());
    assert_eq!(record(&w).run, tried.run);
    for n in 4..8 {
        assert_eq!(w.agents[&node(n)].status().activity, Activity::Free);
    }
}

#[test]
fn a_plan_ends_a_probe() {
    // The remaining nodes are among the members of the run: other trainers get the rest at once.
    let mut w = world(1.0, ProfileOrder::LargeToSmall, Elastic::REGROUP);
    until_tried(&mut w);
    give(&mut w, &[0, 1, 2, 3, 4]);
    assert_eq!((record(&w).nodes.len(), held(&w, "a")), (5, 5));
    // It grows beyond its earlier size.
    let mut w = world(1.0, ProfileOrder::LargeToSmall, Elastic::Restart);
    until_tried(&mut w);
    give(&mut w, &(0..10).collect::<Vec<_>>());
    assert_eq!((record(&w).nodes.len(), held(&w, "a")), (10, 10));
    assert!(parked(&record(&w)).is_empty());
    // All its members are to leave, and they hold its state: first the parked nodes join.
    let mut w = world(1.0, ProfileOrder::LargeToSmall, Elastic::REGROUP);
    let before = until_tried(&mut w);
    give(&mut w, &[4, 5]);
    assert_eq!(record(&w).nodes.len(), 8);
    assert!(record(&w).nodes.starts_with(&before.nodes));
    give(&mut w, &[4, 5]);
    assert_eq!(
        (record(&w).nodes, held(&w, "a")),
        (vec![node(4), node(5)], 2)
    );
    // The plan gives it no node.
    let mut w = world(1.0, ProfileOrder::LargeToSmall, Elastic::REGROUP);
    until_tried(&mut w);
    give(&mut w, &[]);
    assert_eq!((record(&w).nodes.len(), held(&w, "a")), (0, 0));
}

#[test]
fn the_loss_of_nodes_during_a_probe_does_not_end_training() {
    for elastic in [Elastic::Restart, Elastic::REGROUP] {
        let mut w = world(1.0, ProfileOrder::SmallToLarge, elastic);
        let tried = until_tried(&mut w);
        assert_eq!(tried.nodes, [node(0)]);
        // A parked node is taken: the members do not notice.
        w.close(7);
        settle(&mut w);
        assert_eq!((record(&w).run, parked(&record(&w)).len()), (tried.run, 6));
        // The only member is taken: the parked nodes continue.
        w.close(0);
        settle(&mut w);
        assert_eq!((record(&w).nodes.len(), parked(&record(&w)).len()), (6, 0));
        assert_eq!(held(&w, "a"), 6);
        assert_eq!(w.answered.len(), 2);
    }
}

#[test]
fn a_size_at_which_the_program_fails_is_not_probed_again() {
    let mut w = world(1.0, ProfileOrder::SmallToLarge, Elastic::Restart);
    let tried = until_tried(&mut w);
    w.exit(&tried.nodes[0], 1);
    train(&mut w, "a", 10);
    assert_eq!(record(&w).nodes.len(), 0);
    give(&mut w, &[0, 1, 2, 3, 4, 5, 6, 7]);
    train(&mut w, "a", 40);
    // Another node is in the place of the one on which it failed.
    assert_eq!(record(&w).nodes.len(), 8, "{:?}", sizes(&w));
    assert!(!record(&w).nodes.contains(&tried.nodes[0]));
}

#[test]
fn a_restart_of_control_ends_a_probe_and_keeps_its_measurements() {
    let mut w = world(1.0, ProfileOrder::LargeToSmall, Elastic::Restart);
    let tried = until_tried(&mut w);
    train(&mut w, "a", 5);
    let before = record(&w).measured.unwrap();
    w.crash_control();
    settle(&mut w);
    assert_eq!((record(&w).nodes, held(&w, "a")), (tried.nodes, 4));
    let after = record(&w).measured.unwrap();
    assert!(after.parked.is_empty());
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
fn measurements_hold_for_the_whole_family() {
    let mut w = world(1.0, ProfileOrder::LargeToSmall, Elastic::Restart);
    train(&mut w, "a", 3600);
    let runs = sizes(&w).len();
    let mut stranger = unknown("c", Elastic::Restart);
    if let Launch::Command(Program { args, .. }) = &mut stranger.launch {
        args.push("--wide".to_owned());
    }
    // Programs of another owner neither give nor get measurements of this family.
    let mut of_another = unknown("d", Elastic::Restart);
    of_another.owner = Some("eve".to_owned());
    let mut relative = unknown("b", Elastic::Restart);
    relative.rescale.up_s = 77.0;
    relative.rescale.down_s = 33.0;
    w.submit("", vec![relative, stranger.clone(), of_another]);
    let of = |w: &World, name: &str| w.record(name).clone();
    let (b, c) = (of(&w, "b"), of(&w, "c"));
    assert_eq!(Rates::of(&b).curve(), Rates::of(&of(&w, "a")).curve());
    // It has shrunk often enough to measure that cost, and grown only once.
    let a = of(&w, "a").measured.unwrap();
    let known = b.in_force().unwrap();
    assert_eq!((a.up, known.up_s), (None, None));
    assert_eq!(known.down_s, Some(a.down.unwrap().mean_s));
    let measured = b.measured.unwrap();
    assert!(
        measured
            .rates
            .iter()
            .all(|rate| rate.from == Some(trainer("a")))
    );
    assert!(matches!(measured.basis(4), Basis::Measured(rate) if rate.count >= 3));
    assert_eq!((c.measured, c.spec), (None, stranger));
    assert_eq!(of(&w, "d").measured, None);
    // It does not probe known sizes, and its own measurements stay its own.
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

#[test]
fn programs_that_regroup_wait_on_parked_nodes_until_they_join() {
    let mut w = world(1.0, ProfileOrder::LargeToSmall, Elastic::REGROUP);
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

#[test]
fn a_start_is_measured_from_its_command_on_and_holds_for_the_same_script() {
    for elastic in [Elastic::Restart, Elastic::REGROUP] {
        let script = |name: &str, seed: &str| {
            let mut spec = unknown(name, elastic);
            if let Launch::Command(Program { args, .. }) = &mut spec.launch {
                *args = vec!["train.py".to_owned(), seed.to_owned()];
            }
            spec
        };
        let mut w = world_of(script("a", "1"), 0.0, ProfileOrder::LargeToSmall);
        let submitted = record(&w).spec.rescale;
        // 30 s until it trains.
        w.pass(Span::from_secs(30));
        w.renew();
        train(&mut w, "a", 20);
        let known = record(&w);
        assert_eq!(
            Rates::of(&known).start_s(),
            30.0,
            "{elastic:?}: {:?}",
            known.measured
        );
        assert_eq!(known.spec.rescale, submitted, "what was submitted stays");
        let restart_s = if elastic == Elastic::Restart {
            30.0
        } else {
            18.0
        };
        assert_eq!(Rates::of(&known).rescale().up_s, restart_s, "{elastic:?}");
        w.submit("", vec![script("b", "2"), unknown("c", elastic)]);
        let start_s = |name: &str| Rates::of(w.record(name)).start_s();
        assert_eq!((start_s("b"), start_s("c")), (30.0, 18.0), "{elastic:?}");
    }
}
