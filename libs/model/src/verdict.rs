//! The decisions of a plan: one for each trainer and one for each hole.

use serde::{Deserialize, Serialize};

use crate::{Basis, TrainerId};

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
