//! Where the work went that dedicated nodes would have done.

use serde::{Deserialize, Serialize};

use crate::world::Offer;

/// How A_s, the work of the same trainers on dedicated nodes, splits into A_e, the work done,
/// and what was lost: `dedicated = done + rescale + preempt + waiting + idling + curve`.
/// All in samples, over the time that the efficiency is taken over.
///
/// With `N(t)` nodes in the pool, `n_j(t)` of them with trainer j at `P_j(n_j)` samples/s,
/// `F = integral of N dt` the node-time offered and `v = dedicated / F` what a node-second is
/// worth on dedicated nodes:
///
/// - `rescale`, `preempt`: the seconds lost to changes, at the rate before them (or, of starts
///   that are charged, after them), as charged;
/// - `idling`: `P_j(n_j)` over the time from the end of a trainer's work until its nodes go to
///   others;
/// - `waiting`: `v` times the node-seconds of the pool that no trainer had;
/// - `curve`: the rest, `v * integral of sum n_j dt - integral of sum P_j(n_j) dt`. Nodes that
///   had a trainer would have brought `v` each on dedicated nodes; here sizes follow the pool, so
///   that trainers work elsewhere on their curves, or of a mixture others have the nodes. It is
///   negative where they do better than on dedicated nodes.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Loss {
    /// A_s.
    pub dedicated: f64,
    /// A_e.
    pub done: f64,
    /// Changes that the planner made.
    pub rescale: f64,
    /// Nodes that left.
    pub preempt: f64,
    /// Nodes of the pool without a trainer.
    pub waiting: f64,
    /// Nodes of trainers that were done.
    pub idling: f64,
    /// Sizes that change.
    pub curve: f64,
}

impl Loss {
    /// Splits the work of dedicated nodes.
    pub(crate) fn new(dedicated: f64, done: f64, rescale: f64, preempt: f64, offer: Offer) -> Self {
        let worth = if offer.node_s > 0.0 {
            dedicated / offer.node_s
        } else {
            0.0
        };
        let waiting = worth * offer.waiting_node_s;
        Self {
            dedicated,
            done,
            rescale,
            preempt,
            waiting,
            idling: offer.idling,
            curve: dedicated - done - rescale - preempt - waiting - offer.idling,
        }
    }
}
