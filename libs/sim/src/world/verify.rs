//! Verification of plans by forecasts: each is held against the rules, against what its very nodes
//! are worth, and against what another method makes of the same.

use lacuna_planner::joint::{Assignment, Request, Settings};
use lacuna_planner::patterns::Answer;

use super::decide::AGREEMENT;
use crate::Verified;

/// Plans by forecasts that were looked at.
#[derive(Debug, Default)]
pub(crate) struct Examined {
    /// How far each was from the bound, sorted.
    gaps: Vec<f64>,
    /// Sums of what plans fell short of the better ones, and of what those are worth.
    short: f64,
    worth: f64,
}

impl Examined {
    /// Looks at a plan: fails it if it is not allowed, if its worth is not what it says, if keeping
    /// all as it is would have been better, or if it falls short of `better` by more than
    /// [`Verified::SHORT_OF_ONE`]. `answer` tells how `better` was found, starting from the plan.
    pub(crate) fn look(
        &mut self,
        (request, settings): (&Request<'_>, &Settings),
        plan: &Assignment,
        (better, answer): (&Assignment, &Answer),
        verified: &mut Verified,
    ) {
        let salvage = plan.salvage;
        let judged = judge(request, settings, salvage, &plan.owners);
        let worth = judged.unwrap_or(f64::NEG_INFINITY);
        let size = better.worth.abs().max(worth.abs()).max(1.0);
        let size = if size.is_finite() { size } else { 1.0 };
        let keeping = judge(request, settings, salvage, &standing(request));
        let short = (better.worth - worth).max(0.0);
        let is_right = (worth - plan.worth).abs() <= AGREEMENT * size;
        let is_better = keeping.is_none_or(|keeping| worth >= keeping - AGREEMENT * size);
        let is_close = short <= Verified::SHORT_OF_ONE * size;
        let gap = (answer.bound - worth).max(0.0) / size;
        if gap.is_finite() {
            let place = self.gaps.partition_point(|&other| other <= gap);
            self.gaps.insert(place, gap);
            verified.mean_gap += (gap - verified.mean_gap) / self.gaps.len() as f64;
        }
        if short.is_finite() {
            self.short += short;
            self.worth += better.worth.abs();
            verified.worst_difference = verified.worst_difference.max(short / size);
        }
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

/// What a plan is worth less all charges, straight from the definition of
/// [`lacuna_planner::joint`]; nothing if it is not allowed.
fn judge(
    request: &Request<'_>,
    settings: &Settings,
    salvage: f64,
    owners: &[Option<u32>],
) -> Option<f64> {
    let (scenarios, horizon) = (request.scenarios, settings.horizon_s);
    let trainers = request.trainers.len();
    let known = owners.iter().flatten().all(|&j| (j as usize) < trainers);
    if !known || owners.len() != request.owners.len() {
        return None;
    }
    let mut sum = 0.0;
    for (j, item) in request.trainers.iter().enumerate() {
        let (old, new) = (set(request.owners, j), set(owners, j));
        let nodes = u32::try_from(new.len()).ok()?;
        if !item.is_size(nodes) {
            return None;
        }
        let hit = settings.repool && request.hit.get(j) == Some(&true);
        let is_loose = hit || item.current < item.min;
        let within =
            |a: &[usize], b: &[usize]| a.iter().all(|place| b.binary_search(place).is_ok());
        if !is_loose && !within(&old, &new) && !within(&new, &old) {
            return None;
        }
        let rate = item.value.get(nodes as usize).copied().unwrap_or(0.0);
        let charge = match (is_loose, hit) {
            (true, true) => 0.0,
            (true, false) => request.start_s.get(j).copied().unwrap_or(0.0) * rate,
            (false, _) => settings.hysteresis * item.change_cost(nodes),
        };
        let mut gained = 0.0;
        for s in 0..scenarios.count() {
            let leave = |place: &usize| scenarios.leave(s).get(*place).copied().unwrap_or(0.0);
            let stays = |place: &usize| leave(place).min(horizon);
            let first = new.iter().map(stays).fold(horizon, f64::min);
            let hits = f64::from(u8::from(first < horizon));
            let left: f64 = new.iter().map(|place| stays(place) - first).sum();
            gained += rate * (first - item.down_s * hits) + salvage * left;
        }
        if nodes > 0 {
            sum += gained / scenarios.count().max(1) as f64 - charge;
        } else {
            sum -= charge;
        }
    }
    Some(sum)
}

#[cfg(test)]
mod tests {
    use lacuna_planner::instance::Size;
    use lacuna_planner::joint::Joint;
    use lacuna_planner::patterns::{self, Options, Shape, Situation, instance};

    use super::*;

    /// What is found of the plan of the dynamic programme, spoiled in some way.
    fn examined(situation: Situation, spoil: impl Fn(&mut Assignment, &Request<'_>)) -> Verified {
        let mut verified = Verified::default();
        let mut examined = Examined::default();
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
                time_limit: std::time::Duration::from_secs(60),
                ..Options::new(&|| 0.0)
            };
            let plans = [plan.owners.as_slice()];
            let (better, answer) =
                patterns::decide(&request, &settings, plan.salvage, &plans, &options);
            let asked = (&request, &settings);
            examined.look(asked, &plan, (&better, &answer), &mut verified);
        }
        verified
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
            let worth = judge(request, &Settings::default(), plan.salvage, &plan.owners);
            plan.worth = worth.unwrap();
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

    #[test]
    fn a_plan_that_moves_who_may_not_move_is_caught() {
        // Everybody gets the nodes of another.
        let verified = examined(Situation::Event, |plan, request| {
            let trainers = request.trainers.len() as u32;
            for owner in plan.owners.iter_mut().flatten() {
                *owner = (*owner + 1) % trainers;
            }
        });
        assert_eq!(verified.disagreements, 6);
        // Two nodes change hands, which is all that is wrong.
        let verified = examined(Situation::Event, |plan, request| {
            let bound = |owner: &Option<u32>| {
                owner.is_some_and(|j| {
                    let item = &request.trainers[j as usize];
                    !request.hit[j as usize] && item.current >= item.min
                })
            };
            let kept = |&at: &usize| plan.owners[at] == request.owners[at];
            let places = (0..plan.owners.len()).filter(|&at| bound(&plan.owners[at]));
            let places: Vec<usize> = places.filter(kept).collect();
            let first = places[0];
            let other = |&&at: &&usize| plan.owners[at] != plan.owners[first];
            let second = *places.iter().find(other).unwrap();
            plan.owners.swap(first, second);
        });
        assert_eq!(verified.disagreements, 6);
    }
}
