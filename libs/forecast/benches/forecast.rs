//! How long it takes to forecast 10,000 holes anew.

use criterion::{Criterion, criterion_group, criterion_main};
use lacuna_forecast::{Predictor, Settings, Survival};
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

criterion_group!(benches, forecast);
criterion_main!(benches);
