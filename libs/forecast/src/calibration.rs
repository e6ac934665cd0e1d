//! How good the forecasts were, measured while running.
//!
//! Once a minute a sample of the present holes is asked after (a *round*): will it still be open
//! in 1, 5, 15 and 60 minutes? A round is answered for a horizon as a whole, once the horizon has
//! passed for all of it: what ended early must not count where its equals that lasted do not
//! count yet. Scores fade over about six hours ([`Score`]).
//!
//! Two forecasts can be scored on the same questions: those that are given out, and those of a
//! *rival* that might take over.

mod alarm;
mod score;

use std::collections::{BTreeMap, VecDeque};

use lacuna_model::{Hole, NodeId, Span, Timestamp};

use self::score::{Pairs, Round};
use crate::Forecasts;
use crate::skill::{Ranked, concordance};

pub use alarm::{Adrift, Alarm, Limits};
pub use score::Score;

/// The horizons that are scored, seconds: 1, 5, 15 and 60 minutes.
pub const HORIZONS_S: [f64; HORIZONS] = [60.0, 300.0, 900.0, 3600.0];

const HORIZONS: usize = 4;

/// Holes are ranked by their expected length up to this time, seconds.
const RANKED_TO_S: f64 = 3600.0;

/// Forecasts are sampled this often, in the cluster's time.
const EVERY: Span = Span::from_secs(60);

/// So many holes are sampled each time at most: memory stays below
/// `HOLES_MAX * ROUNDS_MAX * HORIZONS_S.len()` open questions.
const HOLES_MAX: usize = 64;

/// So many rounds wait for their answers at most: the longest horizon, and some more in case that
/// nothing is told for a while.
const ROUNDS_MAX: usize = 128;

/// What is known of a hole that was asked after.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Open,
    Ended(Timestamp),
    /// It ended unseen, some time after this.
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
    /// Whether it was open at a moment that lies before all that has been told; nothing if
    /// nobody knows.
    fn open_at(&self, due: Timestamp) -> Option<bool> {
        match self.fate {
            Fate::Open => Some(true),
            Fate::Ended(at) => Some(at > due),
            Fate::Lost(last_seen) => (last_seen >= due).then_some(true),
        }
    }

    /// Its remaining length, as far as it is known at `told`.
    fn ranked(&self, asked: Timestamp, told: Timestamp) -> Ranked {
        let (until, ended) = match self.fate {
            Fate::Open => (told, false),
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

/// Questions that were asked at one moment.
#[derive(Debug, Clone)]
struct Questions {
    at: Timestamp,
    constant: [f64; HORIZONS],
    asked: Vec<Asked>,
}

impl Questions {
    /// The answers at a horizon that has passed for all of them.
    fn answer(&self, horizon: usize, due: Timestamp) -> Round {
        let mut round = Round::default();
        let constant = self.constant.get(horizon).copied().unwrap_or(0.5);
        for asked in &self.asked {
            let (Some(open), Some(&predicted)) = (asked.open_at(due), asked.predicted.get(horizon))
            else {
                continue;
            };
            let outcome = if open { 1.0 } else { 0.0 };
            let square = |said: f64| (said - outcome).powi(2);
            round.answered += 1;
            round.open += u64::from(open);
            round.predicted += predicted;
            round.squares += square(predicted);
            round.squares_base += square(constant);
            if let Some(&rival) = asked.rival.as_ref().and_then(|said| said.get(horizon)) {
                let (own, other) = round.contested.get_or_insert_default();
                *own += square(predicted);
                *other += square(rival);
            }
        }
        round
    }
}

/// Asks of a sample of forecasts, once a minute: was the hole still open then?
#[derive(Debug, Clone, Default)]
pub struct Calibration {
    scores: [Score; HORIZONS],
    within: Pairs,
    /// Rounds that are not yet answered at the longest horizon.
    rounds: VecDeque<Questions>,
    /// Rounds that were before these.
    gone: u64,
    /// For each horizon, the next round to be answered.
    answered: [u64; HORIZONS],
    /// Where open holes were asked after: round and place.
    by_node: BTreeMap<NodeId, Vec<(u64, usize)>>,
    next: Option<Timestamp>,
    count: usize,
}

impl Calibration {
    /// Nothing asked yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The scores, in the order of [`HORIZONS_S`].
    #[must_use]
    pub fn scores(&self) -> &[Score; HORIZONS] {
        &self.scores
    }

    /// Concordance within one moment, over the last hours: of two holes that were present
    /// together, was the one that lasted longer forecast to last longer? .5 is chance, 1 perfect.
    #[must_use]
    pub fn concordance(&self) -> Option<f64> {
        self.within.share()
    }

    /// How many questions wait for their answer.
    #[must_use]
    pub fn pending(&self) -> usize {
        let waits = |(round, questions): (u64, &Questions)| {
            let horizons = self.answered.iter().filter(|&&next| next <= round).count();
            questions.asked.len() * horizons
        };
        (self.gone..).zip(&self.rounds).map(waits).sum()
    }

    /// Whether [`observe`](Self::observe) would ask anew as of `now`.
    #[must_use]
    pub fn is_due(&self, now: Timestamp) -> bool {
        // A next round further off than one round means that time was set back.
        let waits = |next: Timestamp| now < next && next <= now + EVERY;
        !self.next.is_some_and(waits)
    }

    /// A hole ended at `at`: it was open before and closed from then on.
    pub fn closed(&mut self, node: &NodeId, at: Timestamp) {
        self.settle(node, Fate::Ended(at));
    }

    /// A hole ended unseen after `last_seen`: what was due later has no answer.
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

    /// Takes forecasts as of `now`, and those of a rival if there is one: answers what was due
    /// before `told`, the moment up to which every end has been told, and, once a minute, asks
    /// anew. Which holes are asked after rotates.
    pub fn observe(
        &mut self,
        now: Timestamp,
        told: Timestamp,
        holes: &[Hole],
        forecasts: &Forecasts,
        rival: Option<&Forecasts>,
    ) {
        if self.rounds.back().is_some_and(|last| now + EVERY < last.at) {
            // Time was set back: nobody will know what came of those.
            self.forget_all();
        }
        self.answer(told);
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

    /// Answers the rounds that were due before `told`.
    fn answer(&mut self, told: Timestamp) {
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
                if due >= told {
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
            let ranked = |asked: &Asked| asked.ranked(questions.at, told);
            let mut set: Vec<Ranked> = questions.asked.iter().map(ranked).collect();
            let pairs = concordance(&mut set);
            let right = pairs.concordant as f64 + pairs.tied as f64 / 2.0;
            self.within.add(right, pairs.comparable as f64);
        }
    }

    /// The oldest round, answered or not.
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

    /// How many rounds in a row share their answers at a horizon.
    fn overlap(after_s: f64) -> f64 {
        (after_s / EVERY.as_secs_f64()).max(1.0)
    }
}
