//! Values of decisions, for `--verify`: each is compared with the decision of another method, and
//! by forecasts also with the value of its own nodes by definition.
//! [`lacuna_planner::check::check_decision`] checks the soundness of every decision elsewhere.

use std::time::Duration;

use lacuna_model::{Outcome, Policy};
use lacuna_planner::check::value;
use lacuna_planner::judge;
use lacuna_planner::milp::{self, MilpOptions};
use lacuna_planner::placement::forecast::Evaluation;
use lacuna_planner::placement::{Assignment, Request, Settings};
use lacuna_planner::{Decider, Decision};
use lacuna_planner::{MixProblem, Problem, Sizes, dp, mixed};

use crate::Verified;

/// Largest relative difference of the objectives of two exact methods.
const AGREEMENT: f64 = 1e-6;

/// Time limit of a solve, long enough for a proof of optimality.
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// The values of the decisions so far.
#[derive(Debug, Default)]
pub(super) struct Valuation {
    pub(super) verified: Verified,
    /// The exact method with which sizes are compared.
    oracle: dp::Solver,
    /// Relative gap of each plan by forecasts to its bound, ascending.
    gaps: Vec<f64>,
    /// Sum of the shortfalls of plans by forecasts, and sum of the values of the better plans.
    shortfalls: f64,
    values: f64,
}

impl Valuation {
    /// Values the newest decision of a decider.
    pub(super) fn add(
        &mut self,
        decider: &Decider,
        decided: &Decision,
        stopwatch: &dyn Fn() -> f64,
    ) {
        match &decided.evaluation {
            Some(evaluation) => self.compare_forecast(evaluation, stopwatch),
            None => self.compare_sizes(decider, decided),
        }
    }

    /// Solves again by the other exact method, without shortcuts, since those rest on the same
    /// bound as the dynamic program. Shares of owners are compared one by one.
    fn compare_sizes(&mut self, decider: &Decider, decided: &Decision) {
        if let Some(problem) = decider.mixed() {
            if decided.shares.is_empty() {
                self.compare_mixes(problem, decided);
            }
            return;
        }
        let (problem, sizes) = (decider.problem(), &decided.sizes);
        let followed = decided.followed.as_ref();
        let policy = followed.map_or(decider.settings().policy, |f| f.rule.policy());
        if decided.shares.is_empty() {
            self.compare_problem(problem, sizes, policy);
        }
        for share in &decided.shares {
            let own = problem.part(&share.candidates, share.nodes);
            let counts = share.candidates.iter();
            let counts = counts.filter_map(|&j| sizes.counts.get(j as usize).copied());
            let sizes = own.sizes(counts.collect());
            self.compare_problem(&own, &sizes, policy);
        }
    }

    /// Solves again by the plain program over the counts of all kinds.
    fn compare_mixes(&mut self, problem: &MixProblem, decided: &Decision) {
        let plain = mixed::reference::solve(problem);
        let worst = difference(decided.sizes.objective, plain.objective);
        let verified = &mut self.verified;
        verified.decisions += 1;
        verified.unproven += u64::from(decided.solve.outcome != Outcome::Optimal);
        verified.worst_difference = verified.worst_difference.max(worst);
        let most = match decided.solve.outcome {
            Outcome::Feasible { gap } => gap + AGREEMENT,
            _ => AGREEMENT,
        };
        verified.disagreements += u64::from(worst > most);
    }

