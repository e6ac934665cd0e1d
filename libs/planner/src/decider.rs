//! The one choice of policy: from a situation to which trainer gets which slot.
//!
//! The planner service and the replay ask the same [`Decider`]. It works on ordinals: candidates
//! are trainers by their place in a list, slots are usable nodes of the pool. [`crate::Planner`]
//! and `Roster` bring domain names in and out; the replay numbers nodes and trainers anyway. What
//! else differs between the two lies outside too: oracle lookahead and the published quirks
//! (`sim::published`).
//!
//! | policy | sizes and nodes |
//! |---|---|
//! | [`Policy::Auto`] | as [`Policy::Forecast`] while the pool tells which holes end together, else as [`Policy::Dp`] |
//! | [`Policy::Forecast`] | nodes and sizes at once by forecasts: consecutive segments ([`crate::joint`]) |
//! | [`Policy::MilpPatterns`] | the same, improved by a mixed-integer program ([`crate::patterns`]) |
//! | [`Policy::Dp`], [`Policy::Milp`], [`Policy::EqualShare`] | sizes first, then nodes by [`choose`] |
//!
//! With [`Situation::users`] of whom several have candidates, nodes are first shared out fairly
//! over them ([`fair`]), and the policy decides within the share of each.
//!
//! **The same situation gives the same decision**, whatever was decided before, on every machine.
//! Nothing is remembered from decision to decision, so a restarted planner and a replay decide
//! alike. The shadow price of a node-second comes from a first decision for the same situation.
//! Random choices are seeded by since when each slot is idle. Solves by HiGHS end by counts: nodes
//! of the tree, iterations of the simplex method, columns, rounds of pricing. The mixed-integer
//! programs ([`Policy::Milp`], [`Policy::MilpPatterns`]) have an emergency stop by the clock
//! besides (`planner.time_limit`, 30 s). A solve that it ends may differ, and says so
//! ([`Solve::stopped_by_clock`]): `lacuna_planner_clock_stops_total` in the planner, `clock_stops`
//! in a replay.

use std::convert::Infallible;
use std::sync::Arc;

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use lacuna_model::{Doubt, NodeChoice, Outcome, PlannerSettings, Policy, Pool, Solve, Span};

use crate::choose::Slot;
use crate::counts::{self, MilpOptions};
use crate::fair::Claim;
use crate::foresight::{self, Foreseen};
use crate::{Item, Problem, Sizes, choose, dp, equal_share, fair};

/// How a [`Decider`] decides.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// How sizes and nodes are found.
    pub policy: Policy,
    /// How nodes are found for sizes that are known.
    pub node_choice: NodeChoice,
    /// Over how long a time gains are counted where holes are not forecast, T.
    pub horizon: Span,
    /// Limits of the mixed-integer programs.
    pub milp: MilpOptions,
    /// Seed of random choices.
    pub seed: u64,
    /// How decisions by forecasts are made.
    pub foresight: foresight::Settings,
}

impl From<&PlannerSettings> for Settings {
    fn from(settings: &PlannerSettings) -> Self {
        Self {
            policy: settings.policy,
            node_choice: settings.node_choice,
            horizon: settings.horizon,
            milp: settings.into(),
            seed: settings.seed,
            foresight: (&settings.foresight).into(),
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        (&PlannerSettings::default()).into()
    }
}

/// A trainer that may get nodes. [`crate::kind::Kind::candidate`] makes it.
#[derive(Debug, Clone, PartialEq)]
pub struct Candidate {
    /// Its sizes, values and costs; `current` nodes are its own.
    pub item: Item,
    /// Values of 0..=max nodes for a start from none, where holes are not forecast.
    pub starting: Arc<[f64]>,
    /// Seconds at the rate after it that a start from no nodes stalls.
    pub start_s: f64,
    /// Whether a departure hit it at this event, so that it restarts anyway.
    pub hit: bool,
}

impl Candidate {
    /// The trainer in an allocation problem over sizes.
    fn sized(&self) -> Item {
        if self.item.current >= self.item.min {
            return self.item.clone();
        }
        Item {
            value: self.starting.clone(),
            ..self.item.clone()
        }
    }
}

/// The users of the trainers of a decision.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Users {
    /// The user of each trainer.
    pub of: Vec<u32>,
    /// The part of each user beside that of others, by its number; 1 where it is missing.
    pub parts: Vec<f64>,
}

