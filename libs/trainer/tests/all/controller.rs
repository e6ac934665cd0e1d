//! The controller in cases whose figures are computed by hand.

use lacuna_model::{
    Activity, AgentTerms, Elastic, Launch, Phase, Program, Progress, RunId, Span, Timestamp, Work,
};
use lacuna_trainer::controller::{Input, Note, Tick};

use crate::common::{World, config, node, plan, regrouping, said, spec, trainer};

pub(crate) fn world(specs: Vec<lacuna_model::TrainerSpec>) -> World {
    let mut world = World::new(1, 12, config());
    world.snapshot();
    world.submit("", specs);
    world
}

pub(crate) fn apply(world: &mut World, sizes: &[(&str, &[usize])]) {
    world.apply(sizes);
}

#[test]
fn costs_are_those_of_the_published_accounting() {
    let mut w = world(vec![spec("a", 1, 8, Work::UntilExit)]);
    (0..6).for_each(|n| w.open(n));
    // A simulated trainer starts free.
    apply(&mut w, &[("a", &[0, 1])]);
    w.pass(Span::from_secs(100));
    // Growing costs 18 s at the rate of two nodes, 20 samples/s.
    apply(&mut w, &[("a", &[0, 1, 2, 3])]);
    assert_eq!(w.samples("a"), 2_000.0);
    let record = w.record("a");
    assert_eq!((record.rescale_cost, record.owed), (360.0, 360.0));
    // 40 samples/s: nine seconds pay for it.
    w.pass(Span::from_secs(10));
    // Two nodes lost at one moment are one preemption: 12 s at 40 samples/s.
    w.close(1);
    w.close(2);
    w.deliver(usize::MAX);
    let record = w.record("a");
    assert_eq!((record.preempt_cost, record.preemptions), (480.0, 1));
    assert_eq!(w.samples("a"), 2_040.0);
    assert_eq!(w.nodes_of("a"), 2);
    w.pass(Span::from_secs(30));
    w.report_all();
    w.deliver(usize::MAX);
    // 600 samples in 30 s, 480 of them for the loss.
    assert_eq!(w.samples("a"), 2_160.0);
    let tally = w.controller.tally();
    assert_eq!((tally.preemptions, tally.rescales), (1, 1));
}

#[test]
fn service_counts_by_owner_and_decays() {
    let mut specs = vec![
        spec("done", 1, 1, Work::Samples(1_000.0)),
        spec("second", 1, 1, Work::UntilExit),
        spec("other", 1, 1, Work::UntilExit),
    ];
    for spec in &mut specs[..2] {
        spec.owner = Some("ada".to_owned());
    }
    let mut w = world(specs);
    w.open(0);
    apply(&mut w, &[("done", &[0])]);
    // 1,000 samples at 10 samples/s on one node.
    w.pass(Span::from_secs(100));
    w.report_all();
    w.deliver(usize::MAX);
    let attained = |w: &World| -> Vec<(String, f64)> {
        let view = w.present();
        let of =
            |t: &lacuna_model::TrainerRecord| (t.spec.id.to_string(), t.attained.by(view.as_of));
        view.trainers.iter().map(of).collect()
    };
    let expected = [("second".to_owned(), 100.0), ("other".to_owned(), 0.0)];
    assert_eq!(attained(&w), expected);
    w.now.cluster = w.now.cluster + lacuna_model::HALF_LIFE;
    let expected = [("second".to_owned(), 50.0), ("other".to_owned(), 0.0)];
    assert_eq!(attained(&w), expected);
}

#[test]
fn a_program_is_not_charged_for_its_start() {
    for start_s in [None, Some(40.0)] {
        let mut program = spec("a", 2, 8, Work::UntilExit);
        program.launch = crate::common::regrouping();
        program.rescale.start_s = start_s;
        let mut w = world(vec![program]);
        (0..2).for_each(|n| w.open(n));
        apply(&mut w, &[("a", &[0, 1])]);
        w.all_ready();
        w.deliver(usize::MAX);
        let record = w.record("a");
        // The program stalls by itself.
        assert_eq!((record.nodes.len(), record.owed), (2, 0.0));
        assert_eq!((record.rescale_cost, record.rescales), (0.0, 0));
    }
}

