//! The planner's section.

use std::path::PathBuf;

use lacuna_model::{NodeChoice, Policy, Span, SpanText};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ConfigError;

/// How plans by forecasts are made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Foresight {
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

impl Default for Foresight {
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
pub struct Planner {
    /// How sizes and nodes are chosen: `auto`, `forecast`, `milp-patterns`, `dp`, `milp` or
    /// `equal-share`.
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
    pub foresight: Foresight,
}

impl Default for Planner {
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
            foresight: Foresight::default(),
        }
    }
}

impl Planner {
    /// Whether the values make sense.
    ///
    /// # Errors
    /// The first one that does not.
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let refuse = |key, value: String, expected| {
            Err(ConfigError::Value {
                key,
                value,
                expected,
            })
        };
        for (key, span) in [
            ("planner.horizon", self.horizon),
            ("planner.time_limit", self.time_limit),
            ("planner.stale_after", self.stale_after),
            ("planner.foresight.horizon", self.foresight.horizon),
        ] {
            if span.as_ms() <= 0 {
                return refuse(
                    key,
                    span.to_string(),
                    "a length of time above zero, as in 10s",
                );
            }
        }
        for (key, count) in [
            ("planner.tree_nodes", self.tree_nodes),
            ("planner.iterations", self.iterations),
        ] {
            if count == 0 {
                return refuse(key, count.to_string(), "a number from 1");
            }
        }
        if !(0.0..1.0).contains(&self.gap) {
            let expected = "a number from 0 to below 1";
            return refuse("planner.gap", self.gap.to_string(), expected);
        }
        let Foresight {
            hysteresis,
            scenarios,
            ..
        } = self.foresight;
        if !(0.0..=100.0).contains(&hysteresis) {
            let expected = "a number from 0 (any gain will do) to 100";
            return refuse(
                "planner.foresight.hysteresis",
                hysteresis.to_string(),
                expected,
            );
        }
        if !(1..=1000).contains(&scenarios) {
            let expected = "a number from 1 to 1000";
            return refuse(
                "planner.foresight.scenarios",
                scenarios.to_string(),
                expected,
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::Config;

    fn parse(text: &str) -> Result<Config, ConfigError> {
        let config = Config::parse(text, Path::new("lacuna.toml"))?;
        config.check()?;
        Ok(config)
    }

    #[test]
    fn without_a_word_plans_are_made_by_forecasts_where_these_say_enough() {
        let config = parse("").unwrap();
        assert_eq!(config.planner.policy, Policy::Auto);
        let text = "[planner]\npolicy = \"forecast\"\n[planner.foresight]\nhorizon = \"5m\"\n\
                    hysteresis = 1.5\nscenarios = 16\nrepool = false\nrefuse = false\n";
        let planner = parse(text).unwrap().planner;
        assert_eq!(planner.policy, Policy::Forecast);
        assert_eq!(planner.foresight.horizon, Span::from_secs(300));
        assert!(!planner.foresight.repool && !planner.foresight.refuse);
    }

    #[test]
    fn what_makes_no_sense_is_refused_by_its_name() {
        for (key, value) in [
            ("planner.foresight.horizon", "\"0s\""),
            ("planner.foresight.hysteresis", "-1.0"),
            ("planner.foresight.hysteresis", "nan"),
            ("planner.foresight.scenarios", "0"),
            ("planner.stale_after", "\"0s\""),
            ("planner.gap", "1.0"),
            ("planner.tree_nodes", "0"),
            ("planner.iterations", "0"),
            ("planner.time_limit", "\"0s\""),
            ("planner.policy", "\"foresight\""),
            ("planner.foresight.horizn", "\"1s\""),
        ] {
            let error = parse(&format!("{key} = {value}\n")).unwrap_err();
            let name = key.rsplit('.').next().unwrap_or(key);
            assert!(error.to_string().contains(name), "{key}: {error}");
        }
    }
}
