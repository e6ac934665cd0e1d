//! One decision: sizes by the chosen policy, timed, checked and, if asked, verified.

use std::collections::BTreeMap;

use lacuna_model::{Outcome, Policy};
use lacuna_planner::counts::{self, MilpOptions};
use lacuna_planner::equal_share::{self, AtMinimum};
use lacuna_planner::joint::{Assignment, Joint, Request, Settings as JointSettings};
use lacuna_planner::{Item, Problem, Sizes, dp, fair, patterns};

use super::verify::Examined;
use crate::{Decision, JointSolver, Model, Settings, SimError, SolveTimes, Verified};

/// The users of the trainers of a problem.
#[derive(Debug, Clone, Default)]
pub(crate) struct Users {
    /// The user of each trainer.
    pub(crate) of: Vec<u32>,
    /// The share of each user, by its number.
    pub(crate) shares: Vec<f64>,
}

/// Makes decisions and keeps what they took.
pub(crate) struct Decider<'a, 's> {
    policy: Policy,
    by: JointSolver,
    at_minimum: AtMinimum,
    verify: bool,
    solver: dp::Solver,
    milp: MilpOptions,
    joint: Joint,
    /// Of the last decision by forecasts.
    seconds: f64,
    stopwatch: &'a dyn Fn() -> f64,
    /// Who wants to see each decision.
    save: Option<&'a mut (dyn FnMut(&Decision<'_>) + 's)>,
    /// Seconds of the solves.
    pub(crate) times: SolveTimes,
    /// What proved the answer or made the solver's problem smaller, by name.
    pub(crate) shortcuts: BTreeMap<String, u64>,
    /// Decisions whose optimality the solver did not prove in time.
    pub(crate) unproven: u64,
    /// What comparing the two exact methods gave.
    pub(crate) verified: Option<Verified>,
    /// Plans by forecasts that were verified.
    examined: Examined,
}

/// Two exact methods agree if their objectives differ by no more than this, relatively.
pub(super) const AGREEMENT: f64 = 1e-6;

/// Verification wants proof, so it waits for it.
const VERIFY_LIMIT: std::time::Duration = std::time::Duration::from_secs(60);

impl<'a, 's> Decider<'a, 's> {
    /// `stopwatch` gives seconds since any fixed moment.
    pub(crate) fn new(settings: &Settings, stopwatch: &'a dyn Fn() -> f64) -> Self {
        Self {
            policy: settings.policy,
            by: settings.forecast.by,
            at_minimum: match settings.model {
                Model::Exact => AtMinimum::Runs,
                Model::Published => AtMinimum::GetsNothing,
            },
            verify: settings.verify,
            solver: dp::Solver::new(),
            joint: Joint::new(settings.forecast.joint),
            seconds: 0.0,
            stopwatch,
            save: None,
            times: SolveTimes::default(),
            shortcuts: BTreeMap::new(),
            unproven: 0,
            milp: MilpOptions::default(),
            verified: settings.verify.then(Verified::default),
            examined: Examined::default(),
        }
    }

