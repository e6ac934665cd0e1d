//! A report that a replay fills.

#![expect(clippy::unwrap_used, reason = "helpers of tests may panic")]

use std::cell::Cell;
use std::path::{Path, PathBuf};

use lacuna_model::{
    HoleRecord, Launch, NodeId, RescaleCost, ScalingCurve, Timestamp, TrainerId, TrainerSpec, Work,
};
use lacuna_schedlog::{first_nodes, read_holes, read_nodes, read_trainers};
use lacuna_sim::report::{Report, Source, from_replay, render};
use lacuna_sim::{History, Hooks, Replayed, Settings, Trace, replay};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const SEED: u64 = 7;
const LENGTH_S: i64 = 36 * 3600;

fn trainer(number: u32) -> TrainerSpec {
    TrainerSpec {
        id: TrainerId::new(format!("t{number}")).unwrap(),
        owner: None,
        weight: None,
        deadline: None,
        priority: 0,
        submit: Timestamp::from_unix(0),
        min_nodes: 1,
        max_nodes: 4,
        throughput: ScalingCurve::linear(10.0, 4).unwrap(),
        objective: None,
        rescale: RescaleCost {
            up_s: 30.0,
            down_s: 20.0,
        },
        work: Work::Samples(600_000.0),
        launch: Launch::Simulated,
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
                node: NodeId::new(format!("n{node}")).unwrap(),
                from: Timestamp::from_unix(from),
                until: Timestamp::from_unix(at.min(LENGTH_S)),
                censored: at > LENGTH_S,
            });
        }
    }
    holes.retain(|hole| hole.from < hole.until);
    holes
}

fn run(trace: &Trace, trainers: &[TrainerSpec], settings: &Settings) -> Replayed {
    // A clock that goes a tenth of a millisecond further each time that it is read.
    let clock = Cell::new(0.0);
    let mut hooks = Hooks {
        stopwatch: &|| {
            clock.set(clock.get() + 1e-4);
            clock.get()
        },
        progress: &mut |_| {},
    };
    let history = Some(History::default());
    replay(trace, trainers, settings, history, &mut hooks).unwrap()
}

fn filled() -> (Report, Replayed) {
    println!("seed {SEED}");
    let trace = Trace::new(&holes(), None, Timestamp::from_unix(0), None);
    let trainers: Vec<TrainerSpec> = (0..40).map(trainer).collect();
    let settings = Settings {
        max_parallel: 3,
        seed: SEED,
        ..Settings::default()
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
    // The statement counts the nodes that left, and what that cost.
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
        "Would it have hurt anyone?",
        "Trainers",
        "Holes by length",
        "Are forecasts right?",
        "Time per decision",
        "Settings",
    ] {
        assert!(page.contains(&format!("<h2>{heading}</h2>")), "{heading}");
    }
    assert!(!page.contains("NaN") && !page.contains("inf"));
}

fn data() -> Option<PathBuf> {
    let data = std::env::var_os("LACUNA_DATA").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"),
        PathBuf::from,
    );
    let folder = data.join("summit-2021-02");
    if folder.exists() {
        return Some(folder);
    }
    println!("skipped: the recording is not at hand (set LACUNA_DATA)");
    None
}

#[test]
fn a_report_at_the_papers_scale_is_small() {
    let Some(folder) = data() else {
        return;
    };
    let holes = read_holes(&folder.join("holes.csv.gz")).unwrap();
    let order = read_nodes(&folder.join("nodes.txt")).unwrap();
    let nodes = first_nodes(1024, Some(&order), &holes.records);
    let trainers = read_trainers(&folder.join("hpo-1000.jsonl.gz")).unwrap();
    let start = Timestamp::from_unix(1_612_988_475);
    let trace = Trace::new(&holes.records, Some(&nodes), start, None);
    let replayed = run(&trace, &trainers, &Settings::default());
    let mut source = Source::new("Summit, first 1024 nodes", &trace, &trainers);
    source.pool.machine_nodes = Some(1024);
    let report = from_replay(&source, &replayed).unwrap();
    let page = render(&report);
    println!("{} bytes", page.len());
    assert!(page.len() < 2_000_000);
    if let Some(pages) = std::env::var_os("LACUNA_PAGES") {
        std::fs::write(Path::new(&pages).join("summit.html"), page).unwrap();
    }
}
