//! Fitting the hazard: gradient boosting of oblivious trees with one output for each stretch.
//!
//! Sets and data
//! - samples `i` with weight `w_i`, levels `x_i`, and a remaining length that is known (ended)
//!   or known to be at least so long (censored);
//! - stretches `k`: `(e_{k-1}, e_k]`. Sample `i` is *at risk* in `k` if it was open at `e_{k-1}`
//!   and it is known whether it ended in `k`; then `y_ik` is 1 if it did and 0 if not.
//!
//! Model: the discrete-time hazard `h_k(x) = logistic(F_k(x))`, `F_k = b_k + Σ_t leaf_t(x)_k`.
//!
//! Objective: the likelihood of survival data in discrete time, which is that of one Bernoulli
//! trial for each sample and stretch at risk (Allison, "Discrete-time methods for the analysis of
//! event histories", Sociological Methodology 13, 1982), with a penalty on leaves:
//!
//! ```text
//! min  Σ_i w_i Σ_{k at risk} [ log(1 + exp F_k(x_i)) - y_ik F_k(x_i) ]  +  λ/2 Σ |leaf|²
//! ```
//!
//! Each tree is a Newton step: with `g = w (h - y)` and `q = w h (1 - h)`, a leaf's value is
//! `-Σg / (Σq + λ)` for each stretch, and a question's gain is the sum over leaves and stretches
//! of `(Σg)² / (Σq + λ)`, of both sides less that of their union (Chen and Guestrin, "XGBoost",
//! KDD 2016). All stretches share a tree's questions, so one walk forecasts a whole curve: that,
//! and rows of bytes, is why this is not left to a library, none of which fits many hazards of
//! one curve at once.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::features::{FEATURES, Row};
use super::levels::LEVELS;
use super::model::{DEPTH, EDGES_S, LEAVES, Model, STRETCHES, Stretches, Tree, logistic};

/// How many trees at most.
const TREES: usize = 160;

/// After so many trees without gain no more are tried.
const PATIENCE: usize = 24;

/// What share of each Newton step is taken.
const RATE: f32 = 0.12;

/// The penalty on leaves, in samples' worth of curvature. Samples of one moment end together,
/// so it is larger than for independent ones.
const PENALTY: f32 = 300.0;

/// An age is drawn to all ages as if so many samples had been like the mean.
const AGE_PRIOR: f64 = 300.0;

/// What share of the samples each tree sees.
const SEEN: f64 = 0.6;

/// Features with which the hazard must fall, whatever a few days seem to say: who stands further
/// back, or was passed over more often, is not taken sooner.
const FALLING: [bool; FEATURES] = [
    false, true, true, true, true, true, false, false, false, false, false, false, false, false,
    true, false,
];

/// Gradient and curvature side by side, so that sums are taken in one go.
type Pair = [f32; 2 * STRETCHES];

/// A sample as the fit needs it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Trial {
    pub(crate) row: Row,
    /// Stretches that it was seen to survive.
    pub(crate) survived: u8,
    /// Whether it was seen to end in the next one.
    pub(crate) ended: bool,
    pub(crate) weight: f32,
}

impl Trial {
    /// From a remaining length, known (ended) or known to be at least so long.
    pub(crate) fn new(row: Row, length_s: f32, ended: bool, weight: f32) -> Self {
        let survived = if ended {
            // A hole that ends at an edge ends in the stretch before it.
            EDGES_S.partition_point(|&edge| edge < length_s)
        } else {
            EDGES_S.partition_point(|&edge| edge <= length_s)
        };
        Self {
            row,
            survived: survived as u8,
            ended: ended && survived < STRETCHES,
            weight,
        }
    }

    /// Whether it is at risk in a stretch, and whether it ends there.
    pub(super) fn outcome(&self, stretch: usize) -> Option<f32> {
        match stretch.cmp(&usize::from(self.survived)) {
            std::cmp::Ordering::Less => Some(0.0),
            std::cmp::Ordering::Equal if self.ended => Some(1.0),
            _ => None,
        }
    }
}

