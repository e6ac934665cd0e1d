//! How long the allocation problem takes: dynamic programming against the mixed-integer
//! program, on scarce instances of networks like the paper's.

use std::hint::black_box;

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use lacuna_model::{
    Forecast, Generation, Hole, NodeChoice, NodeId, Phase, Policy, Pool, PooledHole, RescaleCost,
    RunId, ScalingCurve, Timestamp, TrainerId, TrainerRecord, TrainerSpec,
};
use lacuna_planner::check::{Context, check};
use lacuna_planner::choose::assign;
use lacuna_planner::dp::Memory;
use lacuna_planner::instance::{SIZES, Size, networks, scarce};
use lacuna_planner::milp::{self, MilpOptions};
use lacuna_planner::{Planner, Problem, Settings, Slot, dp};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Scarce instances of a size, one a seed.
fn problems(size: Size) -> Vec<Problem> {
    let networks = networks(1);
    (0..16).map(|seed| scarce(size, &networks, seed)).collect()
}

/// The exact dynamic program on every size, each solve as if it were the first; the plain one
/// and HiGHS over counts where they do not take minutes. `lacuna-lab bench solve` compares all
/// solvers on one instance of each size.
fn solve(c: &mut Criterion) {
    for size in SIZES {
        let mut group = c.benchmark_group(size.to_string());
        group.sample_size(10);
        let problems = problems(size);
        let mut next = problems.iter().cycle();
        group.bench_function("dp", |b| {
            b.iter(|| {
                let problem = next.next();
                problem.map(|problem| dp::Solver::new().solve(black_box(problem)))
            });
        });
        if size.nodes <= 1_024 {
            let mut next = problems.iter().cycle();
            group.bench_function("dp-reference", |b| {
                b.iter(|| {
                    next.next()
                        .map(|problem| dp::reference::solve(black_box(problem)))
                });
            });
        }
        if size.nodes <= 200 {
            for (name, shortcuts) in [("milp", true), ("milp-no-shortcuts", false)] {
                let options = MilpOptions {
                    shortcuts,
                    ..MilpOptions::default()
                };
                let mut next = problems.iter().cycle();
                group.bench_function(name, |b| {
                    b.iter(|| {
                        next.next()
                            .map(|problem| milp::solve(black_box(problem), &options))
                    });
                });
            }
        }
        group.finish();
    }
}

/// Problems that follow one another: the answer is carried out, then nodes join, or trainers lose
/// some.
fn sequence(size: Size, steps: usize) -> Vec<Problem> {
    let mut rng = ChaCha8Rng::seed_from_u64(4);
    let mut problem = scarce(size, &networks(1), 1);
    let mut solver = dp::Solver::new();
    let mut all = Vec::with_capacity(steps);
    for _ in 0..steps {
        all.push(problem.clone());
        let counts = solver.solve(&problem).counts;
        for (item, n) in problem.trainers.iter_mut().zip(counts) {
            item.current = n;
        }
        if rng.random_bool(0.5) {
            problem.nodes += rng.random_range(1..4);
        } else {
            let at = rng.random_range(0..problem.trainers.len());
            if let Some(item) = problem.trainers.get_mut(at).filter(|item| item.current > 0) {
                item.current -= 1;
                problem.nodes -= 1;
            }
        }
        for item in &mut problem.trainers {
            let rate = item.value.get(item.current as usize).copied();
            item.rate_now = rate.unwrap_or(0.0);
        }
    }
    all
}

/// What it is worth that the dynamic program works only on what changed.
fn memory(c: &mut Criterion) {
    for size in SIZES {
        let problems = sequence(size, 200);
        let mut group = c.benchmark_group(format!("200 events, {size}"));
        group.sample_size(10);
        for (name, memory) in [("kept", Memory::Kept), ("forgotten", Memory::Forgotten)] {
            group.bench_function(name, |b| {
                b.iter_batched_ref(
                    || dp::Solver::with(memory),
                    |solver| {
                        for problem in &problems {
                            black_box(solver.solve(black_box(problem)));
                        }
                    },
                    BatchSize::SmallInput,
                );
            });
        }
        group.finish();
    }
}

fn choose(c: &mut Criterion) {
    let mut rng = ChaCha8Rng::seed_from_u64(2);
    for (choice, name) in [
        (NodeChoice::Random, "random"),
        (NodeChoice::Together, "together"),
    ] {
        let slots: Vec<Slot> = (0..1_000)
            .map(|_| Slot {
                since_ms: rng.random_range(0..40),
                owner: Some(rng.random_range(0..12)).filter(|&j| j < 10),
            })
            .collect();
        let counts = [100; 10];
        c.bench_function(&format!("choose-1000-{name}"), |b| {
            b.iter_batched(
                || ChaCha8Rng::seed_from_u64(3),
                |mut rng| assign(choice, black_box(&slots), None, &counts, || &mut rng),
                BatchSize::SmallInput,
            );
        });
    }
}

/// A pool of `nodes` and ten trainers that hold most of it.
fn state(nodes: u32) -> Option<(Pool, Vec<TrainerRecord>)> {
    let name = |n: u32| NodeId::new(format!("node{n:05}")).ok();
    let holes = (0..nodes).map(|n| {
        let since = Timestamp::from_unix(i64::from(n / 20));
        let hole = Hole {
            node: name(n)?,
            since,
        };
        Some(PooledHole { hole, forecast: 0 })
    });
    let pool = Pool {
        as_of: Timestamp::from_unix(10_000),
        seq: 1,
        holes: holes.collect::<Option<_>>()?,
        forecasts: vec![Forecast::default()],
        joint: None,
    };
    let trainers = (0..10).map(|j| {
        Some(TrainerRecord {
            phase: Phase::Active,
            nodes: (j * 80..j * 80 + 70).map(name).collect::<Option<_>>()?,
            run: RunId(1),
            ..TrainerRecord::new(
                TrainerSpec {
                    max_nodes: 128,
                    rescale: RescaleCost::of(18.0, 12.0),
                    ..TrainerSpec::simulated(
                        TrainerId::new(format!("t{j}")).ok()?,
                        ScalingCurve::new([(1, 2831.0), (64, 145_081.5), (128, 2.7e5)]).ok()?,
                    )
                },
                u64::from(j),
            )
        })
    });
    Some((pool, trainers.collect::<Option<_>>()?))
}

fn plan(c: &mut Criterion) {
    let Some((pool, trainers)) = state(1_000) else {
        return;
    };
    for (policy, name) in [(Policy::Dp, "dp"), (Policy::Milp, "milp")] {
        let mut planner = Planner::new(Settings {
            policy,
            ..Settings::default()
        });
        c.bench_function(&format!("plan-10x1000-{name}"), |b| {
            b.iter(|| planner.plan(black_box(&pool), &trainers, &[], Generation(1)));
        });
        let plan = planner.plan(&pool, &trainers, &[], Generation(1));
        let context = Context {
            pool: &pool,
            trainers: &trainers,
            unusable: &[],
            newest: None,
            kinds: None,
        };
        c.bench_function(&format!("check-10x1000-{name}"), |b| {
            b.iter(|| check(black_box(&plan), &context));
        });
    }
}

criterion_group!(benches, solve, memory, choose, plan);
criterion_main!(benches);
