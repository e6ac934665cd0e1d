//! Scores of the forecasts, measured while running.
//!
//! Once a minute, a sample of the present holes makes a *round* of questions: is the hole still
//! open in 1, 5, 15 and 60 minutes? A round is answered for a horizon as a whole, once the horizon
//! has passed for all of it. Otherwise holes that end early would count before equal holes that
//! last. Scores fade over about six hours ([`Score`]).
//!
//! Two forecasts can be scored on the same questions: the published ones, and those of a *rival*
//! that may take over.

mod alarm;
mod score;

use std::collections::{BTreeMap, VecDeque};

use lacuna_model::{Hole, NodeId, Span, Timestamp};

use self::score::{Pairs, Round};
use crate::Forecasts;
use crate::skill::{Ranked, concordance};

pub use alarm::{Adrift, Alarm, Limits};
pub use score::Score;

/// The scored horizons, seconds: 1, 5, 15 and 60 minutes.
pub const HORIZONS_S: [f64; HORIZONS] = [60.0, 300.0, 900.0, 3600.0];

const HORIZONS: usize = 4;

/// Holes are ranked by their expected length within this time, seconds.
const RANKED_TO_S: f64 = 3600.0;

/// The time between rounds, in the cluster's time.
const EVERY: Span = Span::from_secs(60);

/// The largest number of holes in a round. Memory stays below
/// `HOLES_MAX * ROUNDS_MAX * HORIZONS_S.len()` open questions.
const HOLES_MAX: usize = 64;

/// The largest number of rounds that wait for answers: those of the longest horizon, and some more
/// in case no events come for a while.
const ROUNDS_MAX: usize = 128;

/// The outcome of a hole in a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Open,
    Ended(Timestamp),
    /// The hole ended unseen, some time after this.
    Lost(Timestamp),
}

#[derive(Debug, Clone)]
struct Asked {
    node: NodeId,
    predicted: [f64; HORIZONS],
    rival: Option<[f64; HORIZONS]>,
    expected_s: f64,
    fate: Fate,
}

impl Asked {
    /// Whether the hole was open at a time up to which all ends are known; `None` if that is
    /// unknown.
    fn open_at(&self, due: Timestamp) -> Option<bool> {
        match self.fate {
            Fate::Open => Some(true),
            Fate::Ended(at) => Some(at > due),
            Fate::Lost(last_seen) => (last_seen >= due).then_some(true),
        }
    }

    /// The remaining length as far as it is known; all ends up to `known` are.
    fn ranked(&self, asked: Timestamp, known: Timestamp) -> Ranked {
        let (until, ended) = match self.fate {
            Fate::Open => (known, false),
            Fate::Ended(at) => (at, true),
            Fate::Lost(at) => (at, false),
        };
        Ranked {
            expected: self.expected_s,
            length_s: until.since(asked).as_secs_f64().max(0.0),
            ended,
        }
    }
}

/// The questions of one round.
#[derive(Debug, Clone)]
struct Questions {
    at: Timestamp,
    constant: [f64; HORIZONS],
    asked: Vec<Asked>,
}

impl Questions {
    /// The answers at a horizon that has passed for all questions.
    fn answer(&self, horizon: usize, due: Timestamp) -> Round {
        let mut round = Round::default();
        let constant = self.constant.get(horizon).copied().unwrap_or(0.5);
        for asked in &self.asked {
            let (Some(open), Some(&predicted)) = (asked.open_at(due), asked.predicted.get(horizon))
            else {
                continue;
            };
            let outcome = if open { 1.0 } else { 0.0 };
            let square = |forecast: f64| (forecast - outcome).powi(2);
            round.answered += 1;
            round.open += u64::from(open);
            round.predicted += predicted;
            round.squares += square(predicted);
            round.squares_base += square(constant);
            if let Some(&rival) = asked.rival.as_ref().and_then(|rival| rival.get(horizon)) {
                let (own, other) = round.contested.get_or_insert_default();
                *own += square(predicted);
                *other += square(rival);
            }
        }
        round
    }
}

/// The running scores of forecasts, by questions about a sample of holes once a minute.
#[derive(Debug, Clone, Default)]
pub struct Calibration {
    scores: [Score; HORIZONS],
    within: Pairs,
    /// The rounds that are not yet answered at the longest horizon.
    rounds: VecDeque<Questions>,
    /// The number of rounds before these.
    gone: u64,
    /// The next round to be answered, for each horizon.
    answered: [u64; HORIZONS],
    /// The questions about open holes: round and place.
    by_node: BTreeMap<NodeId, Vec<(u64, usize)>>,
    next: Option<Timestamp>,
    count: usize,
}

impl Calibration {
    /// A calibration without questions.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The scores, in the order of [`HORIZONS_S`].
    #[must_use]
    pub fn scores(&self) -> &[Score; HORIZONS] {
        &self.scores
    }

    /// Concordance within one moment, over the last hours: the share of pairs of holes present
    /// together in which the hole that lasted longer was forecast to do so. .5 is chance, 1 is
    /// perfect.
    #[must_use]
    pub fn concordance(&self) -> Option<f64> {
        self.within.share()
    }

    /// The number of questions that wait for answers.
    #[must_use]
    pub fn pending(&self) -> usize {
        let waits = |(round, questions): (u64, &Questions)| {
            let horizons = self.answered.iter().filter(|&&next| next <= round).count();
            questions.asked.len() * horizons
        };
        (self.gone..).zip(&self.rounds).map(waits).sum()
    }