/// Fits a model to trials in the order of time; nothing if there is nothing to learn from.
///
/// It begins with what the age alone says. How many trees come on top is decided by the newest
/// quarter of the trials: as many as forecast it best, learnt from what was before. So a machine
/// that has shown little is forecast by age, and none is believed more than it has earned.
pub(crate) fn fit(trials: &[Trial], seed: u64) -> Option<Model> {
    if trials.is_empty() {
        return None;
    }
    let before = trials.len() - trials.len() / 4;
    let (past, newest) = trials.split_at(before);
    // Holes that were there at the cut are in both parts: what was asked just before it is left
    // out, so that nothing is judged by itself.
    let past = past.get(..before - before / 16).unwrap_or_default();
    let trees = if newest.is_empty() || past.is_empty() {
        0
    } else {
        best_count(past, newest, seed)
    };
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut fit = Fit::new(trials);
    let mut model = fit.begin();
    for _ in 0..trees {
        match fit.tree(&mut rng) {
            Some(tree) => model.trees.push(tree),
            None => break,
        }
    }
    Some(model)
}

/// How many trees learnt from the past forecast the newest trials best.
fn best_count(past: &[Trial], newest: &[Trial], seed: u64) -> usize {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut fit = Fit::new(past);
    let model = fit.begin();
    let mut odds: Vec<Stretches> = newest.iter().map(|trial| model.odds(&trial.row)).collect();
    let loss = |odds: &[Stretches]| -> f64 { newest.iter().zip(odds).map(surprise).sum() };
    let mut best = (0, loss(&odds));
    for count in 1..=TREES {
        let Some(tree) = fit.tree(&mut rng) else {
            break;
        };
        for (trial, odds) in newest.iter().zip(&mut odds) {
            if let Some(leaf) = tree.leaves.get(tree.leaf(&trial.row)) {
                for (odds, add) in odds.iter_mut().zip(leaf) {
                    *odds += add;
                }
            }
        }
        if count % 4 == 0 {
            let now = loss(&odds);
            if now < best.1 {
                best = (count, now);
            } else if count > best.0 + PATIENCE {
                break;
            }
        }
    }
    best.0
}

/// Minus the log-likelihood of what was seen.
fn surprise((trial, odds): (&Trial, &Stretches)) -> f64 {
    let seen = odds.iter().enumerate().map_while(|(k, &odds)| {
        let outcome = trial.outcome(k)?;
        let wrong = if outcome > 0.5 { -odds } else { odds };
        Some(f64::from(wrong.max(0.0) + (-wrong.abs()).exp().ln_1p()))
    });
    f64::from(trial.weight) * seen.sum::<f64>()
}

/// Log-odds of each stretch by age alone. An age that few were seen at is drawn to all.
fn by_age(trials: &[Trial]) -> Vec<Stretches> {
    let mut all = [(0.5f64, 1.0f64); STRETCHES];
    let mut ages = [[(0.0f64, 0.0f64); STRETCHES]; LEVELS];
    for trial in trials {
        let [age, ..] = trial.row;
        for (k, all) in all.iter_mut().enumerate() {
            let Some(outcome) = trial.outcome(k) else {
                break;
            };
            let (ended, risk) = (f64::from(trial.weight * outcome), f64::from(trial.weight));
            *all = (all.0 + ended, all.1 + risk);
            let of_age = ages
                .get_mut(usize::from(age))
                .and_then(|age| age.get_mut(k));
            if let Some(of_age) = of_age {
                *of_age = (of_age.0 + ended, of_age.1 + risk);
            }
        }
    }
    let prior = AGE_PRIOR;
    let odds = |ages: &[(f64, f64); STRETCHES]| {
        let mut odds = [0.0; STRETCHES];
        for ((odds, &(ended, risk)), (ended_all, risk_all)) in odds.iter_mut().zip(ages).zip(all) {
            let share = (ended + prior * ended_all / risk_all) / (risk + prior);
            let share = share.clamp(1e-6, 1.0 - 1e-6);
            *odds = (share / (1.0 - share)).ln() as f32;
        }
        odds
    };
    ages.iter().map(odds).collect()
}