    /// Shows every decision.
    pub(crate) fn showing(mut self, save: Option<&'a mut (dyn FnMut(&Decision<'_>) + 's)>) -> Self {
        self.save = save;
        self
    }

    /// Whether decisions are shown to somebody.
    pub(crate) const fn shows(&self) -> bool {
        self.save.is_some()
    }

    /// Decides the size of each trainer at an event; with `users`, max-min fair between them.
    /// `lives` is only for those who are shown the decision.
    ///
    /// # Errors
    /// [`SimError::Infeasible`] if the answer is not allowed.
    pub(crate) fn decide(
        &mut self,
        event: u64,
        problem: &Problem,
        users: Option<&Users>,
        lives: &[u32],
    ) -> Result<Sizes, SimError> {
        let before = (self.stopwatch)();
        let sizes = match users {
            Some(users) if self.policy != Policy::EqualShare => {
                self.count("none");
                fair::solve(problem, &users.of, &users.shares)
            }
            _ => self.solve(problem),
        };
        let seconds = (self.stopwatch)() - before;
        self.times.add(seconds);
        if !problem.is_feasible(&sizes.counts) {
            return Err(SimError::Infeasible {
                nodes: problem.nodes,
                counts: sizes.counts,
            });
        }
        if self.verify {
            self.compare(problem, &sizes);
        }
        if let Some(save) = &mut self.save {
            save(&Decision {
                event,
                seconds,
                lives,
                problem,
                sizes: &sizes,
            });
        }
        Ok(sizes)
    }

    /// How far ahead it makes sense to look for these trainers, seconds, from now on.
    pub(crate) fn adapt(
        &mut self,
        most: &JointSettings,
        trainers: &[Item],
        start_s: &[f64],
        typical_s: Option<f64>,
    ) -> f64 {
        self.joint.adapt(most, trainers, start_s, typical_s);
        self.joint.settings().horizon_s
    }

    /// Decides by forecasts which trainer gets which node.
    pub(crate) fn decide_jointly(&mut self, request: &Request<'_>) -> Assignment {
        let before = (self.stopwatch)();
        let mut assignment = self.joint.decide(request);
        let (trainers, nodes) = (request.trainers.len(), request.owners.len());
        let with_patterns = self.policy == Policy::MilpPatterns
            || (self.by == JointSolver::Size && patterns::is_quick(trainers, nodes));
        // A replay is the same on every machine: work bounds a solve long before this does.
        let options = patterns::Options {
            time_limit: VERIFY_LIMIT,
            ..patterns::Options::new(self.stopwatch)
        };
        let answer = with_patterns.then(|| self.by_patterns(request, &assignment, &options));
        self.seconds = (self.stopwatch)() - before;
        self.times.add(self.seconds);
        if let Some((better, answer)) = answer {
            self.unproven += u64::from(answer.outcome != Outcome::Optimal);
            self.count(match answer.source {
                patterns::Source::Keep => "keep",
                patterns::Source::Warm => "segments",
                patterns::Source::Rounding => "rounding",
                patterns::Source::Highs => "highs",
            });
            assignment = better;
        } else {
            self.count(assignment.proposal.name());
        }
        // What is carried out, whoever found it.
        if self.verify {
            self.compare_jointly(request, &assignment);
        }
        assignment
    }

    /// The programme over patterns, started from what the dynamic programme found.
    fn by_patterns(
        &self,
        request: &Request<'_>,
        warm: &Assignment,
        options: &patterns::Options<'_>,
    ) -> (Assignment, patterns::Answer) {
        let settings = self.joint.settings();
        let plans = [warm.owners.as_slice()];
        patterns::decide(request, settings, warm.salvage, &plans, options)
    }

    /// Holds the plan that is carried out against the rules, its own worth, and the programme over
    /// patterns and its bound, with classes so fine that they hold like nodes alone.
    fn compare_jointly(&mut self, request: &Request<'_>, assignment: &Assignment) {
        let options = patterns::Options {
            classes: usize::MAX,
            time_limit: VERIFY_LIMIT,
            ..patterns::Options::new(self.stopwatch)
        };
        let (better, answer) = self.by_patterns(request, assignment, &options);
        let verified = self.verified.get_or_insert_default();
        verified.unproven += u64::from(answer.outcome != Outcome::Optimal);
        let asked = (request, self.joint.settings());
        self.examined
            .look(asked, assignment, (&better, &answer), verified);
    }

    /// Checks and shows sizes that were decided with their nodes.
    ///
    /// # Errors
    /// [`SimError::Infeasible`] if the answer is not allowed.
    pub(crate) fn accept(
        &mut self,
        event: u64,
        problem: &Problem,
        sizes: &Sizes,
        lives: &[u32],
    ) -> Result<(), SimError> {
        if !problem.is_feasible(&sizes.counts) {
            return Err(SimError::Infeasible {
                nodes: problem.nodes,
                counts: sizes.counts.clone(),
            });
        }
        let seconds = self.seconds;
        if let Some(save) = &mut self.save {
            save(&Decision {
                event,
                seconds,
                lives,
                problem,
                sizes,
            });
        }
        Ok(())
    }

    fn solve(&mut self, problem: &Problem) -> Sizes {
        match self.policy {
            Policy::Dp | Policy::Forecast | Policy::MilpPatterns => {
                let sizes = self.solver.solve(problem);
                self.count(match self.solver.proof() {
                    dp::Proof::Slack => "slack",
                    dp::Proof::Certificate => "certificate",
                    dp::Proof::Programme => "none",
                });
                sizes
            }
            Policy::Milp => {
                let (sizes, solve) = counts::solve(problem, &self.milp);
                self.unproven += u64::from(solve.outcome != Outcome::Optimal);
                self.count(solve.shortcut.as_deref().unwrap_or("none"));
                sizes
            }
            Policy::EqualShare => equal_share::solve(problem, self.at_minimum),
        }
    }

    fn count(&mut self, name: &str) {
        if let Some(count) = self.shortcuts.get_mut(name) {
            *count += 1;
        } else {
            self.shortcuts.insert(name.to_owned(), 1);
        }
    }

    /// Solves once more by the other exact method, whole: without any short cut, since those
    /// rest on the same bound as the dynamic programme.
    fn compare(&mut self, problem: &Problem, sizes: &Sizes) {
        let whole = MilpOptions {
            shortcuts: false,
            time_limit: VERIFY_LIMIT,
            ..MilpOptions::default()
        };
        let (milp, solve) = counts::solve(problem, &whole);
        let dp = match self.policy {
            Policy::Dp => sizes.objective,
            _ => self.solver.solve(problem).objective,
        };
        let mut worst = difference(dp, milp.objective);
        if self.policy == Policy::Milp {
            worst = worst.max(difference(sizes.objective, milp.objective));
        }
        let verified = self.verified.get_or_insert_default();
        verified.decisions += 1;
        verified.unproven += u64::from(solve.outcome != Outcome::Optimal);
        verified.worst_difference = verified.worst_difference.max(worst);
        verified.disagreements += u64::from(worst > AGREEMENT);
    }
}

/// Relative difference of two objectives, by the larger of them and 1.
fn difference(a: f64, b: f64) -> f64 {
    (a - b).abs() / a.abs().max(b.abs()).max(1.0)
}
