//! Fitting the hazard: gradient boosting of oblivious trees with one output for each interval.
//!
//! Sets and data
//! - samples `i` with weight `w_i`, feature bins `x_i`, and a remaining length that is known
//!   (ended) or has a known lower bound (censored);
//! - intervals `k`: `(e_{k-1}, e_k]`. Sample `i` is *at risk* in `k` if it was open at `e_{k-1}`
//!   and its outcome in `k` is known; then `y_ik` is 1 if it ended there and 0 if not.
//!
//! Model: the discrete-time hazard `h_k(x) = logistic(F_k(x))`, `F_k = b_k + Σ_t leaf_t(x)_k`.
//!
//! Objective: the likelihood of survival data in discrete time, with a penalty on leaves. It is
//! that of one Bernoulli trial for each sample and interval at risk (Allison, "Discrete-time
//! methods for the analysis of event histories", Sociological Methodology 13, 1982):
//!
//! ```text
//! min  Σ_i w_i Σ_{k at risk} [ log(1 + exp F_k(x_i)) - y_ik F_k(x_i) ]  +  λ/2 Σ |leaf|²
//! ```
//!
//! Each tree is a Newton step. With `g = w (h - y)` and `q = w h (1 - h)`, the value of a leaf is
//! `-Σg / (Σq + λ)` for each interval. The gain of a question (a split) sums `(Σg)² / (Σq + λ)`
//! over leaves and intervals, for both sides less that of their union (Chen and Guestrin,
//! "XGBoost", KDD 2016). All intervals share the questions of a tree, so one walk forecasts a whole
//! curve. No library fits many hazards of one curve at once, on rows of bytes; hence this
//! implementation.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::feature_bins::BINS;
use super::features::{FEATURES, FeatureRow};
use super::model::{DEPTH, EDGES_S, INTERVALS, LEAVES, Model, PerInterval, Tree};

/// The largest number of trees.
const TREES: usize = 160;

/// The number of trees without gain after which the search for more ends.
const PATIENCE: usize = 24;

/// The share of each Newton step that is taken (the learning rate).
const RATE: f32 = 0.12;

/// The penalty on leaves, in units of the curvature of one sample. Samples of one moment end
/// together, so it is larger than for independent samples.
const PENALTY: f32 = 300.0;

/// The weight of the mean over all ages in the estimate of one age, in samples.
const AGE_PRIOR: f64 = 300.0;

/// The share of the samples in the fit of each tree.
const SEEN: f64 = 0.6;

/// Features in which the hazard must not rise, even if a few days of data suggest it. A node that
/// is further back, or was passed over more often, is not taken sooner.
const FALLING: [bool; FEATURES] = [
    false, true, true, true, true, true, false, false, false, false, false, false, false, false,
    true, false,
];

/// The number of pairs of neighbouring intervals.
const PAIRS: usize = INTERVALS / 2;

/// Gradients and curvatures of pairs of intervals, as `g g q q`. An example that is at risk in few
/// intervals adds only the first pairs. The size is one cache line.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[repr(align(64))]
struct Sums([[f32; 4]; PAIRS]);

impl Sums {
    fn add<const N: usize>(&mut self, more: &[[f32; 4]; N]) {
        for (sum, more) in self.0.iter_mut().zip(more) {
            for (sum, more) in sum.iter_mut().zip(more) {
                *sum += more;
            }
        }
    }

    fn take_off(&mut self, less: &Self) {
        for (sum, less) in self.0.iter_mut().zip(&less.0) {
            for (sum, less) in sum.iter_mut().zip(less) {
                *sum -= less;
            }
        }
    }

    fn new(
        &[a, b, c, d, e, f, g, h]: &PerInterval,
        &[p, q, r, s, t, u, v, w]: &PerInterval,
    ) -> Self {
        Self([[a, b, p, q], [c, d, r, s], [e, f, t, u], [g, h, v, w]])
    }

    /// The gradients and the curvatures by interval.
    fn split(&self) -> (PerInterval, PerInterval) {
        let [[a, b, p, q], [c, d, r, s], [e, f, t, u], [g, h, v, w]] = self.0;
        ([a, b, c, d, e, f, g, h], [p, q, r, s, t, u, v, w])
    }
}

