//! Schedulers without a search: rules, greedy choices, and all choices.

use super::evaluate::Evaluator;
use super::family::{CPU, GPU};

/// The most choices that brute force tries.
pub(super) const MOST_CHOICES: f64 = 70_000.0;

/// All layers on the CPU.
pub(super) fn cpu(evaluator: &mut Evaluator<'_>, _: u64) {
    evaluator.cost(&vec![CPU; evaluator.layers()]);
}

/// All layers on the GPU.
pub(super) fn gpu(evaluator: &mut Evaluator<'_>, _: u64) {
    evaluator.cost(&vec![GPU; evaluator.layers()]);
}

/// Tables on the CPU, the rest on the GPU.
pub(super) fn heuristic(evaluator: &mut Evaluator<'_>, _: u64) {
    let layers = evaluator.profile().layers().iter();
    let kind = |layer: &lacuna_layers::Layer| if layer.table_bytes() > 0.0 { CPU } else { GPU };
    let choice: Vec<usize> = layers.map(kind).collect();
    evaluator.cost(&choice);
}

/// Each layer on the kind that is cheapest for its own computation.
pub(super) fn greedy(evaluator: &mut Evaluator<'_>, _: u64) {
    let profile = evaluator.profile();
    let cheapest = |layer: &lacuna_layers::Layer| {
        let of = layer.seconds().iter().zip(profile.kinds());
        let prices = of.map(|(seconds, kind)| seconds.map(|s| s * kind.price_per_s()));
        let prices = prices
            .enumerate()
            .filter_map(|(t, price)| Some((t, price?)));
        prices
            .min_by(|a, b| a.1.total_cmp(&b.1))
            .map_or(0, |(t, _)| t)
    };
    let choice: Vec<usize> = profile.layers().iter().map(cheapest).collect();
    evaluator.cost(&choice);
}

/// Layer by layer the kind with the least cost if all later layers follow it.
pub(super) fn rollout(evaluator: &mut Evaluator<'_>, _: u64) {
    let layers = evaluator.layers();
    let mut chosen: Vec<usize> = Vec::new();
    while chosen.len() < layers {
        let mut best = (f64::INFINITY, 0);
        for kind in 0..evaluator.kinds() {
            let mut choice = chosen.clone();
            choice.resize(layers, kind);
            let cost = evaluator.cost(&choice);
            if cost < best.0 {
                best = (cost, kind);
            }
        }
        chosen.push(best.1);
    }
}

/// All choices.
pub(super) fn brute(evaluator: &mut Evaluator<'_>, _: u64) {
    let (layers, kinds) = (evaluator.layers(), evaluator.kinds());
    let mut choice = vec![0; layers];
    let mut more = true;
    while more {
        evaluator.cost(&choice);
        // The next number to the base of the kinds; none after the last.
        more = false;
        for digit in &mut choice {
            *digit = (*digit + 1) % kinds;
            if *digit > 0 {
                more = true;
                break;
            }
        }
    }
}