#[test]
fn a_node_changes_hands_only_through_a_confirmed_release() {
    let mut w = world(vec![
        spec("a", 1, 4, Work::UntilExit),
        spec("b", 1, 4, Work::UntilExit),
    ]);
    (0..3).for_each(|n| w.open(n));
    apply(&mut w, &[("a", &[0, 1, 2])]);
    w.generation += 1;
    let p = plan(
        w.generation,
        w.seq,
        w.now.cluster,
        &[("a", &[0]), ("b", &[1, 2])],
    );
    let view = w.present();
    w.give(p, &view);
    // The leases are free now, but no agent has confirmed: b has no node.
    assert_eq!(w.leases[&node(1)].0, None);
    assert_eq!(w.nodes_of("b"), 0);
    w.deliver(usize::MAX);
    assert_eq!((w.nodes_of("a"), w.nodes_of("b")), (1, 2));
    assert_eq!(w.leases[&node(1)].0, Some(trainer("b")));
    // b began once, with both nodes, and paid nothing.
    let b = w.record("b");
    assert_eq!((b.run, b.rescale_cost), (RunId(1), 0.0));
}

#[test]
fn control_waits_for_the_longer_lease_timeout_of_an_agent() {
    let mut w = world(vec![spec("a", 1, 4, Work::UntilExit)]);
    w.open(0);
    apply(&mut w, &[("a", &[0])]);
    let mut status = w.agents[&node(0)].status();
    status.terms = Some(AgentTerms {
        lease_timeout: Span::from_secs(100),
        grace: Span::from_secs(20),
    });
    for _ in 0..2 {
        w.input(Input::Agents(vec![status.clone()]));
    }
    let terms = |n: &&Note| matches!(n, Note::OtherTerms { .. });
    assert_eq!(w.notes.iter().filter(terms).count(), 1, "noted once");
    w.close(0);
    // The release is lost. Control's own terms are 60 s and 5 s, the agent's 125 s.
    let unheard = |w: &World| {
        let is = |n: &Note| matches!(n, Note::ReleasedUnheard { .. });
        w.notes.iter().any(is)
    };
    for _ in 0..124 {
        w.pass(Span::from_secs(1));
        w.input(Input::Timer);
        w.mail.clear();
        assert!(!unheard(&w));
    }
    w.pass(Span::from_secs(1));
    w.input(Input::Timer);
    assert!(unheard(&w));
}

#[test]
fn a_silent_agent_holds_its_node_until_its_lease_timeout() {
    let mut w = world(vec![
        spec("a", 1, 4, Work::UntilExit),
        spec("b", 1, 4, Work::UntilExit),
    ]);
    (0..2).for_each(|n| w.open(n));
    apply(&mut w, &[("a", &[0])]);
    w.close(0);
    w.mail.clear(); // The release is lost, and so is all that follows.
    w.open(0);
    for second in 0..80 {
        w.pass(Span::from_secs(1));
        w.input(Input::Timer);
        w.mail.clear();
        w.renew();
        if w.controller.leases().is_empty() && second % 5 == 0 {
            w.generation += 1;
            let p = plan(w.generation, w.seq, w.now.cluster, &[("b", &[0])]);
            let view = w.present();
            w.give(p, &view);
            w.mail.clear();
        }
        // The world itself checks that no lease is written while a program runs there.
    }
    assert!(w.programs.is_empty(), "the lease timeout did not work");
    assert!(
        w.notes
            .iter()
            .any(|n| matches!(n, Note::ReleasedUnheard { .. }))
    );
    assert_eq!(w.view.clone().unwrap().unusable, vec![node(0)]);
    w.statuses();
    w.deliver(usize::MAX);
    // The agent is up, but has not received its release.
    assert_eq!(w.view.clone().unwrap().unusable, vec![node(0)]);
    w.pass(Span::from_secs(2));
    w.input(Input::Timer);
    w.deliver(usize::MAX);
    assert_eq!(w.view.clone().unwrap().unusable, vec![]);
}

