//! The section `[planner]` of the configuration.
//!
//! It stands here and not in the planner's core, since every service reads the whole file, and the
//! core brings HiGHS along.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{NodeChoice, Policy, SettingError, Span, SpanText};

/// How plans by forecasts are made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ForesightSettings {
    /// How far a plan by forecasts looks ahead at most: never further than four times what a
    /// change costs the trainers, and than half of the holes last.
    #[serde(with = "SpanText")]
    pub horizon: Span,
    /// A change must be worth so many times its cost.
    pub hysteresis: f64,
    /// Over how many equally likely futures is weighed.
    pub scenarios: u32,
    /// Whether a trainer that was hit by a departure may restart on other nodes.
    pub repool: bool,
    /// Whether holes may be left idle because they do not pay.
    pub refuse: bool,
}

impl Default for ForesightSettings {
    fn default() -> Self {
        Self {
            horizon: Span::from_secs(1800),
            hysteresis: 2.0,
            scenarios: 32,
            repool: true,
            refuse: true,
        }
    }
}

/// How plans are made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PlannerSettings {
    /// How sizes and nodes are chosen.
    pub policy: Policy,
    /// What is maximised: `fair` (what each trainer asks for, within its owner's fair share),
    /// `as-given`, `throughput`, `scaling-efficiency`, `weighted`, `deadline`, `least-attained`,
    /// or an expression. The planner checks it.
    pub objective: String,
    /// Over how long a time gains are counted, if not by forecasts.
    #[serde(with = "SpanText")]
    pub horizon: Span,
    /// Changes that come within this time of the first are planned together.
    #[serde(with = "SpanText")]
    pub debounce: Span,
    /// Relative gap at which the solver may stop.
    pub gap: f64,
    /// Most nodes of branch and bound for one solve of `milp`; `milp-patterns` takes ten at most.
    pub tree_nodes: u32,
    /// Most iterations of the simplex method for one relaxation of `milp-patterns`.
    pub iterations: u32,
    /// Emergency stop: solves end by their work long before. Each one that it ends is counted.
    #[serde(with = "SpanText")]
    pub time_limit: Span,
    /// Which of several equal nodes a trainer gets.
    pub node_choice: NodeChoice,
    /// Seed of random choices.
    pub seed: u64,
    /// Whether short cuts that provably keep the optimum may be taken.
    pub shortcuts: bool,
    /// A pool that came longer ago than this, in real time, is too old for anybody to grow on.
    #[serde(with = "SpanText")]
    pub stale_after: Span,
    /// Where a plan that fails its check is saved; nowhere if absent.
    pub rejected_dir: Option<PathBuf>,
    /// How plans by forecasts are made.
    pub foresight: ForesightSettings,
}

impl Default for PlannerSettings {
    fn default() -> Self {
        Self {
            policy: Policy::default(),
            objective: "fair".to_owned(),
            horizon: Span::from_secs(120),
            debounce: Span::from_ms(10),
            gap: 0.0,
            tree_nodes: 1_000,
            iterations: 10_000,
            time_limit: Span::from_secs(30),
            node_choice: NodeChoice::default(),
            seed: 1,
            shortcuts: true,
            stale_after: Span::from_secs(30),
            rejected_dir: None,
            foresight: ForesightSettings::default(),
        }
    }
}

impl PlannerSettings {
    /// Whether the values make sense.
    ///
    /// # Errors
    /// The first one that does not.
    pub fn check(&self) -> Result<(), SettingError> {
        SettingError::unless_positive([
            ("planner.horizon", self.horizon),
            ("planner.time_limit", self.time_limit),
            ("planner.stale_after", self.stale_after),
            ("planner.foresight.horizon", self.foresight.horizon),
        ])?;
        for (key, count) in [
            ("planner.tree_nodes", self.tree_nodes),
            ("planner.iterations", self.iterations),
        ] {
            SettingError::unless(count > 0, key, count, "a number from 1")?;
        }
        SettingError::unless(
            (0.0..1.0).contains(&self.gap),
            "planner.gap",
            self.gap,
            "a number from 0 to below 1",
        )?;
        SettingError::unless(
            (0.0..=100.0).contains(&self.foresight.hysteresis),
            "planner.foresight.hysteresis",
            self.foresight.hysteresis,
            "a number from 0 (any gain will do) to 100",
        )?;
        SettingError::unless(
            (1..=1000).contains(&self.foresight.scenarios),
            "planner.foresight.scenarios",
            self.foresight.scenarios,
            "a number from 1 to 1000",
        )
    }
}
