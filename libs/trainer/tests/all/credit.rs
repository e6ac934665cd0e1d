//! Credited samples when processes die.

use lacuna_model::{Phase, Progress, RunId, Span, Timestamp, Work};
use lacuna_trainer::controller::Input;

use crate::common::{node, program, said, spec, trainer};
use crate::controller::{apply, world};

#[test]
fn control_killed_then_the_agent_killed_loses_only_what_was_not_reported() {
    let mut w = world(vec![spec("a", 1, 4, Work::UntilExit)]);
    (0..3).for_each(|n| w.open(n));
    apply(&mut w, &[("a", &[0])]);
    w.pass(Span::from_secs(50));
    // It grows to 20 samples/s and owes 18 s at 10 samples/s: 180 samples, nine seconds.
    apply(&mut w, &[("a", &[0, 1])]);
    assert_eq!(w.samples("a"), 500.0);
    w.pass(Span::from_secs(29));
    w.report_all();
    w.deliver(usize::MAX);
    assert_eq!(w.samples("a"), 900.0);
    w.input(Input::Timer);
    w.crash_control();
    // The same command for the same run: the paid part of the debt is not owed again.
    let again = w.commands[&node(0)].clone();
    let lacuna_model::Action::Run(assignment) = again.action else {
        panic!("{again:?}");
    };
    assert_eq!(assignment.since, Timestamp::from_unix(1050));
    assert_eq!((assignment.owed, assignment.samples_before), (180.0, 500.0));
    w.deliver(usize::MAX);
    w.pass(Span::from_secs(5));
    w.crash_agent(&node(0));
    w.deliver(usize::MAX);
    w.input(Input::Timer);
    w.deliver(usize::MAX);
    // The five seconds were never reported; all else counts, once.
    let record = w.record("a");
    assert_eq!((record.samples(), record.run), (900.0, RunId(3)));
    // Only the restart is owed: 12 s at 20 samples/s, worked off in as many seconds.
    assert_eq!(record.owed, 240.0);
    w.pass(Span::from_secs(22));
    w.renew();
    w.report_all();
    w.deliver(usize::MAX);
    assert_eq!(w.samples("a"), 1_100.0);
}

/// A program that writes checkpoints.
fn saving(name: &str) -> lacuna_model::TrainerSpec {
    let mut spec = spec(name, 1, 4, Work::Samples(1_000.0));
    spec.launch = program(lacuna_model::Elastic::Restart, true, false);
    spec
}

#[test]
fn only_samples_in_checkpoints_are_credited_if_there_are_checkpoints() {
    for (with_checkpoints, credited) in [(true, 60.0), (false, 100.0)] {
        let mut spec = saving("a");
        if let lacuna_model::Launch::Command(lacuna_model::Program { checkpoint_dir, .. }) =
            &mut spec.launch
            && !with_checkpoints
        {
            *checkpoint_dir = None;
        }
        let mut w = world(vec![spec]);
        (0..3).for_each(|n| w.open(n));
        apply(&mut w, &[("a", &[0, 1])]);
        w.mail.clear();
        let report = |run, samples, saved| {
            Input::Progress(Progress {
                world_size: 2,
                saved,
                ..said(0, run, 1001, samples)
            })
        };
        w.input(report(1, 60.0, Some(60.0)));
        w.input(report(1, 100.0, Some(60.0)));
        assert_eq!(w.samples("a"), 100.0);
        w.close(1);
        assert_eq!(w.samples("a"), credited);
        // Its last report: it saved once more during its stop.
        w.input(report(1, 110.0, Some(110.0)));
        assert_eq!(w.samples("a"), 110.0);
        w.input(report(1, 110.0, Some(60.0)));
        assert_eq!(w.samples("a"), 110.0);
        // The same after a restart of control, which knows the checkpoint.
        w.input(report(2, 50.0, Some(20.0)));
        w.input(Input::Timer);
        w.crash_control();
        w.close(0);
        let expected = if with_checkpoints { 130.0 } else { 160.0 };
        assert_eq!(w.samples("a"), expected);
    }
    // A trainer whose work is done needs no checkpoint.
    let mut w = world(vec![saving("a")]);
    w.open(0);
    apply(&mut w, &[("a", &[0])]);
    w.mail.clear();
    w.input(Input::Progress(said(0, 1, 1001, 1_000.0)));
    w.close(0);
    w.input(Input::Drained);
    let record = w.record("a");
    assert_eq!((record.phase, record.samples()), (Phase::Done, 1_000.0));
}

#[test]
fn a_report_of_an_ended_incarnation_counts_once_after_a_restart_of_control() {
    let mut w = world(vec![spec("a", 1, 4, Work::UntilExit)]);
    (0..2).for_each(|n| w.open(n));
    apply(&mut w, &[("a", &[0])]);
    w.pass(Span::from_secs(10));
    apply(&mut w, &[("a", &[0, 1])]);
    assert_eq!(w.samples("a"), 100.0);
    let report = |at, samples| Input::Progress(said(0, 1, at, samples));
    w.crash_control();
    w.input(report(1009, 110.0));
    w.input(report(1010, 120.0));
    w.crash_control();
    w.input(report(1010, 120.0));
    // After its end its work is done again by the next one.
    w.input(report(1011, 150.0));
    assert_eq!(w.samples("a"), 120.0);
    assert_eq!(w.records[&trainer("a")].samples(), 120.0);
    // As many are kept as may still report.
    for n in 0..20 {
        apply(&mut w, &[("a", &[0, 1][..1 + n % 2])]);
    }
    let record = &w.records[&trainer("a")];
    let kept: Vec<u64> = record.ended_runs.iter().map(|ended| ended.run.0).collect();
    let newest = record.run.0;
    assert_eq!(kept, (newest - 16..newest).collect::<Vec<_>>());
}