/// For each number of intervals at risk: 1 for these intervals, 0 for the rest.
#[expect(
    clippy::indexing_slicing,
    reason = "made by the compiler, which checks every place"
)]
const FIRST: [PerInterval; INTERVALS + 1] = {
    let mut first = [[0.0; INTERVALS]; INTERVALS + 1];
    let mut count = 0;
    while count <= INTERVALS {
        let mut k = 0;
        while k < count {
            first[count][k] = 1.0;
            k += 1;
        }
        count += 1;
    }
    first
};

/// The number of sums of a leaf.
const SUMS: usize = FEATURES * BINS;

/// Sums by feature and bin.
type Histogram = [Sums; SUMS];

/// A sample in the form of the fit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Example {
    pub(crate) row: FeatureRow,
    /// The number of intervals that the hole survived.
    pub(crate) survived: u8,
    /// Whether the hole ended in the next interval.
    pub(crate) ended: bool,
    pub(crate) weight: f32,
}

impl Example {
    /// An example from a remaining length, which is known (`ended`) or a lower bound.
    pub(crate) fn new(row: FeatureRow, length_s: f32, ended: bool, weight: f32) -> Self {
        let survived = if ended {
            // A hole that ends at an edge ends in the interval before the edge.
            EDGES_S.partition_point(|&edge| edge < length_s)
        } else {
            EDGES_S.partition_point(|&edge| edge <= length_s)
        };
        Self {
            row,
            survived: survived as u8,
            ended: ended && survived < INTERVALS,
            weight,
        }
    }

    /// The number of intervals at risk, from the first on.
    fn risk(&self) -> usize {
        usize::from(self.survived + u8::from(self.ended))
    }

    /// The outcome in an interval: 1 if the hole ended there, else 0; `None` if not at risk.
    pub(super) fn outcome(&self, interval: usize) -> Option<f32> {
        match interval.cmp(&usize::from(self.survived)) {
            std::cmp::Ordering::Less => Some(0.0),
            std::cmp::Ordering::Equal if self.ended => Some(1.0),
            _ => None,
        }
    }
}

/// Fits a model of `trees` trees, on top of the hazard by age, to examples in the order of time.
/// `None` without examples.
pub(crate) fn fit(examples: &[Example], trees: usize, seed: u64) -> Option<Model> {
    if examples.is_empty() {
        return None;
    }
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut fit = Fit::new(examples);
    let mut model = fit.begin();
    for _ in 0..trees {
        match fit.tree(&mut rng) {
            Some(tree) => model.trees.push(tree),
            None => break,
        }
    }
    Some(model)
}

/// The number of trees for these examples. It is the number that forecasts the newest quarter best
/// when fitted to the examples before. So a machine with few data is forecast by age alone.
pub(crate) fn trees(examples: &[Example], seed: u64) -> usize {
    let before = examples.len() - examples.len() / 4;
    let (past, newest) = examples.split_at(before);
    // Holes present at the cut are in both parts. Examples just before the cut are left out, so
    // that no hole is scored by a model fitted to itself.
    let past = past.get(..before - before / 16).unwrap_or_default();
    if newest.is_empty() || past.is_empty() {
        0
    } else {
        best_count(past, newest, seed)
    }
}

