//! Values of decisions, for `--verify`: each is held against what another method makes of the same
//! situation, by forecasts also against what its very nodes are worth. Whether a decision is sound
//! is not asked here: [`lacuna_planner::check::check_decision`] judges every one.

use std::time::Duration;

use lacuna_model::{Outcome, Policy};
use lacuna_planner::counts::{self, MilpOptions};
use lacuna_planner::decider::{Decider, Decision};
use lacuna_planner::foresight::Foreseen;
use lacuna_planner::joint::{Assignment, Request, Settings};
use lacuna_planner::patterns::{self, Answer};
use lacuna_planner::{Problem, Sizes, dp};

use crate::Verified;

/// Two exact methods agree if their objectives differ by no more than this, relatively.
const AGREEMENT: f64 = 1e-6;

/// Verification wants proof, so it waits for it.
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// The values of the decisions so far.
#[derive(Debug, Default)]
pub(super) struct Valuation {
    pub(super) verified: Verified,
    /// The exact method that sizes are compared with.
    oracle: dp::Solver,
    /// How far each plan by forecasts was from the bound, sorted.
    gaps: Vec<f64>,
    /// Sums of what plans by forecasts fell short of the better ones, and of what those are worth.
    short: f64,
    worth: f64,
}

impl Valuation {
    /// Values the newest decision of a decider.
    pub(super) fn look(
        &mut self,
        decider: &Decider,
        decided: &Decision,
        stopwatch: &dyn Fn() -> f64,
    ) {
        match &decided.foreseen {
            Some(foreseen) => self.look_ahead(foreseen, stopwatch),
            None => self.look_at_sizes(decider, decided),
        }
    }

    /// Solves once more by the other exact method, whole: without any short cut, since those
    /// rest on the same bound as the dynamic program.
    /// What was shared out over owners is asked of each.
    fn look_at_sizes(&mut self, decider: &Decider, decided: &Decision) {
        let (problem, sizes) = (decider.problem(), &decided.sizes);
        let policy = decider.settings().policy;
        if decided.shares.is_empty() {
            self.look_at_problem(problem, sizes, policy);
        }
        for share in &decided.shares {
            let own = problem.part(&share.candidates, share.nodes);
            let counts = share.candidates.iter();
            let counts = counts.filter_map(|&j| sizes.counts.get(j as usize).copied());
            let sizes = own.sizes(counts.collect());
            self.look_at_problem(&own, &sizes, policy);
        }
    }

    fn look_at_problem(&mut self, problem: &Problem, sizes: &Sizes, policy: Policy) {
        let whole = MilpOptions {
            shortcuts: false,
            ..MilpOptions::until(TIME_LIMIT)
        };
        let (milp, solve) = counts::solve(problem, &whole);
        let dp = match policy {
            Policy::Dp | Policy::Auto => sizes.objective,
            _ => self.oracle.solve(problem).objective,
        };
        let mut worst = difference(dp, milp.objective);
        if policy == Policy::Milp {
            worst = worst.max(difference(sizes.objective, milp.objective));
        }
        let verified = &mut self.verified;
        verified.decisions += 1;
        verified.unproven += u64::from(solve.outcome != Outcome::Optimal);
        verified.worst_difference = verified.worst_difference.max(worst);
        verified.disagreements += u64::from(worst > AGREEMENT);
    }

    /// Holds a plan by forecasts against the program over patterns and its bound, with classes so
    /// fine that they hold like nodes alone.
    fn look_ahead(&mut self, foreseen: &Foreseen, stopwatch: &dyn Fn() -> f64) {
        let options = patterns::Options {
            classes: usize::MAX,
            time_limit: TIME_LIMIT,
            ..patterns::Options::new(stopwatch)
        };
        let settings = &foreseen.settings;
        for (request, plan) in foreseen.decided() {
            let plans = [plan.owners.as_slice()];
            let (better, answer) =
                patterns::decide(&request, settings, plan.salvage, &plans, &options);
            self.verified.unproven += u64::from(answer.outcome != Outcome::Optimal);
            self.compare((&request, settings), plan, (&better, &answer));
        }
    }