/// What is known of when the slots leave.
#[derive(Debug, Clone, Copy)]
pub struct Foretold<'a> {
    /// The pool with its forecasts.
    pub pool: &'a Pool,
    /// For each slot its place in the pool's list of holes.
    pub holes: &'a [u32],
    /// For each hole of the pool the seconds after which an oracle says that it ends, infinite if
    /// it does not. Empty without an oracle.
    pub known: &'a [f64],
    /// The oracle knows every end within this many seconds; 0 without one.
    pub complete_s: f64,
}

/// What is to be decided.
#[derive(Debug, Clone)]
pub struct Situation<'a> {
    /// The trainers, in order of admission.
    pub candidates: &'a [Candidate],
    /// The usable nodes of the pool.
    pub slots: &'a [Slot],
    /// The users, if nodes are shared out fairly between them.
    pub users: Option<&'a Users>,
    /// Largest change of one trainer in one decision over sizes; see [`Problem::max_change`].
    pub max_change: Option<u32>,
    /// What is known of when slots leave; nothing where holes are not forecast.
    pub foretold: Option<Foretold<'a>>,
    /// What is known beforehand to forbid any growth.
    pub doubt: Option<Doubt>,
}

/// The share of one of several users in a decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Share {
    /// The candidates of the user, in order.
    pub candidates: Vec<u32>,
    /// Its max-min share, nodes ([`fair::max_min`]).
    pub fair: u32,
    /// What its candidates were decided on, nodes: less where it cannot use its share, more where
    /// others cannot use theirs.
    pub nodes: u32,
}

/// What was decided.
#[derive(Debug, Clone)]
pub struct Decision {
    /// Whose each slot is from now on.
    pub owners: Vec<Option<u32>>,
    /// How many slots each candidate has.
    pub sizes: Sizes,
    /// How it was found.
    pub solve: Solve,
    /// What was weighed, if holes were forecast.
    pub foreseen: Option<Box<Foreseen>>,
    /// Why every candidate keeps what it has, if that was decided for it.
    pub doubt: Option<Doubt>,
    /// The shares of the users, if nodes were shared out over several.
    pub shares: Vec<Share>,
}

/// Decides.
#[derive(Debug, Clone, Default)]
pub struct Decider {
    settings: Settings,
    solver: dp::Solver,
    joint: crate::joint::Joint,
    /// The newest problem over sizes, with its room.
    problem: Problem,
}

impl Decider {
    /// A decider with these settings.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            ..Self::default()
        }
    }

    /// Its settings.
    #[must_use]
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The problem over sizes of the newest situation, empty if it was decided by forecasts.
    #[must_use]
    pub const fn problem(&self) -> &Problem {
        &self.problem
    }

    /// Whether a situation is decided by forecasts.
    #[must_use]
    pub fn by_forecasts(&self, situation: &Situation<'_>) -> bool {
        situation
            .foretold
            .is_some_and(|f| match self.settings.policy {
                Policy::Auto => f.pool.joint.is_some(),
                policy => policy.forecasts(),
            })
    }

    /// Decides. `stopwatch` gives seconds since any fixed moment; a solve that runs into its
    /// emergency stop by it ends with the best that it has found.
    #[must_use]
    pub fn decide(&mut self, situation: &Situation<'_>, stopwatch: &dyn Fn() -> f64) -> Decision {
        if let Some(doubt) = &situation.doubt {
            return foresight::stand(situation, doubt.clone());
        }
        match situation.foretold {
            Some(foretold) if self.by_forecasts(situation) => {
                let ask = foresight::Ask {
                    situation,
                    foretold,
                    settings: &self.settings,
                    seed: seed(self.settings.seed, situation.slots),
                    stopwatch,
                };
                foresight::decide(&mut self.joint, &ask)
            }
            _ => self.decide_sizes(situation),
        }
    }

    /// Sizes first, then nodes.
    fn decide_sizes(&mut self, situation: &Situation<'_>) -> Decision {
        self.pose(situation);
        let problem = std::mem::take(&mut self.problem);
        let owners = situation.owners();
        let (sizes, solve, shares) = if owners.is_empty() {
            let (sizes, solve) = self.solve(&problem);
            (sizes, solve, Vec::new())
        } else {
            self.solve_by_owner(&problem, owners)
        };
        self.problem = problem;
        Decision {
            owners: self.place(situation.slots, &sizes.counts),
            sizes,
            solve,
            foreseen: None,
            doubt: None,
            shares,
        }
    }

    /// Sizes within the shares of several owners. All nodes are chosen together afterwards.
    fn solve_by_owner(
        &mut self,
        problem: &Problem,
        owners: Vec<(f64, Vec<u32>)>,
    ) -> (Sizes, Solve, Vec<Share>) {
        let (nodes, limit) = (problem.nodes, problem.max_change);
        let items = |list: &[u32]| problem.part(list, 0).trainers;
        let mut claims: Vec<Claim> = owners
            .iter()
            .map(|(part, list)| Claim::new(nodes, *part, items(list).iter(), 0, limit))
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
    pub fn pose(&mut self, situation: &Situation<'_>) -> &Problem {
        self.problem.nodes = situation.slots.len() as u32;
        self.problem.horizon_s = self.settings.horizon.as_secs_f64();
        self.problem.max_change = situation.max_change;
        self.problem.trainers.clear();
        let items = situation.candidates.iter().map(Candidate::sized);
        self.problem.trainers.extend(items);
        &self.problem
    }

    /// The owners of slots for sizes that are known.
    #[must_use]
    pub fn place(&self, slots: &[Slot], counts: &[u32]) -> Vec<Option<u32>> {
        let seeded = || ChaCha8Rng::seed_from_u64(seed(self.settings.seed, slots));
        choose::assign(self.settings.node_choice, slots, counts, seeded)
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
                let best = self.solver.solve(problem).objective;
                let gap = (best - sizes.objective) / sizes.objective.abs();
                let mut solve = solved(&sizes, "equal-share");
                if best > sizes.objective {
                    solve.outcome = Outcome::Feasible { gap };
                }
                (sizes, solve)
            }
            Policy::Milp => counts::solve(problem, &self.settings.milp),
            Policy::Auto | Policy::Dp | Policy::Forecast | Policy::MilpPatterns => {
                let sizes = self.solver.solve(problem);
                let mut solve = solved(&sizes, "dp");
                solve.shortcut = match self.solver.proof() {
                    dp::Proof::Slack => Some("slack".to_owned()),
                    dp::Proof::Certificate => Some(counts::CERTIFICATE.to_owned()),
                    dp::Proof::Programme => None,
                };
                (sizes, solve)
            }
        }
    }
}

