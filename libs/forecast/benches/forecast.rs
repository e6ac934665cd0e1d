//! How long it takes to forecast 10,000 holes anew.

use criterion::{Criterion, criterion_group, criterion_main};
use lacuna_forecast::{
    Certainty, Hazard, HazardCore, HazardSettings, Hint, Hinted, Nodes, Predictor, Settings,
    Survival,
};
use lacuna_model::{Hole, NodeId, Timestamp};

const HOLES: i64 = 10_000;

fn hole(number: i64, since: i64) -> Option<Hole> {
    let node = NodeId::new(format!("n{number:05}")).ok()?;
    let since = Timestamp::from_unix(since);
    Some(Hole { node, since })
}

fn learnt() -> Survival {
    let mut survival = Survival::new(Settings::default());
    for number in 0..50_000 {
        if let Some(hole) = hole(number % HOLES, number) {
            survival.opened(&hole, hole.since);
            let length = 60 + number * 7919 % 9000;
            survival.closed(&hole, Timestamp::from_unix(number + length));
        }
    }
    survival
}

fn forecast(criterion: &mut Criterion) {
    let mut survival = learnt();
    let now = Timestamp::from_unix(100_000);
    let groups: Vec<Hole> = (0..HOLES)
        .filter_map(|number| hole(number, 60_000 + number / 200 * 600))
        .collect();
    criterion.bench_function("10,000 holes of 50 starts", |bencher| {
        bencher.iter(|| survival.forecast(now, &groups));
    });
    let scattered: Vec<Hole> = (0..HOLES)
        .filter_map(|number| hole(number, 60_000 + number * 3))
        .collect();
    criterion.bench_function("10,000 holes of 10,000 starts", |bencher| {
        bencher.iter(|| survival.forecast(now, &scattered));
    });
}

/// Tells of 10,000 nodes of which a few hundred at a time are taken and given back.
fn busy(mut step: impl FnMut(i64, &[i64], &[i64])) {
    let all: Vec<i64> = (0..HOLES).collect();
    step(0, &[], &all);
    for event in 1..600 {
        let from = event * 7919 % HOLES;
        let taken: Vec<i64> = (from..(from + 200).min(HOLES)).collect();
        step(event * 120, &taken, &[]);
        step(event * 120 + 60, &[], &taken);
    }
}

fn hazard(criterion: &mut Criterion) {
    let number = |node: &i64| u32::try_from(*node).unwrap_or(0);
    let mut core = HazardCore::new(Nodes::numbered(10_000), HazardSettings::default());
    busy(|at, closed, opened| {
        let at = at as f64;
        let closed: Vec<u32> = closed.iter().map(number).collect();
        let opened: Vec<(u32, f64)> = opened.iter().map(|n| (number(n), at)).collect();
        core.step(at, &closed, &opened);
    });
    criterion.bench_function("hazard, 10,000 numbered holes", |bencher| {
        bencher.iter(|| core.forecast(80_000.0).curves.len());
    });
    let mut named = Hazard::new(HazardSettings::default());
    let mut since = vec![0; 10_000];
    busy(|at, closed, opened| {
        for &number in closed {
            let began = since.get(number as usize).copied().unwrap_or(0);
            if let Some(hole) = hole(number, began) {
                named.closed(&hole, Timestamp::from_unix(at));
            }
        }
        for &number in opened {
            if let (Some(hole), Some(began)) = (hole(number, at), since.get_mut(number as usize)) {
                *began = at;
                named.opened(&hole, Timestamp::from_unix(at));
            }
        }
    });
    let holes: Vec<Hole> = (0..HOLES)
        .zip(&since)
        .filter_map(|(number, &since)| hole(number, since))
        .collect();
    let now = Timestamp::from_unix(80_000);
    criterion.bench_function("hazard, 10,000 named holes", |bencher| {
        bencher.iter(|| named.forecast(now, &holes).index.len());
    });
    let mut hinted = Hinted::new(Box::new(named));
    let hints: Vec<Hint> = (0..)
        .zip(holes.iter().step_by(10))
        .map(|(job, hole)| Hint {
            node: hole.node.clone(),
            at: Timestamp::from_unix(80_060 + job / 100 * 600),
            certainty: Certainty::Soft,
        })
        .collect();
    criterion.bench_function("hazard, 10,000 named holes, 1,000 announced", |bencher| {
        bencher.iter(|| {
            hinted.hint(now, &hints);
            hinted.forecast(now, &holes).index.len()
        });
    });
}

criterion_group!(benches, forecast, hazard);
criterion_main!(benches);
