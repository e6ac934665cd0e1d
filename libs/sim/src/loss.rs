//! The split of dedicated samples: done, lost to changes as [`lacuna_trainer::measure`] defines
//! it, and lost without a change.

use serde::{Deserialize, Serialize};

use crate::world::Offer;

/// The split of A_s, the samples of the same trainers on dedicated nodes, into A_e, the samples
/// done, and losses: `dedicated = done + rescale + preempt + waiting + idling + curve`.
/// All are samples over the time of the efficiency.
///
/// With `N(t)` nodes in the pool, `n_j(t)` of them with trainer j at `P_j(n_j)` samples/s, and
/// `F = integral of N dt` the node-time offered in the time T: `n_eq = F / T` dedicated nodes. The
/// trainers at a time can use `M` of them at most (the sum of their largest sizes).
/// `X = max(0, n_eq - M) T` is the node-time that dedicated nodes leave unused too, and
/// `v = dedicated / (F - X)` the value of a node-second on the others:
///
/// - `rescale`, `preempt`: the seconds lost to changes, as charged, at the rate before the change
///   (for charged starts, after it);
/// - `idling`: `P_j(n_j)` over the time from the end of a trainer's work until its nodes go to
///   other trainers;
/// - `waiting`: `v` times the node-seconds of the pool without a trainer, less `X` (they are never
///   fewer than `X`, since the pool varies and dedicated nodes do not);
/// - `curve`: the rest, `v * integral of sum n_j dt - integral of sum P_j(n_j) dt`. A node with a
///   trainer would have brought `v` on dedicated nodes. Here sizes follow the pool, so trainers
///   work elsewhere on their curves, and of a mixture other trainers have the nodes. The rest is
///   negative where trainers do better than on dedicated nodes.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Loss {
    /// A_s, the samples of dedicated nodes.
    pub dedicated: f64,
    /// A_e, the samples done.
    pub done: f64,
    /// Lost to changes by the planner.
    pub rescale: f64,
    /// Lost to nodes that left.
    pub preempt: f64,
    /// Lost on nodes of the pool without a trainer.
    pub waiting: f64,
    /// Lost on nodes of trainers whose work was done.
    pub idling: f64,
    /// Lost since sizes follow the pool: the rest.
    pub curve: f64,
}

impl Loss {
    /// Splits the samples of dedicated nodes. `spare_node_s` is the node-time that those leave
    /// unused, `X`.
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
