//! How long the scheduler simulator takes for 100,000 jobs, and a generated machine in all.

use criterion::{Criterion, criterion_group, criterion_main};
use lacuna_timeline::batch::{BatchJob, simulate};
use lacuna_timeline::workload::generated_machine;

fn jobs() -> Vec<BatchJob> {
    (0..100_000u64)
        .map(|id| {
            let mixed = id.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 33;
            let runtime = 60 + (mixed % 7_000) as i64;
            BatchJob {
                id,
                submit: id as i64 * 90,
                nodes: 1 + (mixed % 11) as u32 * (mixed % 97 / 10) as u32,
                runtime,
                walltime: runtime * 2,
                recorded_start: None,
            }
        })
        .collect()
}

fn batch(criterion: &mut Criterion) {
    let jobs = jobs();
    let mut group = criterion.benchmark_group("batch");
    group.sample_size(10);
    group.bench_function("simulate 100,000 jobs on 1,024 nodes", |bencher| {
        bencher.iter(|| simulate(1024, &jobs, None));
    });
    group.bench_function("generated machine, 1,024 nodes, 3 days", |bencher| {
        bencher.iter(|| generated_machine(1024, 3, 1));
    });
    group.finish();
}

criterion_group!(benches, batch);
criterion_main!(benches);