struct Fit<'a> {
    trials: &'a [Trial],
    odds: Vec<Stretches>,
    pairs: Vec<Pair>,
    leaf: Vec<u8>,
    /// Sums by leaf, feature and level.
    sums: Vec<Pair>,
    seen: Vec<u32>,
}

#[expect(
    clippy::indexing_slicing,
    reason = "the inner loops of the fit; places are below lengths that are set here"
)]
impl<'a> Fit<'a> {
    fn new(trials: &'a [Trial]) -> Self {
        Self {
            trials,
            odds: Vec::new(),
            pairs: vec![[0.0; 2 * STRETCHES]; trials.len()],
            leaf: vec![0; trials.len()],
            sums: Vec::new(),
            seen: Vec::new(),
        }
    }

    /// What the age alone says.
    fn begin(&mut self) -> Model {
        let model = Model {
            by_age: by_age(self.trials),
            trees: Vec::with_capacity(TREES),
        };
        let odds = self.trials.iter().map(|trial| model.odds(&trial.row));
        self.odds = odds.collect();
        model
    }

    fn tree(&mut self, rng: &mut ChaCha8Rng) -> Option<Tree> {
        self.seen.clear();
        let all = 0..self.trials.len() as u32;
        self.seen.extend(all.filter(|_| rng.random_bool(SEEN)));
        self.gradients();
        self.leaf.fill(0);
        let mut questions = [(0u8, u8::MAX); DEPTH];
        for (depth, slot) in questions.iter_mut().enumerate() {
            self.sum_up(1 << depth);
            let Some(question) = self.question(1 << depth) else {
                break;
            };
            *slot = question;
            for (leaf, trial) in self.leaf.iter_mut().zip(self.trials) {
                let above = trial.row[question.0 as usize] > question.1;
                *leaf |= u8::from(above) << depth;
            }
        }
        if questions[0].1 == u8::MAX {
            return None;
        }
        let mut sums = [[0.0f32; 2 * STRETCHES]; LEAVES];
        for &at in &self.seen {
            add(
                &mut sums[self.leaf[at as usize] as usize],
                &self.pairs[at as usize],
            );
        }
        let mut leaves: Vec<Stretches> = sums
            .iter()
            .map(|sum| std::array::from_fn(|k| -RATE * sum[k] / (sum[STRETCHES + k] + PENALTY)))
            .collect();
        settle(&mut leaves, &sums, &questions);
        for (odds, &leaf) in self.odds.iter_mut().zip(&self.leaf) {
            for (odds, add) in odds.iter_mut().zip(&leaves[leaf as usize]) {
                *odds += add;
            }
        }
        Some(Tree { questions, leaves })
    }

    fn gradients(&mut self) {
        for &at in &self.seen {
            let (trial, odds) = (&self.trials[at as usize], &self.odds[at as usize]);
            let pair = &mut self.pairs[at as usize];
            *pair = [0.0; 2 * STRETCHES];
            for k in 0..STRETCHES {
                let Some(outcome) = trial.outcome(k) else {
                    break;
                };
                let hazard = logistic(odds[k]);
                pair[k] = trial.weight * (hazard - outcome);
                pair[STRETCHES + k] = trial.weight * hazard * (1.0 - hazard);
            }
        }
    }

