//! A recurrent cell with a softmax over kinds, and its gradient by hand.
//!
//! With x the features of a layer and the kind chosen before, h the state:
//!
//! ```text
//! RNN    z = W [x, h, 1]            h' = tanh z
//! LSTM   i, f, o, g = W [x, h, 1]   c' = σ(f) c + σ(i) tanh g     h' = σ(o) tanh c'
//! both   p = softmax(V [h', 1])
//! ```
//!
//! The gradient goes back through all layers. Weights are stored by column, since most inputs are 0.

#![expect(
    clippy::indexing_slicing,
    reason = "linear algebra; rows and columns are within sizes set in this file"
)]

use rand::RngExt as _;
use rand_chacha::ChaCha8Rng;

/// The cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cell {
    Rnn,
    Lstm,
}

impl Cell {
    fn gates(self) -> usize {
        match self {
            Self::Rnn => 1,
            Self::Lstm => 4,
        }
    }
}

/// A matrix by column.
#[derive(Debug, Clone)]
pub(super) struct Matrix {
    rows: usize,
    pub(super) values: Vec<f64>,
}

impl Matrix {
    fn zeros(rows: usize, columns: usize) -> Self {
        Self {
            rows,
            values: vec![0.0; rows * columns],
        }
    }

    fn random(rows: usize, columns: usize, random: &mut ChaCha8Rng) -> Self {
        let bound = 1.0 / (columns as f64).sqrt();
        let mut matrix = Self::zeros(rows, columns);
        for value in &mut matrix.values {
            *value = random.random_range(-bound..bound);
        }
        matrix
    }

    fn times(&self, x: &[f64]) -> Vec<f64> {
        let mut z = vec![0.0; self.rows];
        for (column, &x) in self
            .values
            .chunks(self.rows)
            .zip(x)
            .filter(|(_, x)| **x != 0.0)
        {
            for (z, value) in z.iter_mut().zip(column) {
                *z += value * x;
            }
        }
        z
    }

    /// The gradient of what goes in, from that of what comes out.
    fn back(&self, dz: &[f64]) -> Vec<f64> {
        let columns = self.values.chunks(self.rows);
        columns
            .map(|column| column.iter().zip(dz).map(|(value, dz)| value * dz).sum())
            .collect()
    }

    /// Adds the outer product, a gradient of the matrix.
    fn add_outer(&mut self, dz: &[f64], x: &[f64]) {
        for (column, &x) in self
            .values
            .chunks_mut(self.rows)
            .zip(x)
            .filter(|(_, x)| **x != 0.0)
        {
            for (value, dz) in column.iter_mut().zip(dz) {
                *value += dz * x;
            }
        }
    }
}

/// What one layer's step needs for its gradient.
#[derive(Debug, Clone)]
struct Trace {
    input: Vec<f64>,
    /// After their functions: h' of an RNN; i, f, o, g of an LSTM.
    gates: Vec<f64>,
    cell_before: Vec<f64>,
    cell: Vec<f64>,
    out: Vec<f64>,
    shares: Vec<f64>,
    kind: usize,
}

/// A choice with what its gradient needs.
#[derive(Debug, Clone)]
pub(super) struct Episode(Vec<Trace>);

impl Episode {
    pub(super) fn choice(&self) -> Vec<usize> {
        self.0.iter().map(|trace| trace.kind).collect()
    }
}

/// The network; also the form of its gradient.
#[derive(Debug, Clone)]
pub(super) struct Network {
    cell: Cell,
    hidden: usize,
    kinds: usize,
    inner: Matrix,
    outer: Matrix,
}

impl Network {
    /// A network for features of this number.
    pub(super) fn new(
        cell: Cell,
        (features, hidden, kinds): (usize, usize, usize),
        random: &mut ChaCha8Rng,
    ) -> Self {
        Self {
            cell,
            hidden,
            kinds,
            inner: Matrix::random(cell.gates() * hidden, features + kinds + hidden + 1, random),
            outer: Matrix::random(kinds, hidden + 1, random),
        }
    }

    pub(super) fn zeros_like(&self) -> Self {
        let zeros = |of: &Matrix| Matrix::zeros(of.rows, of.values.len() / of.rows);
        Self {
            inner: zeros(&self.inner),
            outer: zeros(&self.outer),
            ..*self
        }
    }

    /// All weights.
    pub(super) fn weights(&self) -> impl Iterator<Item = &f64> {
        self.inner.values.iter().chain(&self.outer.values)
    }

    /// All weights, to be changed.
    pub(super) fn weights_mut(&mut self) -> impl Iterator<Item = &mut f64> {
        self.inner.values.iter_mut().chain(&mut self.outer.values)
    }

