//! From a pool and trainers to a plan with its reasons.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use lacuna_model::{
    Allocation, Doubt, Generation, NodeChoice, NodeId, Outcome, Plan, PlanReport, Policy, Pool,
    Solve, Span, TrainerRecord,
};

use crate::counts::{self, MilpOptions};
use crate::objective::{Objective, ObjectiveError};
use crate::translate::{Tables, Translated, translate};
use crate::worths::{Worths, users};
use crate::{Problem, Sizes, choose, dp, equal_share, fair, foresight, patterns, verdict};

/// Whether flaws of the published code are reproduced, for comparison with it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Compat {
    /// None of them.
    #[default]
    Off,
    /// The big-M that limits changes, and equal share that gives nothing at the minimum.
    Published,
}

/// How a [`Planner`] plans.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// How sizes are found.
    pub policy: Policy,
    /// How nodes are found.
    pub node_choice: NodeChoice,
    /// Forward-looking time T.
    pub horizon: Span,
    /// Limits of the mixed-integer programme.
    pub milp: MilpOptions,
    /// Seed of the random choice of nodes.
    pub seed: u64,
    /// Flaws of the published code.
    pub compat: Compat,
    /// What is maximised, for all trainers.
    pub objective: Objective,
    /// Whether a pool that tells which of its holes end together is planned by forecasts, whatever
    /// `policy` says: by [`Policy::MilpPatterns`] where that [is quick](patterns::is_quick), else
    /// by [`Policy::Forecast`].
    pub prefer_forecast: bool,
    /// How plans by forecasts are made.
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
            compat: Compat::default(),
            objective: Objective::default(),
            prefer_forecast: false,
            foresight: foresight::Settings::default(),
        }
    }
}

/// What a plan is made from.
#[derive(Debug, Clone, Copy)]
pub struct Input<'a> {
    /// The pool.
    pub pool: &'a Pool,
    /// The trainers, in order of admission.
    pub trainers: &'a [TrainerRecord],
    /// Nodes that nobody may have.
    pub unusable: &'a [NodeId],
    /// The number that the plan will have.
    pub generation: Generation,
    /// Whether the pool is so old that nobody may grow on its word.
    pub stale: bool,
}

/// Makes plans. Two planners with equal settings make equal plans of equal inputs, whatever
/// they planned before (short of a time limit that strikes).
#[derive(Debug, Clone, Default)]
pub struct Planner {
    settings: Settings,
    programme: dp::Solver,
    tables: Tables,
    worths: Worths,
    stopwatch: Seconds,
}

/// Seconds since any fixed moment.
#[derive(Debug, Clone, Copy)]
struct Seconds(fn() -> f64);

impl Default for Seconds {
    /// Stands still.
    fn default() -> Self {
        Self(|| 0.0)
    }
}