    /// Sums for every leaf, feature and level.
    fn sum_up(&mut self, leaves: usize) {
        self.sums.clear();
        self.sums
            .resize(leaves * FEATURES * LEVELS, [0.0; 2 * STRETCHES]);
        for &at in &self.seen {
            let at = at as usize;
            let pair = self.pairs[at];
            let of_leaf = self.leaf[at] as usize * FEATURES * LEVELS;
            for (feature, &level) in self.trials[at].row.iter().enumerate() {
                let place = of_leaf + feature * LEVELS + (level as usize & (LEVELS - 1));
                add(&mut self.sums[place], &pair);
            }
        }
    }

    /// The question that gains most, if any gains.
    fn question(&self, leaves: usize) -> Option<(u8, u8)> {
        let mut best = (1e-3f32, None);
        for (feature, &is_falling) in FALLING.iter().enumerate() {
            let mut gains = [0.0f32; LEVELS];
            for leaf in 0..leaves {
                let from = (leaf * FEATURES + feature) * LEVELS;
                let levels = &self.sums[from..from + LEVELS];
                let mut whole = [0.0; 2 * STRETCHES];
                for level in levels {
                    add(&mut whole, level);
                }
                let mut below = [0.0; 2 * STRETCHES];
                for (gain, level) in gains.iter_mut().zip(levels) {
                    add(&mut below, level);
                    let mut above = whole;
                    for (above, below) in above.iter_mut().zip(&below) {
                        *above -= below;
                    }
                    *gain += gain_of(&below, &above, is_falling);
                }
            }
            for (level, &gain) in gains.iter().enumerate().take(LEVELS - 1) {
                if gain > best.0 {
                    best = (gain, Some((feature as u8, level as u8)));
                }
            }
        }
        best.1
    }
}

fn add(sum: &mut Pair, pair: &Pair) {
    for (sum, add) in sum.iter_mut().zip(pair) {
        *sum += add;
    }
}

/// What telling two parts of a leaf apart gains; nothing in a stretch where the part above would
/// have the higher hazard though it must not.
fn gain_of(below: &Pair, above: &Pair, is_falling: bool) -> f32 {
    let (below_g, below_q) = below.split_at(STRETCHES);
    let (above_g, above_q) = above.split_at(STRETCHES);
    let below = below_g.iter().zip(below_q);
    let above = above_g.iter().zip(above_q);
    below
        .zip(above)
        .map(|((&g, &q), (&other_g, &other_q))| {
            let (q, other_q) = (q.max(0.0) + PENALTY, other_q.max(0.0) + PENALTY);
            // A falling hazard has a rising gradient.
            if is_falling && g * other_q > other_g * q {
                return 0.0;
            }
            let both = g + other_g;
            g * g / q + other_g * other_g / other_q - both * both / (q + other_q - PENALTY)
        })
        .sum()
}

/// Where leaves that differ in one answer about a falling feature stand the wrong way round,
/// both take their mean.
#[expect(
    clippy::indexing_slicing,
    reason = "places are below the number of leaves"
)]
fn settle(leaves: &mut [Stretches], sums: &[Pair], questions: &[(u8, u8); DEPTH]) {
    for _ in 0..8 {
        let mut is_settled = true;
        for (bit, &(feature, level)) in questions.iter().enumerate() {
            if level == u8::MAX || !FALLING[feature as usize] {
                continue;
            }
            for below in (0..LEAVES).filter(|leaf| leaf >> bit & 1 == 0) {
                let above = below | 1 << bit;
                for k in 0..STRETCHES {
                    if leaves[above][k] > leaves[below][k] + 1e-6 {
                        let weight = |leaf: usize| sums[leaf][STRETCHES + k].max(0.0) + PENALTY;
                        let (a, b) = (weight(above), weight(below));
                        let mean = (a * leaves[above][k] + b * leaves[below][k]) / (a + b);
                        leaves[above][k] = mean;
                        leaves[below][k] = mean;
                        is_settled = false;
                    }
                }
            }
        }
        if is_settled {
            break;
        }
    }
}
