//! Decisions of the planner's decider: timed, checked, shown and, if asked, verified.

use std::collections::BTreeMap;

use lacuna_model::{Outcome, Policy};
use lacuna_planner::counts::{self, MilpOptions};
use lacuna_planner::decider::{
    Candidate, Decider, Decision as Decided, Settings as DeciderSettings, Situation,
};
use lacuna_planner::foresight::{self, Foreseen};
use lacuna_planner::{Sizes, dp, patterns};

use super::verify::Examined;
use crate::{Decision, Model, Settings, SimError, SolveTimes, Verified, published};

/// Makes decisions and keeps what they took.
pub(crate) struct Decisions<'a, 's> {
    decider: Decider,
    model: Model,
    verify: bool,
    /// The exact method that verification compares with.
    oracle: dp::Solver,
    stopwatch: &'a dyn Fn() -> f64,
    /// Where each decision is shown, if anywhere.
    save: Option<&'a mut (dyn FnMut(&Decision<'_>) + 's)>,
    /// Seconds of the decisions.
    pub(crate) times: SolveTimes,
    /// What proved the answer, made the solver's problem smaller, or won, by name.
    pub(crate) shortcuts: BTreeMap<String, u64>,
    /// Decisions whose optimality the solver did not prove within its bounds.
    pub(crate) unproven: u64,
    /// What comparing two methods gave.
    pub(crate) verified: Option<Verified>,
    /// Plans by forecasts that were verified.
    examined: Examined,
}

/// What happened when a decision is asked for.
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

/// Two exact methods agree if their objectives differ by no more than this, relatively.
pub(super) const AGREEMENT: f64 = 1e-6;

/// Verification wants proof, so it waits for it.
const VERIFY_LIMIT: std::time::Duration = std::time::Duration::from_secs(60);

/// What the planner's decider is told by the settings of a replay.
fn decider(settings: &Settings) -> Decider {
    Decider::new(DeciderSettings {
        policy: settings.policy,
        node_choice: settings.node_choice,
        horizon: settings.horizon,
        seed: settings.seed,
        milp: MilpOptions {
            time_limit: VERIFY_LIMIT,
            ..MilpOptions::default()
        },
        foresight: foresight::Settings {
            joint: settings.forecast.joint,
            scenarios: settings.forecast.scenarios,
        },
    })
}

impl<'a, 's> Decisions<'a, 's> {
    /// `stopwatch` gives seconds since any fixed moment.
    pub(crate) fn new(settings: &Settings, stopwatch: &'a dyn Fn() -> f64) -> Self {
        Self {
            decider: decider(settings),
            model: settings.model,
            verify: settings.verify,
            oracle: dp::Solver::new(),
            stopwatch,
            save: None,
            times: SolveTimes::default(),
            shortcuts: BTreeMap::new(),
            unproven: 0,
            verified: settings.verify.then(Verified::default),
            examined: Examined::default(),
        }
    }