impl Planner {
    /// A planner with these settings.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self {
            worths: Worths::new(settings.objective.clone()),
            settings,
            ..Self::default()
        }
    }

    /// With a stopwatch (seconds since any fixed moment), by which solves over patterns keep to
    /// their time limit. Without one they end by their numbers of columns and rounds alone.
    #[must_use]
    pub fn timed_by(mut self, stopwatch: fn() -> f64) -> Self {
        self.stopwatch = Seconds(stopwatch);
        self
    }

    /// Its settings.
    #[must_use]
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// A plan for the active among `trainers` (in order of admission) on the nodes of the pool
    /// that are not `unusable`. When the solver has no answer in time, or fails, the present
    /// allocation stands as far as the pool still has it.
    #[must_use]
    pub fn plan(
        &mut self,
        pool: &Pool,
        trainers: &[TrainerRecord],
        unusable: &[NodeId],
        generation: Generation,
    ) -> Plan {
        self.plan_of(&Input {
            pool,
            trainers,
            unusable,
            generation,
            stale: false,
        })
    }

    /// The same, told whether the pool is stale: then the present allocation stands as far as
    /// the pool still has it, whatever the policy.
    #[must_use]
    pub fn plan_of(&mut self, input: &Input<'_>) -> Plan {
        let Input {
            pool,
            trainers,
            unusable,
            generation,
            stale,
        } = *input;
        let horizon = self.settings.horizon;
        let mut case = translate(pool, trainers, unusable, horizon, &mut self.tables);
        self.worths.apply(&mut case, trainers, pool.as_of);
        if stale || self.decides_by_forecasts(pool) {
            return self.foresee(&case, input);
        }
        if self.settings.compat == Compat::Published {
            let limit = Problem::published_max_change(case.problem.nodes);
            case.problem.max_change = Some(limit);
        }
        let (sizes, solve) = self.solve(&case, trainers);
        // The number of the plan goes into the seed, so that a plan does not depend on those
        // before it.
        let seed = self.settings.seed ^ generation.0.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let choice = self.settings.node_choice;
        let owners = choose::assign(choice, &case.slots, &sizes.counts, &mut rng);
        Plan {
            generation,
            as_of: pool.as_of,
            seq: pool.seq,
            allocations: allocations(&case, trainers, &owners),
            repooled: Vec::new(),
            report: PlanReport {
                forecast: None,
                solve,
                trainers: verdict::of_trainers(&case, trainers, &sizes),
                holes: verdict::of_holes(&case, pool, trainers, &sizes, &owners),
            },
        }
    }

    /// Why the objective could not be applied to some trainers of the newest plan; those keep
    /// what they ask for themselves.
    #[must_use]
    pub fn refused(&self) -> &[ObjectiveError] {
        self.worths.refused()
    }

    /// Whether a plan for this pool is made by forecasts. Fairness is no sum that forecasts could
    /// weigh.
    fn decides_by_forecasts(&self, pool: &Pool) -> bool {
        let settings = &self.settings;
        let preferred = settings.prefer_forecast && pool.joint.is_some();
        settings.objective != Objective::Fair && (settings.policy.forecasts() || preferred)
    }

    fn foresee(&self, case: &Translated, input: &Input<'_>) -> Plan {
        let Input { pool, trainers, .. } = *input;
        // The number of the newest event goes into the seed, and nothing that a second plan of
        // the same pool would not know.
        let seed = self.settings.seed ^ pool.seq.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let typical_s = pool.joint.as_ref().and_then(|joint| joint.typical_s);
        let most = self.settings.foresight;
        let items = &case.problem.trainers;
        let records = case.trainers.iter().map(|&at| trainers.get(at));
        let start = |(item, record): (_, Option<_>)| {
            record.map_or(0.0, |record| foresight::start(item, record))
        };
        let start_s: Vec<f64> = items.iter().zip(records).map(start).collect();
        let settings = foresight::Settings {
            joint: most.joint.reach(items, &start_s, typical_s),
            ..most
        };
        let asked = self.settings.policy == Policy::MilpPatterns;
        // Whoever left the choice to us wants plans soon.
        let size = (case.problem.trainers.len(), case.problem.nodes as usize);
        let quick = self.settings.prefer_forecast && patterns::is_quick(size.0, size.1);
        let mut options = patterns::Options::new(&self.stopwatch.0);
        options.time_limit = match asked {
            true => self.settings.milp.time_limit,
            false => self.settings.milp.time_limit.min(options.time_limit),
        };
        if self.settings.milp.gap > 0.0 {
            options.gap = self.settings.milp.gap;
        }
        let foreseen = foresight::plan(&foresight::Asked {
            case,
            pool,
            trainers,
            settings,
            seed,
            doubt: input.stale.then_some(Doubt::StalePool),
            patterns: (asked || quick).then_some(options),
        });
        Plan {
            generation: input.generation,
            as_of: pool.as_of,
            seq: pool.seq,
            allocations: allocations(case, trainers, &foreseen.owners),
            repooled: foreseen.repooled,
            report: PlanReport {
                solve: foreseen.solve,
                trainers: foreseen.trainers,
                holes: foreseen.holes,
                forecast: Some(Box::new(foreseen.report)),
            },
        }
    }

    /// Finds sizes by the policy that was set. Fairness is a policy of its own, whatever solver
    /// was asked for; the outcome then says that it is as fair as can be.
    fn solve(&mut self, case: &Translated, trainers: &[TrainerRecord]) -> (Sizes, Solve) {
        let problem = &case.problem;
        let solved = |sizes: &Sizes, solver: &str| Solve {
            outcome: Outcome::Optimal,
            objective: sizes.objective,
            solver: solver.to_owned(),
            shortcut: None,
        };
        match self.settings.policy {
            Policy::Milp | Policy::Dp | Policy::Forecast | Policy::MilpPatterns
                if self.settings.objective == Objective::Fair =>
            {
                let (users, shares) = users(case, trainers);
                let sizes = fair::solve(problem, &users, &shares);
                let solve = solved(&sizes, "fair");
                (sizes, solve)
            }
            Policy::Milp => counts::solve(problem, &self.settings.milp),
            Policy::Dp | Policy::Forecast | Policy::MilpPatterns => {
                let sizes = self.programme.solve(problem);
                let solve = solved(&sizes, "dp");
                (sizes, solve)
            }
            Policy::EqualShare => {
                let at_minimum = match self.settings.compat {
                    Compat::Off => equal_share::AtMinimum::Runs,
                    Compat::Published => equal_share::AtMinimum::GetsNothing,
                };
                let sizes = equal_share::solve(problem, at_minimum);
                let best = self.programme.solve(problem).objective;
                let gap = (best - sizes.objective) / sizes.objective.abs();
                let mut solve = solved(&sizes, "equal-share");
                if best > sizes.objective {
                    solve.outcome = Outcome::Feasible { gap };
                }
                (sizes, solve)
            }
        }
    }
}

/// The nodes of each trainer that has any, in the order of the problem; nodes sorted.
fn allocations(
    case: &Translated,
    trainers: &[TrainerRecord],
    owners: &[Option<u32>],
) -> Vec<Allocation> {
    let mut nodes: Vec<Vec<NodeId>> = vec![Vec::new(); case.trainers.len()];
    for (node, owner) in case.nodes.iter().zip(owners) {
        if let Some(list) = owner.and_then(|j| nodes.get_mut(j as usize)) {
            list.push(node.clone());
        }
    }
    let records = case.trainers.iter().filter_map(|&at| trainers.get(at));
    records
        .zip(nodes)
        .filter(|(_, nodes)| !nodes.is_empty())
        .map(|(record, mut nodes)| {
            nodes.sort_unstable();
            Allocation {
                trainer: record.spec.id.clone(),
                nodes,
            }
        })
        .collect()
}
