//! The end of a trainer: it is trained once, whichever of its programs exits first.

use lacuna_model::{Elastic, Ending, Launch, Phase, Program, Span, TrainerRecord, Work};
use lacuna_trainer::controller::{Input, Note};

use crate::common::{World, node, regrouping, spec};
use crate::controller::{apply, world};

/// `a` trains on this number of nodes, at least `min`, until its program ends.
fn training(elastic: Elastic, min: u32, nodes: usize) -> World {
    working(elastic, (min, nodes), Work::UntilExit)
}

/// The same until this work is done.
fn working(elastic: Elastic, (min, nodes): (u32, usize), work: Work) -> World {
    let mut launch = regrouping();
    if let Launch::Command(Program { elastic: of, .. }) = &mut launch {
        *of = elastic;
    }
    let spec = lacuna_model::TrainerSpec {
        launch,
        ..spec("a", min, 8, work)
    };
    let mut w = world(vec![spec]);
    (0..6).for_each(|n| w.open(n));
    let all: Vec<usize> = (0..nodes).collect();
    apply(&mut w, &[("a", &all)]);
    w.all_ready();
    w.deliver(usize::MAX);
    assert_eq!(w.nodes_of("a"), nodes);
    w.pass(Span::from_secs(10));
    w.renew();
    w.report_all();
    w.deliver(usize::MAX);
    w
}

fn regrouped(min: u32, nodes: usize) -> World {
    training(Elastic::REGROUP, min, nodes)
}

fn record(w: &World) -> &TrainerRecord {
    w.record("a")
}

fn say(w: &mut World, n: usize, ending: Ending) {
    w.ends(&node(n), Some(ending));
    w.deliver(usize::MAX);
}

fn exit(w: &mut World, n: usize, code: i32) {
    w.exit(&node(n), code);
    w.deliver(usize::MAX);
}

/// Time passes, with the beats of control and of agents.
fn wait(w: &mut World, seconds: i64) {
    for _ in 0..seconds {
        w.pass(Span::from_secs(1));
        w.renew();
        w.statuses();
        w.deliver(usize::MAX);
        w.input(Input::Timer);
        w.deliver(usize::MAX);
    }
}

/// Incarnations with nodes so far.
fn trainings(w: &World) -> usize {
    let begun = |note: &&Note| matches!(note, Note::Run { after: 1.., .. });
    w.notes.iter().filter(begun).count()
}

/// Incarnations with nodes after none so far.
fn starts(w: &World) -> usize {
    let begun = |note: &&Note| {
        matches!(
            note,
            Note::Run {
                before: 0,
                after: 1..,
                ..
            }
        )
    };
    w.notes.iter().filter(begun).count()
}

/// All orders of three.
pub(crate) const ORDERS: [[usize; 3]; 6] = [
    [0, 1, 2],
    [0, 2, 1],
    [1, 0, 2],
    [1, 2, 0],
    [2, 0, 1],
    [2, 1, 0],
];

#[test]
fn exits_in_any_order_are_one_end() {
    let torchrun = Elastic::Torchrun {
        workers_per_node: 1,
    };
    for elastic in [Elastic::REGROUP, torchrun, Elastic::Restart] {
        for (min, order) in [1, 2, 3].into_iter().flat_map(|m| ORDERS.map(|o| (m, o))) {
            for pause in [0, 20] {
                let mut w = training(elastic, min, 3);
                (0..3).for_each(|n| say(&mut w, n, Ending::Done));
                for n in order {
                    exit(&mut w, n, 0);
                    wait(&mut w, pause);
                }
                let of = (record(&w).phase, record(&w).failures, trainings(&w));
                assert_eq!(
                    of,
                    (Phase::Done, 0, 1),
                    "{elastic:?} {min} {order:?} {pause}"
                );
                assert!(w.leases.values().all(|(owner, _)| owner.is_none()));
            }
        }
    }
}

