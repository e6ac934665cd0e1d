//! Decisions over sizes: sizes first, then nodes. Forecasts play no part. Where nodes are of several
//! kinds, a size is a count of each, and the nodes of each kind are chosen apart. A trainer that
//! gains nodes of one kind and loses nodes of another regroups once, so that is no migration.

use std::convert::Infallible;

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use lacuna_model::{MOST_KINDS, Outcome, Policy, Solve};

use crate::decision::{Decision, Share, shares, together};
use crate::fair::Claim;
use crate::milp::MilpOptions;
use crate::placement::attainable;
use crate::problem::{
    Candidate, Mix, MixProblem, MixSizes, NO_NODES, Problem, Situation, Sizes, Slot, count, sum,
};
use crate::settings::Settings;
use crate::{choose, dp, equal_share, fair, milp, mixed};

/// Decides sizes, then nodes. Its memory between decisions is room only.
#[derive(Debug, Clone, Default)]
pub(crate) struct BySizes {
    settings: Settings,
    solver: dp::Solver,
    /// The newest problem, with its room.
    problem: Problem,
    /// The newest problem over mixes, if its nodes were of several kinds.
    mixed: Option<MixProblem>,
}

impl BySizes {
    pub(crate) fn new(settings: Settings) -> Self {
        Self {
            settings,
            ..Self::default()
        }
    }

    /// The problem of the newest situation.
    pub(crate) const fn problem(&self) -> &Problem {
        &self.problem
    }

    /// The problem over mixes of the newest situation, if its nodes were of several kinds.
    pub(crate) const fn mixed(&self) -> Option<&MixProblem> {
        self.mixed.as_ref()
    }

    /// Decides by a policy that needs no forecasts; others decide as [`Policy::Dp`].
    pub(crate) fn decide(&mut self, situation: &Situation<'_>, policy: Policy) -> Decision {
        self.settings.policy = policy;
        self.pose(situation);
        if let Some(problem) = self.mixed.take() {
            let decision = self.decide_mixes(situation, &problem);
            self.mixed = Some(problem);
            return decision;
        }
        let problem = std::mem::take(&mut self.problem);
        let owners = situation.owners();
        let (sizes, solve, shares) = if owners.is_empty() {
            let (sizes, solve) = self.solve(&problem);
            (sizes, solve, Vec::new())
        } else {
            self.solve_by_owner(&problem, owners)
        };
        self.problem = problem;
        let (owners, sizes) = self.place_near(situation, sizes);
        Decision {
            owners,
            sizes,
            solve,
            evaluation: None,
            doubt: None,
            shares,
            followed: None,
        }
    }

    /// Decides counts of several kinds, then nodes of each.
    fn decide_mixes(&self, situation: &Situation<'_>, problem: &MixProblem) -> Decision {
        let owners = situation.owners();
        let (mixes, solve, shares) = if owners.is_empty() {
            let (sizes, solve) = self.solve_mixes(problem, 1);
            (sizes.mixes, solve, Vec::new())
        } else {
            self.solve_mixes_by_owner(problem, &owners)
        };
        let mut owners = self.place_mixes(situation, &mixes);
        let mixes = match situation.apart() {
            Some(switches) => {
                attainable::trim(&mut owners, situation, switches, problem.horizon_s);
                situation.mixes(owners.iter().copied())
            }
            None => mixes,
        };
        Decision {
            owners,
            sizes: Sizes {
                counts: mixes.iter().map(|mix| mix.iter().sum()).collect(),
                objective: problem.sizes(mixes).objective,
            },
            solve,
            evaluation: None,
            doubt: None,
            shares,
            followed: None,
        }
    }

    /// The best mixes, with one of `parts` equal parts of the limits on work.
    fn solve_mixes(&self, problem: &MixProblem, parts: u32) -> (MixSizes, Solve) {
        let parts = parts.max(1);
        let options = MilpOptions {
            time_limit: self.settings.milp.time_limit / parts,
            ..self.settings.milp
        };
        match self.settings.policy {
            Policy::Milp => mixed::patterns::solve(problem, &options),
            Policy::EqualShare => equal_share_of_kinds(problem),
            _ => mixed::solve_within(problem, mixed::MOST_STEPS / u64::from(parts)),
        }
    }

