//! A report that a replay fills.

use std::cell::Cell;

use lacuna_model::{HoleRecord, RescaleCost, Staged, Steps, StepsAt, Timestamp, TrainerSpec};
use lacuna_report::{Report, Source, from_replay, render};
use lacuna_sim::{GanttWindow, History, HoleTrace, Hooks, Replayed, Settings, replay};
use lacuna_skip::or_skip;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::common::{self, Summit, hole, keep};

const SEED: u64 = 7;
const LENGTH_S: i64 = 36 * 3600;
/// The window that is shown node by node.
const FROM_S: i64 = 10 * 3600;
const UNTIL_S: i64 = 16 * 3600;

fn trainer(number: u32) -> TrainerSpec {
    TrainerSpec {
        rescale: RescaleCost::of(30.0, 20.0),
        ..common::trainer(number, 4, 600_000.0)
    }
}

/// A day and a half of eight nodes whose holes come and go.
fn holes() -> Vec<HoleRecord> {
    let mut rng = ChaCha8Rng::seed_from_u64(SEED);
    let mut holes = Vec::new();
    for node in 0..8 {
        let mut at = 0;
        while at < LENGTH_S {
            let from = at + rng.random_range(60..7200);
            at = from + rng.random_range(60..9000);
            holes.push(HoleRecord {
                censored: at > LENGTH_S,
                ..hole(node, from, at.min(LENGTH_S))
            });
        }
    }
    holes.retain(|hole| hole.from < hole.until);
    holes
}

fn run(trace: &HoleTrace, trainers: &[TrainerSpec], settings: &Settings) -> Replayed {
    // A clock that advances by a tenth of a millisecond at each reading.
    let clock = Cell::new(0.0);
    let stopwatch = || {
        clock.set(clock.get() + 1e-4);
        clock.get()
    };
    let mut progress = |_| {};
    let mut hooks = Hooks::new(&stopwatch, &mut progress);
    let history = Some(History::default());
    replay(trace, trainers, settings, history, &mut hooks).unwrap()
}

fn filled() -> (Report, Replayed) {
    println!("seed {SEED}");
    let trace = HoleTrace::new(&holes(), None, Timestamp::from_unix(0), None);
    let trainers: Vec<TrainerSpec> = (0..40).map(trainer).collect();
    let at = |batch, efficiency, link| StepsAt {
        batch,
        efficiency,
        waits: [0.0, 0.0, link, 0.0],
    };
    let staged = Staged {
        steps: Some(Steps::new([(1, at(32.0, 1.0, 0.0)), (2, at(64.0, 0.8, 0.2))]).unwrap()),
        goodput: None,
        later: Vec::new(),
    };
    let of = |trainer: &TrainerSpec| (trainer.id.clone(), staged.clone());
    let settings = Settings {
        stages: trainers.iter().map(of).collect(),
        max_parallel: 3,
        seed: SEED,
        gantt: Some(GanttWindow {
            from_s: FROM_S as f64,
            until_s: UNTIL_S as f64,
            nodes: 20,
        }),
        ..Settings::published()
    };
    let replayed = run(&trace, &trainers, &settings);
    let source = Source::new("eight nodes", &trace, &trainers);
    (from_replay(&source, &replayed).unwrap(), replayed)
}

#[test]
fn a_replay_fills_its_report() {
    let (report, replayed) = filled();
    let summary = &replayed.summary;
    assert!(
        summary.preemptions > 0 && summary.trainers_done > 2,
        "{summary:?}"
    );
    let pool = report.pool_stats.as_ref().unwrap();
    assert_eq!(pool.nodes, 8);
    assert!((pool.equivalent_nodes - summary.equivalent_nodes).abs() < 0.5);
    let holes: u64 = report.holes.iter().map(|bin| bin.count).sum();
    assert_eq!(holes, pool.holes.count);
    let row = &report.trainers[0];
    assert!(row.sizes.iter().any(|&(_, nodes)| nodes > 0));
    // The statement counts the nodes that left, and their cost.
    let left = (pool.leaves_per_hour * pool.hours * pool.nodes_per_leave).round();
    assert!(
        report.harm[0].contains(&format!("{left} nodes in all")),
        "{:?}",
        report.harm
    );
    assert!(report.harm[0].contains("as recorded"));
    let calibration = report.calibration.as_ref().unwrap();
    assert!(calibration.holes > 100, "{calibration:?}");
    let page = render(&report);
    for heading in [
        "Pool and use",
        "Efficiency so far",
        "Learning: goodput",
        "Learning: worth of a sample",
        "Learning: batch",
        "Learning: waits: link",
        "Efficiency by day",
        "Losses",
        "Node by node",
        "Would it have harmed batch jobs?",
        "Possible harm",
        "Trainers",
        "Holes by length",
        "Are forecasts right?",
        "Time per decision",
        "Settings",
    ] {
        assert!(page.contains(&format!("<h2>{heading}</h2>")), "{heading}");
    }
    assert!(!page.contains("NaN") && !page.contains("inf"));
    assert!(!page.contains("waits: fetch"), "it costs nothing");
    let of = |name: &str| report.learning.iter().find(|line| line.name == name);
    let worth = &of("worth of a sample").unwrap().steps;
    let known = worth.iter().filter(|step| step.1 > 0.0);
    assert!(known.clone().count() > 10);
    let sound = 0.8 - 1e-9..=1.0;
    known.for_each(|step| assert!(sound.contains(&step.1), "{step:?}"));
    // What was learnt in all is the integral of goodput.
    let goodput = &of("goodput").unwrap().steps;
    let ends = goodput
        .iter()
        .skip(1)
        .map(|step| step.0)
        .chain([summary.hours * 3600.0]);
    let learnt: f64 = goodput
        .iter()
        .zip(ends)
        .map(|(step, end)| step.1 * (end - step.0))
        .sum();
    near(learnt, summary.samples);
}

