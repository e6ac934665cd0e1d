//! Speed of a replay of a generated trace with the exact dynamic program.

use criterion::{Criterion, criterion_group, criterion_main};
use lacuna_model::{
    HoleRecord, NodeId, RescaleCost, ScalingCurve, Timestamp, TrainerId, TrainerSpec, Work,
};
use lacuna_sim::{HoleTrace, Hooks, Settings, replay};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

fn holes(nodes: u32, days: i64) -> Vec<HoleRecord> {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let mut holes = Vec::new();
    for node in 0..nodes {
        let Ok(name) = NodeId::new(format!("n{node}")) else {
            continue;
        };
        let mut at = 0;
        while at < days * 86_400 {
            let from = at + rng.random_range(600..40_000);
            let until = from + rng.random_range(60..3600);
            holes.push(HoleRecord {
                node: name.clone(),
                from: Timestamp::from_unix(from),
                until: Timestamp::from_unix(until),
                censored: false,
            });
            at = until;
        }
    }
    holes
}

fn bench(c: &mut Criterion) {
    let spec = |at: u32| {
        let points = [(1, 2831.0), (8, 20_379.0), (64, 145_081.0)];
        Some(TrainerSpec {
            submit: Timestamp::from_unix(0),
            max_nodes: 64,
            rescale: RescaleCost::of(18.0, 12.0),
            work: Work::Samples(130e6),
            ..TrainerSpec::simulated(
                TrainerId::new(format!("t{at}")).ok()?,
                ScalingCurve::new(points).ok()?,
            )
        })
    };
    let trainers: Vec<_> = (0..50).filter_map(spec).collect();
    let settings = Settings {
        endless: true,
        ..Settings::published()
    };
    let mut group = c.benchmark_group("replay");
    group.sample_size(10);
    for nodes in [256, 1024] {
        let trace = HoleTrace::new(&holes(nodes, 2), None, Timestamp::from_unix(0), None);
        group.bench_function(format!("{nodes} nodes, {} steps", trace.len()), |b| {
            b.iter(|| {
                let mut hooks = Hooks {
                    stopwatch: &|| 0.0,
                    progress: &mut |_| {},
                    save: None,
                };
                replay(&trace, &trainers, &settings, None, &mut hooks)
            });
        });
    }
    group.finish();
}

criterion_group!(benches, bench);
criterion_main!(benches);
