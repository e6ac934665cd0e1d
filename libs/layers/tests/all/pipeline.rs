//! The cost model beside a simulated pipeline.

use lacuna_layers::{Jitter, Pipeline, Profile, simulate};

use crate::common::{Draw, any};

fn pipeline(variation: f64, jitter: Jitter, seed: u64) -> Pipeline {
    Pipeline {
        batch: 4096.0,
        batches: 1500,
        queue: 4,
        variation,
        jitter,
        seed,
    }
}

#[test]
fn the_rate_is_that_of_the_pipeline_within_five_percent() {
    let (mut worst, mut sum, mut stages, mut several) = (0.0_f64, 0.0, 0, 0);
    let mut beyond = [0.0; 3];
    let count = 60;
    for seed in 0..count {
        let mut draw = Draw::new(7000 + seed);
        let (layers, kinds) = (6 + draw.below(8), 2 + draw.below(3));
        let Ok(profile) = Profile::new(draw.profile(layers, kinds)) else {
            continue;
        };
        let placement = any(&profile);
        let optimism = |variation, jitter| {
            placement.rate / simulate(&placement, &pipeline(variation, jitter, seed)) - 1.0
        };
        // Without variation the pipeline has the rate of the model.
        assert!(optimism(0.0, Jitter::Stage).abs() < 2e-2, "seed {seed}");
        let off = optimism(0.1, Jitter::Stage);
        assert!(off.abs() < 0.05, "seed {seed}: {off} {placement:?}");
        worst = worst.max(off.abs());
        sum += off;
        stages += placement.stages.len();
        several += usize::from(placement.stages.len() > 2);
        let cases = [
            (0.3, Jitter::Stage),
            (0.5, Jitter::Stage),
            (0.1, Jitter::Unit),
        ];
        for (beyond, (variation, jitter)) in beyond.iter_mut().zip(cases) {
            *beyond += optimism(variation, jitter) / count as f64;
        }
    }
    println!(
        "worst {worst:.4}, mean {:.4}, stages {stages}",
        sum / count as f64
    );
    println!(
        "optimistic by: .3 {:.3}, .5 {:.3}, .1 by unit {:.3}",
        beyond[0], beyond[1], beyond[2]
    );
    assert!(
        several > 20,
        "only {several} pipelines have more than two stages"
    );
    // Beyond, the model is optimistic.
    assert!(beyond[0] < beyond[1] && beyond[0] > 0.0, "{beyond:?}");
}