    fn compare_problem(&mut self, problem: &Problem, sizes: &Sizes, policy: Policy) {
        let whole = MilpOptions {
            shortcuts: false,
            ..MilpOptions::until(TIME_LIMIT)
        };
        let (milp, solve) = milp::solve(problem, &whole);
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

    /// Compares a plan by forecasts with the answer and the bound of the judge.
    fn compare_forecast(&mut self, evaluation: &Evaluation, stopwatch: &dyn Fn() -> f64) {
        let settings = &evaluation.settings;
        for (request, plan) in evaluation.decided() {
            let judged = judge::again(&request, settings, plan, judge::TIME_LIMIT, stopwatch);
            // What cannot be judged is compared with no change alone.
            let (found, bound) = judged.unwrap_or((plan.value, f64::INFINITY));
            let proven = bound - found <= judge::PROOF * bound.abs();
            // Kinds of nodes have no such program. All else that is not judged is not proven.
            let has_program = !matches!(judged, Err(judge::NotJudged::Kinds));
            self.verified.unproven += u64::from(has_program && !proven);
            let best = found.max(plan.value);
            self.compare_plans((&request, settings), plan, (best, bound));
        }
    }

    /// Fails a plan if its value is not the stated one, if no change has a higher value, or if it
    /// falls short of the value `better` of another by more than [`Verified::SHORT_OF_ONE`]. `bound` is
    /// that of the judge.
    fn compare_plans(
        &mut self,
        (request, settings): (&Request<'_>, &Settings),
        plan: &Assignment,
        (better, bound): (f64, f64),
    ) {
        let price = |_| plan.shadow_price;
        let value = |owners: &[Option<u32>]| value(request, settings, price, owners);
        let own = value(&plan.owners);
        let scale = better.abs().max(own.abs()).max(1.0);
        let shortfall = (better - own).max(0.0);
        let is_right = (own - plan.value).abs() <= AGREEMENT * scale;
        let is_better = own >= value(&unchanged(request)) - AGREEMENT * scale;
        let is_close = shortfall <= Verified::SHORT_OF_ONE * scale;
        let gap = (bound - own).max(0.0) / scale;
        let verified = &mut self.verified;
        if gap.is_finite() {
            let place = self.gaps.partition_point(|&other| other <= gap);
            self.gaps.insert(place, gap);
            verified.mean_gap += (gap - verified.mean_gap) / self.gaps.len() as f64;
        }
        self.shortfalls += shortfall;
        self.values += better.abs();
        verified.worst_difference = verified.worst_difference.max(shortfall / scale);
        let gaps = &self.gaps;
        let quantile = |percent: usize| {
            let at = (gaps.len() * percent).div_ceil(100).saturating_sub(1);
            gaps.get(at).copied().unwrap_or(0.0)
        };
        verified.decisions += 1;
        verified.disagreements += u64::from(!(is_right && is_better && is_close));
        (verified.p50_gap, verified.p99_gap) = (quantile(50), quantile(99));
        verified.shortfall = if self.values > 0.0 {
            self.shortfalls / self.values
        } else {
            0.0
        };
    }
}

/// Relative difference of two objectives, over the larger of them and 1.
fn difference(a: f64, b: f64) -> f64 {
    (a - b).abs() / a.abs().max(b.abs()).max(1.0)
}

/// The places of trainer `j`.
fn set(owners: &[Option<u32>], j: usize) -> Vec<usize> {
    let places = owners.iter().enumerate();
    let own = places.filter(|(_, owner)| owner.is_some_and(|o| o as usize == j));
    own.map(|(place, _)| place).collect()
}

/// Every trainer keeps its nodes, except a trainer that cannot run on them.
fn unchanged(request: &Request<'_>) -> Vec<Option<u32>> {
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

#[cfg(test)]
mod tests {
    use lacuna_planner::instance::Size;
    use lacuna_planner::placement::blocks::BlockPlacer;
    use lacuna_planner::placement::columns::{Shape, Situation, instance};

    use super::*;

    /// Results of verification for plans of the dynamic program that `spoil` has changed.
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
            let mut plan = BlockPlacer::new(settings).decide(&request);
            spoil(&mut plan, &request);
            let judged = judge::again(&request, &settings, &plan, TIME_LIMIT, &|| 0.0);
            valuation.compare_plans((&request, &settings), &plan, judged.unwrap());
        }
        valuation.verified
    }

    #[test]
    fn unchanged_plans_pass() {
        for situation in [Situation::Event, Situation::Storm] {
            let verified = examined(situation, |_, _| ());
            assert_eq!((verified.decisions, verified.disagreements), (6, 0));
            assert!(verified.worst_difference < Verified::SHORT_OF_ONE);
        }
    }

    #[test]
    fn a_plan_that_leaves_all_idle_fails_though_its_value_is_right() {
        let verified = examined(Situation::Event, |plan, request| {
            plan.owners.fill(None);
            plan.value = value(
                request,
                &Settings::default(),
                |_| plan.shadow_price,
                &plan.owners,
            );
        });
        assert_eq!(verified.disagreements, 6);
        // From no nodes it equals no change, but falls short.
        let verified = examined(Situation::Start, |plan, _| {
            plan.owners.fill(None);
            plan.value = 0.0;
        });
        assert_eq!(verified.disagreements, 6);
        assert!(!verified.is_good() && verified.shortfall > 0.99);
    }

    #[test]
    fn a_plan_that_overstates_its_value_fails() {
        let verified = examined(Situation::Event, |plan, _| plan.value *= 1.0 + 1e-4);
        assert_eq!(verified.disagreements, 6);
    }
}