#[test]
fn a_word_may_come_with_the_exit_alone() {
    for (elastic, nodes) in [
        (Elastic::REGROUP, 1),
        (Elastic::Restart, 1),
        (Elastic::REGROUP, 2),
    ] {
        let mut w = training(elastic, 1, nodes);
        for n in (0..nodes).rev() {
            w.ends(&node(n), Some(Ending::Done));
            // The status of the exit replaces this one.
            w.mail.clear();
            exit(&mut w, n, 0);
        }
        assert_eq!((record(&w).phase, trainings(&w)), (Phase::Done, 1));
    }
}

#[test]
fn a_first_exit_without_a_word_waits_for_the_next() {
    let mut w = regrouped(2, 2);
    exit(&mut w, 1, 0);
    wait(&mut w, 15);
    assert_eq!((record(&w).phase, trainings(&w)), (Phase::Active, 1));
    exit(&mut w, 0, 0);
    assert_eq!((record(&w).phase, trainings(&w)), (Phase::Done, 1));
    assert!(record(&w).reason.contains("without the word"));
}

#[test]
fn a_program_that_exits_before_it_trains_has_failed_at_once() {
    let program = lacuna_model::TrainerSpec {
        launch: regrouping(),
        ..spec("a", 1, 8, Work::UntilExit)
    };
    let mut w = world(vec![program]);
    (0..2).for_each(|n| w.open(n));
    apply(&mut w, &[("a", &[0, 1])]);
    assert_eq!(w.prepared.len(), 2);
    exit(&mut w, 1, 0);
    assert_eq!((record(&w).phase, record(&w).failures), (Phase::Active, 1));
    let reason = &record(&w).reason;
    assert!(reason.contains("exit code 0"), "{reason}");
}

#[test]
fn a_member_that_exits_too_early_has_failed_and_the_others_go_on() {
    // The others say at once that their group is broken.
    let mut w = regrouped(1, 3);
    exit(&mut w, 1, 0);
    assert_eq!(trainings(&w), 1);
    let run = record(&w).run;
    let started = w.started.get(&node(2)).copied().unwrap();
    let effects = w
        .agents
        .get_mut(&node(2))
        .unwrap()
        .group(started, run, true);
    w.agent_does(&node(2), effects);
    w.deliver(usize::MAX);
    assert_eq!(record(&w).nodes, [node(0), node(2)]);
    assert_eq!((record(&w).failures, trainings(&w)), (1, 2));
    assert!(
        record(&w).reason.contains("exit code 0"),
        "{}",
        record(&w).reason
    );
    // Or nothing for a while.
    let mut w = regrouped(1, 3);
    exit(&mut w, 1, 0);
    wait(&mut w, 40);
    assert_eq!((w.nodes_of("a"), record(&w).failures), (2, 1));
}

#[test]
fn a_trainer_that_ends_keeps_its_nodes_and_gets_none() {
    let mut w = regrouped(1, 2);
    apply(&mut w, &[("a", &[0, 1, 2])]);
    assert_eq!(w.prepared.len(), 1, "a newcomer is on its way");
    say(&mut w, 1, Ending::Done);
    assert!(w.prepared.is_empty(), "it is called off");
    for nodes in [&[0, 1, 2, 3][..], &[0], &[]] {
        apply(&mut w, &[("a", nodes)]);
        assert_eq!((w.nodes_of("a"), w.prepared.len()), (2, 0));
    }
    let shown = w.present().trainers.remove(0).spec;
    assert_eq!((shown.min_nodes, shown.max_nodes), (2, 2));
    // A second training of the same program takes the word back.
    w.ends(&node(1), None);
    w.deliver(usize::MAX);
    apply(&mut w, &[("a", &[0, 1, 2])]);
    assert_eq!(w.prepared.len(), 1);
}