    /// Whether [`observe`](Self::observe) would start a round as of `now`.
    #[must_use]
    pub fn is_due(&self, now: Timestamp) -> bool {
        // Time was set back if the next round is further off than one round.
        let waits = |next: Timestamp| now < next && next <= now + EVERY;
        !self.next.is_some_and(waits)
    }

    /// Records that a hole ended at `at`: it was open before and closed from then on.
    pub fn closed(&mut self, node: &NodeId, at: Timestamp) {
        self.settle(node, Fate::Ended(at));
    }

    /// Records that a hole ended unseen after `last_seen`: later questions have no answer.
    pub fn lost(&mut self, node: &NodeId, last_seen: Timestamp) {
        self.settle(node, Fate::Lost(last_seen));
    }

    fn settle(&mut self, node: &NodeId, fate: Fate) {
        for (round, place) in self.by_node.remove(node).unwrap_or_default() {
            if let Some(asked) = self.asked(round, place) {
                asked.fate = fate;
            }
        }
    }

    fn asked(&mut self, round: u64, place: usize) -> Option<&mut Asked> {
        let at = usize::try_from(round.checked_sub(self.gone)?).ok()?;
        self.rounds.get_mut(at)?.asked.get_mut(place)
    }

    /// Takes the forecasts as of `now`, and those of a rival if there is one. Questions due before
    /// `known` are answered; all ends up to that time are known. Once a minute, a new round starts.
    /// The sampled holes rotate.
    pub fn observe(
        &mut self,
        now: Timestamp,
        known: Timestamp,
        holes: &[Hole],
        forecasts: &Forecasts,
        rival: Option<&Forecasts>,
    ) {
        if self.rounds.back().is_some_and(|last| now + EVERY < last.at) {
            // Time was set back, so the outcomes will stay unknown.
            self.forget_all();
        }
        self.answer(known);
        if !self.is_due(now) || holes.is_empty() {
            return;
        }
        self.next = Some(now + EVERY);
        self.count += 1;
        while self.rounds.len() >= ROUNDS_MAX {
            self.pop();
        }
        let round = self.gone + self.rounds.len() as u64;
        let stride = holes.len().div_ceil(HOLES_MAX);
        let mut asked = Vec::new();
        for place in (self.count % stride..holes.len()).step_by(stride) {
            let (Some(hole), Some(forecast)) = (holes.get(place), forecasts.of(place)) else {
                continue;
            };
            let places = self.by_node.entry(hole.node.clone()).or_default();
            places.push((round, asked.len()));
            let rival = rival.and_then(|rival| rival.of(place));
            asked.push(Asked {
                node: hole.node.clone(),
                predicted: HORIZONS_S.map(|after_s| forecast.open_after(after_s)),
                rival: rival.map(|rival| HORIZONS_S.map(|after_s| rival.open_after(after_s))),
                expected_s: forecast.mean_within(RANKED_TO_S),
                fate: Fate::Open,
            });
        }
        self.rounds.push_back(Questions {
            at: now,
            constant: self.scores.map(|score| score.share_open()),
            asked,
        });
    }

    /// Answers the rounds that were due before `known`.
    fn answer(&mut self, known: Timestamp) {
        for (horizon, after_s) in HORIZONS_S.into_iter().enumerate() {
            let (Some(next), Some(score)) =
                (self.answered.get_mut(horizon), self.scores.get_mut(horizon))
            else {
                continue;
            };
            *next = (*next).max(self.gone);
            let from = usize::try_from(*next - self.gone).unwrap_or(usize::MAX);
            for questions in self.rounds.iter().skip(from) {
                let due = questions.at + Span::from_secs_f64(after_s);
                if due >= known {
                    break;
                }
                let round = questions.answer(horizon, due);
                if round.answered > 0 {
                    score.add(&round);
                }
                *next += 1;
            }
        }
        let [.., longest] = self.answered;
        while self.gone < longest
            && let Some(questions) = self.pop()
        {
            let ranked = |asked: &Asked| asked.ranked(questions.at, known);
            let mut set: Vec<Ranked> = questions.asked.iter().map(ranked).collect();
            let pairs = concordance(&mut set);
            let right = pairs.concordant as f64 + pairs.tied as f64 / 2.0;
            self.within.add(right, pairs.comparable as f64);
        }
    }

    /// Removes the oldest round, answered or not.
    fn pop(&mut self) -> Option<Questions> {
        let questions = self.rounds.pop_front()?;
        let round = self.gone;
        self.gone += 1;
        let still_open = questions
            .asked
            .iter()
            .filter(|asked| asked.fate == Fate::Open);
        for asked in still_open {
            if let Some(places) = self.by_node.get_mut(&asked.node) {
                places.retain(|&(other, _)| other != round);
                if places.is_empty() {
                    self.by_node.remove(&asked.node);
                }
            }
        }
        Some(questions)
    }

    fn forget_all(&mut self) {
        self.gone += self.rounds.len() as u64;
        self.rounds.clear();
        self.by_node.clear();
    }

    /// The number of rounds in a row that share their answers at a horizon.
    fn overlap(after_s: f64) -> f64 {
        (after_s / EVERY.as_secs_f64()).max(1.0)
    }
}
