//! How good the forecasts were, measured while running.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use lacuna_model::{Hole, NodeId, Span, Timestamp};

use crate::Forecasts;

/// The horizons that are scored, seconds: 1, 5, 15 and 60 minutes.
pub const HORIZONS_S: [f64; 4] = [60.0, 300.0, 900.0, 3600.0];

/// Forecasts are sampled this often, in the cluster's time.
const EVERY: Span = Span::from_secs(60);

/// So many holes are sampled each time at most: memory stays below
/// `HOLES_MAX * 60 * HORIZONS_S.len()` open questions.
const HOLES_MAX: usize = 64;

/// The Brier score at one horizon: the mean square of (probability of open - outcome).
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Score {
    /// Questions answered.
    pub answered: u64,
    /// Of these, holes that were still open.
    pub open: u64,
    squares: f64,
    squares_base: f64,
}

impl Score {
    /// The forecasts' own score: 0 is perfect, .25 is a coin.
    #[must_use]
    pub fn brier(&self) -> Option<f64> {
        (self.answered > 0).then(|| self.squares / self.answered as f64)
    }

    /// The score of a constant: the share of holes that stayed open, as known at the time of
    /// each forecast.
    #[must_use]
    pub fn brier_of_constant(&self) -> Option<f64> {
        (self.answered > 0).then(|| self.squares_base / self.answered as f64)
    }

    /// One less the ratio of the two: above zero is better than the constant.
    #[must_use]
    pub fn skill(&self) -> Option<f64> {
        (self.squares_base > 0.0).then(|| 1.0 - self.squares / self.squares_base)
    }

    fn share_open(&self) -> f64 {
        (self.open as f64 + 1.0) / (self.answered as f64 + 2.0)
    }

    fn answer(&mut self, question: &Question, open: bool) {
        let outcome = if open { 1.0 } else { 0.0 };
        self.answered += 1;
        self.open += u64::from(open);
        self.squares += (question.predicted - outcome).powi(2);
        self.squares_base += (question.constant - outcome).powi(2);
    }
}

#[derive(Debug, Clone)]
struct Question {
    node: NodeId,
    due: Timestamp,
    horizon: usize,
    predicted: f64,
    constant: f64,
}

/// Asks of a sample of forecasts, once a minute: was the hole still open then?
#[derive(Debug, Clone, Default)]
pub struct Calibration {
    scores: [Score; HORIZONS_S.len()],
    questions: BTreeMap<u64, Question>,
    by_node: BTreeMap<NodeId, Vec<u64>>,
    due: BinaryHeap<Reverse<(Timestamp, u64)>>,
    next: Option<Timestamp>,
    asked: u64,
    rounds: usize,
}

impl Calibration {
    /// Nothing asked yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The scores, in the order of [`HORIZONS_S`].
    #[must_use]
    pub fn scores(&self) -> &[Score; HORIZONS_S.len()] {
        &self.scores
    }

    /// How many questions wait for their answer.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.questions.len()
    }

    /// A hole ended at `at`: questions due before have the answer open, others closed.
    pub fn closed(&mut self, node: &NodeId, at: Timestamp) {
        for id in self.by_node.remove(node).unwrap_or_default() {
            if let Some(question) = self.questions.remove(&id) {
                self.answer(&question, at > question.due);
            }
        }
    }

    /// A hole ended unseen after `last_seen`: what was due later has no answer.
    pub fn lost(&mut self, node: &NodeId, last_seen: Timestamp) {
        for id in self.by_node.remove(node).unwrap_or_default() {
            if let Some(question) = self.questions.remove(&id)
                && question.due <= last_seen
            {
                self.answer(&question, true);
            }
        }
    }

    /// Takes forecasts as of `now`: answers what was due before `told`, the moment up to which
    /// every end has been told, and, once a minute, asks anew. Which holes are asked after
    /// rotates.
    pub fn observe(
        &mut self,
        now: Timestamp,
        told: Timestamp,
        holes: &[Hole],
        forecasts: &Forecasts,
    ) {
        self.settle(told);
        // A next round further off than one round means that time was set back.
        let waits = |next: Timestamp| now < next && next <= now + EVERY;
        if self.next.is_some_and(waits) || holes.is_empty() {
            return;
        }
        self.next = Some(now + EVERY);
        self.rounds += 1;
        let stride = holes.len().div_ceil(HOLES_MAX);
        for place in (self.rounds % stride..holes.len()).step_by(stride) {
            if let (Some(hole), Some(forecast)) = (holes.get(place), forecasts.of(place)) {
                for (horizon, after) in HORIZONS_S.into_iter().enumerate() {
                    self.ask(now, hole, horizon, after, forecast.open_after(after));
                }
            }
        }
    }

    fn ask(&mut self, now: Timestamp, hole: &Hole, horizon: usize, after_s: f64, predicted: f64) {
        let id = self.asked;
        self.asked += 1;
        let due = now + Span::from_secs_f64(after_s);
        let node = hole.node.clone();
        self.by_node.entry(node.clone()).or_default().push(id);
        self.due.push(Reverse((due, id)));
        let constant = self.scores.get(horizon).map_or(0.5, Score::share_open);
        let question = Question {
            node,
            due,
            horizon,
            predicted,
            constant,
        };
        self.questions.insert(id, question);
    }

    /// Questions that were due before `told` and whose hole has not ended: it was open.
    fn settle(&mut self, told: Timestamp) {
        while let Some(&Reverse((due, id))) = self.due.peek() {
            if due >= told {
                break;
            }
            self.due.pop();
            if let Some(question) = self.questions.remove(&id) {
                self.answer(&question, true);
                if let Some(ids) = self.by_node.get_mut(&question.node) {
                    ids.retain(|&other| other != id);
                    if ids.is_empty() {
                        self.by_node.remove(&question.node);
                    }
                }
            }
        }
    }

    fn answer(&mut self, question: &Question, open: bool) {
        if let Some(score) = self.scores.get_mut(question.horizon) {
            score.answer(question, open);
        }
    }
}