impl Situation<'_> {
    /// The candidates of each owner, and its part, if nodes are shared out over several.
    pub(crate) fn owners(&self) -> Vec<(f64, Vec<u32>)> {
        let Some(users) = self.users else {
            return Vec::new();
        };
        let owners = fair::owners(self.candidates.len(), &users.of, &users.parts);
        if owners.len() > 1 { owners } else { Vec::new() }
    }
}

/// The shares of a decision.
pub(crate) fn shares(owners: Vec<(f64, Vec<u32>)>, fair: Vec<u32>, given: Vec<u32>) -> Vec<Share> {
    let owners = owners.into_iter().zip(fair.into_iter().zip(given));
    owners
        .map(|((_, candidates), (fair, nodes))| Share {
            candidates,
            fair,
            nodes,
        })
        .collect()
}

/// What the solves of several owners did: all of them, and no better than the worst.
pub(crate) fn together(solves: impl Iterator<Item = Solve>, objective: f64) -> Solve {
    let badness = |outcome: &Outcome| match outcome {
        Outcome::Optimal => (0, 0.0),
        Outcome::Feasible { gap } => (1, *gap),
        Outcome::Found => (2, 0.0),
        Outcome::NoIncumbent => (3, 0.0),
        Outcome::Infeasible => (4, 0.0),
        Outcome::Failed => (5, 0.0),
    };
    let mut whole = Solve {
        outcome: Outcome::Optimal,
        objective,
        solver: String::new(),
        shortcut: None,
        stopped_by_clock: false,
    };
    for (at, solve) in solves.enumerate() {
        let (new, old) = (badness(&solve.outcome), badness(&whole.outcome));
        if new.0 > old.0 || (new.0 == old.0 && new.1 > old.1) {
            whole.outcome = solve.outcome;
        }
        whole.stopped_by_clock |= solve.stopped_by_clock;
        if at == 0 {
            (whole.solver, whole.shortcut) = (solve.solver, solve.shortcut);
        } else {
            whole.shortcut = whole
                .shortcut
                .filter(|name| Some(name) == solve.shortcut.as_ref());
        }
    }
    whole.solver.push_str(" within owners' shares");
    whole
}

/// A seed that follows from the slots alone: since when each is idle, in any order.
fn seed(seed: u64, slots: &[Slot]) -> u64 {
    let mixed = slots.iter().map(|slot| mix(slot.since_ms as u64));
    seed ^ mixed.fold(slots.len() as u64, u64::wrapping_add)
}

/// Scatters bits (the finaliser of SplitMix64, Steele, Lea and Flood, OOPSLA 2014).
const fn mix(bits: u64) -> u64 {
    let bits = bits.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_follows_from_the_slots_in_any_order() {
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
