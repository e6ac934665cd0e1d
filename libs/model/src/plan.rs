//! Plans: which node trains which trainer, and why.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Basis, ForecastReport, NodeId, Timestamp, TrainerId};

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

/// What was decided for a trainer, and why.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It starts on its first nodes.
    Start,
    /// It grows; `gain` and `cost` in objective units over the horizon.
    Grow {
        /// What the new size brings.
        gain: f64,
        /// What the change costs.
        cost: f64,
    },
    /// It shrinks so that others gain more.
    Shrink {
        /// What it gives up over the horizon.
        loss: f64,
        /// What the change costs it.
        cost: f64,
    },
    /// It keeps its size, being at its maximum or taking all that is free.
    Keep,
    /// It keeps its size although nodes are free: growing would cost more than it brings.
    RescaleNotWorthIt {
        /// What the best larger size would bring.
        gain: f64,
        /// What the change would cost.
        cost: f64,
    },
    /// It has no nodes: fewer are free than its minimum.
    TooFewNodes {
        /// How many are in the pool.
        pool: u32,
        /// How many it needs.
        min: u32,
    },
    /// It has no nodes: others bring more for the same nodes.
    Outbid,
    /// It has no nodes: it would bring more than others lose by giving up some, but not more
    /// than that and the cost of their change. All in objective units over the horizon.
    DisplacingCosts {
        /// How many nodes would be taken.
        nodes: u32,
        /// From which trainers.
        from: Vec<TrainerId>,
        /// What it would bring.
        gain: f64,
        /// What they would give up.
        loss: f64,
        /// What their change would cost.
        cost: f64,
    },
}

/// What was decided for one trainer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrainerVerdict {
    /// Which trainer.
    pub trainer: TrainerId,
    /// Its node count before.
    pub before: u32,
    /// Its node count in this plan.
    pub after: u32,
    /// Why.
    pub verdict: Verdict,
    /// How its rate at that count is known, if it is measured while it trains.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub basis: Option<Box<Basis>>,
    /// The share of its owner, if nodes are shared out over several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<Box<OwnerShare>>,
}

/// What one of several owners has in a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnerShare {
    /// Who; nothing for all trainers without an owner together.
    #[serde(default)]
    pub owner: Option<String>,
    /// Its max-min share of the nodes: what it may keep whatever others want.
    pub nodes: u32,
    /// How many nodes its trainers have.
    pub used: u32,
}

/// What was decided for one hole.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HoleVerdict {
    /// It stays with the trainer that had it.
    Kept {
        /// Which trainer.
        trainer: TrainerId,
    },
    /// It goes to this trainer.
    Assigned {
        /// Which trainer.
        trainer: TrainerId,
    },
    /// Nobody takes it: every trainer is at its maximum or there is none.
    NoTaker,
    /// Nobody takes it: for each trainer the rescale costs more than the node brings.
    NotWorthIt,
    /// Nobody may have it: it is quarantined, or its agent is silent.
    Unusable,
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
