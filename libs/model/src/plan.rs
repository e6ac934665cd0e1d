//! Plans: which node trains which trainer, and why.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::reason::ForecastReport;
use crate::verdict::{HoleVerdict, TrainerVerdict};
use crate::{NodeId, Timestamp, TrainerId};

/// The number of a plan. It only grows; a receiver rejects an older one.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Generation(pub u64);

/// How plans are made, in the planner service and in replays alike.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// Like `forecast`, `dp` or `equal-share`, whichever brought most in the last hours; `forecast` at first. Like
    /// `dp` while the pool does not say which of its holes end together.
    #[default]
    Auto,
    /// The allocation problem solved exactly as a mixed-integer program.
    Milp,
    /// The allocation problem solved exactly by dynamic programming.
    Dp,
    /// Equal share, first-come-first-served: the baseline.
    EqualShare,
    /// Nodes and sizes by forecasts: intervals of the nodes, in the order in which they are
    /// expected to leave, by dynamic programming.
    Forecast,
}

impl Policy {
    /// All policies.
    pub const ALL: [Self; 5] = [
        Self::Auto,
        Self::Forecast,
        Self::Dp,
        Self::Milp,
        Self::EqualShare,
    ];

    /// The name in the configuration and on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Milp => "milp",
            Self::Dp => "dp",
            Self::EqualShare => "equal-share",
            Self::Forecast => "forecast",
        }
    }

    /// Whether the policy uses forecasts of the holes, where there are any.
    #[must_use]
    pub const fn forecasts(self) -> bool {
        match self {
            Self::Auto | Self::Forecast => true,
            Self::Dp | Self::Milp | Self::EqualShare => false,
        }
    }

    /// Whether the policy maximises an objective. The baseline has none.
    #[must_use]
    pub const fn maximises(self) -> bool {
        match self {
            Self::Auto | Self::Forecast | Self::Dp | Self::Milp => true,
            Self::EqualShare => false,
        }
    }
}

/// A rule by which the policy `auto` may decide.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    /// By forecasts, as the policy `forecast`.
    #[default]
    Forecasts,
    /// As the policy `dp`.
    Dp,
    /// As the policy `equal-share`.
    EqualShare,
}

impl Rule {
    /// All rules.
    pub const ALL: [Self; 3] = [Self::Forecasts, Self::Dp, Self::EqualShare];

    /// The name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Forecasts => "forecasts",
            Self::Dp => "dp",
            Self::EqualShare => "equal-share",
        }
    }

    /// The policy that always decides by this rule.
    #[must_use]
    pub const fn policy(self) -> Policy {
        match self {
            Self::Forecasts => Policy::Forecast,
            Self::Dp => Policy::Dp,
            Self::EqualShare => Policy::EqualShare,
        }
    }
}

/// The rule that the policy `auto` follows, and what each rule brought.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Followed {
    /// The rule.
    pub rule: Rule,
    /// The moment from which it is followed.
    pub since: Timestamp,
    /// What each rule brought in the last hours, or would have brought.
    pub brought: Vec<RuleGain>,
}

/// What a rule brought.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RuleGain {
    /// The rule.
    pub rule: Rule,
    /// Its gain less all costs of changes and departures, as a share of the idle node-time with each
    /// node at the best rate.
    pub share: f64,
}

/// How one of several equivalent nodes is chosen for a trainer to take or to give up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NodeChoice {
    /// At random, with a seed: the published model leaves the choice open.
    Random,
    /// Nodes released together stay together, so that one departure hits few trainers.
    #[default]
    Together,
}

/// The outcome of a solve.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Proven optimal within the gap that was asked for.
    Optimal,
    /// Feasible, with a proven bound.
    Feasible {
        /// Relative gap between bound and objective.
        gap: f64,
    },
    /// Feasible, by a method without a bound.
    Found,
    /// A limit was reached before any solution was found. The last plan holds.
    NoIncumbent,
    /// There is no solution. This cannot happen, since giving no nodes to any trainer is a
    /// solution.
    Infeasible,
    /// The solver failed. The last plan holds.
    Failed,
}

/// A solve: its method and outcome.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Solve {
    /// The outcome.
    pub outcome: Outcome,
    /// The objective reached: objective units x seconds of horizon, minus rescale costs.
    pub objective: f64,
    /// The solver: `highs`, `relaxation` (a short cut instead of HiGHS), `dp`, `equal-share`; by
    /// forecasts `segments`, `patterns`, or `none` for a plan with caveats.
    pub solver: String,
    /// The name of the short cut that replaced the solver or made its problem smaller, if one did.
    /// Short cuts provably keep the optimum.
    #[serde(default)]
    pub shortcut: Option<String>,
    /// Whether the emergency stop by the clock ended it. The same problem may then have another
    /// answer the next time. Otherwise solves end by their amount of work.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stopped_by_clock: bool,
}

/// The explanation of a plan.
#[must_use]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlanReport {
    /// The solve.
    pub solve: Solve,
    /// A verdict for each trainer, in the order of the problem.
    pub trainers: Vec<TrainerVerdict>,
    /// A verdict for each hole, sorted by node.
    pub holes: Vec<(NodeId, HoleVerdict)>,
    /// Figures behind the verdicts, if the plan was made by forecasts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forecast: Option<Box<ForecastReport>>,
    /// The rule that the policy `auto` follows, if it compares rules.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub followed: Option<Followed>,
}

/// The nodes of one trainer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Allocation {
    /// The trainer.
    pub trainer: TrainerId,
    /// Its nodes, sorted; never empty.
    pub nodes: Vec<NodeId>,
}

/// What the judge found about an earlier decision. Both distances are relative to its bound on every
/// answer.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct JudgedPlan {
    /// The number of the decision: that of its plan, if it changed the newest one.
    pub generation: Generation,
    /// The moment of its pool.
    pub as_of: Timestamp,
    /// The most by which its value lies below the best.
    pub gap: f64,
    /// The least by which it does: how much better the best known answer is.
    pub shortfall: f64,
    /// Whether no answer is better than the best known one, to a thousandth.
    pub proven: bool,
}

/// Which node trains which trainer. Immutable and numbered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The number of the plan.
    pub generation: Generation,
    /// The moment of the pool that it was made for, in the cluster's time.
    pub as_of: Timestamp,
    /// The last event that the plan takes into account.
    pub seq: u64,
    /// The nodes of each trainer that has nodes.
    pub allocations: Vec<Allocation>,
    /// Trainers that were hit by a departure, restart anyway and are re-placed on other nodes. All
    /// other trainers either grow or shrink.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replaced: Vec<TrainerId>,
    /// The explanation of the plan.
    pub report: PlanReport,
}

impl Plan {
    /// A plan that no solver has made, for tests and benches. It explains nothing.
    #[must_use]
    pub fn by_hand(
        generation: u64,
        as_of: Timestamp,
        seq: u64,
        allocations: Vec<Allocation>,
    ) -> Self {
        let solve = Solve {
            outcome: Outcome::Found,
            objective: 0.0,
            solver: "by hand".to_owned(),
            shortcut: None,
            stopped_by_clock: false,
        };
        Self {
            generation: Generation(generation),
            as_of,
            seq,
            allocations,
            replaced: Vec::new(),
            report: PlanReport {
                solve,
                trainers: Vec::new(),
                holes: Vec::new(),
                forecast: None,
                followed: None,
            },
        }
    }
}
