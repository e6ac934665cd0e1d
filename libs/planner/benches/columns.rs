//! Time and gap of placement by columns, by size: medians and 99th percentiles of a hundred seeded
//! instances of each size, solved by HiGHS. Placement by blocks is measured beside it; columns
//! start from its answer, as they do in service.
//!
//! Times are processor times where the system reports them (Linux), so that other programs on the
//! machine do not count; else they are wall-clock times.
//!
//! `cargo bench --bench columns [-- INSTANCES [NAME [LIMIT_S [CLASSES]]]]`

use std::time::{Duration, Instant};

use lacuna_planner::instance::Size;
use lacuna_planner::placement::Settings;
use lacuna_planner::placement::blocks::BlockPlacer;
use lacuna_planner::placement::columns::{Options, Shape, Situation, Source, decide, instance};

const SIZES: [(u32, u32, u32); 8] = [
    (5, 200, 8),
    (10, 1_024, 16),
    (10, 4_734, 16),
    (35, 1_024, 16),
    (35, 4_734, 16),
    (35, 4_734, 64),
    (100, 10_000, 16),
    (100, 10_000, 64),
];

fn shapes() -> impl Iterator<Item = Shape> {
    SIZES.into_iter().flat_map(|(trainers, nodes, classes)| {
        [Situation::Event, Situation::Storm, Situation::Start].map(|situation| Shape {
            size: Size::of(trainers, nodes),
            classes,
            scenarios: 32,
            situation,
        })
    })
}

/// Seconds that this thread has interval, if the system tells.
fn processor_s() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let nanoseconds: f64 = text.split_whitespace().next()?.parse().ok()?;
    Some(nanoseconds * 1e-9)
}

/// The percentile of sorted values, by nearest rank.
fn quantile(sorted: &[f64], percent: usize) -> f64 {
    let at = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
    sorted.get(at).copied().unwrap_or(f64::NAN)
}

#[expect(
    clippy::disallowed_methods,
    reason = "a benchmark measures time, and is no part of a service"
)]
fn main() {
    // Cargo gives a benchmark the argument --bench.
    let mut given = std::env::args().skip(1).filter(|arg| !arg.starts_with('-'));
    let count: u64 = given.next().and_then(|n| n.parse().ok()).unwrap_or(100);
    let only = given.next();
    let limit: f64 = given.next().and_then(|n| n.parse().ok()).unwrap_or(0.25);
    let classes: Option<usize> = given.next().and_then(|n| n.parse().ok());
    println!(
        "{:<20} {:>9} {:>8} {:>8} {:>8} {:>8} {:>6} {:>7} {:>6} {:>5} | {:>6} {:>6} {:>6} {:>6} | {:>7} {:>8} {:>8}",
        "trainers x nodes",
        "median ms",
        "p90",
        "p99",
        "gap med",
        "gap p99",
        "rounds",
        "columns",
        "<=1e-3",
        "highs",
        "price",
        "lp",
        "round",
        "milp",
        "dp ms",
        "dp gap",
        "dp p99",
    );
    let start = Instant::now();
    let stopwatch = || processor_s().unwrap_or_else(|| start.elapsed().as_secs_f64());
    for shape in shapes() {
        if only
            .as_ref()
            .is_some_and(|only| !shape.to_string().contains(only))
        {
            continue;
        }
        let (mut times, mut gaps) = (Vec::new(), Vec::new());
        let (mut dp_times, mut dp_gaps) = (Vec::new(), Vec::new());
        let (mut rounds, mut columns) = (0, 0);
        let (mut within, mut highs) = (0, 0);
        let mut parts = [0.0; 4];
        for seed in 0..count {
            let Some(instance) = instance(shape, seed) else {
                continue;
            };
            let request = instance.request();
            let settings = Settings::default();
            let mut options = Options {
                time_limit: Duration::from_secs_f64(limit),
                ..Options::new(&stopwatch)
            };
            if let Some(classes) = classes {
                options.classes = classes;
            }
            let before = stopwatch();
            let warm = BlockPlacer::new(settings).decide(&request);
            let between = stopwatch();
            let plans = [warm.owners.as_slice()];
            let (best, answer) = decide(&request, &settings, warm.shadow_price, &plans, &options);
            times.push((stopwatch() - between) * 1e3);
            gaps.push(answer.gap());
            dp_times.push((between - before) * 1e3);
            dp_gaps.push((answer.bound - warm.value).max(0.0) / best.value);
            rounds += answer.rounds;
            columns += answer.columns;
            within += usize::from(answer.gap() <= 1e-3);
            highs += usize::from(answer.source == Source::Highs);
            let seconds = answer.seconds;
            let of = [
                seconds.pricing,
                seconds.relaxation,
                seconds.rounding,
                seconds.program,
            ];
            for (sum, part) in parts.iter_mut().zip(of) {
                *sum += part * 1e3;
            }
        }
        let solved = times.len().max(1);
        for list in [&mut times, &mut gaps, &mut dp_times, &mut dp_gaps] {
            list.sort_by(f64::total_cmp);
        }
        let [price, lp, round, milp] = parts.map(|part| part / solved as f64);
        println!(
            "{:<20} {:>9.1} {:>8.1} {:>8.1} {:>8.1e} {:>8.1e} {:>6} {:>7} {:>6} {:>5} | {:>6.1} {:>6.1} {:>6.1} {:>6.1} | {:>7.1} {:>8.1e} {:>8.1e}",
            shape.to_string(),
            quantile(&times, 50),
            quantile(&times, 90),
            quantile(&times, 99),
            quantile(&gaps, 50),
            quantile(&gaps, 99),
            rounds as usize / solved,
            columns / solved,
            within,
            highs,
            price,
            lp,
            round,
            milp,
            quantile(&dp_times, 50),
            quantile(&dp_gaps, 50),
            quantile(&dp_gaps, 99),
        );
    }
}