    /// Chooses a kind for each layer. `pick` takes a layer's place and the shares of the kinds.
    pub(super) fn choose(
        &self,
        features: &[Vec<f64>],
        mut pick: impl FnMut(usize, &[f64]) -> usize,
    ) -> Episode {
        let mut state = vec![0.0; self.hidden];
        let mut cell = vec![0.0; self.hidden];
        let mut before = None;
        let mut episode = Vec::with_capacity(features.len());
        for (place, features) in features.iter().enumerate() {
            let mut input = features.clone();
            input.extend((0..self.kinds).map(|kind| f64::from(u8::from(before == Some(kind)))));
            input.extend(&state);
            input.push(1.0);
            let mut gates = self.inner.times(&input);
            let cell_before = cell.clone();
            match self.cell {
                Cell::Rnn => {
                    gates.iter_mut().for_each(|z| *z = z.tanh());
                    state.clone_from(&gates);
                }
                Cell::Lstm => {
                    let n = self.hidden;
                    for (at, z) in gates.iter_mut().enumerate() {
                        *z = if at < 3 * n {
                            1.0 / (1.0 + (-*z).exp())
                        } else {
                            z.tanh()
                        };
                    }
                    for k in 0..n {
                        cell[k] = gates[n + k] * cell[k] + gates[k] * gates[3 * n + k];
                        state[k] = gates[2 * n + k] * cell[k].tanh();
                    }
                }
            }
            let mut out = state.clone();
            out.push(1.0);
            let shares = softmax(&self.outer.times(&out));
            let kind = pick(place, &shares);
            before = Some(kind);
            episode.push(Trace {
                input,
                gates,
                cell_before,
                cell: cell.clone(),
                out,
                shares,
                kind,
            });
        }
        Episode(episode)
    }

    /// Adds the gradient of `-advantage Σ ln p(kind) - entropy Σ H(p)`, times a weight.
    pub(super) fn add_gradient(
        &self,
        gradient: &mut Self,
        episode: &Episode,
        (advantage, entropy): (f64, f64),
        weight: f64,
    ) {
        let n = self.hidden;
        let mut d_state = vec![0.0; n];
        let mut d_cell = vec![0.0; n];
        for trace in episode.0.iter().rev() {
            let plogp = |p: &f64| if *p > 0.0 { p * p.ln() } else { 0.0 };
            let mixed: f64 = -trace.shares.iter().map(plogp).sum::<f64>();
            let d_logits: Vec<f64> = trace
                .shares
                .iter()
                .enumerate()
                .map(|(kind, p)| {
                    let chosen = f64::from(u8::from(kind == trace.kind));
                    let of_entropy = plogp(p) + p * mixed;
                    weight * (advantage * (p - chosen) + entropy * of_entropy)
                })
                .collect();
            gradient.outer.add_outer(&d_logits, &trace.out);
            for (d, back) in d_state.iter_mut().zip(self.outer.back(&d_logits)) {
                *d += back;
            }
            let g = &trace.gates;
            let mut dz = vec![0.0; g.len()];
            match self.cell {
                Cell::Rnn => {
                    for k in 0..n {
                        dz[k] = d_state[k] * (1.0 - g[k] * g[k]);
                    }
                }
                Cell::Lstm => {
                    for k in 0..n {
                        let (i, f, o, u) = (g[k], g[n + k], g[2 * n + k], g[3 * n + k]);
                        let tanh = trace.cell[k].tanh();
                        let dc = d_cell[k] + d_state[k] * o * (1.0 - tanh * tanh);
                        dz[k] = dc * u * i * (1.0 - i);
                        dz[n + k] = dc * trace.cell_before[k] * f * (1.0 - f);
                        dz[2 * n + k] = d_state[k] * tanh * o * (1.0 - o);
                        dz[3 * n + k] = dc * i * (1.0 - u * u);
                        d_cell[k] = dc * f;
                    }
                }
            }
            gradient.inner.add_outer(&dz, &trace.input);
            let d_input = self.inner.back(&dz);
            let start = d_input.len() - 1 - n;
            d_state.copy_from_slice(&d_input[start..start + n]);
        }
    }
}

fn softmax(logits: &[f64]) -> Vec<f64> {
    let most = logits.iter().fold(f64::NEG_INFINITY, |a, &b| a.max(b));
    let powers: Vec<f64> = logits.iter().map(|z| (z - most).exp()).collect();
    let sum: f64 = powers.iter().sum();
    powers.into_iter().map(|power| power / sum).collect()
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng as _;

    use super::*;

    /// The loss of fixed kinds.
    fn loss(network: &Network, features: &[Vec<f64>], kinds: &[usize], entropy: f64) -> f64 {
        let episode = network.choose(features, |place, _| kinds[place]);
        let terms = episode.0.iter().map(|trace| {
            let mixed: f64 = -trace.shares.iter().map(|p| p * p.ln()).sum::<f64>();
            -1.7 * trace.shares[trace.kind].ln() - entropy * mixed
        });
        terms.sum()
    }

    #[test]
    fn the_gradient_is_the_slope_of_the_loss() {
        let features = vec![
            vec![0.3, -1.0],
            vec![0.0, 0.5],
            vec![1.0, 0.2],
            vec![0.7, 0.0],
        ];
        let kinds = [2, 0, 0, 1];
        for cell in [Cell::Rnn, Cell::Lstm] {
            let mut random = ChaCha8Rng::seed_from_u64(5);
            let mut network = Network::new(cell, (2, 5, 3), &mut random);
            let mut gradient = network.zeros_like();
            let episode = network.choose(&features, |place, _| kinds[place]);
            network.add_gradient(&mut gradient, &episode, (1.7, 0.3), 1.0);
            let gradient: Vec<f64> = gradient.weights().copied().collect();
            for (at, expected) in gradient.iter().enumerate() {
                let mut at_offset = |offset: f64| {
                    *network.weights_mut().nth(at).unwrap() += offset;
                    let loss = loss(&network, &features, &kinds, 0.3);
                    *network.weights_mut().nth(at).unwrap() -= offset;
                    loss
                };
                let slope = (at_offset(1e-5) - at_offset(-1e-5)) / 2e-5;
                assert!(
                    (slope - expected).abs() < 1e-7,
                    "{cell:?} {at}: {slope} {expected}"
                );
            }
        }
    }
}
