//! What holds for every model, batch and group.

use lacuna_goodput::{
    BatchRule, Bounds, Choice, GoodputCurve, Layout, Noise, Observation, StepFormula, best, fit,
};
use proptest::prelude::*;

fn models() -> impl Strategy<Value = StepFormula> {
    let time = || 1e-3..1.0_f64;
    let more = || 1e-5..1e-2_f64;
    (
        time(),
        more(),
        time(),
        more(),
        time(),
        more(),
        1.0..10.0_f64,
    )
        .prop_map(|(a, b, c, d, e, f, g)| StepFormula::new([a, b, c, d, e, f, g]).unwrap())
}

proptest! {
    /// A sample is worth at most a sample of M0, and less the larger the batch.
    #[test]
    fn efficiency_falls_from_one(phi in 0.0..1e6_f64, scale in 1.0..1e4_f64, more in 1.001..10.0_f64) {
        let noise = Noise::of_scale(phi).unwrap();
        let (here, there) = (noise.efficiency(scale).unwrap(), noise.efficiency(scale * more).unwrap());
        prop_assert!((noise.efficiency(1.0).unwrap() - 1.0).abs() < 1e-12);
        prop_assert!(there > 0.0 && there < here && here <= 1.0);
        let (gain, larger) = (noise.gain(scale).unwrap(), noise.gain(scale * more).unwrap());
        prop_assert!(gain >= 1.0 - 1e-12 && gain <= scale * (1.0 + 1e-12) && larger >= gain);
    }

    /// Throughput rises with the samples of a pass, by less and less; a replica gives less the more
    /// there are.
    #[test]
    fn throughput_is_concave_in_the_pass_and_falls_by_replica(model in models(), nodes in 2_u32..32, local in 1_u32..512) {
        let rate = |nodes: u32, local: u32| {
            let at = Layout::new(nodes, 4 * nodes, local, 0).unwrap();
            at.batch() / model.step_s(at)
        };
        let [low, middle, high] = [local, local + 7, local + 14].map(|local| rate(nodes, local));
        prop_assert!(low < middle && middle < high);
        prop_assert!(high - middle <= (middle - low) * (1.0 + 1e-6));
        let each = |nodes: u32| rate(nodes, local) / f64::from(nodes);
        // Where the pass takes nearly all of a step both are the same but for rounding.
        prop_assert!(each(nodes + 1) <= each(nodes) * (1.0 + 1e-12));
    }

    /// The search finds what trying every batch finds.
    #[test]
    fn the_best_batch_is_that_of_trying_all(
        model in models(), phi in 0.01..1e3_f64, replicas in 1_u32..9, max in 1_u32..8, accumulation: bool,
    ) {
        let noise = Noise::of_scale(phi).unwrap();
        let bounds = Bounds::new(16, 16 * max * max, (2, 40), accumulation).unwrap();
        let found = best(&model, noise, &bounds, replicas.min(2), replicas);
        let most = if accumulation { 64 } else { 0 };
        let mut all: Vec<Choice> = Vec::new();
        for further in 0..=most {
            for local in 2..=40 {
                let at = Layout::new(replicas.min(2), replicas, local, further).unwrap();
                let of_sample = f64::from(replicas * (further + 1));
                if at.batch() >= 16.0 && at.batch() - of_sample < f64::from(bounds.max()) {
                    all.push(Choice::of(&model, noise, &bounds, at).unwrap());
                }
            }
        }
        let truth = all.iter().map(|choice| choice.goodput).fold(0.0, f64::max);
        let found = found.map_or(0.0, |choice| choice.goodput);
        prop_assert!((found - truth).abs() <= 1e-9 * truth, "{} {}", found, truth);
    }

    /// Steps of a model are fitted by a model that says the same.
    #[test]
    fn a_fit_says_what_the_model_says(model in models()) {
        let mut seen = Vec::new();
        for (nodes, replicas) in [(1, 1), (1, 2), (1, 4), (2, 8), (4, 16), (8, 32)] {
            for local in [8, 16, 32, 64, 128] {
                let at = Layout::new(nodes, replicas, local, 0).unwrap();
                let (pass_s, step_s) = (model.pass_s(local), model.step_s(at));
                seen.push(Observation { nodes, replicas, local, pass_s, step_s });
            }
        }
        let found = fit(&seen).unwrap();
        // The published penalties of gamma and of the ratios shift a perfect fit, by little.
        let truth = lacuna_goodput::Fit::objective_of(&model, &seen).unwrap();
        prop_assert!(found.objective <= truth + 1e-4, "{} {}", found.objective, truth);
        prop_assert!(found.worst_error < 0.25, "{:?}", found);
    }
}

#[test]
fn a_trainer_with_a_dear_network_has_a_table_that_dips() {
    let model = StepFormula::new([0.02, 7e-4, 0.3, 1e-3, 0.01, 1e-4, 1.3]).unwrap();
    let bounds = Bounds::new(128, 512, (16, 256), false).unwrap();
    let noise = Noise::of_scale(20.0).unwrap();
    let table = GoodputCurve::new(&model, noise, &bounds, BatchRule::Best, (1, 8), 4).unwrap();
    let worth = table.worth();
    assert_eq!((worth[0], worth[1]), (0.0, 1.0));
    assert!(worth[2] < 1.0, "{worth:?}");
    let louder = GoodputCurve::new(
        &model,
        Noise::of_scale(22.0).unwrap(),
        &bounds,
        BatchRule::Best,
        (1, 8),
        4,
    )
    .unwrap();
    assert!(
        !louder.is_news(&table),
        "a small move of the noise scale is no news"
    );
    let other = GoodputCurve::new(
        &model,
        Noise::of_scale(0.5).unwrap(),
        &bounds,
        BatchRule::Best,
        (1, 8),
        4,
    )
    .unwrap();
    let wider = GoodputCurve::new(&model, noise, &bounds, BatchRule::Best, (1, 9), 4).unwrap();
    assert!(wider.is_news(&table));
    // With one size all worths are 1.
    assert_eq!(other.worth()[1], 1.0);
}
