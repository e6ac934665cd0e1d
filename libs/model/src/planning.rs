//! The section `[planner]` of the configuration.
//!
//! The planner's core links HiGHS, and every service reads the whole file. So the section is
//! defined here.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{NodeChoice, Policy, SettingError, Span, SpanText};

/// How plans by forecasts are made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ForecastingSettings {
    /// Longest time that a plan by forecasts looks ahead. It never looks further than the median
    /// length of the holes, nor further than the longer of two: four times the trainers' rescale
    /// cost, and the time between two changes of a trainer, which `auto` measures.
    #[serde(with = "SpanText")]
    pub horizon: Span,
    /// A change is made only if its gain is at least this many times its cost.
    pub hysteresis: f64,
    /// Number of equally likely scenarios over which a plan is valued.
    pub scenarios: u32,
    /// Whether a trainer that has lost a node may restart on other nodes.
    pub replace: bool,
    /// Whether a hole may stay idle when its expected gain is below its cost.
    pub refuse: bool,
    /// The most trainers whose nodes are on several leaf switches that may use the uplink of one;
    /// no limit if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub crossing: Option<u32>,
    /// How many such trainers the uplink of a leaf carries at full speed: p / o for a leaf of p
    /// nodes with oversubscription o. More share it, and are slower. It carries all if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uplink: Option<u32>,
}

impl Default for ForecastingSettings {
    fn default() -> Self {
        Self {
            horizon: Span::from_secs(1800),
            hysteresis: 2.0,
            scenarios: 32,
            replace: true,
            refuse: true,
            crossing: None,
            uplink: None,
        }
    }
}

/// How plans are made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PlannerSettings {
    /// How sizes and nodes are chosen.
    pub policy: Policy,
    /// The objective that is maximised: `fair` (each trainer's own, within its owner's fair share),
    /// `as-given`, `throughput`, `scaling-efficiency`, `goodput`, `weighted`, `deadline`,
    /// `least-attained`, or an expression. The planner checks it.
    pub objective: String,
    /// Time over which gains are counted by policies without forecasts.
    #[serde(with = "SpanText")]
    pub horizon: Span,
    /// Changes that arrive within this time after the first one are planned together.
    #[serde(with = "SpanText")]
    pub debounce: Span,
    /// Relative gap at which the solver may stop.
    pub gap: f64,
    /// Most nodes of branch and bound for one solve by HiGHS.
    pub tree_nodes: u32,
    /// Emergency stop of a solve. Solves end by their work long before; each one that is stopped is
    /// counted.
    #[serde(with = "SpanText")]
    pub time_limit: Span,
    /// Which of several equivalent nodes a trainer gets.
    pub node_choice: NodeChoice,
    /// Seed of random choices.
    pub seed: u64,
    /// Whether the planner may take short cuts that provably keep the optimum.
    pub shortcuts: bool,
    /// Age of the newest pool, in real time, beyond which no trainer grows.
    #[serde(with = "SpanText")]
    pub stale_after: Span,
    /// The share of decisions that the judge solves again by mixed-integer programs, one at a time and
    /// at the lowest priority; 0 turns it off. Plans do not depend on it.
    pub judged_share: f64,
    /// Folder in which a plan that fails its check is saved; if absent, it is not saved.
    pub rejected_dir: Option<PathBuf>,
    /// How plans by forecasts are made.
    pub forecasting: ForecastingSettings,
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
            time_limit: Span::from_secs(30),
            node_choice: NodeChoice::default(),
            seed: 1,
            shortcuts: true,
            stale_after: Span::from_secs(30),
            judged_share: 0.01,
            rejected_dir: None,
            forecasting: ForecastingSettings::default(),
        }
    }
}

impl PlannerSettings {
    /// Checks the values.
    ///
    /// # Errors
    /// The first value that is out of its range.
    pub fn check(&self) -> Result<(), SettingError> {
        SettingError::unless_positive([
            ("planner.horizon", self.horizon),
            ("planner.time_limit", self.time_limit),
            ("planner.stale_after", self.stale_after),
            ("planner.forecasting.horizon", self.forecasting.horizon),
        ])?;
        let nodes = self.tree_nodes;
        SettingError::unless(nodes > 0, "planner.tree_nodes", nodes, "a number from 1")?;
        SettingError::unless(
            (0.0..=1.0).contains(&self.judged_share),
            "planner.judged_share",
            self.judged_share,
            "a number from 0 to 1",
        )?;
        SettingError::unless(
            (0.0..1.0).contains(&self.gap),
            "planner.gap",
            self.gap,
            "a number from 0 to below 1",
        )?;
        SettingError::unless(
            (0.0..=100.0).contains(&self.forecasting.hysteresis),
            "planner.forecasting.hysteresis",
            self.forecasting.hysteresis,
            "a number from 0 (any gain is enough) to 100",
        )?;
        SettingError::unless(
            self.forecasting.uplink != Some(0),
            "planner.forecasting.uplink",
            0,
            "a number from 1",
        )?;
        SettingError::unless(
            (1..=1000).contains(&self.forecasting.scenarios),
            "planner.forecasting.scenarios",
            self.forecasting.scenarios,
            "a number from 1 to 1000",
        )
    }
}
