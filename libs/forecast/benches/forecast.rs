//! The time of a forecast of 10,000 holes.

use std::collections::{BTreeMap, BTreeSet};

use criterion::{Criterion, criterion_group, criterion_main};
use lacuna_forecast::{
    AnnouncedEnd, EndKind, FitTask, Fits, Hazard, HazardCore, HazardSettings, Nodes, Predictor,
    Settings, Survival, WithPlannedStarts,
};
use lacuna_model::{Hole, NodeId, Timestamp};

const HOLES: i64 = 10_000;

/// The nodes of the machine.
const NODES: u32 = 12_500;

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

/// Steps of a machine with 12,500 nodes, most of them idle. Nodes are taken mostly from the front,
/// up to a few hundred at a time, and returned in parts. So there is much to learn, and few holes
/// are alike.
fn busy(mut step: impl FnMut(i64, &[i64], &[i64])) {
    let mut odd = 1_u32;
    let mut dice = |sides: i64| {
        odd = odd.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        i64::from(odd >> 8) % sides
    };
    let mut idle: BTreeSet<i64> = (0..i64::from(NODES)).collect();
    let mut busy: Vec<i64> = Vec::new();
    let all: Vec<i64> = idle.iter().copied().collect();
    step(0, &[], &all);
    for event in 1..3000 {
        let most = 1 + dice(HOLES);
        let skipped = dice(most) as usize;
        let size = 1 << dice(10);
        let taken: Vec<i64> = idle.iter().skip(skipped).take(size).copied().collect();
        for node in &taken {
            idle.remove(node);
            busy.insert(dice(busy.len() as i64 + 1) as usize, *node);
        }
        let back = busy.split_off(busy.len().min(NODES as usize - HOLES as usize));
        idle.extend(&back);
        step(event * 60, &taken, &back);
    }
}

fn hazard(criterion: &mut Criterion) {
    let number = |node: &i64| u32::try_from(*node).unwrap_or(0);
    let mut core = HazardCore::new(Nodes::numbered(NODES), HazardSettings::default());
    core.set_fits(Fits::Outside);
    let mut trees = 0;
    busy(|at, closed, opened| {
        let at = at as f64;
        let closed: Vec<u32> = closed.iter().map(number).collect();
        let opened: Vec<(u32, f64)> = opened.iter().map(|n| (number(n), at)).collect();
        core.step(at, &closed, &opened);
        if let Some(fitted) = core.fit_task().map(FitTask::run) {
            trees = fitted.trees();
            core.install(Some(fitted));
        }
    });
    let now = 180_000;
    let holes = core.forecast(now as f64).nodes.len();
    println!("{holes} holes, {trees} trees");
    criterion.bench_function("hazard, 10,000 numbered holes", |bencher| {
        bencher.iter(|| core.forecast(now as f64).curves.len());
    });
    let mut named = Hazard::new(HazardSettings::default());
    let mut since: BTreeMap<i64, i64> = BTreeMap::new();
    busy(|at, closed, opened| {
        for &number in closed {
            let began = since.remove(&number).unwrap_or(0);
            if let Some(hole) = hole(number, began) {
                named.closed(&hole, Timestamp::from_unix(at));
            }
        }
        for &number in opened {
            since.insert(number, at);
            if let Some(hole) = hole(number, at) {
                named.opened(&hole, Timestamp::from_unix(at));
            }
        }
    });
    let holes: Vec<Hole> = since
        .iter()
        .filter_map(|(&number, &since)| hole(number, since))
        .collect();
    let later = |after_s: i64| Timestamp::from_unix(now + after_s);
    let now = later(0);
    criterion.bench_function("hazard, 10,000 named holes", |bencher| {
        bencher.iter(|| named.forecast(now, &holes).index.len());
    });
    let mut predictor = WithPlannedStarts::new(Box::new(named));
    let ends: Vec<AnnouncedEnd> = (0..)
        .zip(holes.iter().step_by(10))
        .map(|(job, hole)| AnnouncedEnd {
            node: hole.node.clone(),
            at: later(60 + job / 100 * 600),
            kind: EndKind::PlannedStart,
        })
        .collect();
    criterion.bench_function("hazard, 10,000 named holes, 1,000 announced", |bencher| {
        bencher.iter(|| {
            predictor.announce(now, &ends);
            predictor.forecast(now, &holes).index.len()
        });
    });
}

criterion_group!(benches, forecast, hazard);
criterion_main!(benches);
