//! Decisions of the planner's decider: timed, checked, given to the caller and, if asked for,
//! verified.

use std::collections::BTreeMap;

use lacuna_model::{Doubt, Outcome, Policy};
use lacuna_planner::ForecastSettings;
use lacuna_planner::check::check_decision;
use lacuna_planner::milp::MilpOptions;
use lacuna_planner::{Decider, Decision as Decided, Settings as DeciderSettings, Situation};

use super::valuation::Valuation;
use crate::rules::RuleTimes;
use crate::{Decision, Settings, SimError, SolveTimes, Verified};

/// Makes decisions and counts them.
pub(crate) struct Decisions<'a, 's> {
    decider: Decider,
    /// Verification, if it is asked for.
    valuation: Option<Valuation>,
    stopwatch: &'a dyn Fn() -> f64,
    /// Receiver of each decision.
    save: Option<&'a mut (dyn FnMut(&Decision<'_>) + 's)>,
    /// Wall-clock times of the decisions.
    pub(crate) times: SolveTimes,
    /// Decisions by the name of their shortcut or, with forecasts, of the winning proposal.
    pub(crate) shortcuts: BTreeMap<String, u64>,
    /// Decisions whose optimality the solver did not prove within its bounds.
    pub(crate) unproven: u64,
    /// Decisions that the emergency stop by the clock ended.
    pub(crate) clock_stops: u64,
    /// Rules that the policy `auto` followed.
    pub(crate) rules: RuleTimes,
}

/// The event of a decision.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Event<'a> {
    /// Its number, from 0.
    pub(crate) number: u64,
    /// Seconds since the start.
    pub(crate) at_s: f64,
    /// The life of each candidate.
    pub(crate) lives: &'a [u32],
    /// The node of each slot.
    pub(crate) nodes: &'a [u32],
}

/// The planner's decider with the settings of a replay.
fn decider(settings: &Settings) -> Decider {
    Decider::new(DeciderSettings {
        policy: settings.policy,
        node_choice: settings.node_choice,
        horizon: settings.horizon,
        seed: settings.seed,
        milp: MilpOptions::default(),
        forecasting: ForecastSettings {
            joint: settings.forecast.joint,
            ..ForecastSettings::default()
        },
    })
}

impl<'a, 's> Decisions<'a, 's> {
    /// `stopwatch` gives seconds since any fixed moment.
    pub(crate) fn new(settings: &Settings, stopwatch: &'a dyn Fn() -> f64) -> Self {
        Self {
            decider: decider(settings),
            valuation: settings.verify.then(Valuation::default),
            stopwatch,
            save: None,
            times: SolveTimes::default(),
            shortcuts: BTreeMap::new(),
            unproven: 0,
            clock_stops: 0,
            rules: RuleTimes::default(),
        }
    }

    /// Sets the receiver of decisions.
    pub(crate) fn showing(mut self, save: Option<&'a mut (dyn FnMut(&Decision<'_>) + 's)>) -> Self {
        self.save = save;
        self
    }

    /// Whether decisions have a receiver.
    pub(crate) const fn shows(&self) -> bool {
        self.save.is_some()
    }

    /// The results of verification, if it was asked for.
    pub(crate) fn verified(&self) -> Option<Verified> {
        self.valuation.as_ref().map(|valuation| valuation.verified)
    }

    /// Decides which candidate gets which slot at an event. Fields of `event` beside its number
    /// are only for the receiver of decisions.
    ///
    /// # Errors
    /// [`SimError::Unsound`] if the decision breaks an invariant, [`SimError::Internal`] if the
    /// planner made no decision.
    pub(crate) fn decide(
        &mut self,
        event: &Event<'_>,
        situation: &Situation<'_>,
    ) -> Result<Decided, SimError> {
        let before = (self.stopwatch)();
        let decided = self.decider.decide(situation);
        let seconds = (self.stopwatch)() - before;
        self.times.add(seconds);
        sound(event, situation, &decided)?;
        if decided.evaluation.is_some() && self.shows() {
            self.decider.pose(situation);
        }
        if let Some(save) = &mut self.save {
            save(&Decision {
                event: event.number,
                at_s: event.at_s,
                seconds,
                lives: event.lives,
                problem: self.decider.problem(),
                sizes: &decided.sizes,
                nodes: event.nodes,
                owners: &decided.owners,
            });
        }
        self.count(&decided);
        self.rules.take(event.at_s, decided.followed.as_ref());
        if let Some(valuation) = &mut self.valuation {
            valuation.add(&self.decider, &decided, self.stopwatch);
        }
        Ok(decided)
    }

    /// Counts a decision by its shortcut and outcome.
    fn count(&mut self, decided: &Decided) {
        let (name, outcome) = match decided.evaluation.as_deref() {
            Some(evaluation) => (evaluation.proposal, None),
            None => (
                decided.solve.shortcut.as_deref().unwrap_or("none"),
                Some(decided.solve.outcome).filter(|_| {
                    let proves = self.decider.settings().policy == Policy::Milp;
                    (proves || self.decider.mixed().is_some()) && decided.doubt.is_none()
                }),
            ),
        };
        self.unproven += u64::from(outcome.is_some_and(|o| o != Outcome::Optimal));
        self.clock_stops += u64::from(decided.solve.stopped_by_clock);
        if let Some(count) = self.shortcuts.get_mut(name) {
            *count += 1;
        } else {
            self.shortcuts.insert(name.to_owned(), 1);
        }
    }
}

/// Fails without a decision, and at the first invariant that the decision breaks.
fn sound(event: &Event<'_>, situation: &Situation<'_>, decided: &Decided) -> Result<(), SimError> {
    let (event, at_s) = (event.number, event.at_s);
    if let Some(Doubt::Internal { what }) = &decided.doubt {
        let what = what.clone();
        return Err(SimError::Internal { event, at_s, what });
    }
    match check_decision(situation, decided).into_iter().next() {
        None => Ok(()),
        Some(violation) => Err(SimError::Unsound {
            event,
            at_s,
            violation,
        }),
    }
}

#[cfg(test)]
mod tests {
    use lacuna_planner::{Slot, Switches};

    use super::*;

    #[test]
    fn an_unsound_decision_ends_a_replay() {
        let slots = [Slot {
            since_ms: 0,
            owner: None,
        }];
        let situation = Situation {
            candidates: &[],
            slots: &slots,
            switches: &Switches::default(),
            kinds: &[],
            users: None,
            pool_forecast: None,
            history: None,
            doubt: None,
        };
        let event = Event {
            number: 7,
            at_s: 90.0,
            lives: &[],
            nodes: &[3],
        };
        let mut decided = Decider::default().decide(&situation);
        sound(&event, &situation, &decided).unwrap();
        decided.owners[0] = Some(0);
        let error = sound(&event, &situation, &decided).unwrap_err();
        let text = "the decision at event 7, 90 s after the start, breaks an invariant: I14: node 0 \
                    goes to candidate 0, and there is none";
        assert_eq!(error.to_string(), text);
        decided.doubt = Some(Doubt::Internal {
            what: "there is no hole 2 among 2".to_owned(),
        });
        let error = sound(&event, &situation, &decided).unwrap_err();
        let text =
            "there is no decision at event 7, 90 s after the start: there is no hole 2 among 2";
        assert_eq!(error.to_string(), text);
    }
}
