//! How good forecasts would have been on a recording: each is made from what was known at its
//! moment, and only then is the answer learnt (prequential; Dawid, "Statistical theory: the
//! prequential approach", J. R. Stat. Soc. A 147 (1984)).
//!
//! At some moments a sample of the present holes is asked after: with what probability is it
//! still open in 1, 5, 15, 60 minutes? For each horizon the answers give the Brier score, the
//! mean of `(probability - outcome)²`, and bins of probabilities beside the share of holes that
//! stayed open. The base rate's score is that of knowing the share of all asked holes that stay
//! open, and nothing else; the skill is one less the ratio of the two.

use lacuna_forecast::{Choice, HORIZONS_S, Learning, Predictor};
use lacuna_model::{Hole, NodeId, Span, Timestamp};
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use crate::{Recording, SimError, limits};

/// Bins of probabilities: tenths.
const BINS: usize = 10;

/// How much is asked.
#[derive(Debug, Clone, PartialEq)]
pub struct CalibrationOptions {
    /// The predictors, with their labels; the first is drawn first.
    pub predictors: Vec<(String, Choice)>,
    /// Moments at which is asked, spread over the recording; each costs a forecast of the whole
    /// pool.
    pub moments: u32,
    /// Holes that are asked after at a moment, at most.
    pub holes: usize,
    /// Seed of moments and samples.
    pub seed: u64,
}

impl Default for CalibrationOptions {
    /// The survival curve beside `BFTrainer`'s constant of 120 s, 1,000 moments, 64 holes each.
    fn default() -> Self {
        Self {
            predictors: vec![
                ("survival".to_owned(), Choice::default()),
                (
                    "constant 120 s".to_owned(),
                    Choice::Constant { length_s: 120.0 },
                ),
            ],
            moments: 1000,
            holes: 64,
            seed: 1,
        }
    }
}

/// How good the forecasts of some predictors would have been.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Calibrated {
    /// Seed of moments and samples.
    pub seed: u64,
    /// Moments at which was asked: those at which no predictor was too young.
    pub moments: u64,
    /// Holes that were asked after, all moments together.
    pub holes: u64,
    /// The predictors.
    pub predictors: Vec<PredictorScore>,
}

/// One predictor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PredictorScore {
    /// What it is called.
    pub label: String,
    /// Its scores, in the order of [`lacuna_forecast::HORIZONS_S`].
    pub horizons: Vec<HorizonScore>,
}

/// One predictor at one horizon.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HorizonScore {
    /// How far ahead, seconds.
    pub horizon_s: f64,
    /// Questions whose answer lies in the recording.
    pub answered: u64,
    /// Of these, holes that were still open.
    pub open: u64,
    /// Brier score: 0 is perfect, .25 is a coin.
    pub brier: f64,
    /// Brier score of knowing only the share that stays open.
    pub brier_of_base_rate: f64,
    /// Forecasts by probability, those bins that have any.
    pub bins: Vec<ReliabilityBin>,
}

impl HorizonScore {
    /// One less the ratio of both scores: above zero is better than the base rate.
    #[must_use]
    pub fn skill(&self) -> Option<f64> {
        (self.brier_of_base_rate > 0.0).then(|| 1.0 - self.brier / self.brier_of_base_rate)
    }
}

/// Forecasts of about one probability.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ReliabilityBin {
    /// Their mean probability of open.
    pub predicted: f64,
    /// The share of their holes that was open.
    pub observed: f64,
    /// How many.
    pub count: u64,
}

/// Sums of one predictor at one horizon.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    answered: u64,
    open: u64,
    squares: f64,
    /// Count, sum of probabilities, number open.
    bins: [(u64, f64, u64); BINS],
}

impl Sums {
    fn answer(&mut self, predicted: f64, open: bool) {
        let outcome = if open { 1.0 } else { 0.0 };
        self.answered += 1;
        self.open += u64::from(open);
        self.squares += (predicted - outcome).powi(2);
        let place = ((predicted * BINS as f64) as usize).min(BINS - 1);
        if let Some(bin) = self.bins.get_mut(place) {
            *bin = (bin.0 + 1, bin.1 + predicted, bin.2 + u64::from(open));
        }
    }

    fn score(&self, horizon_s: f64) -> HorizonScore {
        let answered = self.answered.max(1) as f64;
        let base = self.open as f64 / answered;
        HorizonScore {
            horizon_s,
            answered: self.answered,
            open: self.open,
            brier: self.squares / answered,
            brier_of_base_rate: base * (1.0 - base),
            bins: self
                .bins
                .iter()
                .filter(|(count, _, _)| *count > 0)
                .map(|&(count, predicted, open)| ReliabilityBin {
                    predicted: predicted / count as f64,
                    observed: open as f64 / count as f64,
                    count,
                })
                .collect(),
        }
    }
}

/// What was asked of a hole at a moment: one probability for each predictor and horizon.
#[derive(Debug, Clone)]
struct Question {
    asked: Timestamp,
    predicted: Vec<[f64; HORIZONS_S.len()]>,
}

/// A walk under way.
struct Walk {
    predictors: Vec<Box<dyn Predictor>>,
    sums: Vec<[Sums; HORIZONS_S.len()]>,
    present: Vec<Option<Hole>>,
    open_questions: Vec<Vec<Question>>,
    holes_at_a_time: usize,
    rng: ChaCha8Rng,
    moments: u64,
    holes: u64,
}

