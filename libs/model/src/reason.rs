//! Why a plan by forecasts is as it is, in numbers.

use serde::{Deserialize, Serialize};

use crate::verdict::HoleVerdict;
use crate::{NodeId, TrainerId};

/// Where the order of the holes comes from in which they are expected to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OrderSource {
    /// The pool's forecast says in which order the main scheduler takes nodes.
    Scheduler,
    /// It does not, so holes are sorted by what is expected of each.
    Expectation,
}

/// Why a plan does less than it could.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Doubt {
    /// The pool is too old: nobody grows.
    StalePool,
    /// No hole has a forecast: nobody grows.
    NoForecast,
    /// The order in which holes end is no order of these holes, or its links are no
    /// probabilities: nobody grows.
    BrokenOrder,
    /// So many holes have no forecast, one that is no survival curve, or one that says that they
    /// have ended already. Who holds such a hole keeps what it has; the others go to nobody.
    BrokenForecasts {
        /// How many.
        holes: u32,
    },
    /// What was asked for failed, and holes were allocated in another way.
    FellBack {
        /// What was asked for and why it failed, in words.
        why: String,
    },
    /// The planner has a mistake of its own: nobody grows.
    Internal {
        /// What is wrong, in words.
        what: String,
    },
}

/// What a change of a trainer would bring and cost. In objective units over the horizon.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Offer {
    /// Which trainer.
    pub trainer: TrainerId,
    /// How many nodes it would take, or has taken.
    pub nodes: u32,
    /// Its rescale cost, seconds.
    pub within_s: f64,
    /// Probability that a hole of those spoken of ends within that time (mean over them).
    pub ends: f64,
    /// By how much its expected work grows with these nodes, expected hits taken off.
    pub gain: f64,
    /// What the change costs.
    pub cost: f64,
}

/// Holes that fare alike: of one verdict, with about the same expected time left.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HoleClass {
    /// How many holes.
    pub holes: u32,
    /// The one of them that is expected to end first.
    pub first: NodeId,
    /// The one of them that is expected to end last.
    pub last: NodeId,
    /// What was decided for all of them.
    pub verdict: HoleVerdict,
    /// Mean over them of the expected time left, within the horizon, seconds.
    pub stay_s: f64,
    /// What they bring to whoever has them; of refused ones, what they would bring to the
    /// trainer that would gain most. None if no trainer could take any.
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
    /// This plan takes nodes from it, and it cannot take others at the same time.
    Shrinks,
    /// The plan is in doubt about its holes, or about all.
    Doubt,
    /// More of the holes that are left do not pay, by this much.
    NotWorthIt(Offer),
    /// More of the holes that are left would pay, by this much, and the method did not find it.
    Missed(Offer),
}

/// Why a trainer has the nodes that it has.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrainerReason {
    /// Whether it was hit by a departure, so that it restarts anyway and may take any nodes.
    pub hit: bool,
    /// Nodes that it had and keeps.
    pub kept: u32,
    /// Nodes that it had not.
    pub gained: u32,
    /// Nodes that it gives up.
    pub lost: u32,
    /// Mean over its nodes of the expected time left, within the horizon, seconds.
    pub stay_s: f64,
    /// Expected time until the first of its nodes leaves, within the horizon, seconds.
    pub until_s: f64,
    /// Probability that one of its nodes leaves within the horizon.
    pub ends: f64,
    /// What its nodes are worth, objective units over the horizon, expected hits taken off.
    pub worth: f64,
    /// What the change to them costs, objective units.
    pub cost: f64,
    /// Why it has no more.
    pub more: More,
}

/// Why a plan by forecasts is as it is. Its size is bounded by the trainers, not by the holes,
/// but for one number a hole.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ForecastReport {
    /// How far the plan looks ahead, seconds.
    pub horizon_s: f64,
    /// A change must be worth so many times its cost.
    pub hysteresis: f64,
    /// Over so many equally likely futures.
    pub scenarios: u32,
    /// What a free node-second is taken to be worth, objective units; of several owners, to the
    /// one to whom it is worth most.
    pub salvage: f64,
    /// Where the order of the holes comes from.
    pub order: OrderSource,
    /// Which proposal won, by name.
    pub proposal: String,
    /// Why the plan does less than it could; empty if it is in no doubt.
    #[serde(default)]
    pub doubts: Vec<Doubt>,
    /// Holes that fare alike, the first to end first.
    pub classes: Vec<HoleClass>,
    /// For each of the report's holes its place in `classes`, if it was weighed at all.
    pub class_of: Vec<Option<u32>>,
    /// For each of the report's trainers its reasons.
    pub trainers: Vec<TrainerReason>,
}
