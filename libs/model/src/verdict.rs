//! The decisions of a plan: one for each trainer and one for each hole.

use serde::{Deserialize, Serialize};

use crate::{Basis, TrainerId};

/// The decision on a trainer, with its reason. Gains, losses and costs are in objective units over
/// the horizon.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It starts on its first nodes.
    Start,
    /// It grows.
    Grow {
        /// The gain of the new size.
        gain: f64,
        /// The cost of the change.
        cost: f64,
    },
    /// It shrinks, since other trainers gain more.
    Shrink {
        /// The loss over the horizon.
        loss: f64,
        /// The cost of the change.
        cost: f64,
    },
    /// It keeps its size: it is at its maximum, or no node is free.
    Keep,
    /// It keeps its size although nodes are free, since growing costs more than it gains.
    RescaleNotWorthIt {
        /// The gain of the best larger size.
        gain: f64,
        /// The cost of that change.
        cost: f64,
    },
    /// It has no nodes, since fewer than its minimum are free.
    TooFewNodes {
        /// Number of nodes in the pool.
        pool: u32,
        /// Its minimum.
        min: u32,
    },
    /// It has no nodes, since other trainers gain more from them.
    Outbid,
    /// It has no nodes. Its gain exceeds the loss of the trainers that would give up nodes, but not
    /// that loss plus the cost of their changes.
    DisplacingCosts {
        /// Number of nodes that would be taken.
        nodes: u32,
        /// The trainers that would give them up.
        from: Vec<TrainerId>,
        /// Its gain.
        gain: f64,
        /// Their loss.
        loss: f64,
        /// The cost of their changes.
        cost: f64,
    },
}

/// The decision on one trainer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrainerVerdict {
    /// The trainer.
    pub trainer: TrainerId,
    /// Its node count before.
    pub before: u32,
    /// Its node count in this plan.
    pub after: u32,
    /// The decision and its reason.
    pub verdict: Verdict,
    /// What its rate at that count rests on, if it is profiled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub basis: Option<Box<Basis>>,
    /// The share of its owner, if several owners share the nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<Box<OwnerShare>>,
}

/// The share of one owner in a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnerShare {
    /// The owner; nothing for all trainers without an owner together.
    #[serde(default)]
    pub owner: Option<String>,
    /// Its max-min fair share of the nodes, guaranteed against the demand of other owners.
    pub nodes: u32,
    /// Number of nodes that its trainers have.
    pub used: u32,
}

/// The decision on one hole.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HoleVerdict {
    /// It stays with its trainer.
    Kept {
        /// The trainer.
        trainer: TrainerId,
    },
    /// It goes to this trainer.
    Assigned {
        /// The trainer.
        trainer: TrainerId,
    },
    /// It stays idle, since every trainer is at its maximum or there is none.
    NoBidder,
    /// It stays idle, since for each trainer the rescale costs more than the node gains.
    NotWorthIt,
    /// It stays idle, since the node is quarantined or its agent is silent.
    Unusable,
}
