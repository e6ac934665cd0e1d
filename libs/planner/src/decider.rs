//! The one choice of policy: from a situation to which trainer gets which slot.
//!
//! The planner service and the replay ask the same [`Decider`]. It works on ordinals: candidates
//! are trainers by their place in a list, slots are usable nodes of the pool. [`crate::Planner`]
//! brings domain names in and out; the replay numbers nodes and trainers anyway.
//!
//! | policy | sizes and nodes |
//! |---|---|
//! | [`Policy::Auto`] | as [`Policy::Forecast`] while the pool tells which holes end together, else as [`Policy::Dp`] |
//! | [`Policy::Forecast`] | nodes and sizes at once by forecasts: consecutive segments ([`crate::joint`]) |
//! | [`Policy::MilpPatterns`] | the same, improved by a mixed-integer program ([`crate::patterns`]) |
//! | [`Policy::Dp`], [`Policy::Milp`], [`Policy::EqualShare`] | sizes first, then nodes by [`choose`] |
//!
//! Max-min fairness between users is no sum that forecasts could weigh: with [`Situation::users`]
//! sizes come from [`fair`], whatever the policy (but for equal share).
//!
//! **The same situation gives the same decision**, whatever was decided before, on every machine:
//! random choices are seeded by the slots themselves, and solves end by their work. The
//! mixed-integer programs ([`Policy::Milp`], [`Policy::MilpPatterns`]) have an emergency stop by
//! the clock besides: a solve that it ends may differ, and says so ([`Solve::stopped_by_clock`]).

use std::sync::Arc;

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use lacuna_model::{Doubt, NodeChoice, Outcome, Policy, Pool, Solve, Span};

use crate::choose::Slot;
use crate::counts::{self, MilpOptions};
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

impl Default for Settings {
    fn default() -> Self {
        Self {
            policy: Policy::default(),
            node_choice: NodeChoice::default(),
            horizon: Span::from_secs(120),
            milp: MilpOptions::default(),
            seed: 1,
            foresight: foresight::Settings::default(),
        }
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
    /// The share of each user, by its number.
    pub shares: Vec<f64>,
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
        let tells = situation
            .foretold
            .is_some_and(|f| match self.settings.policy {
                Policy::Auto => f.pool.joint.is_some(),
                policy => policy.forecasts(),
            });
        tells && situation.users.is_none()
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
        let (sizes, solve) = self.solve(situation.users);
        Decision {
            owners: self.place(situation.slots, &sizes.counts),
            sizes,
            solve,
            foreseen: None,
            doubt: None,
        }
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

    fn solve(&mut self, users: Option<&Users>) -> (Sizes, Solve) {
        let problem = &self.problem;
        let solved = |sizes: &Sizes, solver: &str| Solve {
            outcome: Outcome::Optimal,
            objective: sizes.objective,
            solver: solver.to_owned(),
            shortcut: None,
            stopped_by_clock: false,
        };
        match (self.settings.policy, users) {
            (Policy::EqualShare, _) => {
                let sizes = equal_share::solve(problem);
                let best = self.solver.solve(problem).objective;
                let gap = (best - sizes.objective) / sizes.objective.abs();
                let mut solve = solved(&sizes, "equal-share");
                if best > sizes.objective {
                    solve.outcome = Outcome::Feasible { gap };
                }
                (sizes, solve)
            }
            (_, Some(users)) => {
                let sizes = fair::solve(problem, &users.of, &users.shares);
                let solve = solved(&sizes, "fair");
                (sizes, solve)
            }
            (Policy::Milp, None) => counts::solve(problem, &self.settings.milp),
            (Policy::Auto | Policy::Dp | Policy::Forecast | Policy::MilpPatterns, None) => {
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
