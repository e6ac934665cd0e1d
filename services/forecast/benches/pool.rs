//! The cost of 10,000 present holes at each publication, with a learnt hazard: the forecasts, the
//! pool with them, and its encoding. Also the time for which forecasts wait for a fit and for the
//! saving of models, which is that of copying and installing.

#[expect(dead_code, reason = "only some of it is needed")]
#[path = "../tests/all/machine.rs"]
mod machine;

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use lacuna_forecast::{Choice, FitTask, OrderBy, Predictor};
use lacuna_forecast_service::{Forecaster, Models, PredictorSettings, Role};
use lacuna_model::{EventKind, NodeEvent, Span};
use lacuna_wire::codec::encode;

use machine::{MachinePrior, node};

const NODES: usize = 10_000;

/// A machine with all nodes idle after a few days, and the task of the newest fit.
fn learnt() -> (MachinePrior, Forecaster, Option<FitTask>) {
    let mut machine = MachinePrior::new(1, NODES, 1_600_000_000);
    machine.pace_s = 300;
    let wanted = PredictorSettings::of(Choice::hazard(OrderBy::Learnt)).beside(Choice::survival());
    let mut forecaster = Forecaster::new(Models::new(wanted));
    let mut newest = None;
    for _ in 0..1500 {
        for event in machine.step() {
            forecaster.event(&event, "");
        }
        forecaster.set_lock_step(false);
        forecaster.pool(machine.at());
        if let Some(task) = forecaster.fit_task() {
            newest = Some(task.clone());
            forecaster.install(Some(task.run()));
        }
    }
    let idle: Vec<_> = forecaster.pool(machine.at()).pool.holes;
    let mut seq = machine.seq;
    for number in 0..NODES {
        let node = node(number);
        if idle.iter().all(|hole| hole.hole.node != node) {
            seq += 1;
            forecaster.event(
                &NodeEvent {
                    seq,
                    // Released in groups of a hundred.
                    at: machine.at() + Span::from_secs(number as i64 / 100),
                    kind: EventKind::NodeIdle { node },
                },
                "",
            );
        }
    }
    machine.now += 600;
    (machine, forecaster, newest)
}

fn pool(criterion: &mut Criterion) {
    let (machine, mut forecaster, task) = learnt();
    let at = machine.at();
    let state = forecaster.pool(at);
    let curves = state.pool.forecasts.len();
    println!(
        "{} holes, {curves} curves, {}, {} fits",
        state.pool.holes.len(),
        state.predictor,
        forecaster.models().report().fits
    );
    criterion.bench_function("10,000 holes: forecasts and pool", |bencher| {
        bencher.iter(|| forecaster.pool(at).pool.holes.len());
    });
    // Once a minute the rival forecasts too, and both are scored.
    let mut later = at;
    criterion.bench_function("10,000 holes: forecasts, pool and scores", |bencher| {
        bencher.iter(|| {
            later = later + Span::from_secs(60);
            forecaster.pool(later).pool.holes.len()
        });
    });
    let bytes = encode(&state).map_or(0, |bytes| bytes.len());
    println!("a message of {bytes} bytes");
    criterion.bench_function("10,000 holes: encoding", |bencher| {
        bencher.iter(|| encode(&state).map_or(0, |bytes| bytes.len()));
    });
    let saver = || forecaster.models().predictor(Role::First)?.saver();
    criterion.bench_function("copying what is saved", |bencher| {
        bencher.iter_batched(|| (), |()| saver(), BatchSize::PerIteration);
    });
    if let Some(task) = task {
        let mut group = criterion.benchmark_group("fit");
        group.sample_size(10);
        group.bench_function("elsewhere", |bencher| {
            bencher.iter_batched(|| task.clone(), FitTask::run, BatchSize::PerIteration);
        });
        group.finish();
        let fitted = task.run();
        criterion.bench_function("putting in a fitted model", |bencher| {
            bencher.iter_batched(
                || Some(fitted.clone()),
                |fitted| forecaster.install(fitted),
                BatchSize::PerIteration,
            );
        });
    }
}

criterion_group!(benches, pool);
criterion_main!(benches);
