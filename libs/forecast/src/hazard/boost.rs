//! Fitting the hazard: gradient boosting of oblivious trees with one output for each interval.
//!
//! Sets and data
//! - samples `i` with weight `w_i`, levels `x_i`, and a remaining length that is known (ended)
//!   or known to be at least so long (censored);
//! - intervals `k`: `(e_{k-1}, e_k]`. Sample `i` is *at risk* in `k` if it was open at `e_{k-1}`
//!   and it is known whether it ended in `k`; then `y_ik` is 1 if it did and 0 if not.
//!
//! Model: the discrete-time hazard `h_k(x) = logistic(F_k(x))`, `F_k = b_k + Σ_t leaf_t(x)_k`.
//!
//! Objective: the likelihood of survival data in discrete time, which is that of one Bernoulli
//! example for each sample and interval at risk (Allison, "Discrete-time methods for the analysis of
//! event histories", Sociological Methodology 13, 1982), with a penalty on leaves:
//!
//! ```text
//! min  Σ_i w_i Σ_{k at risk} [ log(1 + exp F_k(x_i)) - y_ik F_k(x_i) ]  +  λ/2 Σ |leaf|²
//! ```
//!
//! Each tree is a Newton step: with `g = w (h - y)` and `q = w h (1 - h)`, a leaf's value is
//! `-Σg / (Σq + λ)` for each interval, and a question's gain is the sum over leaves and intervals
//! of `(Σg)² / (Σq + λ)`, of both sides less that of their union (Chen and Guestrin, "XGBoost",
//! KDD 2016). All intervals share a tree's questions, so one walk forecasts a whole curve: that,
//! and rows of bytes, is why this is not left to a library, none of which fits many hazards of
//! one curve at once.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::features::{FEATURES, FeatureRow};
use super::feature_bins::BINS;
use super::model::{DEPTH, EDGES_S, LEAVES, Model, INTERVALS, PerInterval, Tree};

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

/// Pairs of neighbouring intervals.
const PAIRS: usize = INTERVALS / 2;

/// Gradients and curvatures, two intervals beside each other: `g g q q`. A example that is at risk
/// in few intervals adds the first pairs alone. One cache line.
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

    fn new(&[a, b, c, d, e, f, g, h]: &PerInterval, &[p, q, r, s, t, u, v, w]: &PerInterval) -> Self {
        Self([[a, b, p, q], [c, d, r, s], [e, f, t, u], [g, h, v, w]])
    }

    /// Gradients, then curvatures, by interval.
    fn split(&self) -> (PerInterval, PerInterval) {
        let [[a, b, p, q], [c, d, r, s], [e, f, t, u], [g, h, v, w]] = self.0;
        ([a, b, c, d, e, f, g, h], [p, q, r, s, t, u, v, w])
    }
}

/// By the count of intervals at risk: 1 for each of them, 0 for the rest.
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

/// How many sums a leaf has.
const SUMS: usize = FEATURES * BINS;

/// Sums by feature and level.
type Histogram = [Sums; SUMS];

/// A sample as the fit needs it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Example {
    pub(crate) row: FeatureRow,
    /// PerInterval that it was seen to survive.
    pub(crate) survived: u8,
    /// Whether it was seen to end in the next one.
    pub(crate) ended: bool,
    pub(crate) weight: f32,
}