/// Walks over a recording, lets predictors forecast and learn, and scores them.
///
/// # Errors
/// [`SimError`] if the recording cannot be read, or is longer than any can be.
pub fn calibrate(
    recording: &dyn Recording,
    options: &CalibrationOptions,
) -> Result<Calibrated, SimError> {
    limits::check_length(recording)?;
    let (start, end) = (recording.start(), recording.end());
    let length_s = recording.length_s();
    let mut rng = ChaCha8Rng::seed_from_u64(options.seed);
    // One moment in each of equal parts, so that they are spread and hit no rhythm.
    let part = length_s / f64::from(options.moments.max(1));
    let mut asks = (0..options.moments)
        .map(|at| (f64::from(at) + rng.random::<f64>()) * part)
        .collect::<Vec<f64>>()
        .into_iter()
        .peekable();
    let mut walk = Walk {
        predictors: options.predictors.iter().map(|(_, c)| c.build()).collect(),
        sums: vec![[Sums::default(); HORIZONS_S.len()]; options.predictors.len()],
        present: vec![None; recording.nodes() as usize],
        open_questions: vec![Vec::new(); recording.nodes() as usize],
        holes_at_a_time: options.holes,
        rng,
        moments: 0,
        holes: 0,
    };
    let mut steps = recording.steps()?;
    while let Some(step) = steps.next()? {
        if step.at_s >= length_s {
            break;
        }
        // What happens at the moment of asking is not known yet when it is asked.
        while let Some(at_s) = asks.next_if(|at| *at < step.at_s) {
            walk.ask(start + Span::from_secs_f64(at_s));
        }
        let now = start + Span::from_secs_f64(step.at_s);
        for &node in step.closed {
            walk.close(node as usize, now);
        }
        for &(node, since_ms) in step.opened {
            let name = NodeId::new(recording.node_name(node));
            if let Ok(node_id) = name {
                let since = Timestamp::from_unix_ms(since_ms);
                walk.open(
                    node as usize,
                    Hole {
                        node: node_id,
                        since,
                    },
                    now,
                );
            }
        }
    }
    for at_s in asks {
        walk.ask(start + Span::from_secs_f64(at_s));
    }
    walk.end(end);
    let labels = options.predictors.iter().map(|(label, _)| label.clone());
    Ok(Calibrated {
        seed: options.seed,
        moments: walk.moments,
        holes: walk.holes,
        predictors: labels
            .zip(&walk.sums)
            .map(|(label, sums)| PredictorScore {
                label,
                horizons: HORIZONS_S
                    .iter()
                    .zip(sums)
                    .map(|(&horizon_s, sums)| sums.score(horizon_s))
                    .collect(),
            })
            .collect(),
    })
}

impl Walk {
    fn open(&mut self, node: usize, hole: Hole, now: Timestamp) {
        if self.present.len() <= node {
            self.present.resize(node + 1, None);
            self.open_questions.resize(node + 1, Vec::new());
        }
        for predictor in &mut self.predictors {
            predictor.opened(&hole, now);
        }
        if let Some(place) = self.present.get_mut(node) {
            *place = Some(hole);
        }
    }

    fn close(&mut self, node: usize, now: Timestamp) {
        let Some(hole) = self.present.get_mut(node).and_then(Option::take) else {
            return;
        };
        for predictor in &mut self.predictors {
            predictor.closed(&hole, now);
        }
        let questions = self.open_questions.get_mut(node).map(std::mem::take);
        for question in questions.unwrap_or_default() {
            self.answer(&question, |due| Some(now > due));
        }
    }

    /// What is due after the end has no answer.
    fn end(&mut self, end: Timestamp) {
        for questions in std::mem::take(&mut self.open_questions) {
            for question in questions {
                self.answer(&question, |due| (due < end).then_some(true));
            }
        }
    }

    fn answer(&mut self, question: &Question, outcome: impl Fn(Timestamp) -> Option<bool>) {
        for (sums, predicted) in self.sums.iter_mut().zip(&question.predicted) {
            for ((sums, predicted), &horizon) in sums.iter_mut().zip(predicted).zip(&HORIZONS_S) {
                if let Some(open) = outcome(question.asked + Span::from_secs_f64(horizon)) {
                    sums.answer(*predicted, open);
                }
            }
        }
    }

    /// Asks after a sample of the present holes, unless a predictor is too young: all are to be
    /// scored on the same questions.
    fn ask(&mut self, now: Timestamp) {
        let mut states = self.predictors.iter().map(|predictor| predictor.learning());
        if states.any(|state| matches!(state, Learning::Young { .. })) {
            return;
        }
        let nodes = self.present.iter().enumerate();
        let (nodes, holes): (Vec<usize>, Vec<Hole>) = nodes
            .filter_map(|(node, hole)| Some((node, hole.clone()?)))
            .unzip();
        if holes.is_empty() {
            return;
        }
        self.moments += 1;
        let predictors = self.predictors.iter_mut();
        let forecasts: Vec<_> = predictors.map(|p| p.forecast(now, &holes)).collect();
        let mut places: Vec<usize> = (0..holes.len()).collect();
        let (sample, _) = places.partial_shuffle(&mut self.rng, self.holes_at_a_time);
        for &mut place in sample {
            let predicted = forecasts
                .iter()
                .map(|forecasts| {
                    let forecast = forecasts.of(place);
                    HORIZONS_S.map(|after| forecast.map_or(0.5, |f| f.open_after(after)))
                })
                .collect();
            let questions = nodes
                .get(place)
                .and_then(|&n| self.open_questions.get_mut(n));
            if let Some(questions) = questions {
                questions.push(Question {
                    asked: now,
                    predicted,
                });
                self.holes += 1;
            }
        }
    }
}
