//! What a replay can be asked to do.

use lacuna_forecast::OrderBy;
use lacuna_model::{ForesightSettings, NodeChoice, PlannerSettings, Policy, Span};
use lacuna_planner::joint::Settings as JointSettings;
use lacuna_planner::objective::{NamedExpressions, Objective};
use lacuna_trainer::settings::Control;
use serde::{Deserialize, Serialize};

/// When a trainer that has done its work gives its nodes to others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TrainerEnd {
    /// At the next change of the pool or arrival of a trainer, as in the published replay;
    /// until then its nodes idle.
    #[default]
    NextEvent,
    /// At once: the end of a trainer is an event of its own.
    Immediate,
}

/// Quirks of the published program (`BFTrainer`, arXiv 2106.12091) that a replay keeps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Quirks {
    /// None: sizes follow the published model.
    #[default]
    #[serde(rename = "exact")]
    None,
    /// A trainer changes by at most `floor((nodes + 1) / 2)` nodes at one event. A trainer whose
    /// equal share is exactly its minimum gets no nodes.
    Published,
}

/// How the work is found that the same trainers would do on dedicated nodes, A_s.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Dedicated {
    /// The best static split if all trainers are alike, else a full static replay.
    #[default]
    ByKind,
    /// The best split of the nodes among equal trainers, which never changes and costs nothing:
    /// `max_parallel` of them, but no more than the list has unless it is endless. Only for
    /// trainers that are all alike.
    Split,
    /// A full replay on nodes that never leave.
    StaticReplay,
}

/// A part of a replay of which it is remembered what each node did.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct GanttWindow {
    /// Its start, seconds since the start of the replay.
    pub from_s: f64,
    /// Its end, seconds since the start of the replay.
    pub until_s: f64,
    /// At most so many nodes: those with the first holes.
    pub nodes: u32,
}

/// How far ahead a forecasting policy is told the true ends of holes. That is no forecast, but
/// what measures what one is worth; without a bound it is clairvoyance.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Lookahead {
    /// So many seconds ahead; 0: not at all.
    Seconds(f64),
    /// Every end is known.
    All,
}

impl Default for Lookahead {
    fn default() -> Self {
        Self::Seconds(0.0)
    }
}

impl Lookahead {
    /// How far, seconds; infinite without a bound.
    #[must_use]
    pub const fn seconds(self) -> f64 {
        match self {
            Self::Seconds(seconds) => seconds,
            Self::All => f64::INFINITY,
        }
    }

    /// How far, seconds, if there is a bound.
    #[must_use]
    pub const fn bound(self) -> Option<f64> {
        match self {
            Self::Seconds(seconds) => Some(seconds),
            Self::All => None,
        }
    }
}

/// How a forecasting policy forecasts and weighs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Forecasting {
    /// Where the order comes from in which the scheduler takes nodes.
    pub order: OrderBy,
    /// How many futures are drawn for each decision.
    pub scenarios: u32,
    /// Whether holes that end together are forecast together.
    pub together: bool,
    /// Whether what the scheduler itself says of present holes is heard.
    #[serde(default = "yes")]
    pub hints: bool,
    /// How the allocation weighs things.
    pub joint: JointSettings,
}

fn yes() -> bool {
    true
}

impl Default for Forecasting {
    fn default() -> Self {
        Self {
            order: OrderBy::Learnt,
            scenarios: ForesightSettings::default().scenarios,
            together: true,
            hints: true,
            joint: JointSettings::default(),
        }
    }
}

/// All that a replay depends on besides its input. The default decides as the planner service does,
/// in the published accounting.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// Who decides.
    pub policy: Policy,
    /// Forward-looking time T.
    pub horizon: Span,
    /// How many trainers are admitted at a time, 1 to 100,000.
    pub max_parallel: u32,
    /// Factor on all rescale costs, 0 to 1e9.
    pub cost_scale: f64,
    /// When a finished trainer leaves.
    pub trainer_end: TrainerEnd,
    /// Quirks of the published program that this replay keeps.
    #[serde(rename = "model")]
    pub quirks: Quirks,
    /// What is maximised. Work done is counted in samples always.
    pub objective: Objective,
    /// What is maximised of single trainers, in place of that.
    #[serde(default, skip_serializing_if = "NamedExpressions::is_empty")]
    pub objectives: NamedExpressions,
    /// Whether a trainer that starts from no nodes pays its cost of growing, at its rate after the
    /// start, unless it names a cost of its own. As published it starts free.
    #[serde(default)]
    pub charge_starts: bool,
    /// What work done is measured by.
    #[serde(default)]
    pub dedicated: Dedicated,
    /// Which part is remembered node by node; only if a history is asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gantt: Option<GanttWindow>,
    /// How far ahead a forecasting policy is told the truth.
    #[serde(default)]
    pub lookahead: Lookahead,
    /// How a forecasting policy forecasts and weighs.
    #[serde(default)]
    pub forecast: Forecasting,
    /// Which of several equal nodes a trainer gets or gives up.
    pub node_choice: NodeChoice,
    /// Whether the list of trainers starts again at its end, and the replay runs to the end of
    /// the trace. A trainer that is done trains on until it leaves, and that work counts.
    pub endless: bool,
    /// Seed of every random choice.
    pub seed: u64,
    /// Whether every decision is solved a second time by another method and compared:
    /// [`Verified`](crate::Verified) says with what limits.
    pub verify: bool,
}

impl Default for Settings {
    fn default() -> Self {
        let planner = PlannerSettings::default();
        Self {
            policy: planner.policy,
            horizon: planner.horizon,
            max_parallel: Control::default().max_parallel,
            cost_scale: 1.0,
            trainer_end: TrainerEnd::NextEvent,
            quirks: Quirks::None,
            objective: Objective::default(),
            objectives: NamedExpressions::default(),
            charge_starts: false,
            dedicated: Dedicated::ByKind,
            gantt: None,
            lookahead: Lookahead::default(),
            forecast: Forecasting::default(),
            node_choice: planner.node_choice,
            endless: false,
            seed: planner.seed,
            verify: false,
        }
    }
}

impl Settings {
    /// As BFTrainer decides (arXiv 2106.12091): sizes that are optimal over a fixed horizon, on
    /// nodes at random.
    #[must_use]
    pub fn published() -> Self {
        Self {
            policy: Policy::Dp,
            node_choice: NodeChoice::Random,
            ..Self::default()
        }
    }
}