#[test]
fn losses_while_it_ends_begin_nothing() {
    for exits in [true, false] {
        let mut w = regrouped(3, 3);
        say(&mut w, 1, Ending::Done);
        if exits {
            exit(&mut w, 1, 0);
        }
        w.close(0);
        w.input(Input::Drained);
        w.deliver(usize::MAX);
        let living = 3 - 1 - usize::from(exits);
        assert_eq!(
            w.programs.len(),
            living,
            "fewer than it needs, and they end"
        );
        for n in [2, 1] {
            assert_eq!(record(&w).phase, Phase::Active);
            exit(&mut w, n, 0);
            if exits || n == 1 {
                break;
            }
        }
        assert_eq!(record(&w).phase, Phase::Done);
        assert_eq!(starts(&w), 1);
    }
}

#[test]
fn a_node_lost_while_its_interpreter_ends_is_an_exit() {
    for (ending, phase) in [
        (Ending::Exiting, Phase::Done),
        // Its own code has not ended: it begins again where there is a node.
        (Ending::Done, Phase::Active),
    ] {
        let mut w = regrouped(1, 1);
        say(&mut w, 0, ending);
        w.close(0);
        w.input(Input::Drained);
        w.deliver(usize::MAX);
        assert_eq!(record(&w).phase, phase, "{ending:?}");
    }
}

#[test]
fn an_agent_that_starts_again_begins_no_finished_work_again() {
    let torchrun = Elastic::Torchrun {
        workers_per_node: 1,
    };
    for elastic in [Elastic::REGROUP, torchrun, Elastic::Restart] {
        // Its interpreter ended, or another member had exited.
        for nodes in [1, 2] {
            let mut w = training(elastic, nodes as u32, nodes);
            say(&mut w, 0, Ending::Done);
            if nodes == 1 {
                say(&mut w, 0, Ending::Exiting);
            } else {
                exit(&mut w, 1, 0);
            }
            w.crash_agent(&node(0));
            wait(&mut w, 3);
            assert_eq!(
                (record(&w).phase, starts(&w)),
                (Phase::Done, 1),
                "{elastic:?} {nodes}"
            );
        }
        // Its own code had not ended.
        let mut w = training(elastic, 1, 1);
        say(&mut w, 0, Ending::Done);
        w.crash_agent(&node(0));
        wait(&mut w, 3);
        assert_eq!(record(&w).phase, Phase::Active, "{elastic:?}");
    }
}

#[test]
fn a_member_that_failed_is_known_after_the_end() {
    let failed = |w: &World| {
        let failed = record(w).tries.failed();
        let of: Vec<_> = failed.map(|(node, f)| (node.clone(), f.failures)).collect();
        of
    };
    // At once, beside one that goes on for long.
    let mut w = regrouped(1, 2);
    exit(&mut w, 1, 1);
    for _ in 0..10 {
        w.report_all();
        wait(&mut w, 10);
    }
    assert_eq!(record(&w).failures, 0, "the row is over");
    exit(&mut w, 0, 0);
    assert_eq!(record(&w).phase, Phase::Done);
    assert_eq!(failed(&w), [(node(1), 1)]);
    // After the work was done.
    let mut w = regrouped(2, 2);
    (0..2).for_each(|n| say(&mut w, n, Ending::Done));
    exit(&mut w, 1, 1);
    exit(&mut w, 0, 0);
    assert_eq!(record(&w).phase, Phase::Done);
    assert_eq!(failed(&w), [(node(1), 1)]);
}

#[test]
fn a_new_control_knows_what_has_ended() {
    let mut w = regrouped(3, 3);
    (0..3).for_each(|n| say(&mut w, n, Ending::Done));
    exit(&mut w, 1, 0);
    w.restart_control();
    w.snapshot();
    // The others are lost before they are heard again.
    for n in 0..3 {
        w.close(n);
    }
    w.input(Input::Drained);
    w.deliver(usize::MAX);
    assert_eq!((record(&w).phase, record(&w).failures), (Phase::Done, 0));
}

