//! Reinforcement learning of a choice, after HeterPS.
//!
//! The features of a layer are what it does, its place, its bytes and its least computation. A choice
//! is drawn layer by layer, its reward is `-ln cost`. REINFORCE with the baseline
//! `b <- .9 b + .1 mean`, batches of 16, Adam at .008, a share of .02 for entropy, 48 hidden units. The
//! cheapest choice that was drawn counts.
//!
//! Source: arXiv 2111.10635, section 5. The authors' scheduler is not public; sizes and rates are ours.

use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use super::evaluate::Evaluator;
use super::parzen::draw;
use super::recurrent::{Cell, Network};
use super::search::BUDGET;

const HIDDEN: usize = 48;
const BATCH: usize = 16;
const RATE: f64 = 8e-3;
const ENTROPY: f64 = 0.02;

/// Learns with an LSTM.
pub(super) fn lstm(evaluator: &mut Evaluator<'_>, seed: u64) {
    learn(evaluator, seed, Cell::Lstm);
}

/// Learns with a plain recurrent network.
pub(super) fn rnn(evaluator: &mut Evaluator<'_>, seed: u64) {
    learn(evaluator, seed, Cell::Rnn);
}

fn learn(evaluator: &mut Evaluator<'_>, seed: u64, cell: Cell) {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let features = features(evaluator);
    let width = features.first().map_or(0, Vec::len);
    let mut network = Network::new(cell, (width, HIDDEN, evaluator.kinds()), &mut random);
    let mut adam = Adam::new(&network);
    let mut baseline: Option<f64> = None;
    while evaluator.evaluations < BUDGET {
        let mut batch = Vec::with_capacity(BATCH);
        for _ in 0..BATCH.min(BUDGET - evaluator.evaluations) {
            let episode = network.choose(&features, |_, shares| {
                draw(shares, random.random_range(0.0..1.0))
            });
            let reward = -evaluator.cost(&episode.choice()).ln();
            batch.push((episode, reward));
        }
        let mean = batch.iter().map(|(_, reward)| reward).sum::<f64>() / batch.len() as f64;
        let known = *baseline.get_or_insert(mean);
        let mut gradient = network.zeros_like();
        for (episode, reward) in &batch {
            let of = (reward - known, ENTROPY);
            network.add_gradient(&mut gradient, episode, of, 1.0 / batch.len() as f64);
        }
        adam.step(&mut network, &gradient);
        baseline = Some(0.9 * known + 0.1 * mean);
    }
}

/// By layer: lookup or not, place, and logarithms of bytes out, weights, tables and least seconds.
fn features(evaluator: &Evaluator<'_>) -> Vec<Vec<f64>> {
    let layers = evaluator.profile().layers();
    let log = |value: f64| (1.0 + value).ln() / 10.0;
    let of = |(place, layer): (usize, &lacuna_layers::Layer)| {
        let seconds = layer.seconds().iter().flatten();
        let least = seconds.fold(f64::INFINITY, |a, &b| a.min(b));
        let is = |yes: bool| f64::from(u8::from(yes));
        vec![
            is(layer.table_bytes() > 0.0),
            is(layer.weight_bytes() > 0.0),
            place as f64 / layers.len() as f64,
            log(layer.out_bytes()),
            log(layer.weight_bytes()),
            log(layer.table_bytes()),
            log(least * 1e9),
        ]
    };
    layers.iter().enumerate().map(of).collect()
}

/// Adam with its usual moments (Kingma and Ba, 2015).
struct Adam {
    first: Vec<f64>,
    second: Vec<f64>,
    steps: i32,
}

impl Adam {
    fn new(network: &Network) -> Self {
        let count = network.weights().count();
        Self {
            first: vec![0.0; count],
            second: vec![0.0; count],
            steps: 0,
        }
    }

    fn step(&mut self, network: &mut Network, gradient: &Network) {
        self.steps += 1;
        let (one, two) = (
            1.0 - 0.9_f64.powi(self.steps),
            1.0 - 0.999_f64.powi(self.steps),
        );
        let moments = self.first.iter_mut().zip(&mut self.second);
        let weights = network.weights_mut().zip(gradient.weights());
        for ((weight, gradient), (first, second)) in weights.zip(moments) {
            *first = 0.9 * *first + 0.1 * gradient;
            *second = 0.999 * *second + 0.001 * gradient * gradient;
            *weight -= RATE * (*first / one) / ((*second / two).sqrt() + 1e-8);
        }
    }
}