#[test]
fn a_plan_waits_for_the_events_that_it_knows_of() {
    let mut w = world(vec![spec("a", 1, 4, Work::UntilExit)]);
    w.open(3);
    let p = plan(1, w.seq + 1, w.now.cluster, &[("a", &[0])]);
    let view = w.present();
    w.give(p, &view);
    assert_eq!(w.nodes_of("a"), 0);
    w.open(0);
    assert_eq!(w.nodes_of("a"), 1);
}

#[test]
fn nothing_grows_while_the_bus_is_gone_or_the_pool_unknown() {
    let mut w = World::new(1, 4, config());
    w.submit("", vec![spec("a", 1, 4, Work::UntilExit)]);
    apply(&mut w, &[("a", &[0])]);
    assert_eq!(w.nodes_of("a"), 0);
    w.snapshot();
    w.open(0);
    w.input(Input::Disconnected);
    apply(&mut w, &[("a", &[0])]);
    w.input(Input::Timer);
    assert_eq!(w.nodes_of("a"), 0);
}

#[test]
fn a_trainer_below_its_minimum_gives_all_nodes_back() {
    let mut w = world(vec![spec("a", 3, 4, Work::UntilExit)]);
    (0..3).for_each(|n| w.open(n));
    apply(&mut w, &[("a", &[0, 1, 2])]);
    w.pass(Span::from_secs(10));
    w.close(2);
    w.deliver(usize::MAX);
    assert_eq!(w.nodes_of("a"), 0);
    assert!(w.leases.values().all(|lease| lease.0.is_none()));
    assert!(w.programs.is_empty());
    assert_eq!(w.samples("a"), 300.0);
    // Only the node that the scheduler took is answered for.
    assert_eq!(w.answered, vec![node(2)]);
}

#[test]
fn admission_is_by_priority_then_submission_and_not_before_it() {
    let mut first = spec("first", 1, 2, Work::UntilExit);
    first.submit = Timestamp::from_unix(1001);
    let mut later = spec("later", 1, 2, Work::UntilExit);
    later.submit = Timestamp::from_unix(1002);
    let mut high = spec("high", 1, 2, Work::UntilExit);
    high.submit = Timestamp::from_unix(1002);
    high.priority = 5;
    let mut config = config();
    config.control.max_parallel = 2;
    let mut w = World::new(1, 4, config);
    w.snapshot();
    w.open(3);
    w.submit("", vec![later, high, first]);
    let admitted = |w: &World| -> Vec<String> {
        let view = w.controller.trainers_view(w.now);
        view.trainers
            .iter()
            .map(|t| t.spec.id.to_string())
            .collect()
    };
    assert!(admitted(&w).is_empty());
    w.pass(Span::from_secs(1));
    w.input(Input::Timer);
    assert_eq!(admitted(&w), ["first"]);
    w.pass(Span::from_secs(1));
    w.input(Input::Timer);
    assert_eq!(admitted(&w), ["first", "high"]);
    w.input(Input::Cancel(trainer("first")));
    assert_eq!(admitted(&w), ["high", "later"]);
    w.input(Input::Cancel(trainer("first")));
    assert!(
        w.replies
            .last()
            .unwrap()
            .as_ref()
            .unwrap_err()
            .contains("over already")
    );
}

#[test]
fn a_trainer_that_does_not_fit_into_the_pool_takes_no_place() {
    let mut config = config();
    config.control.max_parallel = 2;
    let mut w = World::new(1, 12, config);
    w.snapshot();
    (0..4).for_each(|n| w.open(n));
    let mut trainers: Vec<_> = ["a", "b", "c"]
        .map(|name| spec(name, 5, 8, Work::UntilExit))
        .into();
    trainers.push(spec("small", 1, 8, Work::UntilExit));
    trainers.push(spec("four", 4, 8, Work::UntilExit));
    trainers.push(spec("late", 1, 8, Work::UntilExit));
    w.submit("", trainers);
    let admitted = |w: &World| -> Vec<String> {
        let view = w.controller.trainers_view(w.now);
        let ids = view.trainers.iter().map(|t| t.spec.id.to_string());
        ids.collect()
    };
    assert_eq!(admitted(&w), ["small", "four"]);
    // Without the fourth node one of them no longer fits, and has none.
    w.close(3);
    w.input(Input::Timer);
    assert_eq!(admitted(&w), ["small", "four", "late"]);
    // Those that fit now wait for a place: three have one.
    (3..8).for_each(|n| w.open(n));
    w.input(Input::Timer);
    assert_eq!(admitted(&w), ["small", "four", "late"]);
    w.input(Input::Cancel(trainer("late")));
    w.input(Input::Cancel(trainer("four")));
    assert_eq!(admitted(&w), ["small", "a"]);
}

