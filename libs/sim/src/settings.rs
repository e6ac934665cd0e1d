//! What a replay can be asked to do.

use lacuna_model::{NodeChoice, Policy, Span};
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

/// Whether known quirks of the published code are kept.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Model {
    /// The model as it is meant.
    #[default]
    Exact,
    /// With the published code's limit of `floor((nodes + 1) / 2)` on any change of one trainer
    /// at one event, and no nodes for a trainer whose equal share is just its minimum.
    Published,
}

/// What the planner maximises. Work done is counted in samples always.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Objective {
    /// What each trainer asks for.
    #[default]
    AsGiven,
    /// Samples per second.
    Throughput,
    /// Speed-up over one node.
    ScalingEfficiency,
}

/// All that a replay depends on besides its input. The default is the published setting.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// Who decides.
    pub policy: Policy,
    /// Forward-looking time T.
    pub horizon: Span,
    /// How many trainers are admitted at a time.
    pub max_parallel: u32,
    /// Factor on all rescale costs.
    pub cost_scale: f64,
    /// When a finished trainer leaves.
    pub trainer_end: TrainerEnd,
    /// Quirks.
    pub model: Model,
    /// What is maximised.
    pub objective: Objective,
    /// Which of several equal nodes a trainer gets or gives up.
    pub node_choice: NodeChoice,
    /// Whether the list of trainers starts again at its end, and the replay runs to the end of
    /// the recording.
    pub endless: bool,
    /// Seed of every random choice.
    pub seed: u64,
    /// Whether every decision is solved a second time by the other exact method and compared.
    pub verify: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            policy: Policy::Dp,
            horizon: Span::from_secs(120),
            max_parallel: 10,
            cost_scale: 1.0,
            trainer_end: TrainerEnd::NextEvent,
            model: Model::Exact,
            objective: Objective::AsGiven,
            node_choice: NodeChoice::Random,
            endless: false,
            seed: 1,
            verify: false,
        }
    }
}
