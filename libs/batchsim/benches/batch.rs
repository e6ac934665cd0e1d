//! The time of the simulated batch scheduler for 100,000 jobs by each policy, and of a generated
//! machine.
//!
//! There are two workloads of 100,000 jobs on 1,024 nodes. The first keeps a queue of dozens. The
//! second is more than the machine can do: its queue grows to thousands, and the cost with it.

use criterion::{Criterion, criterion_group, criterion_main};
use lacuna_batchsim::workload::{Workload, generated_machine, jobs};
use lacuna_batchsim::{Backfill, BatchJob, Layout, Machine, Simulator};

const NODES: u32 = 1024;
const JOBS: usize = 100_000;

fn drawn() -> Vec<BatchJob> {
    let workload = Workload {
        nodes: NODES,
        days: 1,
        seed: 1,
        utilisation: 0.85,
    };
    jobs(&workload)
        .map(|jobs| jobs.take(JOBS).collect())
        .unwrap_or_default()
}

/// The same jobs, a fifth closer together: more than the machine can do.
fn crowded(jobs: &[BatchJob]) -> Vec<BatchJob> {
    let closer = |job: &BatchJob| BatchJob {
        submit: job.submit / 5 * 4,
        ..*job
    };
    jobs.iter().map(closer).collect()
}

fn all(machine: &Machine, jobs: &[BatchJob]) -> u64 {
    let Ok(mut simulator) = Simulator::new(machine.clone(), jobs.iter().copied()) else {
        return 0;
    };
    while let Ok(Some(_)) = simulator.step() {}
    simulator.totals().ended
}

fn batch(criterion: &mut Criterion) {
    let jobs = drawn();
    let mut group = criterion.benchmark_group("batch");
    group.sample_size(10);
    for (load, jobs) in [("", jobs.clone()), (", crowded", crowded(&jobs))] {
        for (name, backfill, layout) in [
            ("easy", Backfill::Easy, Layout::FirstFit),
            ("easy contiguous", Backfill::Easy, Layout::Contiguous),
            ("conservative", Backfill::Conservative, Layout::FirstFit),
            (
                "conservative contiguous",
                Backfill::Conservative,
                Layout::Contiguous,
            ),
        ] {
            let machine = Machine {
                backfill,
                layout,
                ..Machine::new(NODES)
            };
            // Conservative backfill is slow where hundreds wait (see its module).
            if !load.is_empty() && backfill == Backfill::Conservative {
                continue;
            }
            let name = format!("{name}{load}, 100,000 jobs on 1,024 nodes");
            group.bench_function(name, |bencher| bencher.iter(|| all(&machine, &jobs)));
        }
    }
    group.bench_function("generated machine, 1,024 nodes, 3 days", |bencher| {
        bencher.iter(|| generated_machine(NODES, 3, 1));
    });
    group.finish();
}

criterion_group!(benches, batch);
criterion_main!(benches);
