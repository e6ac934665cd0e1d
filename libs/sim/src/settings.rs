//! Settings of a replay.

use std::sync::Arc;

use lacuna_forecast::{Learnt, OrderBy, Prior};
use lacuna_model::{NodeChoice, PlannerSettings, Policy, Span, Stages};
use lacuna_planner::objective::{NamedExpressions, Objective};
use lacuna_planner::placement::Settings as JointSettings;
use lacuna_trainer::settings::Control;
use serde::{Deserialize, Serialize};

use crate::Beside;

/// The moment at which a trainer whose work is done frees its nodes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TrainerEnd {
    /// At the next change of the pool or arrival of a trainer, as in the published replay. Its
    /// nodes idle until then.
    #[default]
    NextEvent,
    /// At once: the end of a trainer is an event.
    Immediate,
}

/// Definition of A_s, the samples of the same trainers on dedicated nodes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Dedicated {
    /// [`Split`](Self::Split) if all trainers are alike, else [`StaticReplay`](Self::StaticReplay).
    #[default]
    ByKind,
    /// The best constant split of the nodes among equal trainers, without any cost of changes.
    /// The split has `max_parallel` trainers, at most as many as a list that is not endless. Only
    /// for trainers that are all alike.
    Split,
    /// A full replay on nodes that never leave.
    StaticReplay,
}

/// The window of a replay whose history is kept node by node.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct GanttWindow {
    /// Start of the window, seconds since the start of the replay.
    pub from_s: f64,
    /// End of the window, seconds since the start of the replay.
    pub until_s: f64,
    /// Most nodes: those with the first holes are kept.
    pub nodes: u32,
}

/// Oracle lookahead: the time ahead for which a forecasting policy knows the true ends of holes.
/// It measures the value of forecasts. Without a bound it is clairvoyance.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Lookahead {
    /// Seconds ahead; 0 reveals no end.
    Seconds(f64),
    /// Every end is revealed.
    All,
}

impl Default for Lookahead {
    fn default() -> Self {
        Self::Seconds(0.0)
    }
}

impl Lookahead {
    /// Seconds ahead; infinite without a bound.
    #[must_use]
    pub const fn seconds(self) -> f64 {
        match self {
            Self::Seconds(seconds) => seconds,
            Self::All => f64::INFINITY,
        }
    }

    /// Seconds ahead, if there is a bound.
    #[must_use]
    pub const fn bound(self) -> Option<f64> {
        match self {
            Self::Seconds(seconds) => Some(seconds),
            Self::All => None,
        }
    }
}

/// Settings of forecasts and of decisions by them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Forecasting {
    /// Source of the order in which the scheduler takes nodes.
    pub order: OrderBy,
    /// Whether co-departures are forecast: holes that end together.
    pub together: bool,
    /// The model that forecasts start with. What comes after its time is learnt.
    #[serde(skip)]
    pub model: Option<Arc<Learnt>>,
    /// Whether the part of the log before the start is learnt from.
    #[serde(default = "yes")]
    pub past: bool,
    /// Settings of the joint decision.
    pub joint: JointSettings,
    /// What is expected of holes before any has been seen.
    #[serde(skip)]
    pub prior: Prior,
}

fn yes() -> bool {
    true
}

impl Default for Forecasting {
    fn default() -> Self {
        Self {
            order: OrderBy::Learnt,
            together: true,
            model: None,
            past: true,
            joint: JointSettings::default(),
            prior: Prior::default(),
        }
    }
}

/// All settings of a replay. The default decides as the planner service does, with the published
/// accounting.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// The policy of the planner.
    pub policy: Policy,
    /// Horizon T of a decision.
    pub horizon: Span,
    /// Most trainers at a time, 1 to 100,000.
    pub max_parallel: u32,
    /// Factor on all rescale costs, 0 to 1e9.
    pub cost_scale: f64,
    /// The moment at which a trainer whose work is done leaves.
    pub trainer_end: TrainerEnd,
    /// The objective. Work done is always counted in samples.
    pub objective: Objective,
    /// Objectives of single trainers, in place of `objective`.
    #[serde(default, skip_serializing_if = "NamedExpressions::is_empty")]
    pub objectives: NamedExpressions,
    /// Curves of trainers that change as they learn, and what their steps teach and wait for. They
    /// come with the trainers.
    #[serde(skip)]
    pub stages: Stages,
    /// Whether a trainer that starts from no nodes pays its cost of growing, at its rate after the
    /// start. A trainer with a start cost of its own pays that. In the published model starts are
    /// free.
    #[serde(default)]
    pub charge_starts: bool,
    /// How long a node of a trainer with an owner waits for a pilot of this owner; nothing where
    /// agents serve any trainer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pilot_start: Option<Span>,
    /// The reference of efficiency.
    #[serde(default)]
    pub dedicated: Dedicated,
    /// Rules that are replayed beside the policy.
    #[serde(default, skip_serializing_if = "Beside::is_empty")]
    pub beside: Beside,
    /// Moments until which samples are given as well, seconds since the start, ascending.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub milestones: Vec<f64>,
    /// The window that is kept node by node, if a history is asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gantt: Option<GanttWindow>,
    /// Oracle lookahead of a forecasting policy.
    #[serde(default)]
    pub lookahead: Lookahead,
    /// Settings of a forecasting policy.
    #[serde(default)]
    pub forecast: Forecasting,
    /// Choice between equal nodes when a trainer grows or shrinks.
    pub node_choice: NodeChoice,
    /// Whether plans are made without knowing where nodes are. Work is counted at the distance of the
    /// nodes all the same.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unaware: bool,
    /// Whether the list of trainers begins again at its end, and the replay runs to the end of the
    /// trace. A trainer whose work is done trains on until it leaves, and that work counts.
    pub endless: bool,
    /// Seed of every random choice.
    pub seed: u64,
    /// Whether every decision is compared with that of a second method, within the limits of
    /// [`Verified`](crate::Verified).
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
            objective: Objective::default(),
            objectives: NamedExpressions::default(),
            stages: Stages::default(),
            charge_starts: false,
            pilot_start: None,
            dedicated: Dedicated::ByKind,
            beside: Beside::default(),
            milestones: Vec::new(),
            gantt: None,
            lookahead: Lookahead::default(),
            forecast: Forecasting::default(),
            node_choice: planner.node_choice,
            unaware: false,
            endless: false,
            seed: planner.seed,
            verify: false,
        }
    }
}

impl Settings {
    /// The decisions of `BFTrainer` (arXiv 2106.12091): sizes that are optimal over a fixed
    /// horizon, on nodes chosen at random.
    #[must_use]
    pub fn published() -> Self {
        Self {
            policy: Policy::Dp,
            node_choice: NodeChoice::Random,
            ..Self::default()
        }
    }
}
