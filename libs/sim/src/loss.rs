//! Where the work went that dedicated nodes would have done: the samples lost to changes as
//! [`lacuna_trainer::measure`] defines them, and what no change took.

use serde::{Deserialize, Serialize};

use crate::world::Offer;

/// How A_s, the work of the same trainers on dedicated nodes, splits into A_e, the work done,
/// and what was lost: `dedicated = done + rescale + preempt + waiting + idling + curve`.
/// All in samples, over the time that the efficiency is taken over.
///
/// With `N(t)` nodes in the pool, `n_j(t)` of them with trainer j at `P_j(n_j)` samples/s, and
/// `F = integral of N dt` the node-time offered in the time T: `n_eq = F / T` dedicated nodes, of
/// which the trainers that run at a time can use `M` at most (the sum of their largest sizes).
/// `X = max(0, n_eq - M) T` is the node-time that dedicated nodes leave unused too, and
/// `v = dedicated / (F - X)` what a node-second is worth on the others:
///
/// - `rescale`, `preempt`: the seconds lost to changes, at the rate before them (or, of starts
///   that are charged, after them), as charged;
/// - `idling`: `P_j(n_j)` over the time from the end of a trainer's work until its nodes go to
///   others;
/// - `waiting`: `v` times the node-seconds of the pool that no trainer had, less `X` (the pool
///   has never fewer of them, since it changes and dedicated nodes do not);
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
    /// Splits the work of dedicated nodes; `spare_node_s` is the node-time that they leave
    /// unused.
    pub(crate) fn new(
        dedicated: f64,
        done: f64,
        (rescale, preempt): (f64, f64),
        offer: Offer,
        spare_node_s: f64,
    ) -> Self {
        let useful = offer.node_s - spare_node_s;
        let worth = if useful > 0.0 {
            dedicated / useful
        } else {
            0.0
        };
        let waiting = worth * (offer.waiting_node_s - spare_node_s).max(0.0);
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
