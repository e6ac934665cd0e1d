//! How fast trainers learn on node counts that they never had, from what their programs report.

use lacuna_model::{
    Follows, GoodputAt, Learning, Sizing, Span, StepCosts, StepElsewhere, TrainerSpec, Work,
};

use crate::common::{World, config, program, spec, step_costs, trainer};

/// Two workers and the network between them: a dear one.
fn sizing(follows: Follows) -> Sizing {
    Sizing {
        follows,
        most: 512,
        most_of_worker: Some(64),
        fixed_s: 0.01,
        sample_s: 0.001,
        rest_s: vec![(1, 0.002), (2, 0.06)],
    }
}

fn said(noise_scale: f64, sizing: Sizing) -> Learning {
    Learning {
        noise_scale,
        error: 0.2,
        user_batch: 32,
        batch: 64,
        efficiency: 0.9,
        counts_progress: true,
        sizing: Some(Box::new(sizing)),
    }
}

fn world() -> World {
    let spec = TrainerSpec {
        launch: program(lacuna_model::Elastic::Restart, false, false),
        ..spec("a", 1, 8, Work::UntilExit)
    };
    let mut w = World::new(1, 8, config());
    w.submit("", vec![spec]);
    w.snapshot();
    (0..2).for_each(|n| w.open(n));
    w.apply(&[("a", &[0, 1])]);
    w
}

fn report(w: &mut World, after_s: i64, learning: Learning) {
    report_with(w, after_s, learning, None);
}

fn report_with(w: &mut World, after_s: i64, learning: Learning, costs: Option<StepCosts>) {
    w.pass(Span::from_secs(after_s));
    w.progress("a", 1.0, |report| {
        (report.world_size, report.learning) = (2, Some(learning));
        report.step_costs = costs.map(Box::new);
    });
}

fn sizes(w: &World) -> Vec<GoodputAt> {
    let found = w.records[&trainer("a")].goodput.clone();
    found.map_or_else(Vec::new, |found| found.sizes)
}

/// Samples of the user's batch a second by the formulas themselves.
fn goodput(phi: f64, batch: f64, workers: u32) -> f64 {
    let rest = [0.002, 0.06][workers as usize - 1];
    let step = 0.01 + 0.001 * (batch / f64::from(workers)).ceil() + rest;
    batch / step * (phi + 1.0) / (phi + batch / 32.0)
}

#[test]
fn the_batch_that_learns_most_is_found_at_each_size_and_plans_follow() {
    let mut w = world();
    let version = w.controller.version();
    report(&mut w, 10, said(640.0, sizing(Follows::Adaptive)));
    assert!(w.controller.version() > version);
    let found = sizes(&w);
    // Twice the seen nodes, and no further.
    assert_eq!(
        found.iter().map(|s| s.nodes).collect::<Vec<_>>(),
        [1, 2, 3, 4]
    );
    // The noise scale of 20 counts less by its error of a fifth.
    let phi = 20.0 / 1.2;
    for (size, workers) in found.iter().zip(1..=2) {
        let all = (32..=64 * workers).map(|batch| goodput(phi, f64::from(batch), workers));
        let best = all.fold(0.0, f64::max);
        let own = goodput(phi, size.batch as f64, workers);
        assert!((size.rate / own - 1.0).abs() < 1e-6, "{size:?} {own}");
        assert!(size.rate > best * (1.0 - 1e-6), "{size:?} {best}");
        assert!(size.batch > 32 && size.efficiency < 1.0, "{size:?}");
    }
    // A report is looked at a minute after the last one, and is news if a size has moved by 5 %.
    let before = w.controller.version();
    report(&mut w, 30, said(6400.0, sizing(Follows::Adaptive)));
    assert_eq!((sizes(&w), w.controller.version()), (found.clone(), before));
    report(&mut w, 31, said(650.0, sizing(Follows::Adaptive)));
    assert_eq!(sizes(&w), found);
    report(&mut w, 60, said(6400.0, sizing(Follows::Adaptive)));
    assert!(sizes(&w)[1].rate > found[1].rate * 1.1);
}

#[test]
fn sizes_that_the_trainer_never_had_are_not_believed() {
    let mut w = world();
    let mut boast = sizing(Follows::Adaptive);
    boast.rest_s.push((8, 0.001));
    report(&mut w, 10, said(640.0, boast));
    let found = sizes(&w);
    assert_eq!(found.last().map(|size| size.nodes), Some(4), "{found:?}");
}