    /// Mixes within the shares of several owners.
    fn solve_mixes_by_owner(
        &self,
        problem: &MixProblem,
        owners: &[(f64, Vec<u32>)],
    ) -> (Vec<Mix>, Solve, Vec<Share>) {
        let parts = fair::kinds::most_answers(problem.nodes, owners.len());
        let served = fair::kinds::settle(problem, owners, &[], |own, nodes| {
            let (sizes, solve) = self.solve_mixes(&problem.part(own, nodes), parts);
            let used = sum(sizes.mixes.iter().copied());
            (sizes.objective, used, Some((sizes, solve)))
        });
        let mut mixes = vec![NO_NODES; problem.trainers.len()];
        let (mut shares, mut solves) = (Vec::new(), Vec::new());
        for ((_, own), served) in owners.iter().zip(served) {
            shares.push(Share {
                candidates: own.clone(),
                fair: served.fair.iter().sum(),
                nodes: served.used.iter().sum(),
            });
            let Some((sizes, solve)) = served.answer else {
                continue;
            };
            solves.push(solve);
            for (&j, mix) in own.iter().zip(sizes.mixes) {
                if let Some(place) = mixes.get_mut(j as usize) {
                    *place = mix;
                }
            }
        }
        let objective = problem.sizes(mixes.clone()).objective;
        (mixes, together(solves.into_iter(), objective), shares)
    }

    /// The owners of slots for known mixes.
    fn place_mixes(&self, situation: &Situation<'_>, mixes: &[Mix]) -> Vec<Option<u32>> {
        let mut owners = vec![None; situation.slots.len()];
        for kind in 0..MOST_KINDS {
            let places = (0..situation.slots.len()).zip(situation.slots);
            let places = places.filter(|(at, _)| usize::from(situation.kind(*at)) == kind);
            let (places, slots): (Vec<usize>, Vec<Slot>) = places.unzip();
            if slots.is_empty() {
                continue;
            }
            let apart = situation.apart();
            let apart = apart.map(|switches| switches.only(places.iter().copied()));
            let counts: Vec<u32> = mixes.iter().map(|mix| count(mix, kind)).collect();
            let seeded = || ChaCha8Rng::seed_from_u64(seed(self.settings.seed, situation.slots));
            let choice = self.settings.node_choice;
            let given = choose::assign(choice, &slots, apart.as_ref(), &counts, seeded);
            for (at, owner) in places.into_iter().zip(given) {
                if let Some(place) = owners.get_mut(at) {
                    *place = owner;
                }
            }
        }
        owners
    }

    /// Sizes within the shares of several owners. The nodes of all owners are chosen together
    /// afterwards.
    fn solve_by_owner(
        &mut self,
        problem: &Problem,
        owners: Vec<(f64, Vec<u32>)>,
    ) -> (Sizes, Solve, Vec<Share>) {
        let nodes = problem.nodes;
        let items = |list: &[u32]| problem.part(list, 0).trainers;
        let mut claims: Vec<Claim> = owners
            .iter()
            .map(|(part, list)| Claim::new(nodes, *part, items(list).iter(), 0))
            .collect();
        let fair = fair::max_min(nodes, &claims);
        let mut counts = vec![0; problem.trainers.len()];
        let mut solves: Vec<Option<Solve>> = vec![None; owners.len()];
        let given = fair::settle(nodes, &mut claims, |given, again| {
            let asked = owners.iter().zip(given).zip(again).zip(&mut solves);
            for ((((_, list), &nodes), _), found) in asked.filter(|((_, again), _)| **again) {
                let (sizes, solve) = self.solve(&problem.part(list, nodes));
                for (&j, n) in list.iter().zip(sizes.counts) {
                    if let Some(count) = counts.get_mut(j as usize) {
                        *count = n;
                    }
                }
                *found = Some(solve);
            }
            let count = |&j: &u32| counts.get(j as usize).copied().unwrap_or(0);
            let used = owners.iter().map(|(_, list)| list.iter().map(count).sum());
            Ok::<_, Infallible>(used.collect())
        });
        let Ok(given) = given;
        let sizes = problem.sizes(counts);
        let solve = together(solves.into_iter().flatten(), sizes.objective);
        (sizes, solve, shares(owners, fair, given))
    }

    /// Poses the problem over sizes of a situation.
    pub(crate) fn pose(&mut self, situation: &Situation<'_>) -> &Problem {
        self.problem.nodes = situation.slots.len() as u32;
        self.problem.horizon_s = self.settings.horizon.as_secs_f64();
        self.problem.trainers.clear();
        let items = situation.candidates.iter().map(Candidate::sized);
        self.problem.trainers.extend(items);
        if let Some(switches) = situation.apart() {
            let owners: Vec<Option<u32>> = situation.slots.iter().map(|slot| slot.owner).collect();
            attainable::lower(&mut self.problem.trainers, &owners, switches);
        }
        self.mixed = (!situation.kinds.is_empty()).then(|| MixProblem {
            nodes: situation.nodes(),
            horizon_s: self.problem.horizon_s,
            trainers: std::mem::take(&mut self.problem.trainers),
        });
        &self.problem
    }