#[test]
fn an_owner_with_all_places_keeps_no_other_owner_waiting() {
    let mut config = config();
    config.control.max_parallel = 4;
    let mut w = World::new(1, 12, config);
    w.snapshot();
    (0..4).for_each(|n| w.open(n));
    let of = |owner: &str, count: usize| -> Vec<_> {
        let own = |n| lacuna_model::TrainerSpec {
            owner: Some(owner.to_owned()),
            ..spec(&format!("{owner}{n}"), 1, 1, Work::UntilExit)
        };
        (0..count).map(own).collect()
    };
    for (owner, count) in [("eve", 9), ("ann", 3), ("bob", 3)] {
        w.submit(owner, of(owner, count));
    }
    let admitted = |w: &World| -> Vec<String> {
        let view = w.controller.trainers_view(w.now);
        let ids = view.trainers.iter().map(|t| t.spec.id.to_string());
        ids.collect()
    };
    let all = ["eve0", "eve1", "eve2", "eve3", "ann0", "ann1", "bob0"];
    assert_eq!(admitted(&w), all);
    // No owner exceeds its share, and a free place goes to the first in the queue.
    w.input(Input::Cancel(trainer("ann0")));
    assert_eq!(admitted(&w)[4..], ["ann1", "bob0"]);
    for gone in ["eve0", "eve1", "eve2"] {
        w.input(Input::Cancel(trainer(gone)));
    }
    assert_eq!(admitted(&w), ["eve3", "ann1", "bob0", "eve4"]);
}

#[test]
fn a_submission_is_taken_whole_or_not_at_all() {
    let mut w = world(vec![spec("a", 1, 4, Work::UntilExit)]);
    let mut bad = spec("c", 1, 4, Work::UntilExit);
    bad.min_nodes = 9;
    for (specs, says) in [
        (vec![spec("b", 1, 4, Work::UntilExit), bad], "min_nodes 9"),
        (
            vec![
                spec("b", 1, 4, Work::UntilExit),
                spec("a", 1, 4, Work::UntilExit),
            ],
            "exists already",
        ),
    ] {
        w.submit("", specs);
        let error = w.replies.last().unwrap().clone().unwrap_err();
        assert!(error.contains(says), "{error}");
        assert!(w.controller.record(&trainer("b")).is_none());
    }
    w.input(Input::Submit {
        trainers: vec![spec("b", 1, 4, Work::UntilExit)],
        user: String::new(),
        tickets: std::collections::BTreeMap::new(),
        test_only: true,
    });
    assert!(w.replies.last().unwrap().is_ok());
    assert!(w.controller.record(&trainer("b")).is_none());
}

#[test]
fn a_trainer_ends_with_its_work_and_its_nodes_come_back() {
    let mut w = world(vec![spec("a", 1, 4, Work::Samples(105.0))]);
    w.open(0);
    apply(&mut w, &[("a", &[0])]);
    w.pass(Span::from_secs(60));
    w.report_all();
    w.deliver(usize::MAX);
    let record = w.record("a");
    assert_eq!((record.phase, record.samples()), (Phase::Done, 105.0));
    assert!(w.programs.is_empty() && w.controller.leases().is_empty());
    assert_eq!(w.controller.tally().done, 1);
}

