//! The figures behind a plan that is made by forecasts.

use serde::{Deserialize, Serialize};

use crate::verdict::HoleVerdict;
use crate::{NodeId, TrainerId};

/// The source of the order in which holes are expected to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OrderSource {
    /// The pool's forecast gives the order in which the main scheduler takes nodes.
    Scheduler,
    /// The forecast gives no order. Holes are sorted by their expected remaining time.
    Expectation,
}

/// A caveat: why a plan does less than it could.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Doubt {
    /// The pool is too old, so no trainer grows.
    StalePool,
    /// No hole has a forecast, so no trainer grows.
    NoForecast,
    /// The order of holes does not match these holes, or its links are not probabilities. No
    /// trainer grows.
    BrokenOrder,
    /// Some holes have no forecast, or one that is no survival curve or says that the hole has
    /// ended. Trainers keep such holes but take no further ones.
    BrokenForecasts {
        /// Number of these holes.
        holes: u32,
    },
    /// The planner has an internal error, so no trainer grows.
    Internal {
        /// The error.
        what: String,
    },
}

/// Gain and cost of a change of one trainer, in objective units over the horizon.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Offer {
    /// The trainer.
    pub trainer: TrainerId,
    /// Number of nodes that it takes or would take.
    pub nodes: u32,
    /// Its rescale cost, in seconds.
    pub within_s: f64,
    /// Probability that one of these holes ends within that time (mean over the holes).
    pub ends: f64,
    /// Growth of its expected work with these nodes, after expected hits.
    pub gain: f64,
    /// The cost of the change.
    pub cost: f64,
}

/// Equivalence class of holes: the same verdict and about the same expected remaining time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HoleClass {
    /// Number of holes.
    pub holes: u32,
    /// The hole of the class that is expected to end first.
    pub first: NodeId,
    /// The hole of the class that is expected to end last.
    pub last: NodeId,
    /// The verdict on all of them.
    pub verdict: HoleVerdict,
    /// Mean expected remaining time within the horizon, in seconds.
    pub stay_s: f64,
    /// Their gain for the trainer that has them. For refused holes it is the gain of the trainer
    /// that would gain most; none if no trainer could take one.
    #[serde(default)]
    pub offer: Option<Offer>,
}

/// Why a trainer has no more nodes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum More {
    /// It is at its maximum.
    Maximum,
    /// No hole is left that it could use.
    NoneLeft,
    /// The plan takes nodes from it, so it cannot take others at the same time.
    Shrinks,
    /// The plan has caveats about its holes, or about all holes.
    Doubt,
    /// Further holes do not pay. The offer says by how much.
    NotWorthIt(Offer),
    /// Further holes would pay, and the method did not find this change. The offer says by how
    /// much.
    Missed(Offer),
}

/// Why a trainer has the nodes that it has.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrainerReason {
    /// Whether a departure hit it. It then restarts anyway and may take any nodes.
    pub hit: bool,
    /// Number of its nodes that it keeps.
    pub kept: u32,
    /// Number of nodes that it takes.
    pub gained: u32,
    /// Number of nodes that it gives up.
    pub lost: u32,
    /// Mean expected remaining time of its nodes within the horizon, in seconds.
    pub stay_s: f64,
    /// Expected time until its first node leaves, within the horizon, in seconds.
    pub until_s: f64,
    /// Probability that one of its nodes leaves within the horizon.
    pub ends: f64,
    /// Value of its nodes in objective units over the horizon, after expected hits.
    pub worth: f64,
    /// Cost of the change to them, in objective units.
    pub cost: f64,
    /// Why it has no more nodes.
    pub more: More,
}

/// The figures behind a plan that is made by forecasts. Its size grows with the number of trainers,
/// plus one number for each hole.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ForecastReport {
    /// How far the plan looks ahead, in seconds.
    pub horizon_s: f64,
    /// A change is made only if its gain is at least this many times its cost.
    pub hysteresis: f64,
    /// Number of equally likely scenarios.
    pub scenarios: u32,
    /// Shadow price of a free node-second, in objective units. With several owners it is the price
    /// for the owner with the highest one.
    pub shadow_price: f64,
    /// The source of the order of the holes.
    pub order: OrderSource,
    /// The name of the proposal that won.
    pub proposal: String,
    /// Caveats of the plan; empty if there are none.
    #[serde(default)]
    pub doubts: Vec<Doubt>,
    /// Equivalence classes of holes, sorted by expected end.
    pub classes: Vec<HoleClass>,
    /// For each hole of the report its index in `classes`, if the hole was valued.
    pub class_of: Vec<Option<u32>>,
    /// Reasons for each trainer of the report.
    pub trainers: Vec<TrainerReason>,
}