/// Equal up to rounding.
fn near(mine: f64, other: f64) {
    assert!(
        (mine - other).abs() <= 1e-6 * other.abs().max(1.0),
        "{mine} is not {other}"
    );
}

#[test]
fn days_and_losses_of_a_report_add_up() {
    let (report, replayed) = filled();
    let summary = &replayed.summary;
    let offered: f64 = report.days.iter().map(|day| day.offered_node_hours).sum();
    near(offered, summary.equivalent_nodes * summary.hours);
    let samples: f64 = report.days.iter().map(|day| day.samples).sum();
    near(samples, summary.samples);
    assert_eq!(report.days.len(), 2);
    assert_eq!(report.days[1].label, "1970-01-02");
    let preempt: f64 = report.days.iter().map(|day| day.preempt).sum();
    near(preempt, summary.preempt_cost_fraction * summary.samples);
    let split = report.loss.unwrap();
    let lost: f64 = split.parts.iter().map(|part| part.samples).sum();
    near(split.dedicated - lost, split.done);
    near(split.done / split.dedicated, summary.efficiency);
    let decisions: u64 = report.solves.iter().map(|bin| bin.count).sum();
    assert_eq!(decisions, summary.events);
}

#[test]
fn a_window_shows_each_hole_of_each_node() {
    let (report, _) = filled();
    let gantt = report.gantt.unwrap();
    assert_eq!(
        (gantt.from_s, gantt.until_s),
        (FROM_S as f64, UNTIL_S as f64)
    );
    let mut with_trainer = 0.0;
    for row in &gantt.rows {
        let of_node = holes()
            .into_iter()
            .filter(|hole| hole.node.to_string() == row.node);
        let idle: i64 = of_node
            .map(|hole| {
                let (from, until) = (hole.from.unix_ms() / 1000, hole.until.unix_ms() / 1000);
                (until.min(UNTIL_S) - from.max(FROM_S)).max(0)
            })
            .sum();
        let shown: f64 = row.segments.iter().map(|s| s.until_s - s.from_s).sum();
        near(shown, idle as f64);
        let mut before = gantt.from_s;
        for segment in &row.segments {
            assert!(segment.from_s >= before - 1e-9, "{row:?}");
            before = segment.until_s;
            if let Some(trainer) = segment.trainer {
                let life = &report.trainers[trainer as usize];
                assert!(life.admitted_s <= segment.from_s + 1e-9, "{life:?}");
                assert!(life.ended_s.is_none_or(|end| segment.until_s <= end + 1e-9));
                with_trainer += segment.until_s - segment.from_s;
            }
        }
    }
    assert_eq!(gantt.rows.len(), 8);
    // Three trainers of at most four nodes hold most of the pool.
    assert!(with_trainer > 8.0 * 3600.0, "{with_trainer}");
}

#[test]
fn a_report_at_the_papers_scale_is_small() {
    let summit = or_skip!(Summit::open());
    let trainers = summit.trainers("hpo-1000");
    let trace = summit.trace(1024);
    let settings = Settings {
        gantt: Some(GanttWindow {
            from_s: 2.0 * 86_400.0,
            until_s: 2.0 * 86_400.0 + 6.0 * 3600.0,
            nodes: 40,
        }),
        ..Settings::published()
    };
    let replayed = run(&trace, &trainers, &settings);
    let mut source = Source::new("Summit, first 1024 nodes", &trace, &trainers);
    source.pool.machine_nodes = Some(1024);
    let report = from_replay(&source, &replayed).unwrap();
    let page = render(&report);
    println!("{} bytes", page.len());
    assert!(page.len() < 2_000_000);
    keep("summit.html", &page);
}
