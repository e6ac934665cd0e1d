//! Trainers without a curve are measured while they train.

use lacuna_model::{Elastic, Launch, Program, Span, TrainerSpec, Work};
use lacuna_rates::Rates;

use crate::common::{World, config, program, spec, trainer};

fn unknown() -> TrainerSpec {
    TrainerSpec {
        throughput: lacuna_model::ScalingCurve::linear(1.0, 4).unwrap(),
        launch: program(Elastic::Restart, false, true),
        ..spec("a", 1, 4, Work::UntilExit)
    }
}

fn world(spec: TrainerSpec, nodes: &[usize]) -> World {
    let mut w = World::new(1, 4, config());
    w.submit("", vec![spec]);
    w.snapshot();
    (0..4).for_each(|n| w.open(n));
    apply(&mut w, nodes);
    w
}

fn apply(w: &mut World, nodes: &[usize]) {
    w.apply(&[("a", nodes)]);
}

/// The program of the present run reports its samples ten seconds later.
fn report(w: &mut World, samples: f64) {
    w.pass(Span::from_secs(10));
    w.progress("a", samples, |report| report.world_size = 16);
}

fn rates(w: &World) -> Vec<f64> {
    let record = w.record("a");
    Rates::of(record).curve().table(4)
}

#[test]
fn the_rate_at_each_size_is_measured_and_published() {
    let mut w = world(unknown(), &[0]);
    // Half a minute until the first samples: the start is no rate.
    report(&mut w, 0.0);
    report(&mut w, 0.0);
    report(&mut w, 50.0);
    report(&mut w, 1050.0);
    assert_eq!(rates(&w)[1], 1.0, "one pair is too few");
    let version = w.controller.version();
    report(&mut w, 2050.0);
    assert_eq!(rates(&w), [0.0, 100.0, 200.0, 300.0, 400.0]);
    assert!(
        w.controller.version() > version,
        "no new view for the planner"
    );
    let kept = Rates::of(&w.records[&trainer("a")]).curve().table(4);
    assert_eq!(kept, rates(&w), "not kept");

    apply(&mut w, &[0, 1]);
    for samples in [0.0, 1500.0, 3000.0, 4500.0] {
        report(&mut w, samples);
    }
    let rates = rates(&w);
    assert_eq!(rates[2], 150.0);
    assert_eq!(rates[4], rates[2] + 2.0 * (rates[2] - rates[1]));
}

#[test]
fn measurements_outlive_control_and_late_reports_measure_nothing() {
    let mut w = world(unknown(), &[0]);
    for samples in [0.0, 1000.0, 2000.0, 3000.0] {
        report(&mut w, samples);
    }
    assert_eq!(rates(&w), [0.0, 100.0, 200.0, 300.0, 400.0]);
    w.crash_control();
    apply(&mut w, &[0, 1, 2, 3]);
    report(&mut w, 0.0);
    report(&mut w, 3000.0);
    // It comes again, and an older one after it.
    report(&mut w, 3000.0);
    report(&mut w, 100.0);
    report(&mut w, 9000.0);
    report(&mut w, 12_000.0);
    let rates = rates(&w);
    assert_eq!((rates[1], rates[4]), (100.0, 225.0));
}

#[test]
fn a_changed_rate_is_measured_again() {
    let mut w = world(unknown(), &[0]);
    let mut samples = 0.0;
    for _ in 0..12 {
        report(&mut w, samples);
        samples += 1000.0;
    }
    assert_eq!(rates(&w)[1], 100.0);
    // Another job on the switch: half as fast from now on. Four reports show it.
    for n in 0..6 {
        report(&mut w, samples);
        samples += 500.0;
        if n == 2 {
            assert!(rates(&w)[1] > 75.0, "too soon: {:?}", rates(&w));
        }
    }
    assert_eq!(rates(&w)[1], 50.0);
    // One slow report among others is no change.
    report(&mut w, samples);
    report(&mut w, samples + 480.0);
    assert_eq!(rates(&w)[1], 50.0);
}

#[test]
fn the_cost_of_a_change_of_size_is_measured() {
    let mut w = world(unknown(), &[0]);
    let costs = |record: &lacuna_model::TrainerRecord| {
        let known = record.in_force().unwrap();
        (known.up_s, known.down_s)
    };
    let rescale = |w: &World| costs(w.record("a"));
    for samples in [0.0, 1000.0, 2000.0, 3000.0] {
        report(&mut w, samples);
    }
    // The start from nothing is no rescale. Growing stops training for four seconds: after ten
    // there are six seconds' worth of samples; shrinking for one.
    for (nodes, first) in [(vec![0, 1], 900.0), (vec![0], 900.0), (vec![0, 1], 900.0)] {
        let rate = if nodes.len() == 2 { 150.0 } else { 100.0 };
        apply(&mut w, &nodes);
        report(&mut w, first);
        report(&mut w, first + 10.0 * rate);
        report(&mut w, first + 20.0 * rate);
    }
    assert_eq!(rescale(&w), (Some(4.0), None), "once is too little");
    apply(&mut w, &[0]);
    report(&mut w, 900.0);
    report(&mut w, 1900.0);
    assert_eq!(rescale(&w), (Some(4.0), Some(1.0)));
    assert_eq!(costs(&w.records[&trainer("a")]), rescale(&w), "not kept");
}

#[test]
fn a_submitted_curve_stays() {
    let mut known = unknown();
    if let Launch::Command(Program { profile, .. }) = &mut known.launch {
        *profile = false;
    }
    let mut w = world(known, &[0]);
    for samples in [0.0, 1000.0, 2000.0, 3000.0] {
        report(&mut w, samples);
    }
    assert_eq!(rates(&w), [0.0, 1.0, 2.0, 3.0, 4.0]);
}
