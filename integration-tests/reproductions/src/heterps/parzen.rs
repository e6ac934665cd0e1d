//! Bayesian optimization by Parzen estimators over categories.
//!
//! Choices are split into the best share and the rest. In each part the kind of a layer has a
//! distribution by its counts, with one count of each kind to begin with. Of candidates drawn from the
//! good part, the one with the greatest ratio of densities is evaluated.
//!
//! Source: Bergstra et al., "Algorithms for Hyper-Parameter Optimization" (2011), section 4, for
//! categories.

use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use super::evaluate::Evaluator;

/// Choices that are evaluated, at random first.
const BUDGET: usize = 150;
const FIRST: usize = 20;

/// The good share.
const GOOD: f64 = 0.15;

/// Candidates of a step.
const CANDIDATES: usize = 24;

/// Shares of kinds by layer.
struct Density(Vec<Vec<f64>>);

impl Density {
    fn of(choices: &[(f64, Vec<usize>)], layers: usize, kinds: usize) -> Self {
        let mut counts = vec![vec![1.0 / kinds as f64; kinds]; layers];
        for (_, choice) in choices {
            for (counts, &kind) in counts.iter_mut().zip(choice) {
                if let Some(count) = counts.get_mut(kind) {
                    *count += 1.0;
                }
            }
        }
        for counts in &mut counts {
            let sum: f64 = counts.iter().sum();
            counts.iter_mut().for_each(|count| *count /= sum);
        }
        Self(counts)
    }

    fn draw(&self, random: &mut ChaCha8Rng) -> Vec<usize> {
        let one = |shares: &Vec<f64>| draw(shares, random.random_range(0.0..1.0));
        self.0.iter().map(one).collect()
    }

    fn log(&self, choice: &[usize]) -> f64 {
        let shares = self.0.iter().zip(choice);
        let share = shares.filter_map(|(shares, &kind)| shares.get(kind));
        share.map(|share| share.ln()).sum()
    }
}

/// The place at which the sum of shares exceeds a value in [0, 1).
pub(super) fn draw(shares: &[f64], value: f64) -> usize {
    let mut sum = 0.0;
    let place = shares.iter().position(|share| {
        sum += share;
        value < sum
    });
    place.unwrap_or(shares.len().saturating_sub(1))
}

/// Steps with Parzen estimators.
pub(super) fn bayes(evaluator: &mut Evaluator<'_>, seed: u64) {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let (layers, kinds) = (evaluator.layers(), evaluator.kinds());
    let mut known: Vec<(f64, Vec<usize>)> = Vec::new();
    while evaluator.evaluations < BUDGET {
        let choice = if known.len() < FIRST {
            Density::of(&[], layers, kinds).draw(&mut random)
        } else {
            known.sort_by(|a, b| a.0.total_cmp(&b.0));
            let split = (GOOD * known.len() as f64).ceil() as usize;
            let (good, rest) = known.split_at(split.min(known.len()));
            let (good, rest) = (
                Density::of(good, layers, kinds),
                Density::of(rest, layers, kinds),
            );
            let candidates = (0..CANDIDATES).map(|_| good.draw(&mut random));
            let ratio = |choice: &Vec<usize>| good.log(choice) - rest.log(choice);
            let best = candidates.max_by(|a, b| ratio(a).total_cmp(&ratio(b)));
            best.unwrap_or_default()
        };
        known.push((evaluator.cost(&choice), choice));
    }
}