    /// Shows every decision.
    pub(crate) fn showing(mut self, save: Option<&'a mut (dyn FnMut(&Decision<'_>) + 's)>) -> Self {
        self.save = save;
        self
    }

    /// Whether decisions are shown.
    pub(crate) const fn shows(&self) -> bool {
        self.save.is_some()
    }

    /// Decides which candidate gets which slot at an event. What `event` tells beside its number is
    /// only for showing the decision.
    ///
    /// # Errors
    /// [`SimError::Infeasible`] if the answer is not allowed.
    pub(crate) fn decide(
        &mut self,
        event: &Event<'_>,
        situation: &Situation<'_>,
    ) -> Result<Decided, SimError> {
        let before = (self.stopwatch)();
        let decided = match (self.model, self.decider.settings().policy) {
            (Model::Published, Policy::EqualShare) => self.equal_share(situation),
            _ => self.decider.decide(situation, self.stopwatch),
        };
        let seconds = (self.stopwatch)() - before;
        self.times.add(seconds);
        let foreseen = decided.foreseen.as_deref();
        if foreseen.is_some() && self.shows() {
            self.decider.pose(situation);
        }
        if !is_feasible(situation, &decided.sizes) {
            return Err(SimError::Infeasible {
                nodes: situation.slots.len() as u32,
                counts: decided.sizes.counts,
            });
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
        if self.verify {
            match foreseen {
                Some(foreseen) => self.compare_jointly(foreseen),
                None => self.compare(&decided.sizes),
            }
        }
        Ok(decided)
    }

    /// The baseline with the published quirk.
    fn equal_share(&mut self, situation: &Situation<'_>) -> Decided {
        let sizes = published::equal_share(self.decider.pose(situation));
        Decided {
            owners: self.decider.place(situation.slots, &sizes.counts),
            solve: lacuna_model::Solve {
                outcome: Outcome::Found,
                objective: sizes.objective,
                solver: "equal-share".to_owned(),
                shortcut: None,
            },
            sizes,
            foreseen: None,
            doubt: None,
        }
    }

    /// Counts how a decision was found.
    fn count(&mut self, decided: &Decided) {
        let (name, outcome) = match decided.foreseen.as_deref() {
            Some(foreseen) => (foreseen.proposal, foreseen.patterns),
            None => (
                decided.solve.shortcut.as_deref().unwrap_or("none"),
                Some(decided.solve.outcome).filter(|_| {
                    self.decider.settings().policy == Policy::Milp && decided.doubt.is_none()
                }),
            ),
        };
        self.unproven += u64::from(outcome.is_some_and(|o| o != Outcome::Optimal));
        if let Some(count) = self.shortcuts.get_mut(name) {
            *count += 1;
        } else {
            self.shortcuts.insert(name.to_owned(), 1);
        }
    }

    /// Holds the decision against the rules, its own value, and the program over patterns and its
    /// bound, with classes so fine that they hold like nodes alone.
    fn compare_jointly(&mut self, foreseen: &Foreseen) {
        let options = patterns::Options {
            classes: usize::MAX,
            time_limit: VERIFY_LIMIT,
            ..patterns::Options::new(self.stopwatch)
        };
        let (request, plan) = (foreseen.request(), &foreseen.assignment);
        let plans = [plan.owners.as_slice()];
        let settings = &foreseen.settings;
        let (better, answer) = patterns::decide(&request, settings, plan.salvage, &plans, &options);
        let verified = self.verified.get_or_insert_default();
        verified.unproven += u64::from(answer.outcome != Outcome::Optimal);
        self.examined
            .look((&request, settings), plan, (&better, &answer), verified);
    }

    /// Solves once more by the other exact method, whole: without any short cut, since those
    /// rest on the same bound as the dynamic program.
    fn compare(&mut self, sizes: &Sizes) {
        let whole = MilpOptions {
            shortcuts: false,
            time_limit: VERIFY_LIMIT,
            ..MilpOptions::default()
        };
        let problem = self.decider.problem();
        let policy = self.decider.settings().policy;
        let (milp, solve) = counts::solve(problem, &whole);
        let dp = match policy {
            Policy::Dp | Policy::Auto => sizes.objective,
            _ => self.oracle.solve(problem).objective,
        };
        let mut worst = difference(dp, milp.objective);
        if policy == Policy::Milp {
            worst = worst.max(difference(sizes.objective, milp.objective));
        }
        let verified = self.verified.get_or_insert_default();
        verified.decisions += 1;
        verified.unproven += u64::from(solve.outcome != Outcome::Optimal);
        verified.worst_difference = verified.worst_difference.max(worst);
        verified.disagreements += u64::from(worst > AGREEMENT);
    }
}

/// Whether sizes are allowed: each to its trainer, and no more nodes in all than there are.
fn is_feasible(situation: &Situation<'_>, sizes: &Sizes) -> bool {
    let allowed =
        |(candidate, &n): (&Candidate, &u32)| candidate.item.may_become(n, situation.max_change);
    let total: u64 = sizes.counts.iter().map(|&n| u64::from(n)).sum();
    sizes.counts.len() == situation.candidates.len()
        && total <= situation.slots.len() as u64
        && situation.candidates.iter().zip(&sizes.counts).all(allowed)
}

/// Relative difference of two objectives, by the larger of them and 1.
fn difference(a: f64, b: f64) -> f64 {
    (a - b).abs() / a.abs().max(b.abs()).max(1.0)
}
