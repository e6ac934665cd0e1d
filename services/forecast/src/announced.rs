//! The ends of holes that the scheduler announces, as a predictor takes them.

use lacuna_forecast::{Certainty, Hint};
use lacuna_model::NodeId;
use lacuna_pool::PoolKeeper;

/// Every announced end of a present hole: planned starts, which may be withdrawn, and
/// reservations, which hold. What is announced for a node without a hole ends none.
pub(crate) fn announced(keeper: &PoolKeeper) -> Vec<Hint> {
    let hints = keeper.hints();
    let planned = hints
        .planned()
        .map(|(_, plan)| (&plan.nodes, plan.start, Certainty::Soft));
    let reserved = hints
        .reserved()
        .map(|(_, kept)| (&kept.nodes, kept.start, Certainty::Hard));
    let mut list = Vec::new();
    for (nodes, at, certainty) in planned.chain(reserved) {
        let has_hole = |node: &&NodeId| keeper.idle_since(node).is_some();
        list.extend(nodes.iter().filter(has_hole).map(|node| Hint {
            node: node.clone(),
            at,
            certainty,
        }));
    }
    list
}
