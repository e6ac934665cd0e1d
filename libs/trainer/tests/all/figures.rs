//! Efficiency where it is defined, and the measured cost of changes.

use lacuna_model::{
    Efficiency, Elastic, Held, Past, Progress, ScalingCurve, Span, Stall, StepCosts, TrainerRecord,
    TrainerSpec, Work,
};
use lacuna_trainer::account::{Change, Rates, stall_debt};
use lacuna_trainer::controller::Input;
use lacuna_trainer::measure::{self, Offered, Worked};

use crate::common::{World, node, program, spec, step_costs, trainer};
use crate::controller::{apply, world};
use crate::regroup;

/// A trainer with `rate` samples/s on each of up to eight nodes, that held `nodes` for 100 s.
fn worked(rate: f64, nodes: f64, samples: f64) -> TrainerRecord {
    let mut record = TrainerRecord::new(spec("a", 1, 8, Work::UntilExit), 1);
    record.spec.throughput = ScalingCurve::linear(rate, 8).unwrap();
    record.samples_before = samples;
    record.held = Held {
        seconds: 100.0,
        node_s: 100.0 * nodes,
    };
    record
}

/// Ten nodes for 100 s, nine of them under a lease.
const OFFERED: Offered = Offered {
    seconds: 100.0,
    idle_node_s: 1_000.0,
    harvested_node_s: 900.0,
    max_parallel: 10,
};

fn efficiency(records: &[TrainerRecord], offered: &Offered) -> Efficiency {
    let trainers = records.iter().map(|record| Worked::of(record, None));
    measure::efficiency_of(trainers, &Past::default(), offered)
}

/// A wrong efficiency: all samples over those of trainers like the first one.
fn by_the_first(records: &[TrainerRecord], offered: &Offered) -> f64 {
    let spec = &records.first().unwrap().spec;
    let nodes = offered.idle_node_s / offered.seconds;
    let rate = measure::split_rate(&spec.throughput.table(8), 1, 10, nodes);
    let samples: f64 = records.iter().map(TrainerRecord::samples).sum();
    samples / (rate * offered.seconds)
}

fn known(efficiency: Efficiency) -> f64 {
    efficiency.known().unwrap_or(f64::NAN)
}

#[test]
fn trainers_that_are_alike_are_measured_by_the_best_split() {
    let records = [worked(10.0, 4.0, 3_900.0), worked(10.0, 5.0, 4_100.0)];
    assert_eq!(efficiency(&records, &OFFERED), Efficiency::Known(0.8));
    // One may run at a time, on eight nodes at most: that is all that dedicated nodes bring.
    let one = Offered {
        max_parallel: 1,
        ..OFFERED
    };
    assert_eq!(efficiency(&records, &one), Efficiency::Known(1.0));
}

#[test]
fn an_assumed_curve_gives_no_efficiency() {
    let mut record = worked(1.0, 1.0, 52_420.0);
    let offered = Offered {
        idle_node_s: 100.0,
        harvested_node_s: 100.0,
        ..OFFERED
    };
    let records = |record: &TrainerRecord| [record.clone()];
    let absurd = by_the_first(&records(&record), &offered);
    assert_eq!(absurd, 524.2, "52,420 %");
    record.spec.launch = program(Elastic::Restart, true, true);
    let found = efficiency(&records(&record), &offered);
    assert_eq!(found, Efficiency::CurveAssumed);
    // The same figures of a curve that its owner has submitted: it is refuted.
    record.spec.launch = program(Elastic::Restart, true, false);
    let found = efficiency(&records(&record), &offered);
    assert_eq!(found, Efficiency::CurveExceeded);
    // With the measured curve, the figure is right.
    record.spec.throughput = ScalingCurve::linear(550.0, 8).unwrap();
    let found = efficiency(&records(&record), &offered);
    assert!((known(found) - 524.2 / 550.0).abs() < 1e-12, "{found:?}");
}