#[test]
fn only_reports_of_rank_0_count_also_after_the_end() {
    let mut w = world(vec![spec("a", 1, 4, Work::UntilExit)]);
    (0..3).for_each(|n| w.open(n));
    apply(&mut w, &[("a", &[0, 1])]);
    w.pass(Span::from_secs(10));
    w.mail.clear();
    let report = |by, run, samples, checkpoint: &str| {
        Input::Progress(Progress {
            world_size: 2,
            checkpoint: Some(checkpoint.to_owned()),
            ..said(by, run, 1005, samples)
        })
    };
    w.input(report(0, 1, 50.0, "true"));
    // A member that does not lead, and a node that is no member.
    w.input(report(1, 1, 70.0, "false"));
    w.input(report(2, 1, 70.0, "false"));
    let foreign = |n: &&Note| matches!(n, Note::ForeignReport { .. });
    assert_eq!(w.notes.iter().filter(foreign).count(), 2);
    // Node 1 leads the second run. Reports of node 0 on the first run still count.
    w.close(0);
    w.mail.clear();
    w.input(report(1, 1, 90.0, "false"));
    w.input(report(0, 2, 90.0, "false"));
    assert_eq!(
        (w.samples("a"), w.notes.iter().filter(foreign).count()),
        (50.0, 4)
    );
    w.input(report(0, 1, 60.0, "true"));
    w.input(report(1, 2, 5.0, "newer"));
    // What lies elsewhere may be another user's, and counts as none.
    w.input(report(1, 2, 5.0, "/evil"));
    let record = w.record("a");
    assert_eq!(
        (record.samples(), record.checkpoint.as_deref()),
        (65.0, Some("newer"))
    );
}

#[test]
fn late_repeated_and_mad_reports_count_nothing() {
    let mut w = world(vec![spec("a", 1, 4, Work::UntilExit)]);
    (0..2).for_each(|n| w.open(n));
    apply(&mut w, &[("a", &[0])]);
    w.pass(Span::from_secs(10));
    let report = |run, at, samples| Input::Progress(said(0, run, at, samples));
    w.input(report(1, 1005, 50.0));
    w.input(report(1, 1005, 50.0));
    w.input(report(1, 1003, 30.0));
    assert_eq!(w.samples("a"), 50.0);
    w.input(report(1, 1006, f64::NAN));
    w.input(report(1, 1006, -1.0));
    w.input(report(9, 1006, 1000.0));
    assert_eq!(w.samples("a"), 50.0);
    apply(&mut w, &[("a", &[0, 1])]);
    // The last report of the first run was of the moment of its end.
    assert_eq!(w.samples("a"), 100.0);
    // Work of the first run after its end is double work: late.
    w.input(report(1, 1015, 150.0));
    assert_eq!(w.samples("a"), 100.0);
    let late = |n: &&Note| matches!(n, Note::LateReport { .. });
    let bad = |n: &&Note| matches!(n, Note::BadReport { .. });
    assert_eq!(w.notes.iter().filter(late).count(), 2);
    assert_eq!(w.notes.iter().filter(bad).count(), 2);
    // The count of an ended run is stored at once: a restarted control has no other source.
    w.input(report(1, 1010, 120.0));
    assert_eq!(w.samples("a"), 120.0);
    assert_eq!(w.records[&trainer("a")].samples(), 120.0);
}

#[test]
fn a_failing_program_starts_again_more_and_more_slowly_and_is_given_up() {
    let mut w = world(vec![spec("a", 1, 4, Work::UntilExit)]);
    w.open(0);
    let mut waits = Vec::new();
    for code in 1..=5 {
        apply(&mut w, &[("a", &[0])]);
        assert_eq!(w.nodes_of("a"), 1);
        w.exit(&node(0), code);
        w.deliver(usize::MAX);
        // It holds no nodes while it waits, and no plan has it.
        w.pass(Span::from_ms(400));
        w.input(Input::Timer);
        w.deliver(usize::MAX);
        let failure = w.notes.iter().rev().find_map(|note| match note {
            Note::Failure { again_in, .. } => Some(again_in.as_ms() / 1000),
            _ => None,
        });
        waits.extend(failure);
        assert_eq!((w.nodes_of("a"), w.leases[&node(0)].0.clone()), (0, None));
        assert_eq!(
            (w.present().trainers, w.present().unusable),
            (vec![], vec![])
        );
        for _ in 0..20 {
            w.pass(Span::from_secs(1));
            w.renew();
            w.statuses();
            w.deliver(usize::MAX);
            w.input(Input::Timer);
            w.deliver(usize::MAX);
        }
    }
    assert_eq!(waits, [1, 2, 4, 8, 16]);
    let record = w.record("a");
    assert_eq!(record.phase, Phase::Failed);
    let reason = &record.reason;
    assert!(reason.contains("after 5 failures"), "{reason}");
    assert!(reason.contains("exit code 5 on node n00: bang"), "{reason}");
}