    /// The owners of slots for sizes that are known.
    pub(crate) fn place(&self, situation: &Situation<'_>, counts: &[u32]) -> Vec<Option<u32>> {
        let slots = situation.slots;
        let seeded = || ChaCha8Rng::seed_from_u64(seed(self.settings.seed, slots));
        let choice = self.settings.node_choice;
        choose::assign(choice, slots, situation.apart(), counts, seeded)
    }

    /// The owners of slots for sizes that are known, and the sizes without nodes that only put a
    /// trainer's nodes farther apart.
    fn place_near(&self, situation: &Situation<'_>, sizes: Sizes) -> (Vec<Option<u32>>, Sizes) {
        let mut owners = self.place(situation, &sizes.counts);
        let Some(switches) = situation.apart() else {
            return (owners, sizes);
        };
        attainable::trim(&mut owners, situation, switches, self.problem.horizon_s);
        let mut counts = vec![0; sizes.counts.len()];
        for &j in owners.iter().flatten() {
            if let Some(count) = counts.get_mut(j as usize) {
                *count += 1;
            }
        }
        (owners, self.problem.sizes(counts))
    }

    fn solve(&mut self, problem: &Problem) -> (Sizes, Solve) {
        let solved = |sizes: &Sizes, solver: &str| Solve {
            outcome: Outcome::Optimal,
            objective: sizes.objective,
            solver: solver.to_owned(),
            shortcut: None,
            stopped_by_clock: false,
        };
        match self.settings.policy {
            Policy::EqualShare => {
                let sizes = equal_share::solve(problem);
                let solve = Solve {
                    outcome: Outcome::Found,
                    ..solved(&sizes, "equal-share")
                };
                (sizes, solve)
            }
            Policy::Milp => milp::solve(problem, &self.settings.milp),
            Policy::Auto | Policy::Dp | Policy::Forecast => {
                let sizes = self.solver.solve(problem);
                let mut solve = solved(&sizes, "dp");
                solve.shortcut = match self.solver.proof() {
                    dp::Proof::Slack => Some("slack".to_owned()),
                    dp::Proof::Certificate => Some(milp::CERTIFICATE.to_owned()),
                    dp::Proof::Program => None,
                };
                (sizes, solve)
            }
        }
    }
}

/// Equal shares of several kinds: each trainer has the share of an owner of its own.
fn equal_share_of_kinds(problem: &MixProblem) -> (MixSizes, Solve) {
    let each = (0..problem.trainers.len() as u32).map(|j| (1.0, vec![j]));
    let each: Vec<(f64, Vec<u32>)> = each.collect();
    let served = fair::kinds::settle(problem, &each, &[], |own, nodes| {
        let (sizes, _) = mixed::solve(&problem.part(own, nodes));
        (sizes.objective, sum(sizes.mixes), ())
    });
    let sizes = problem.sizes(served.into_iter().map(|owner| owner.used).collect());
    let solve = Solve {
        outcome: Outcome::Found,
        objective: sizes.objective,
        solver: "equal-share".to_owned(),
        shortcut: None,
        stopped_by_clock: false,
    };
    (sizes, solve)
}

/// A seed from the start times of the slots, in any order.
pub(crate) fn seed(seed: u64, slots: &[Slot]) -> u64 {
    let mixed = slots.iter().map(|slot| scatter(slot.since_ms as u64));
    seed ^ mixed.fold(slots.len() as u64, u64::wrapping_add)
}

/// Scatters bits (the finaliser of SplitMix64, Steele, Lea and Flood, OOPSLA 2014).
pub(crate) const fn scatter(bits: u64) -> u64 {
    let bits = bits.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seed_depends_on_the_slots_in_any_order() {
        let slot = |since_ms| Slot {
            since_ms,
            owner: None,
        };
        let slots = [slot(5), slot(7), slot(7)];
        let turned = [slot(7), slot(5), slot(7)];
        assert_eq!(seed(1, &slots), seed(1, &turned));
        assert_ne!(seed(1, &slots), seed(2, &slots));
        assert_ne!(seed(1, &slots), seed(1, &[slot(5), slot(7)]));
        assert_ne!(seed(1, &slots), seed(1, &[slot(5), slot(7), slot(8)]));
    }
}
