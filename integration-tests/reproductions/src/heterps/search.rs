//! Random, genetic and local search.

use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use super::evaluate::Evaluator;

/// Choices that a search may evaluate, as many as the learners have.
pub(super) const BUDGET: usize = 1_500;

/// Members of a generation, and how many fight for being a parent.
const POPULATION: usize = 50;
const TOURNAMENT: usize = 3;

/// Failures in a row after which local search begins again elsewhere.
const PATIENCE: usize = 300;

fn any(random: &mut ChaCha8Rng, layers: usize, kinds: usize) -> Vec<usize> {
    (0..layers).map(|_| random.random_range(0..kinds)).collect()
}

/// Independent draws.
pub(super) fn random(evaluator: &mut Evaluator<'_>, seed: u64) {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    while evaluator.evaluations < BUDGET {
        let choice = any(&mut random, evaluator.layers(), evaluator.kinds());
        evaluator.cost(&choice);
    }
}

/// Generations with tournaments, crossings at one point, a mutation a child on average, and the best
/// two kept.
pub(super) fn genetic(evaluator: &mut Evaluator<'_>, seed: u64) {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let (layers, kinds) = (evaluator.layers(), evaluator.kinds());
    let mut population: Vec<(f64, Vec<usize>)> = (0..POPULATION)
        .map(|_| {
            let choice = any(&mut random, layers, kinds);
            (evaluator.cost(&choice), choice)
        })
        .collect();
    while evaluator.evaluations < BUDGET {
        population.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut next: Vec<(f64, Vec<usize>)> = population.iter().take(2).cloned().collect();
        while next.len() < POPULATION && evaluator.evaluations < BUDGET {
            let mut parent = || {
                let drawn = (0..TOURNAMENT).map(|_| random.random_range(0..population.len()));
                // The population is in the order of its costs.
                drawn.min().unwrap_or(0)
            };
            let (one, other) = (parent(), parent());
            let point = random.random_range(0..=layers);
            let genes = |place: usize| population.get(place).map_or(&[][..], |(_, genes)| genes);
            let (head, tail) = (
                genes(one).iter().take(point),
                genes(other).iter().skip(point),
            );
            let mut child: Vec<usize> = head.chain(tail).copied().collect();
            for gene in &mut child {
                if random.random_bool(1.0 / layers as f64) {
                    *gene = random.random_range(0..kinds);
                }
            }
            next.push((evaluator.cost(&child), child));
        }
        population = next;
    }
}

/// Moves a run of layers to another kind while that is cheaper, and begins again if nothing is.
pub(super) fn local(evaluator: &mut Evaluator<'_>, seed: u64) {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let (layers, kinds) = (evaluator.layers(), evaluator.kinds());
    while evaluator.evaluations < BUDGET {
        let mut choice = any(&mut random, layers, kinds);
        let mut cost = evaluator.cost(&choice);
        let mut failures = 0;
        while failures < PATIENCE && evaluator.evaluations < BUDGET {
            let from = random.random_range(0..layers);
            let length = random.random_range(1..=layers - from);
            let kind = random.random_range(0..kinds);
            let mut moved = choice.clone();
            for layer in moved.iter_mut().skip(from).take(length) {
                *layer = kind;
            }
            let new = evaluator.cost(&moved);
            failures += 1;
            if new < cost {
                (choice, cost, failures) = (moved, new, 0);
            }
        }
    }
}