#[test]
fn a_program_that_dies_as_its_node_is_taken_has_not_failed() {
    let mut w = world(vec![spec("a", 1, 4, Work::UntilExit)]);
    (0..2).for_each(|n| w.open(n));
    apply(&mut w, &[("a", &[0, 1])]);
    w.exit(&node(1), 143);
    w.deliver(usize::MAX);
    w.close(1);
    w.deliver(usize::MAX);
    let record = w.record("a");
    assert_eq!(
        (record.failures, record.preemptions, record.nodes.len()),
        (0, 1, 1)
    );
}

#[test]
fn exit_code_zero_ends_a_trainer_that_runs_until_its_exit() {
    let mut w = world(vec![spec("a", 1, 4, Work::UntilExit)]);
    (0..2).for_each(|n| w.open(n));
    apply(&mut w, &[("a", &[0, 1])]);
    w.exit(&node(1), 0);
    w.deliver(usize::MAX);
    assert_eq!(w.record("a").phase, Phase::Active);
    w.exit(&node(0), 0);
    w.deliver(usize::MAX);
    assert_eq!(w.record("a").phase, Phase::Done);
}

#[test]
fn control_starts_again_without_touching_what_runs() {
    let mut w = world(vec![spec("a", 1, 4, Work::UntilExit)]);
    (0..3).for_each(|n| w.open(n));
    apply(&mut w, &[("a", &[0, 1])]);
    w.pass(Span::from_secs(10));
    w.report_all();
    w.deliver(usize::MAX);
    let run = w.record("a").run;
    w.crash_control();
    w.pass(Span::from_secs(10));
    w.statuses();
    w.report_all();
    w.deliver(usize::MAX);
    let record = w.record("a");
    assert_eq!((record.run, record.samples()), (run, 400.0));
    assert_eq!(w.controller.unacknowledged(), 0);
    // A node that left while control was down is a loss like any other.
    w.pool.remove(&node(1));
    w.crash_control();
    w.deliver(usize::MAX);
    assert_eq!(w.nodes_of("a"), 1);
    assert!(w.controller.tally().idle_node_s > 0.0);
}

#[test]
fn owners_have_had_what_was_harvested_after_short_and_long_times_without_control() {
    for (away, counts, leaves) in [
        (0, 0, false),
        (30, 30, false),
        (30, 30, true),
        // Agents give their nodes back after the lease timeout.
        (40_000, 60, false),
        (40_000, 60, true),
    ] {
        let mut w = world(vec![spec("a", 1, 4, Work::UntilExit)]);
        (0..4).for_each(|n| w.open(n));
        apply(&mut w, &[("a", &[0, 1])]);
        let turn = |w: &mut World, seconds| {
            w.renew();
            w.pass(Span::from_secs(seconds));
            w.statuses();
            w.report_all();
            w.deliver(usize::MAX);
            w.input(Input::Timer);
        };
        (0..5).for_each(|_| turn(&mut w, 20));
        w.pass(Span::from_secs(away));
        if leaves {
            w.pool.remove(&node(1));
        }
        w.restart_control();
        turn(&mut w, 2);
        w.snapshot();
        turn(&mut w, 10);
        let tally = w.controller.tally();
        let owners = w.controller.owners();
        let had: f64 = owners.values().map(|owner| owner.node_s).sum();
        let after = if leaves { 10.0 } else { 20.0 };
        let wanted = f64::from(2 * (100 + counts + 2)) + after;
        let case = (away, leaves);
        assert!((had - wanted).abs() < 1e-6, "{case:?}: {had}, {wanted}");
        assert!(
            (tally.harvested_node_s - had).abs() < 1e-6,
            "{case:?}: {tally:?}"
        );
    }
}

