//! The guard: [`Policy::Auto`](lacuna_model::Policy::Auto) follows the rule that brings most.
//!
//! Forecasts may mislead: on a machine that is new, or that changes. The guard keeps a [`Shadow`] of
//! each rule: the nodes that each trainer would hold, had the rule decided all along on the same
//! pools. The shadow of the followed rule is the state itself. Departures, changes and starts cost a
//! shadow what they cost a trainer. The [`Book`] has what each rule brought in a fading window.
//!
//! The input is the history of decisions: pools with their moments, candidates, and numbers of
//! trainers ([`Situation::lives`]). The clock of the machine plays no part. So a replay and the
//! services follow the same rule. A planner that restarts begins with forecasts and an empty window.
//!
//! The guard stands aside where forecasts do not decide: with several kinds of nodes, without links
//! between holes, in doubt, and by any other policy.
//!
//! **Worth.** Rates count in units of the best rate per node that the owner of a trainer has. So no
//! owner decides by the scale of its values, and gains over offered node-seconds are a share.
//!
//! **Cost.** While forecasts are followed, the simple rules take well under a millisecond. While
//! another rule is followed, forecasts decide in their shadow.

mod book;
mod shadow;

use lacuna_model::{Followed, Rule};

use crate::decision::Decision;
use crate::problem::Situation;

use book::{Book, PerRule};
pub(crate) use shadow::Posed;
use shadow::{Seen, Shadow, worth};

/// The shadows of all rules and what they brought.
#[derive(Debug, Clone, Default)]
pub(crate) struct Guard {
    seen: Seen,
    worth: Vec<f64>,
    shadows: PerRule<Shadow>,
    book: Book,
}

impl Guard {
    /// Takes in the time that passed and the departures since the newest decision. Gives the rule to
    /// follow; nothing where nodes and trainers have no lasting names.
    pub(crate) fn arrive(&mut self, situation: &Situation<'_>) -> Option<Rule> {
        let seen = Seen::of(situation)?;
        let rates = self.shadows.map(Shadow::rate);
        self.book.pass(seen.as_of, &rates, self.seen.nodes());
        let moved = self.seen.moved(&seen);
        self.worth = worth(situation);
        let mut departed = false;
        for rule in Rule::ALL {
            let cost = self.shadows.of_mut(rule).pass(&moved, situation);
            departed |= cost > 0.0;
            self.book.charge(rule, cost);
        }
        self.seen = seen;
        self.book.judge(departed);
        Some(self.book.rule())
    }

    /// The situation in which a rule would decide, had it decided all along.
    pub(crate) fn pose(&self, rule: Rule, situation: &Situation<'_>) -> Posed {
        self.shadows.of(rule).pose(situation)
    }

    /// Takes the decision of a rule in a situation: the one that [`Guard::pose`] gave, or that of the
    /// followed rule.
    pub(crate) fn take(&mut self, rule: Rule, posed: &Situation<'_>, decision: &Decision) {
        let shadow = self.shadows.of_mut(rule);
        let cost = shadow.take(decision, posed, &self.worth);
        self.book.charge(rule, cost);
    }

    /// The followed rule, and what each rule brought.
    pub(crate) fn followed(&self) -> Followed {
        self.book.followed()
    }
}