#[test]
fn samples_of_different_trainers_are_not_added() {
    // A language model, and 500 times as many pictures in the same node-time.
    let records = [worked(1.0, 4.0, 360.0), worked(500.0, 5.0, 225_000.0)];
    let absurd = by_the_first(&records, &OFFERED);
    assert!(absurd > 200.0, "{absurd}");
    // Both reach nine tenths of their rate, on nine tenths of the nodes.
    let found = efficiency(&records, &OFFERED);
    assert!((known(found) - 0.81).abs() < 1e-12, "{found:?}");
    // With curves that bend, each is measured by its own size.
    let mut bent = worked(1.0, 4.0, 100.0);
    bent.spec.throughput = ScalingCurve::new([(1, 1.0), (4, 2.0), (8, 2.5)]).unwrap();
    let found = efficiency(&[bent, worked(500.0, 5.0, 250_000.0)], &OFFERED);
    assert!(
        (known(found) - (0.4 * 0.5 + 0.5)).abs() < 1e-12,
        "{found:?}"
    );
}

#[test]
fn work_without_its_node_time_gives_no_efficiency() {
    let record = worked(10.0, 9.0, 8_000.0);
    // Control was down, or has lost its sums: trainers went on without a count of node-time.
    let away = Offered {
        idle_node_s: 100.0,
        harvested_node_s: 90.0,
        ..OFFERED
    };
    let records = [record.clone()];
    assert!(by_the_first(&records, &away) > 7.0);
    assert_eq!(efficiency(&records, &away), Efficiency::Uncounted);
    let mut older = record.clone();
    older.held = Held::default();
    assert_eq!(efficiency(&[older], &OFFERED), Efficiency::Uncounted);
    let short = Offered {
        idle_node_s: 59.0,
        ..OFFERED
    };
    assert_eq!(efficiency(&records, &short), Efficiency::TooLittleIdle);
    assert_eq!(efficiency(&[], &OFFERED), Efficiency::NoTrainer);
    let waits = TrainerRecord::new(record.spec, 1);
    assert_eq!(efficiency(&[waits], &OFFERED), Efficiency::NoTrainer);
}

#[test]
fn control_counts_what_trainers_hold() {
    let mut w = world(vec![spec("a", 1, 8, Work::UntilExit)]);
    (0..4).for_each(|n| w.open(n));
    apply(&mut w, &[("a", &[0, 1])]);
    w.pass(Span::from_secs(100));
    apply(&mut w, &[("a", &[0, 1, 2, 3])]);
    w.renew();
    w.pass(Span::from_secs(50));
    w.report_all();
    w.deliver(usize::MAX);
    let record = w.record("a");
    assert_eq!((record.held.seconds, record.held.node_s), (100.0, 200.0));
    // 18 s of the growth are charged, at the 20 samples/s of before.
    let stall = Stall {
        seconds: 18.0,
        redone: 0.0,
    };
    assert_eq!((record.rescale_cost, record.stalls.rescale), (360.0, stall));
    let tally = w.controller.tally();
    assert_eq!((tally.samples, tally.harvested_node_s), (3_640.0, 400.0));
    // Four idle nodes for 150 s, 10 samples/s each.
    let found = known(tally.efficiency);
    assert!((found - 3_640.0 / 6_000.0).abs() < 1e-12, "{tally:?}");
}

/// A program that does 16 samples a step and a second on each node, and saves every ten steps.
fn stepping() -> World {
    let step = TrainerSpec {
        throughput: ScalingCurve::linear(89.0, 8).unwrap(),
        launch: program(Elastic::Restart, true, false),
        ..spec("a", 1, 8, Work::UntilExit)
    };
    let mut w = world(vec![step]);
    (0..4).for_each(|n| w.open(n));
    apply(&mut w, &[("a", &[0, 1, 2, 3])]);
    w
}

/// The program of the present run reports its samples `after` seconds.
fn report(w: &mut World, after: i64, samples: f64, saved: f64) {
    w.pass(Span::from_secs(after));
    w.renew();
    w.progress("a", samples, |report| report.saved = Some(saved));
}

