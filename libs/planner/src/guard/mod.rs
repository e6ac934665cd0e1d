//! The guard: [`Policy::Auto`](lacuna_model::Policy::Auto) follows the rule that brings most.
//!
//! Forecasts may mislead: on a machine that is new, or that changes. The guard keeps a [`Shadow`] of
//! each rule: the nodes that each trainer would hold, had the rule decided all along on the same
//! pools. The shadow of the followed rule is the state itself. Departures, changes and starts cost a
//! shadow what they cost a trainer. The [`Book`] has what each rule brought in a fading window.
//!
//! **Moments.** Services decide several times at one moment, while a plan is carried out and trainers
//! end. Each of these decisions begins at the moment before. Control says which of them it has
//! followed, and only that one counts ([`History::carried_out`](crate::History::carried_out)).
//!
//! The input is the history of decisions: pools with their moments, candidates, and numbers of
//! trainers. The clock of the machine plays no part. So a replay and the services follow the same
//! rule. A planner that restarts begins with forecasts and an empty window.
//!
//! The guard stands aside where forecasts do not decide: without links between holes, in doubt, and
//! by any other policy.
//!
//! **Worth.** Rates count in units of the best rate per node that the owner of a trainer has. So no
//! owner decides by the scale of its values, and gains over offered node-seconds are a share.
//!
//! **Pace.** How far forecasts look ahead depends on how long a trainer keeps its nodes. The guard
//! counts the departures and changes of the trainers in the shadow of forecasts.
//!
//! **Cost.** While forecasts are followed, the simple rules take well under a millisecond. While
//! another rule is followed, forecasts decide in their shadow.

mod book;
mod moment;
mod pace;
mod shadow;

use std::collections::VecDeque;

use lacuna_model::{Followed, Rule};

use crate::decision::Decision;
use crate::problem::Situation;

use moment::Moment;
pub(crate) use shadow::Posed;
use shadow::Seen;

/// Most decisions of one moment that are kept apart.
const KEPT: usize = 8;

/// The rules at the newest two moments.
#[derive(Debug, Clone, Default)]
pub(crate) struct Guard {
    before: Moment,
    /// Earlier decisions of the present moment.
    earlier: VecDeque<Moment>,
    present: Moment,
}

impl Guard {
    /// Takes in the time that passed and the departures since the moment before. Gives the rule to
    /// follow; nothing where nodes and trainers have no lasting names.
    pub(crate) fn arrive(&mut self, situation: &Situation<'_>) -> Option<Rule> {
        let history = situation.history?;
        let seen = Seen::of(situation)?;
        let newest = std::mem::take(&mut self.present);
        if newest.as_of() == seen.as_of {
            self.earlier.truncate(KEPT - 1);
            self.earlier.push_front(newest);
        } else {
            let is_it = |moment: &Moment| Some(moment.number()) == history.carried_out;
            self.before = self.earlier.drain(..).find(is_it).unwrap_or(newest);
        }
        self.present = self.before.next(seen, situation);
        Some(self.present.rule())
    }

    /// The situation in which a rule would decide, had it decided all along.
    pub(crate) fn pose(&self, rule: Rule, situation: &Situation<'_>) -> Posed {
        self.present.pose(rule, situation)
    }

    /// Takes the decision of a rule in a situation: the one that [`Guard::pose`] gave, or that of the
    /// followed rule.
    pub(crate) fn take(&mut self, rule: Rule, posed: &Situation<'_>, decision: &Decision) {
        self.present.take(rule, posed, decision);
    }

    /// The followed rule, and what each rule brought.
    pub(crate) fn followed(&self) -> Followed {
        self.present.followed()
    }

    /// For how long a trainer keeps its nodes by forecasts, seconds.
    pub(crate) fn kept_s(&self) -> f64 {
        self.present.kept_s()
    }
}