/// The number of trees fitted to the past that forecasts the newest examples best.
fn best_count(past: &[Example], newest: &[Example], seed: u64) -> usize {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut fit = Fit::new(past);
    let model = fit.begin();
    let initial = newest.iter().map(|example| model.odds(&example.row));
    let mut odds: Vec<PerInterval> = initial.collect();
    let loss = |odds: &[PerInterval]| -> f64 { newest.iter().zip(odds).map(surprise).sum() };
    let mut best = (0, loss(&odds));
    for count in 1..=TREES {
        let Some(tree) = fit.tree(&mut rng) else {
            break;
        };
        for (example, odds) in newest.iter().zip(&mut odds) {
            if let Some(leaf) = tree.leaves.get(tree.leaf(&example.row)) {
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

/// Minus the log-likelihood of an example.
fn surprise((example, odds): (&Example, &PerInterval)) -> f64 {
    let seen = odds.iter().enumerate().map_while(|(k, &odds)| {
        let outcome = example.outcome(k)?;
        let wrong = if outcome > 0.5 { -odds } else { odds };
        Some(f64::from(wrong.max(0.0) + (-wrong.abs()).exp().ln_1p()))
    });
    f64::from(example.weight) * seen.sum::<f64>()
}

/// The log-odds of each interval by age alone. An age with few examples is drawn to the mean.
fn by_age(examples: &[Example]) -> Vec<PerInterval> {
    let mut all = [(0.5f64, 1.0f64); INTERVALS];
    let mut ages = [[(0.0f64, 0.0f64); INTERVALS]; BINS];
    for example in examples {
        let [age, ..] = example.row;
        for (k, all) in all.iter_mut().enumerate() {
            let Some(outcome) = example.outcome(k) else {
                break;
            };
            let (ended, risk) = (
                f64::from(example.weight * outcome),
                f64::from(example.weight),
            );
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
    let odds = |ages: &[(f64, f64); INTERVALS]| {
        let mut odds = [0.0; INTERVALS];
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
    examples: &'a [Example],
    /// By example, the places of its bins in a histogram.
    places: Vec<[u16; FEATURES]>,
    /// By feature, the bins of the examples.
    columns: [Vec<u8>; FEATURES],
    odds: Vec<PerInterval>,
    sums: Vec<Sums>,
    leaf: Vec<u8>,
    /// The histogram of each leaf.
    histograms: Vec<Histogram>,
    /// The examples in the fit of the tree, by leaf and then in their order.
    seen: Vec<u32>,
    /// The end of each leaf in `seen`.
    ends: Vec<usize>,
    above: Vec<u32>,
}

#[expect(
    clippy::indexing_slicing,
    reason = "the inner loops of the fit; places are below lengths that are set here"
)]
impl<'a> Fit<'a> {
    fn new(examples: &'a [Example]) -> Self {
        Self {
            examples,
            places: examples
                .iter()
                .map(|example| places(&example.row))
                .collect(),
            columns: std::array::from_fn(|at| examples.iter().map(|one| one.row[at]).collect()),
            odds: Vec::new(),
            sums: vec![Sums::default(); examples.len()],
            leaf: vec![0; examples.len()],
            histograms: Vec::new(),
            seen: Vec::new(),
            ends: Vec::new(),
            above: Vec::new(),
        }
    }

    /// The model by age alone.
    fn begin(&mut self) -> Model {
        let model = Model {
            by_age: by_age(self.examples),
            trees: Vec::with_capacity(TREES),
        };
        let odds = self.examples.iter().map(|example| model.odds(&example.row));
        self.odds = odds.collect();
        model
    }

    fn tree(&mut self, rng: &mut ChaCha8Rng) -> Option<Tree> {
        self.seen.clear();
        self.seen.resize(self.examples.len(), 0);
        let mut count = 0;
        for at in 0..self.examples.len() {
            self.seen[count] = at as u32;
            count += usize::from(rng.random_bool(SEEN));
        }
        self.seen.truncate(count);
        self.ends.clear();
        self.ends.push(self.seen.len());
        self.gradients();
        self.leaf.fill(0);
        let mut questions = [(0u8, u8::MAX); DEPTH];
        self.histograms.clear();
        self.histograms.push([Sums::default(); SUMS]);
        self.sum_up(0);
        for (depth, slot) in questions.iter_mut().enumerate() {
            let Some(question) = self.question() else {
                break;
            };
            *slot = question;
            let column = &self.columns[question.0 as usize];
            for (leaf, &bin) in self.leaf.iter_mut().zip(column) {
                *leaf |= u8::from(bin > question.1) << depth;
            }
            let leaves = 1 << depth;
            self.part(leaves);
            if depth + 1 < DEPTH {
                (0..leaves).for_each(|leaf| self.divide(leaf, leaf + leaves));
            }
        }
        if questions[0].1 == u8::MAX {
            return None;
        }
        let mut sums = [Sums::default(); LEAVES];
        for (leaf, sum) in sums.iter_mut().enumerate().take(self.ends.len()) {
            for &at in &self.seen[self.range(leaf)] {
                sum.add(&self.sums[at as usize].0);
            }
        }
        let sums = sums.map(|sums| sums.split());
        let value = |(g, q): &(PerInterval, PerInterval)| -> PerInterval {
            std::array::from_fn(|k| -RATE * g[k] / (q[k] + PENALTY))
        };
        let mut leaves: Vec<PerInterval> = sums.iter().map(value).collect();
        settle(&mut leaves, &sums, &questions);
        for (odds, &leaf) in self.odds.iter_mut().zip(&self.leaf) {
            for (odds, add) in odds.iter_mut().zip(&leaves[leaf as usize]) {
                *odds += add;
            }
        }
        Some(Tree { questions, leaves })
    }

    // A function of its own, so that its constants stay in registers.
    #[inline(never)]
    fn gradients(&mut self) {
        for &at in &self.seen {
            let at = at as usize;
            let example = &self.examples[at];
            let hazards = hazards(&self.odds[at]);
            let at_risk = &FIRST[example.risk()];
            let survived = &FIRST[usize::from(example.survived)];
            let (mut g, mut q) = ([0.0; INTERVALS], [0.0; INTERVALS]);
            for k in 0..INTERVALS {
                let weight = example.weight * at_risk[k];
                let outcome = 1.0 - survived[k];
                g[k] = weight * (hazards[k] - outcome);
                q[k] = weight * hazards[k] * (1.0 - hazards[k]);
            }
            self.sums[at] = Sums::new(&g, &q);
        }
    }

    /// The range of a leaf in `seen`.
    fn range(&self, leaf: usize) -> std::ops::Range<usize> {
        let from = leaf.checked_sub(1).map_or(0, |before| self.ends[before]);
        from..self.ends[leaf]
    }

    /// Splits every leaf by the newest question: leaf `l` becomes `l` and `l + leaves`. All
    /// examples above the question move behind all those below. The order within a leaf stays.
    fn part(&mut self, leaves: usize) {
        self.above.resize(self.seen.len(), 0);
        let (mut from, mut below, mut above) = (0, 0, 0);
        let mut ends = Vec::with_capacity(leaves);
        for end in &mut self.ends {
            // Both places are written and one moves on, since a branch would be mispredicted.
            for place in from..*end {
                let at = self.seen[place];
                let is_above = usize::from(self.leaf[at as usize]) >= leaves;
                self.seen[below] = at;
                self.above[above] = at;
                below += usize::from(!is_above);
                above += usize::from(is_above);
            }
            from = std::mem::replace(end, below);
            ends.push(above);
        }
        self.seen[below..].copy_from_slice(&self.above[..above]);
        self.ends.extend(ends.iter().map(|end| below + end));
    }

    /// Computes the histograms of both parts of a leaf. The part with fewer examples is summed up,
    /// and the other one is the difference to the whole.
    fn divide(&mut self, below: usize, above: usize) {
        let (fewer, more) = if self.range(below).len() < self.range(above).len() {
            (below, above)
        } else {
            (above, below)
        };
        let whole = self.histograms[below];
        self.histograms.resize(above + 1, [Sums::default(); SUMS]);
        self.histograms[fewer] = [Sums::default(); SUMS];
        self.sum_up(fewer);
        self.histograms[more] = whole;
        for at in 0..SUMS {
            let less = self.histograms[fewer][at];
            self.histograms[more][at].take_off(&less);
        }
    }

    /// Sums up the examples of a leaf.
    fn sum_up(&mut self, leaf: usize) {
        let range = self.range(leaf);
        let histogram = &mut self.histograms[leaf];
        for &at in &self.seen[range] {
            let at = at as usize;
            let (places, [a, b, c, d]) = (&self.places[at], self.sums[at].0);
            match self.examples[at].risk().div_ceil(2) {
                0 => {}
                1 => add_to(histogram, places, [a]),
                2 => add_to(histogram, places, [a, b]),
                3 => add_to(histogram, places, [a, b, c]),
                _ => add_to(histogram, places, [a, b, c, d]),
            }
        }
    }

    /// The question with the largest gain; `None` if none gains.
    fn question(&self) -> Option<(u8, u8)> {
        let mut best = (1e-3f32, None);
        for (feature, &is_falling) in FALLING.iter().enumerate() {
            let mut gains = [0.0f32; BINS];
            for histogram in &self.histograms {
                let bins = &histogram[feature * BINS..][..BINS];
                let mut whole = Sums::default();
                for bin in bins {
                    whole.add(&bin.0);
                }
                let whole = whole.split();
                let mut below = Sums::default();
                let mut gain = gain_of(&below.split(), &whole, is_falling);
                for (slot, bin) in gains.iter_mut().zip(bins) {
                    // Many bins have no example in a leaf and change nothing.
                    if *bin != Sums::default() {
                        below.add(&bin.0);
                        gain = gain_of(&below.split(), &whole, is_falling);
                    }
                    *slot += gain;
                }
            }
            for (bin, &gain) in gains.iter().enumerate().take(BINS - 1) {
                if gain > best.0 {
                    best = (gain, Some((feature as u8, bin as u8)));
                }
            }
        }
        best.1
    }
}

/// The places of the bins of a row in a histogram.
fn places(row: &FeatureRow) -> [u16; FEATURES] {
    let mut places = [0; FEATURES];
    for ((place, &bin), feature) in places.iter_mut().zip(row).zip(0..) {
        *place = feature * BINS as u16 + u16::from(bin) % BINS as u16;
    }
    places
}

/// Adds the sums of an example in its first intervals to the bins of a histogram.
#[expect(clippy::indexing_slicing, reason = "a place is below their number")]
fn add_to<const N: usize>(
    histogram: &mut Histogram,
    places: &[u16; FEATURES],
    more: [[f32; 4]; N],
) {
    for &place in places {
        histogram[usize::from(place) % SUMS].add(&more);
    }
}

/// The hazards of all intervals at once: [`logistic`](super::model::logistic) to 1e-6.
#[expect(clippy::indexing_slicing, reason = "intervals are below their number")]
fn hazards(odds: &PerInterval) -> PerInterval {
    let mut hazards = [0.0; INTERVALS];
    for k in 0..INTERVALS {
        // e^-odds = 2^n 2^f with n whole and |f| at most one half. Adding and subtracting 1.5 *
        // 2^23 rounds. The polynomial has the least error for 2^f in that range.
        let x = odds[k] * -std::f32::consts::LOG2_E;
        let x = if x > 120.0 { 120.0 } else { x };
        let x = if x < -120.0 { -120.0 } else { x };
        let shifted = x + 12_582_912.0;
        let f = x - (shifted - 12_582_912.0);
        let p = 0.001_339_526_8;
        let p = p * f + 0.009_670_755;
        let p = p * f + 0.055_503_05;
        let p = p * f + 0.240_220_47;
        let p = p * f + std::f32::consts::LN_2;
        let p = p * f + 1.0;
        let exp = p.to_bits().wrapping_add(shifted.to_bits().wrapping_shl(23));
        hazards[k] = 1.0 / (1.0 + f32::from_bits(exp));
    }
    hazards
}

/// The gain of splitting a leaf, from the gradients and curvatures of the part below and the whole.
/// For a falling feature, an interval in which the hazard would rise gains zero.
#[expect(clippy::indexing_slicing, reason = "intervals are below their number")]
fn gain_of(
    (below_g, below_q): &(PerInterval, PerInterval),
    (whole_g, whole_q): &(PerInterval, PerInterval),
    is_falling: bool,
) -> f32 {
    let mut gains = [0.0; INTERVALS];
    for k in 0..INTERVALS {
        let (g, other_g) = (below_g[k], whole_g[k] - below_g[k]);
        let q = below_q[k].max(0.0) + PENALTY;
        let other_q = (whole_q[k] - below_q[k]).max(0.0) + PENALTY;
        let both = g + other_g;
        let gain = g * g / q + other_g * other_g / other_q - both * both / (q + other_q - PENALTY);
        // A falling hazard has a rising gradient.
        let is_wrong = is_falling & (g * other_q > other_g * q);
        gains[k] = if is_wrong { 0.0 } else { gain };
    }
    gains.iter().sum()
}

/// Replaces two leaves by their mean where they differ in one question on a falling feature and the
/// hazard rises.
#[expect(
    clippy::indexing_slicing,
    clippy::needless_range_loop,
    reason = "places are below the number of leaves"
)]
fn settle(
    leaves: &mut [PerInterval],
    sums: &[(PerInterval, PerInterval)],
    questions: &[(u8, u8); DEPTH],
) {
    for _ in 0..8 {
        let mut is_settled = true;
        for (bit, &(feature, bin)) in questions.iter().enumerate() {
            if bin == u8::MAX || !FALLING[feature as usize] {
                continue;
            }
            for below in (0..LEAVES).filter(|leaf| leaf >> bit & 1 == 0) {
                let above = below | 1 << bit;
                for k in 0..INTERVALS {
                    if leaves[above][k] > leaves[below][k] + 1e-6 {
                        let weight = |leaf: usize| sums[leaf].1[k].max(0.0) + PENALTY;
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
