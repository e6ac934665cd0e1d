//! What each rule would hold at a moment, and what it brought until then.

use lacuna_model::{Followed, Rule, Timestamp};

use crate::decision::Decision;
use crate::problem::Situation;

use super::book::{Book, PerRule};
use super::pace::Pace;
use super::shadow::{Posed, Seen, Shadow, worth};

/// The shadows of all rules and what they brought.
#[derive(Debug, Clone, Default)]
pub(super) struct Moment {
    seen: Seen,
    worth: Vec<f64>,
    shadows: PerRule<Shadow>,
    book: Book,
    /// How often the trainers of the forecasts' shadow change.
    pace: Pace,
}

impl Moment {
    /// When it is, in the cluster's time.
    pub(super) const fn as_of(&self) -> Timestamp {
        self.seen.as_of
    }

    /// The number of its decision.
    pub(super) const fn number(&self) -> u64 {
        self.seen.number
    }

    /// A later moment: time has passed, and departures have hit trainers. The rules decide next.
    pub(super) fn next(&self, seen: Seen, situation: &Situation<'_>) -> Self {
        let moved = self.seen.moved(&seen);
        let mut later = Self {
            worth: worth(situation),
            shadows: self.shadows.map(|shadow| shadow.next(&moved, situation)),
            book: self.book.clone(),
            pace: self.pace,
            seen,
        };
        let rates = self.shadows.map(Shadow::rate);
        later.book.pass(later.seen.as_of, &rates, self.seen.nodes());
        let seconds = later.as_of().since(self.as_of()).as_secs_f64().max(0.0);
        let running = self.shadows.of(Rule::Forecasts).running();
        later.pace.pass(seconds, running);
        let mut departed = false;
        for rule in Rule::ALL {
            let cost = later.shadows.of(rule).cost_of_departures(situation);
            departed |= cost > 0.0;
            later.book.charge(rule, cost);
        }
        later.book.judge(departed);
        later
    }

    /// The situation in which a rule would decide, had it decided all along.
    pub(super) fn pose(&self, rule: Rule, situation: &Situation<'_>) -> Posed {
        self.shadows.of(rule).pose(situation)
    }

    /// Takes the decision of a rule in a situation.
    pub(super) fn take(&mut self, rule: Rule, posed: &Situation<'_>, decision: &Decision) {
        let shadow = self.shadows.of_mut(rule);
        if rule == Rule::Forecasts {
            self.pace.count(shadow.changes(posed, decision));
        }
        let cost = shadow.take(decision, posed, &self.worth);
        self.book.charge(rule, cost);
    }

    /// The followed rule.
    pub(super) const fn rule(&self) -> Rule {
        self.book.rule()
    }

    /// The followed rule, and what each rule brought.
    pub(super) fn followed(&self) -> Followed {
        self.book.followed()
    }

    /// For how long a trainer keeps its nodes by forecasts, seconds.
    pub(super) fn kept_s(&self) -> f64 {
        self.pace.kept_s()
    }
}