#[test]
fn a_trainer_keeps_where_the_time_of_its_steps_went() {
    let mut w = stepping();
    let costs = step_costs(None);
    let report = |w: &mut World, step_costs: Option<StepCosts>| {
        w.pass(Span::from_secs(10));
        w.renew();
        w.progress("a", 640.0, |report| {
            (report.world_size, report.step_costs) = (4, step_costs.map(Box::new));
        });
    };
    report(&mut w, Some(costs.clone()));
    // Most reports carry none.
    report(&mut w, None);
    let record = w.record("a");
    assert_eq!(record.step_costs.as_deref(), Some(&costs));
}

#[test]
fn a_program_loses_the_steps_that_it_does_again_and_the_seconds_it_stalls() {
    let mut w = stepping();
    report(&mut w, 10, 640.0, 640.0);
    report(&mut w, 1, 672.0, 640.0);
    w.close(3);
    let record = w.record("a");
    // 12 s at the 356 samples/s of its curve would be 4,272 samples lost.
    let known = lacuna_rates::Rates::of(record);
    let rates = Rates {
        before: known.near(4),
        after: known.near(3),
    };
    let lost = Change::Lost { at: w.now.cluster };
    let assumed = stall_debt(&known.rescale(), known.start_s(), lost, rates);
    assert_eq!(assumed, 4_272.0);
    let stall = Stall {
        seconds: 0.0,
        redone: 32.0,
    };
    assert_eq!((record.preempt_cost, record.stalls.preempt), (0.0, stall));
    assert_eq!(record.samples(), 640.0);
    // Six seconds without training, then 48 samples/s.
    report(&mut w, 7, 48.0, 0.0);
    report(&mut w, 2, 144.0, 0.0);
    let record = w.record("a");
    let stall = Stall {
        seconds: 6.0,
        redone: 32.0,
    };
    assert_eq!((record.preempt_cost, record.stalls.preempt), (288.0, stall));
    assert_eq!(measure::samples_lost(record.preempt_cost, &stall), 320.0);
    let tally = w.controller.tally();
    assert_eq!((tally.preempt_cost, tally.stalls.preempt), (288.0, stall));
}

#[test]
fn the_last_report_counts_samples_redone() {
    let mut w = stepping();
    report(&mut w, 10, 672.0, 640.0);
    let first = w.record("a").run;
    w.close(3);
    let redone = |w: &World| w.record("a").stalls.preempt.redone;
    assert_eq!(redone(&w), 32.0);
    let last = |samples, saved| Progress {
        world_size: 4,
        saved: Some(saved),
        ..Progress::new(node(0), trainer("a"), first, w.now.cluster, samples)
    };
    let (one, two) = (last(688.0, 640.0), last(704.0, 704.0));
    // It did one step more, and then another and saved.
    w.input(Input::Progress(one));
    assert_eq!(redone(&w), 48.0);
    w.input(Input::Progress(two));
    assert_eq!((redone(&w), w.samples("a")), (0.0, 704.0));
}

#[test]
fn a_group_that_keeps_its_state_redoes_no_samples() {
    let mut w = regroup::running();
    let first = regroup::run_of(&w);
    regroup::report_progress(&mut w, first, 0.0, 100.0);
    w.close(0);
    w.deliver(usize::MAX);
    let second = regroup::run_of(&w);
    let known = w.samples("a");
    regroup::report_progress(&mut w, second, known, 20.0);
    let redone = |w: &World| {
        let stalls = w.record("a").stalls;
        [stalls.rescale, stalls.preempt, stalls.restart].map(|stall| stall.redone)
    };
    assert_eq!(redone(&w), [0.0; 3]);
    // All die, and the next begins at a checkpoint that is 40 samples old.
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
    let third = regroup::run_of(&w);
    let known = w.samples("a");
    regroup::report_progress(&mut w, third, known - 40.0, 5.0);
    // Its program failed: that is a restart.
    assert_eq!(redone(&w), [0.0, 0.0, 40.0]);
    assert_eq!(w.samples("a"), known - 35.0);
}