#[test]
fn a_failure_after_the_work_was_done_repeats_no_training() {
    let fails = |checkpoint: Option<&str>| {
        let mut w = regrouped(2, 2);
        w.progress("a", 640.0, |report| {
            (report.world_size, report.base) = (2, Some(0.0));
            report.checkpoint = checkpoint.map(str::to_owned);
        });
        (0..2).for_each(|n| say(&mut w, n, Ending::Done));
        exit(&mut w, 0, 1);
        w
    };
    let w = fails(None);
    let reason = &record(&w).reason;
    assert_eq!((record(&w).phase, record(&w).failures), (Phase::Failed, 0));
    assert!(
        reason.contains("was done") && reason.contains("exit code 1"),
        "{reason}"
    );
    let mut w = fails(Some("c9"));
    assert_eq!((record(&w).phase, record(&w).failures), (Phase::Active, 1));
    assert!(w.programs.is_empty() && record(&w).nodes.is_empty());
    wait(&mut w, 5);
    apply(&mut w, &[("a", &[2, 3])]);
    w.all_ready();
    w.deliver(usize::MAX);
    assert_eq!(w.nodes_of("a"), 2, "from its checkpoint");
    // Control hears of another member's failure, and rank 0 decides.
    let mut w = regrouped(2, 2);
    (0..2).for_each(|n| say(&mut w, n, Ending::Done));
    exit(&mut w, 1, 1);
    assert!(record(&w).reason.contains("exit code 1"));
    wait(&mut w, 9);
    assert_eq!(w.programs.len(), 1, "rank 0 may export for long");
    exit(&mut w, 0, 0);
    assert_eq!((record(&w).phase, trainings(&w)), (Phase::Done, 1));
}

#[test]
fn a_kill_for_silence_is_none_of_memory() {
    let reason = |code, killed| {
        let mut w = regrouped(1, 2);
        w.exit_as(&node(1), code, killed);
        w.deliver(usize::MAX);
        record(&w).reason.clone()
    };
    assert_eq!(reason(137, true), "bang, killed (node n01)");
    let of_memory = reason(137, false);
    assert!(
        of_memory.contains("SIGKILL, as where memory ran out"),
        "{of_memory}"
    );
}

#[test]
fn restarts_without_a_failure_are_told_and_come_to_an_end() {
    let mut w = regrouped(1, 2);
    for _ in 0..100 {
        if record(&w).phase.is_final() {
            break;
        }
        // It leaves although nothing asks for that.
        let first = w.programs.keys().chain(w.prepared.keys()).next().cloned();
        if let Some(first) = first {
            w.exit(&first, 75);
            w.deliver(usize::MAX);
            assert!(
                record(&w).reason.contains("exit code 75"),
                "{}",
                record(&w).reason
            );
        }
        apply(&mut w, &[("a", &[0, 1])]);
        wait(&mut w, 3);
    }
    assert_eq!(record(&w).phase, Phase::Failed);
    let ends = w
        .notes
        .iter()
        .filter(|note| matches!(note, Note::Failure { .. }));
    assert!(ends.count() >= 3);
}

#[test]
fn a_member_whose_word_is_lost_with_it_leaves_the_others_at_work() {
    let mut w = regrouped(1, 2);
    say(&mut w, 1, Ending::Done);
    w.close(1);
    w.input(Input::Drained);
    w.deliver(usize::MAX);
    wait(&mut w, 3);
    let of = record(&w);
    assert_eq!(
        (of.phase, of.ending, of.nodes.as_slice()),
        (Phase::Active, None, &[node(0)][..])
    );
    let run = of.run;
    let assignment = w.programs.get(&node(0)).unwrap();
    assert_eq!(
        assignment.run, run,
        "it is commanded into the group of those that are left"
    );
}

#[test]
fn members_that_failed_beside_the_last_one_have_failed_once_each() {
    let mut w = regrouped(3, 3);
    (0..3).for_each(|n| say(&mut w, n, Ending::Done));
    exit(&mut w, 1, 1);
    exit(&mut w, 2, 1);
    wait(&mut w, 30);
    assert_eq!(record(&w).failures, 2);
    let times: Vec<u32> = record(&w).tries.failed().map(|(_, f)| f.times).collect();
    assert_eq!(times, [1, 1]);
    exit(&mut w, 0, 0);
    assert_eq!(record(&w).phase, Phase::Done);
}

