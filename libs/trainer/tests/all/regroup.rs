//! Trainers that regroup: new members are ready before they join, and a dead member does not stop
//! the others.

use lacuna_model::{Activity, AgentStatus, Launch, Phase, Program, Progress, RunId, Span, Work};
use lacuna_trainer::controller::{Input, Note};

use crate::common::{World, config, node, regrouping, spec, trainer};
use crate::controller::{apply, world};

fn regrouper(name: &str, min: u32, max: u32) -> lacuna_model::TrainerSpec {
    lacuna_model::TrainerSpec {
        launch: regrouping(),
        ..spec(name, min, max, Work::Samples(1e6))
    }
}

/// `a` on 0 and 1, since 100 s.
pub(crate) fn running() -> World {
    let mut w = world(vec![regrouper("a", 1, 8)]);
    (0..6).for_each(|n| w.open(n));
    apply(&mut w, &[("a", &[0, 1])]);
    assert_eq!((w.nodes_of("a"), w.prepared.len()), (0, 2), "not ready yet");
    w.all_ready();
    w.deliver(usize::MAX);
    assert_eq!((w.nodes_of("a"), w.prepared.len()), (2, 0));
    w.pass(Span::from_secs(10));
    w.renew();
    w
}

pub(crate) fn run_of(w: &World) -> RunId {
    w.record("a").run
}

/// Rank 0 reports samples and base of a run.
pub(crate) fn report_progress(w: &mut World, run: RunId, base: f64, samples: f64) {
    let record = w.record("a");
    let node = record.nodes.first().cloned().unwrap_or(node(0));
    w.input(Input::Progress(Progress {
        world_size: 2,
        base: Some(base),
        ..Progress::new(node, trainer("a"), run, w.now.cluster, samples)
    }));
}

#[test]
fn the_cost_of_a_start_has_the_time_before_the_first_incarnation() {
    let mut w = world(vec![regrouper("a", 1, 8)]);
    (0..6).for_each(|n| w.open(n));
    apply(&mut w, &[("a", &[0, 1])]);
    w.pass(Span::from_secs(7));
    w.renew();
    w.all_ready();
    w.deliver(usize::MAX);
    let run = run_of(&w);
    for samples in [100.0, 200.0] {
        w.pass(Span::from_secs(10));
        w.renew();
        report_progress(&mut w, run, 0.0, samples);
    }
    let record = w.record("a");
    let start_s = lacuna_rates::Rates::of(record).start_s();
    assert_eq!(start_s, 7.0, "{:?}", record.measured);
}

#[test]
fn beside_nodes_of_tables_another_node_than_the_first_reports() {
    let told = |env: &[&str]| {
        let mut tables = regrouper("a", 1, 8);
        tables.work = Work::UntilExit;
        if let Launch::Command(Program { env: theirs, .. }) = &mut tables.launch {
            let named = env
                .iter()
                .map(|name| ((*name).to_owned(), "n0*".to_owned()));
            theirs.extend(named);
        }
        let mut w = world(vec![tables]);
        (0..2).for_each(|n| w.open(n));
        apply(&mut w, &[("a", &[0, 1])]);
        w.all_ready();
        w.deliver(usize::MAX);
        let second = Progress::new(node(1), trainer("a"), run_of(&w), w.now.cluster, 64.0);
        w.input(Input::Progress(second));
        let samples = w.record("a").samples();
        w.exit(&node(1), 0);
        w.deliver(usize::MAX);
        (samples, w.record("a").phase)
    };
    assert_eq!(told(&[]), (0.0, Phase::Active));
    assert_eq!(told(&[Launch::TABLE_NODES]), (64.0, Phase::Done));
}

#[test]
fn members_keep_training_while_a_new_one_starts() {
    let mut w = running();
    let before = run_of(&w);
    apply(&mut w, &[("a", &[0, 1, 2, 3])]);
    assert_eq!((run_of(&w), w.nodes_of("a")), (before, 2));
    assert_eq!(w.prepared.len(), 2);
    assert!(matches!(
        w.agents[&node(2)].status().activity,
        Activity::Prepared { ready: false, .. }
    ));
    // One of them is not enough: a run for each would stop the others twice.
    let started = w.prepared[&node(2)];
    let effects = w.agents.get_mut(&node(2)).unwrap().ready(started);
    w.agent_does(&node(2), effects);
    w.deliver(usize::MAX);
    assert_eq!(run_of(&w), before);
    w.all_ready();
    w.deliver(usize::MAX);
    assert_eq!(w.nodes_of("a"), 4);
    // No program was stopped: the earlier ones still run under their first number.
    assert_eq!(w.programs.len(), 4);
    assert_eq!(w.started[&node(0)], w.started[&node(1)]);
    assert!(w.started[&node(0)] < run_of(&w));
}

#[test]
fn a_member_that_is_not_ready_in_time_is_left_out_and_gives_its_node_back() {
    let mut w = running();
    apply(&mut w, &[("a", &[0, 1, 2, 3])]);
    let started = w.prepared[&node(2)];
    let effects = w.agents.get_mut(&node(2)).unwrap().ready(started);
    w.agent_does(&node(2), effects);
    w.prepared.remove(&node(3));
    for _ in 0..13 {
        w.pass(Span::from_secs(10));
        w.renew();
        w.statuses();
        w.deliver(usize::MAX);
        w.input(Input::Timer);
        w.deliver(usize::MAX);
    }
    assert_eq!(w.nodes_of("a"), 3);
    assert_eq!(w.leases[&node(3)].0, None);
}

