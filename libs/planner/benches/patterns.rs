//! How long the programme over patterns takes, by size, and how far its answers are from the
//! bound: medians and the 99th of a hundred seeded instances of each size, HiGHS solving each.
//!
//! `cargo bench --bench patterns [-- INSTANCES [NAME [LIMIT_S]]]`

use std::time::{Duration, Instant};

use lacuna_planner::instance::Size;
use lacuna_planner::patterns::{Options, Patterns, Shape, Situation, Source, instance, solve};

const SIZES: [(u32, u32, u32); 7] = [
    (5, 200, 8),
    (10, 1_024, 16),
    (10, 4_734, 16),
    (35, 1_024, 16),
    (35, 4_734, 16),
    (35, 4_734, 64),
    (100, 10_000, 16),
];

fn shapes() -> impl Iterator<Item = Shape> {
    SIZES.into_iter().flat_map(|(trainers, nodes, classes)| {
        [Situation::Event, Situation::Storm, Situation::Start].map(|situation| Shape {
            size: Size::of(trainers, nodes),
            classes,
            scenarios: 16,
            situation,
        })
    })
}

/// The value below which so many of a hundred lie.
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
    let limit: f64 = given.next().and_then(|n| n.parse().ok()).unwrap_or(2.0);
    println!(
        "{:<20} {:>9} {:>9} {:>9} {:>9} {:>8} {:>8} {:>6} {:>7} {:>6} {:>5} | {:>7} {:>7} {:>7} {:>7} | above keep",
        "trainers x nodes",
        "patterns",
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
        "milp"
    );
    let start = Instant::now();
    let stopwatch = || start.elapsed().as_secs_f64();
    for shape in shapes() {
        if only
            .as_ref()
            .is_some_and(|only| !shape.to_string().contains(only))
        {
            continue;
        }
        let (mut times, mut gaps, mut gains) = (Vec::new(), Vec::new(), Vec::new());
        let (mut rounds, mut columns, mut patterns) = (0, 0, 0);
        let (mut within, mut highs) = (0, 0);
        let mut parts = [0.0; 4];
        for seed in 0..count {
            let Some(mut runs) = instance(shape, seed) else {
                continue;
            };
            let capacity = runs.capacity().to_vec();
            let options = Options {
                time_limit: Duration::from_secs_f64(limit),
                ..Options::new(&stopwatch)
            };
            let Ok(answer) = solve(&mut runs, &capacity, &[], &options) else {
                continue;
            };
            times.push(answer.seconds.total * 1e3);
            gaps.push(answer.gap());
            rounds += answer.rounds;
            columns += answer.columns;
            within += usize::from(answer.gap() <= 1e-3);
            highs += usize::from(answer.source == Source::Highs);
            let seconds = answer.seconds;
            let of = [
                seconds.pricing,
                seconds.relaxation,
                seconds.rounding,
                seconds.programme,
            ];
            for (sum, part) in parts.iter_mut().zip(of) {
                *sum += part * 1e3;
            }
            let keep: f64 = (0..runs.trainers()).map(|j| runs.keep(j).value).sum();
            gains.push(answer.objective / keep - 1.0);
            patterns += (0..runs.trainers())
                .map(|j| runs.patterns(j))
                .sum::<usize>();
        }
        let solved = times.len().max(1);
        times.sort_by(f64::total_cmp);
        gaps.sort_by(f64::total_cmp);
        gains.sort_by(f64::total_cmp);
        let [price, lp, round, milp] = parts.map(|part| part / solved as f64);
        println!(
            "{:<20} {:>9} {:>9.1} {:>9.1} {:>9.1} {:>8.1e} {:>8.1e} {:>6} {:>7} {:>6} {:>5} | {:>7.1} {:>7.1} {:>7.1} {:>7.1} | {:.3}",
            shape.to_string(),
            patterns / solved,
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
            quantile(&gains, 50),
        );
    }
}