impl Example {
    /// From a remaining length, known (ended) or known to be at least so long.
    pub(crate) fn new(row: FeatureRow, length_s: f32, ended: bool, weight: f32) -> Self {
        let survived = if ended {
            // A hole that ends at an edge ends in the interval before it.
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

    /// How many intervals it is at risk in, from the first on.
    fn risk(&self) -> usize {
        usize::from(self.survived + u8::from(self.ended))
    }

    /// Whether it is at risk in a interval, and whether it ends there.
    pub(super) fn outcome(&self, interval: usize) -> Option<f32> {
        match interval.cmp(&usize::from(self.survived)) {
            std::cmp::Ordering::Less => Some(0.0),
            std::cmp::Ordering::Equal if self.ended => Some(1.0),
            _ => None,
        }
    }
}

/// Fits a model to examples in the order of time: `trees` trees on top of what the age alone says.
/// Nothing if there is nothing to learn from.
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

/// How many trees a model of these examples is to have: as many as forecast the newest quarter best,
/// learnt from what was before. So a machine that has shown little is forecast by age, and none is
/// believed more than it has earned.
pub(crate) fn trees(examples: &[Example], seed: u64) -> usize {
    let before = examples.len() - examples.len() / 4;
    let (past, newest) = examples.split_at(before);
    // Holes that were there at the cut are in both parts: what was asked just before it is left
    // out, so that nothing is judged by itself.
    let past = past.get(..before - before / 16).unwrap_or_default();
    if newest.is_empty() || past.is_empty() {
        0
    } else {
        best_count(past, newest, seed)
    }
}

/// How many trees learnt from the past forecast the newest examples best.
fn best_count(past: &[Example], newest: &[Example], seed: u64) -> usize {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut fit = Fit::new(past);
    let model = fit.begin();
    let mut odds: Vec<PerInterval> = newest.iter().map(|example| model.odds(&example.row)).collect();
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

/// Minus the log-likelihood of what was seen.
fn surprise((example, odds): (&Example, &PerInterval)) -> f64 {
    let seen = odds.iter().enumerate().map_while(|(k, &odds)| {
        let outcome = example.outcome(k)?;
        let wrong = if outcome > 0.5 { -odds } else { odds };
        Some(f64::from(wrong.max(0.0) + (-wrong.abs()).exp().ln_1p()))
    });
    f64::from(example.weight) * seen.sum::<f64>()
}

/// Log-odds of each interval by age alone. An age that few were seen at is drawn to all.
fn by_age(examples: &[Example]) -> Vec<PerInterval> {
    let mut all = [(0.5f64, 1.0f64); INTERVALS];
    let mut ages = [[(0.0f64, 0.0f64); INTERVALS]; BINS];
    for example in examples {
        let [age, ..] = example.row;
        for (k, all) in all.iter_mut().enumerate() {
            let Some(outcome) = example.outcome(k) else {
                break;
            };
            let (ended, risk) = (f64::from(example.weight * outcome), f64::from(example.weight));
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
    /// By example, the places of its levels in a histogram.
    places: Vec<[u16; FEATURES]>,
    /// By feature, the levels of the examples.
    columns: [Vec<u8>; FEATURES],
    odds: Vec<PerInterval>,
    sums: Vec<Sums>,
    leaf: Vec<u8>,
    /// By leaf.
    histograms: Vec<Histogram>,
    /// The examples that the tree sees, by leaf and then in their order; where each leaf ends.
    seen: Vec<u32>,
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
            places: examples.iter().map(|example| places(&example.row)).collect(),
            columns: std::array::from_fn(|at| examples.iter().map(|example| example.row[at]).collect()),
            odds: Vec::new(),
            sums: vec![Sums::default(); examples.len()],
            leaf: vec![0; examples.len()],
            histograms: Vec::new(),
            seen: Vec::new(),
            ends: Vec::new(),
            above: Vec::new(),
        }
    }

    /// What the age alone says.
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
            for (leaf, &level) in self.leaf.iter_mut().zip(column) {
                *leaf |= u8::from(level > question.1) << depth;
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

    // By itself, so that its constants stay in registers.
    #[inline(never)]
    fn gradients(&mut self) {
        for &at in &self.seen {
            let at = at as usize;
            let example = &self.examples[at];
            let hazards = hazards(&self.odds[at]);
            let (at_risk, survived) = (&FIRST[example.risk()], &FIRST[usize::from(example.survived)]);
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

    /// The places of a leaf's examples among those seen.
    fn range(&self, leaf: usize) -> std::ops::Range<usize> {
        let from = leaf.checked_sub(1).map_or(0, |before| self.ends[before]);
        from..self.ends[leaf]
    }

    /// Moves those that answered the newest question with yes behind all that said no, leaf by
    /// leaf: leaf `l` becomes `l` and `l + leaves`. The order within a leaf stays.
    fn part(&mut self, leaves: usize) {
        self.above.resize(self.seen.len(), 0);
        let (mut from, mut below, mut above) = (0, 0, 0);
        let mut ends = Vec::with_capacity(leaves);
        for end in &mut self.ends {
            // Without a branch, since none can be foretold: both are written, one place moves on.
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

    /// The sums of a leaf that was divided: those of the part with fewer examples are taken, and
    /// the rest is of the other.
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

    /// Adds up the examples of a leaf.
    fn sum_up(&mut self, leaf: usize) {
        let range = self.range(leaf);
        let histogram = &mut self.histograms[leaf];
        for &at in &self.seen[range] {
            let at = at as usize;
            let (places, [a, b, c, d]) = (&self.places[at], self.sums[at].0);
            match self.examples[at].risk().div_ceil(2) {
                0 => {}
                1 => tell(histogram, places, [a]),
                2 => tell(histogram, places, [a, b]),
                3 => tell(histogram, places, [a, b, c]),
                _ => tell(histogram, places, [a, b, c, d]),
            }
        }
    }

    /// The question that gains most, if any gains.
    fn question(&self) -> Option<(u8, u8)> {
        let mut best = (1e-3f32, None);
        for (feature, &is_falling) in FALLING.iter().enumerate() {
            let mut gains = [0.0f32; BINS];
            for histogram in &self.histograms {
                let levels = &histogram[feature * BINS..][..BINS];
                let mut whole = Sums::default();
                for level in levels {
                    whole.add(&level.0);
                }
                let whole = whole.split();
                let mut below = Sums::default();
                let mut gain = gain_of(&below.split(), &whole, is_falling);
                for (slot, level) in gains.iter_mut().zip(levels) {
                    // Many levels are of no example in a leaf, and change nothing.
                    if *level != Sums::default() {
                        below.add(&level.0);
                        gain = gain_of(&below.split(), &whole, is_falling);
                    }
                    *slot += gain;
                }
            }
            for (level, &gain) in gains.iter().enumerate().take(BINS - 1) {
                if gain > best.0 {
                    best = (gain, Some((feature as u8, level as u8)));
                }
            }
        }
        best.1
    }
}

/// The places of levels in a histogram.
fn places(row: &FeatureRow) -> [u16; FEATURES] {
    let mut places = [0; FEATURES];
    for ((place, &level), feature) in places.iter_mut().zip(row).zip(0..) {
        *place = feature * BINS as u16 + u16::from(level) % BINS as u16;
    }
    places
}

/// Adds what is known of a example in the first intervals to the sums of its levels.
#[expect(clippy::indexing_slicing, reason = "a place is below their number")]
fn tell<const N: usize>(histogram: &mut Histogram, places: &[u16; FEATURES], more: [[f32; 4]; N]) {
    for &place in places {
        histogram[usize::from(place) % SUMS].add(&more);
    }
}

/// The hazards of all intervals at once: [`logistic`](super::model::logistic) to 1e-6.
#[expect(clippy::indexing_slicing, reason = "intervals are below their number")]
fn hazards(odds: &PerInterval) -> PerInterval {
    let mut hazards = [0.0; INTERVALS];
    for k in 0..INTERVALS {
        // e^-odds = 2^n 2^f with n whole and f within a half; adding and taking off 1.5 * 2^23
        // rounds. The polynomial is that of 2^f with the least error there.
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

/// What telling a part of a leaf, by gradients and curvatures, from the rest gains; nothing in a
/// interval where the part above would have the higher hazard though it must not.
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

/// Where leaves that differ in one answer about a falling feature stand the wrong way round,
/// both take their mean.
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
        for (bit, &(feature, level)) in questions.iter().enumerate() {
            if level == u8::MAX || !FALLING[feature as usize] {
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