#[test]
fn a_dead_program_costs_its_trainer_that_member_alone() {
    let mut w = running();
    apply(&mut w, &[("a", &[0, 1, 2])]);
    w.all_ready();
    w.deliver(usize::MAX);
    let before = run_of(&w);
    w.exit(&node(1), 1);
    w.deliver(usize::MAX);
    let record = w.record("a");
    assert_eq!(record.nodes, [node(0), node(2)]);
    assert_eq!((record.run.0, record.failures), (before.0 + 1, 1));
    assert_eq!(w.programs.len(), 2);
    assert_eq!(w.leases[&node(1)].0, None);
    // A program that left on demand has not failed.
    w.exit(&node(2), 75);
    w.deliver(usize::MAX);
    let record = w.record("a");
    assert_eq!((record.nodes.len(), record.failures), (1, 1));
}

#[test]
fn a_program_that_always_dies_at_its_start_is_given_up_and_not_started_in_a_row() {
    let mut w = world(vec![regrouper("a", 1, 8)]);
    (0..6).for_each(|n| w.open(n));
    let mut starts = 0;
    for n in 0..100 {
        // Always another node: one where programs keep failing is left alone.
        apply(&mut w, &[("a", &[n % 6])]);
        if let Some(id) = w.prepared.keys().next().cloned() {
            starts += 1;
            w.exit(&id, 1);
            w.deliver(usize::MAX);
        }
        w.pass(Span::from_secs(1));
        w.renew();
        w.input(Input::Timer);
        w.deliver(usize::MAX);
    }
    let record = w.record("a");
    assert_eq!(record.phase, Phase::Failed, "{}", record.reason);
    assert!(
        record.reason.contains("5 failures in a row"),
        "{}",
        record.reason
    );
    assert_eq!(starts, 5);
    assert!(w.leases.values().all(|(owner, _)| owner.is_none()));
}

#[test]
fn samples_absorbed_by_the_model_replace_the_count() {
    let mut w = running();
    let first = run_of(&w);
    report_progress(&mut w, first, 0.0, 100.0);
    assert_eq!(w.samples("a"), 100.0);
    // The run ends after 130, of which the last 30 were not reported: rank 0 was killed.
    w.close(0);
    w.deliver(usize::MAX);
    let second = run_of(&w);
    assert!(second > first);
    report_progress(&mut w, second, 130.0, 20.0);
    assert_eq!(w.samples("a"), 150.0);
    // Samples that the first run reports late are in the base already.
    report_progress(&mut w, first, 0.0, 125.0);
    assert_eq!(w.samples("a"), 150.0);
    // All die; the next begins at a checkpoint of 110.
    w.exit(&node(1), 137);
    w.deliver(usize::MAX);
    w.pass(Span::from_secs(30));
    w.renew();
    w.statuses();
    w.deliver(usize::MAX);
    w.input(Input::Timer);
    apply(&mut w, &[("a", &[2])]);
    w.all_ready();
    w.deliver(usize::MAX);
    let third = run_of(&w);
    report_progress(&mut w, third, 110.0, 5.0);
    assert_eq!(w.samples("a"), 115.0);
    report_progress(&mut w, third, f64::NAN, 5.0);
    assert_eq!(w.samples("a"), 115.0);
    assert!(w.notes.iter().any(|n| matches!(n, Note::BadReport { .. })));
}

#[test]
fn members_do_not_wait_for_an_agent_that_leaves() {
    let mut w = running();
    let before = run_of(&w);
    let last = AgentStatus {
        activity: Activity::Free,
        released: Some("wanted".to_owned()),
        leaving: true,
        ..w.agents[&node(0)].status()
    };
    w.input(Input::Agents(vec![last]));
    let record = w.record("a");
    assert_eq!(record.nodes, [node(1)]);
    assert_eq!((record.run.0, record.preemptions), (before.0 + 1, 1));
    assert_eq!(w.leases[&node(0)].0, None);
    // The pool still lists the node, but no trainer gets it until its agent reports.
    let view = w.present();
    assert_eq!(view.unusable, [node(0)]);
    let again = w.agents[&node(0)].status();
    w.input(Input::Agents(vec![again]));
    assert!(w.present().unusable.is_empty());
}

#[test]
fn with_required_agents_no_trainer_gets_a_node_before_its_agent_reports() {
    let mut config = config();
    config.control.require_agents = true;
    let mut w = World::new(1, 3, config);
    w.snapshot();
    w.submit("", vec![spec("a", 1, 8, Work::UntilExit)]);
    (0..3).for_each(|n| w.open(n));
    assert_eq!(w.present().unusable, [node(0), node(1), node(2)]);
    let status = w.agents[&node(1)].status();
    w.input(Input::Agents(vec![status]));
    assert_eq!(w.present().unusable, [node(0), node(2)]);
    apply(&mut w, &[("a", &[0, 1])]);
    assert_eq!(w.nodes_of("a"), 1);
}