    /// Fails a plan if its worth is not what it says, if keeping all as it is would have been
    /// better, or if it falls short of `better` by more than [`Verified::SHORT_OF_ONE`]. `answer`
    /// tells how `better` was found, starting from the plan.
    fn compare(
        &mut self,
        (request, settings): (&Request<'_>, &Settings),
        plan: &Assignment,
        (better, answer): (&Assignment, &Answer),
    ) {
        let value = |owners: &[Option<u32>]| value(request, settings, plan.salvage, owners);
        let worth = value(&plan.owners);
        let size = better.worth.abs().max(worth.abs()).max(1.0);
        let short = (better.worth - worth).max(0.0);
        let is_right = (worth - plan.worth).abs() <= AGREEMENT * size;
        let is_better = worth >= value(&standing(request)) - AGREEMENT * size;
        let is_close = short <= Verified::SHORT_OF_ONE * size;
        let gap = (answer.bound - worth).max(0.0) / size;
        let verified = &mut self.verified;
        if gap.is_finite() {
            let place = self.gaps.partition_point(|&other| other <= gap);
            self.gaps.insert(place, gap);
            verified.mean_gap += (gap - verified.mean_gap) / self.gaps.len() as f64;
        }
        self.short += short;
        self.worth += better.worth.abs();
        verified.worst_difference = verified.worst_difference.max(short / size);
        let last = (self.gaps.len() * 99).div_ceil(100).saturating_sub(1);
        verified.decisions += 1;
        verified.disagreements += u64::from(!(is_right && is_better && is_close));
        verified.p99_gap = self.gaps.get(last).copied().unwrap_or(0.0);
        verified.shortfall = if self.worth > 0.0 {
            self.short / self.worth
        } else {
            0.0
        };
    }
}

/// Relative difference of two objectives, by the larger of them and 1.
fn difference(a: f64, b: f64) -> f64 {
    (a - b).abs() / a.abs().max(b.abs()).max(1.0)
}

/// The places of trainer `j`.
fn set(owners: &[Option<u32>], j: usize) -> Vec<usize> {
    let places = owners.iter().enumerate();
    let own = places.filter(|(_, owner)| owner.is_some_and(|o| o as usize == j));
    own.map(|(place, _)| place).collect()
}

/// Everybody keeps what he has, but for those who cannot run on it.
fn standing(request: &Request<'_>) -> Vec<Option<u32>> {
    let mut owners = request.owners.to_vec();
    for (j, item) in request.trainers.iter().enumerate() {
        let held = set(request.owners, j);
        if !item.is_size(held.len() as u32) {
            for place in held {
                if let Some(owner) = owners.get_mut(place) {
                    *owner = None;
                }
            }
        }
    }
    owners
}

/// What a sound plan is worth less all charges, objective units, straight from the definition of
/// [`lacuna_planner::joint`].
fn value(request: &Request<'_>, settings: &Settings, salvage: f64, owners: &[Option<u32>]) -> f64 {
    let (scenarios, horizon) = (request.scenarios, settings.horizon_s);
    let mut sum = 0.0;
    for (j, member) in request.members(true).enumerate() {
        let (item, new) = (member.item, set(owners, j));
        let nodes = new.len() as u32;
        let rate = item.value_at(nodes);
        let charge = match (settings.repool && member.hit, item.current < item.min) {
            (true, _) => 0.0,
            (false, true) => member.start_s * rate,
            (false, false) => settings.hysteresis * item.change_cost(nodes),
        };
        sum -= charge;
        if nodes == 0 {
            continue;
        }
        // By scenario: the first hit, and the seconds that the nodes stay.
        let mut futures = vec![(horizon, 0.0); scenarios.count()];
        for &place in &new {
            for ((first, stay), leave) in futures.iter_mut().zip(scenarios.of(place)) {
                *first = leave.min(*first);
                *stay += leave.min(horizon);
            }
        }
        let gained = futures.iter().map(|&(first, stay)| {
            let hits = f64::from(u8::from(first < horizon));
            let left = stay - f64::from(nodes) * first;
            rate * (first - item.down_s * hits) + salvage * left
        });
        let gained: f64 = gained.sum();
        sum += gained / scenarios.count().max(1) as f64;
    }
    sum
}

#[cfg(test)]
mod tests {
    use lacuna_planner::instance::Size;
    use lacuna_planner::joint::Joint;
    use lacuna_planner::patterns::{Options, Shape, Situation, instance};

    use super::*;

    /// What is found of the plan of the dynamic programme, spoiled in some way.
    fn examined(situation: Situation, spoil: impl Fn(&mut Assignment, &Request<'_>)) -> Verified {
        let mut valuation = Valuation::default();
        for seed in 0..6 {
            let shape = Shape {
                size: Size::of(8, 200),
                classes: 12,
                scenarios: 8,
                situation,
            };
            let instance = instance(shape, seed).unwrap();
            let request = instance.request();
            let settings = Settings::default();
            let mut plan = Joint::new(settings).decide(&request);
            spoil(&mut plan, &request);
            let options = Options {
                time_limit: TIME_LIMIT,
                ..Options::new(&|| 0.0)
            };
            let plans = [plan.owners.as_slice()];
            let (better, answer) =
                patterns::decide(&request, &settings, plan.salvage, &plans, &options);
            let asked = (&request, &settings);
            valuation.compare(asked, &plan, (&better, &answer));
        }
        valuation.verified
    }

    #[test]
    fn plans_as_they_are_made_pass() {
        for situation in [Situation::Event, Situation::Storm] {
            let verified = examined(situation, |_, _| ());
            assert_eq!((verified.decisions, verified.disagreements), (6, 0));
            assert!(verified.worst_difference < Verified::SHORT_OF_ONE);
        }
    }

    #[test]
    fn a_plan_that_leaves_all_idle_is_caught_though_it_is_valued_right() {
        let verified = examined(Situation::Event, |plan, request| {
            plan.owners.fill(None);
            plan.worth = value(request, &Settings::default(), plan.salvage, &plan.owners);
        });
        assert_eq!(verified.disagreements, 6);
        // From nothing it is no worse than keeping, but falls short.
        let verified = examined(Situation::Start, |plan, _| {
            plan.owners.fill(None);
            plan.worth = 0.0;
        });
        assert_eq!(verified.disagreements, 6);
        assert!(!verified.is_good() && verified.shortfall > 0.99);
    }

    #[test]
    fn a_plan_that_says_that_it_is_worth_more_is_caught() {
        let verified = examined(Situation::Event, |plan, _| plan.worth *= 1.0 + 1e-4);
        assert_eq!(verified.disagreements, 6);
    }
}