#[test]
fn other_batches_are_worth_what_they_teach() {
    let of = |follows| {
        let mut w = world();
        report(&mut w, 10, said(640.0, sizing(follows)));
        sizes(&w)
    };
    let whole = of(Follows::Whole);
    assert!(
        whole
            .iter()
            .all(|size| size.batch == 32 && size.efficiency == 1.0)
    );
    assert!(
        whole[1].rate < whole[0].rate,
        "two nodes are slower: {whole:?}"
    );
    // 24 samples a node: one node has less than the user's batch of 32, and each teaches more.
    let each = of(Follows::PerNode { samples: 24 });
    assert_eq!(
        each.iter().map(|s| s.batch).collect::<Vec<_>>(),
        [24, 48, 72, 96]
    );
    for (size, workers) in each.iter().zip(1..=2) {
        let own = goodput(20.0 / 1.2, f64::from(24 * workers), workers);
        assert!((size.rate / own - 1.0).abs() < 1e-6, "{size:?} {own}");
    }
    assert!(each[0].efficiency > 1.0 && each[1].efficiency < 1.0);
}

#[test]
fn a_report_that_says_too_little_or_nonsense_makes_no_table() {
    let silent = Learning {
        sizing: None,
        ..said(640.0, sizing(Follows::Whole))
    };
    let no_rows = Sizing {
        rest_s: Vec::new(),
        ..sizing(Follows::Adaptive)
    };
    let endless = said(f64::INFINITY, sizing(Follows::Adaptive));
    let nothing = said(640.0, sizing(Follows::PerNode { samples: 0 }));
    let mut w = world();
    for learning in [silent, said(640.0, no_rows), endless, nothing] {
        report(&mut w, 100, learning);
        assert_eq!(sizes(&w), []);
    }
}

/// The step of two workers, and what a replay of it says of four: the sums take 60 ms and 90 ms.
fn costs(trusted: bool) -> StepCosts {
    let replayed = 0.01 + 0.024 + 0.06;
    let four = StepElsewhere {
        members: 4,
        link: 1.0,
        step: replayed + 0.03,
    };
    StepCosts {
        members: 2,
        measured: replayed,
        replayed,
        trusted,
        elsewhere: vec![four],
        ..step_costs(None)
    }
}

#[test]
fn a_replayed_step_tells_of_sizes_that_were_never_seen() {
    let of = |costs: Option<StepCosts>| {
        let mut w = world();
        let learning = Learning {
            batch: 48,
            ..said(640.0, sizing(Follows::PerNode { samples: 24 }))
        };
        report_with(&mut w, 10, learning, costs);
        sizes(&w)
    };
    let found = of(Some(costs(true)));
    assert_eq!(found.last().map(|size| size.nodes), Some(4), "no further");
    let step = 0.01 + 0.024 + 0.09;
    let phi = 20.0 / 1.2;
    let own = 96.0 / step * (phi + 1.0) / (phi + 96.0 / 32.0);
    assert!((found[3].rate / own - 1.0).abs() < 1e-6, "{found:?} {own}");
    // What was seen stays as it was, and without trust nothing is another one.
    let without = of(None);
    assert_eq!(found[..2], without[..2]);
    assert!(found[3].rate < without[3].rate * 0.99, "{without:?}");
    assert_eq!(of(Some(costs(false))), without);
    let mut endless = costs(true);
    endless.elsewhere[0].step = f64::NAN;
    assert_eq!(of(Some(endless)), without);
}

#[test]
fn why_steps_say_nothing_is_kept_until_they_say_something() {
    let mut w = world();
    let told = |w: &mut World, no_replay: Option<&str>, step_costs: Option<StepCosts>| {
        w.pass(Span::from_secs(5));
        w.progress("a", 1.0, |report| {
            report.no_replay = no_replay.map(str::to_owned);
            report.step_costs = step_costs.map(Box::new);
        });
        let record = w.record("a");
        (record.no_replay.clone(), record.step_costs.is_some())
    };
    let why = Some("too few steps".to_owned());
    assert_eq!(told(&mut w, why.as_deref(), None), (why.clone(), false));
    assert_eq!(told(&mut w, None, None), (why, false));
    assert_eq!(told(&mut w, None, Some(costs(true))), (None, true));
}
