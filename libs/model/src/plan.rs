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

/// How decisions are made, in the planner service and in replays alike.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// As `forecast` while the pool tells which of its holes end together, else as `dp`.
    #[default]
    Auto,
    /// The allocation problem solved exactly as a mixed-integer program.
    Milp,
    /// The allocation problem solved exactly by dynamic programming.
    Dp,
    /// Equal share, first-come-first-served: the baseline.
    EqualShare,
    /// Nodes and sizes by forecasts of the holes: segments of the nodes in the order in which
    /// they are expected to leave, by dynamic programming.
    Forecast,
    /// The same by patterns of nodes, as a mixed-integer programme with a bound.
    MilpPatterns,
}

impl Policy {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Auto,
        Self::Forecast,
        Self::MilpPatterns,
        Self::Dp,
        Self::Milp,
        Self::EqualShare,
    ];

    /// Its name, as configuration and command line have it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Milp => "milp",
            Self::Dp => "dp",
            Self::EqualShare => "equal-share",
            Self::Forecast => "forecast",
            Self::MilpPatterns => "milp-patterns",
        }
    }

    /// Whether it decides by forecasts of the holes, where there are any.
    #[must_use]
    pub const fn forecasts(self) -> bool {
        match self {
            Self::Auto | Self::Forecast | Self::MilpPatterns => true,
            Self::Dp | Self::Milp | Self::EqualShare => false,
        }
    }

    /// Whether it maximises an objective. The baseline heeds none.
    #[must_use]
    pub const fn maximises(self) -> bool {
        match self {
            Self::Auto | Self::Forecast | Self::MilpPatterns | Self::Dp | Self::Milp => true,
            Self::EqualShare => false,
        }
    }
}

/// Which of several equal nodes a trainer gets or gives up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NodeChoice {
    /// At random, seeded: the published model, which leaves it open.
    Random,
    /// Nodes released together stay together, so that one departure hits few trainers.
    #[default]
    Together,
}

/// How a solve ended.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Proven optimal within the gap that was asked for.
    Optimal,
    /// Feasible; the bound is this far away, relative to the objective.
    Feasible {
        /// Relative gap between bound and objective.
        gap: f64,
    },
    /// Sound, by a method that gives no bound.
    Found,
    /// A bound was reached before any solution was found; the last plan stands.
    NoIncumbent,
    /// There is no solution. Cannot happen: giving nothing to all is one.
    Infeasible,
    /// The solver failed; the last plan stands.
    Failed,
}

/// What a solve did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Solve {
    /// How it ended.
    pub outcome: Outcome,
    /// Objective reached: objective units x seconds of horizon, less rescale costs.
    pub objective: f64,
    /// Which solver answered: `highs`, `relaxation` (a short cut answered for HiGHS), `dp`,
    /// `equal-share`; by forecasts `segments`, `patterns`, or `none` if the plan is in doubt.
    pub solver: String,
    /// The short cut that made the solver unnecessary or its problem smaller, by name, if one
    /// did. Short cuts provably keep the optimum.
    #[serde(default)]
    pub shortcut: Option<String>,
    /// Whether the emergency stop by the clock ended it, so that the same problem may have another
    /// answer the next time. Solves end by their work otherwise.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stopped_by_clock: bool,
}

/// The explanation of a plan.
#[must_use]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlanReport {
    /// What the solve did.
    pub solve: Solve,
    /// A verdict for each trainer, in the order of the problem.
    pub trainers: Vec<TrainerVerdict>,
    /// A verdict for each hole, sorted by node.
    pub holes: Vec<(NodeId, HoleVerdict)>,
    /// The numbers behind the verdicts, if the plan was made by forecasts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forecast: Option<Box<ForecastReport>>,
}

/// The nodes of one trainer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Allocation {
    /// Which trainer.
    pub trainer: TrainerId,
    /// Its nodes, sorted; never empty.
    pub nodes: Vec<NodeId>,
}

/// Which node trains which trainer. Immutable and numbered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Its number.
    pub generation: Generation,
    /// The moment of the pool that it was made for, in the cluster's time.
    pub as_of: Timestamp,
    /// The last event that it takes into account.
    pub seq: u64,
    /// The nodes of each trainer that has any.
    pub allocations: Vec<Allocation>,
    /// Trainers that restart anyway, having been hit by a departure, and take other nodes with
    /// that: the one exception from the rule that a trainer either grows or shrinks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub repooled: Vec<TrainerId>,
    /// Why it is as it is.
    pub report: PlanReport,
}