#[test]
fn nodes_whose_agents_start_again_while_control_is_away_are_not_harvested_then() {
    for (restarts, pool_first) in [(1, false), (1, true), (2, false), (2, true)] {
        let mut w = world(vec![spec("a", 1, 4, Work::UntilExit)]);
        (0..4).for_each(|n| w.open(n));
        apply(&mut w, &[("a", &[0, 1])]);
        for _ in 0..5 {
            w.renew();
            w.pass(Span::from_secs(20));
            w.statuses();
            w.deliver(usize::MAX);
            w.input(Input::Timer);
        }
        w.pass(Span::from_secs(30));
        (0..restarts).for_each(|n| w.crash_agent(&node(n)));
        w.restart_control();
        if pool_first {
            w.snapshot();
        }
        w.statuses();
        w.deliver(usize::MAX);
        if !pool_first {
            w.snapshot();
        }
        w.input(Input::Timer);
        let tally = w.controller.tally();
        let owners = w.controller.owners();
        let had: f64 = owners.values().map(|owner| owner.node_s).sum();
        let wanted = (2 * 100 + (2 - restarts) * 30) as f64;
        let case = (restarts, pool_first);
        assert!((had - wanted).abs() < 1e-6, "{case:?}: {had}, {wanted}");
        assert!(
            (tally.harvested_node_s - had).abs() < 1e-6,
            "{case:?}: {tally:?}"
        );
    }
}

#[test]
fn lock_step_waits_for_reports_then_for_the_plan_and_its_acknowledgements() {
    let mut w = world(vec![spec("a", 1, 4, Work::UntilExit)]);
    let tick = |w: &World, step, complete| {
        Input::Clock(Tick {
            now: w.now.cluster,
            step,
            events_upto: w.seq,
            complete,
            lock_step: true,
            is_wall: false,
        })
    };
    let t = tick(&w, 1, false);
    w.input(t);
    assert_eq!(w.settled, [(1, false)]);
    (0..2).for_each(|n| w.open(n));
    let t = tick(&w, 1, true);
    w.input(t);
    assert_eq!(w.settled.len(), 1, "settled without a plan");
    w.generation += 1;
    let p = plan(w.generation, w.seq, w.now.cluster, &[("a", &[0, 1])]);
    let view = w.present();
    w.give(p, &view);
    assert_eq!(w.settled.len(), 1, "settled before the agents had obeyed");
    w.deliver(usize::MAX);
    assert_eq!(w.settled, [(1, false), (1, true)]);
    // A second plan for the same step is not for this step.
    w.generation += 1;
    let p = plan(w.generation, w.seq, w.now.cluster, &[]);
    let view = w.present();
    w.give(p, &view);
    assert_eq!(w.nodes_of("a"), 2);
    w.now.cluster = w.now.cluster + Span::from_secs(50);
    let t = tick(&w, 2, false);
    w.input(t);
    assert_eq!(w.settled.len(), 2, "settled before the run had reported");
    w.report_all();
    w.deliver(usize::MAX);
    assert_eq!(w.settled.last(), Some(&(2, false)));
    assert_eq!(w.samples("a"), 1_000.0);
    let t = tick(&w, 2, false);
    w.input(t);
    assert_eq!(w.settled.len(), 4, "an answer that was lost is given again");
}

#[test]
fn lock_step_settles_after_the_loss_of_all_nodes() {
    for gets in [[].as_slice(), &[2, 3]] {
        let mut w = world(vec![spec("a", 1, 4, Work::UntilExit)]);
        (0..4).for_each(|n| w.open(n));
        apply(&mut w, &[("a", &[0, 1])]);
        let tick = |w: &World, complete| {
            Input::Clock(Tick {
                now: w.now.cluster,
                step: 1,
                events_upto: w.seq,
                complete,
                lock_step: true,
                is_wall: false,
            })
        };
        w.pass(Span::from_secs(10));
        let t = tick(&w, false);
        w.input(t);
        w.report_all();
        w.deliver(usize::MAX);
        assert_eq!(w.settled, [(1, false)]);
        (0..2).for_each(|n| w.close(n));
        let t = tick(&w, true);
        w.input(t);
        w.deliver(usize::MAX);
        let record = w.record("a");
        assert!(record.nodes.is_empty() && record.hit_at.is_some());
        assert_eq!(w.settled.len(), 1, "settled without a plan");
        apply(&mut w, &[("a", gets)]);
        assert_eq!(w.settled, [(1, false), (1, true)], "{gets:?}");
        let record = w.record("a");
        assert_eq!((record.nodes.len(), record.hit_at), (gets.len(), None));
    }
}