/// `a` has trained the last of its samples on three nodes, of which it needs as many.
fn all_trained(elastic: Elastic) -> World {
    let w = working(elastic, (3, 3), Work::Samples(10.0));
    assert_eq!((record(&w).samples(), trainings(&w)), (10.0, 1));
    w
}

#[test]
fn programs_may_save_after_the_last_sample() {
    for (elastic, order) in [Elastic::REGROUP, Elastic::Restart]
        .map(|e| ORDERS.map(|o| (e, o)))
        .concat()
    {
        let mut w = all_trained(elastic);
        wait(&mut w, 20);
        let of = record(&w);
        assert_eq!(
            (of.phase, of.nodes.len()),
            (Phase::Active, 3),
            "{elastic:?}"
        );
        let shown = w.present().trainers.remove(0).spec;
        assert_eq!((shown.work, shown.min_nodes), (Work::UntilExit, 3));
        for n in order {
            assert_eq!(record(&w).phase, Phase::Active, "{elastic:?} {order:?}");
            exit(&mut w, n, 0);
            if n == 0 {
                break;
            }
        }
        let of = record(&w);
        assert_eq!(
            (of.phase, of.reason.as_str()),
            (Phase::Done, "all samples done")
        );
        assert!(w.leases.values().all(|(owner, _)| owner.is_none()));
        assert_eq!(trainings(&w), 1);
    }
}

#[test]
fn programs_that_go_on_after_the_last_sample_are_ended() {
    for has_new_control in [false, true] {
        let mut w = all_trained(Elastic::REGROUP);
        wait(&mut w, 20);
        if has_new_control {
            w.input(Input::Timer);
            w.crash_control();
            wait(&mut w, 20);
        }
        assert_eq!(record(&w).phase, Phase::Active);
        wait(&mut w, 12);
        let of = record(&w);
        assert_eq!(
            (of.phase, of.reason.as_str()),
            (Phase::Done, "all samples done")
        );
        assert_eq!((w.programs.len(), trainings(&w)), (0, 1));
    }
}

#[test]
fn programs_that_fail_after_the_last_sample_are_reported_and_train_nothing_again() {
    for elastic in [Elastic::REGROUP, Elastic::Restart] {
        let mut w = all_trained(elastic);
        exit(&mut w, 0, 3);
        let of = record(&w);
        assert_eq!((of.phase, trainings(&w)), (Phase::Done, 1), "{elastic:?}");
        let reason = of.reason.as_str();
        assert!(reason.contains("then its program failed"), "{reason}");
    }
}

#[test]
fn losses_after_the_last_sample_begin_nothing() {
    let mut w = all_trained(Elastic::REGROUP);
    for n in 0..3 {
        assert_eq!(record(&w).phase, Phase::Active, "{n}");
        w.close(n);
        w.input(Input::Drained);
        w.deliver(usize::MAX);
    }
    assert_eq!((record(&w).phase, starts(&w)), (Phase::Done, 1));
}

#[test]
fn an_exit_that_comes_before_the_last_report_is_the_end() {
    for (elastic, nodes) in [
        (Elastic::REGROUP, 1),
        (Elastic::REGROUP, 2),
        (Elastic::Restart, 2),
    ] {
        let mut w = working(elastic, (1, nodes), Work::Samples(300.0));
        assert!(record(&w).samples() < 300.0);
        w.pass(Span::from_secs(30));
        w.renew();
        w.report_all();
        // The report is on its way.
        let report = std::mem::take(&mut w.mail);
        exit(&mut w, 0, 0);
        assert_eq!(record(&w).phase, Phase::Active, "{elastic:?} {nodes}");
        w.mail.extend(report);
        w.deliver(usize::MAX);
        (1..nodes).for_each(|n| exit(&mut w, n, 0));
        let of = record(&w);
        assert_eq!(
            (of.phase, of.samples()),
            (Phase::Done, 300.0),
            "{elastic:?} {nodes}"
        );
        assert_eq!(starts(&w), 1);
    }
}