#[test]
fn an_agent_obeys_only_the_newest_command_and_only_once() {
    let mut w = world(vec![spec("a", 1, 4, Work::UntilExit)]);
    w.open(0);
    apply(&mut w, &[("a", &[0])]);
    let old = w.commands[&node(0)].clone();
    apply(&mut w, &[]);
    let free = w.agents[&node(0)].status();
    assert_eq!(free.activity, Activity::Free);
    let now = w.now;
    let effects = w.agents.get_mut(&node(0)).unwrap().command(old, now);
    assert!(matches!(
        effects.first(),
        Some(lacuna_trainer::agent::Effect::Refused { .. })
    ));
    assert_eq!(w.agents[&node(0)].status(), free);
    let again = w.commands[&node(0)].clone();
    let effects = w.agents.get_mut(&node(0)).unwrap().command(again, now);
    assert_eq!(effects, [lacuna_trainer::agent::Effect::Report(free)]);
}

/// Whichever program has suspended the agent that they share.
#[test]
fn programs_that_end_since_their_agent_was_suspended_begin_again_at_once() {
    let mut w = world(vec![
        spec("a", 1, 1, Work::UntilExit),
        spec("b", 1, 1, Work::UntilExit),
    ]);
    (0..2).for_each(|n| w.open(n));
    apply(&mut w, &[("a", &[0]), ("b", &[1])]);
    for times in 1..=10 {
        // Longer than their starts: a row of restarts without new samples counts as failures.
        w.pass(Span::from_secs(30));
        w.deliver(usize::MAX);
        (0..2).for_each(|n| w.suspend(&node(n)));
        w.deliver(usize::MAX);
        w.input(Input::Timer);
        w.deliver(usize::MAX);
        assert_eq!(w.programs.len(), 2, "after {times}");
    }
    for id in ["a", "b"] {
        let record = w.record(id);
        assert_eq!((record.nodes.len(), record.failures), (1, 0), "{id}");
        assert!(
            record.reason.contains("agent suspended"),
            "{}",
            record.reason
        );
    }
}

#[test]
fn an_agent_that_has_given_up_is_started_again_on_the_same_nodes() {
    let mut w = world(vec![spec("a", 1, 4, Work::UntilExit)]);
    (0..2).for_each(|n| w.open(n));
    apply(&mut w, &[("a", &[0, 1])]);
    w.pass(Span::from_secs(70)); // No renewal comes.
    assert!(w.programs.is_empty());
    w.deliver(usize::MAX);
    w.input(Input::Timer);
    w.deliver(usize::MAX);
    let record = w.record("a");
    assert_eq!((record.nodes.len(), record.failures), (2, 0));
    assert!(record.reason.contains("lease timeout"), "{}", record.reason);
    assert_eq!(w.programs.len(), 2);
}

#[test]
fn a_program_that_changes_start_again_waits_a_moment_for_further_nodes() {
    for (elastic, at_once) in [(Elastic::Restart, 0), (Elastic::REGROUP, 1)] {
        let mut config = config();
        config.gather_wait = Span::from_secs(1);
        let mut w = World::new(1, 4, config);
        w.snapshot();
        let mut launch = regrouping();
        if let Launch::Command(Program { elastic: of, .. }) = &mut launch {
            *of = elastic;
        }
        let spec = lacuna_model::TrainerSpec {
            launch,
            ..spec("a", 1, 4, Work::UntilExit)
        };
        w.submit("", vec![spec]);
        (0..3).for_each(|n| w.open(n));
        apply(&mut w, &[("a", &[0])]);
        w.all_ready();
        w.deliver(usize::MAX);
        assert_eq!(w.nodes_of("a"), at_once);
        // Others become idle meanwhile. The wait is no longer for them.
        w.pass(Span::from_ms(900));
        apply(&mut w, &[("a", &[0, 1, 2])]);
        w.all_ready();
        w.deliver(usize::MAX);
        assert_eq!(w.nodes_of("a"), 3 * at_once);
        w.pass(Span::from_ms(200));
        w.input(Input::Timer);
        w.deliver(usize::MAX);
        assert_eq!(w.nodes_of("a"), 3, "{elastic:?}");
    }
}
