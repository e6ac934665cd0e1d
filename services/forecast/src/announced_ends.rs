//! Planned starts and reservations of the pool, as a predictor takes them.

use lacuna_forecast::{AnnouncedEnd, EndKind};
use lacuna_model::NodeId;
use lacuna_pool::PoolKeeper;

/// The planned starts and reservations of all present holes. Those of nodes without a hole are
/// left out.
pub(crate) fn announced_ends(keeper: &PoolKeeper) -> Vec<AnnouncedEnd> {
    let announcements = keeper.announcements();
    let planned = announcements
        .planned()
        .map(|(_, plan)| (&plan.nodes, plan.start, EndKind::PlannedStart));
    let reserved = announcements
        .reserved()
        .map(|(_, reservation)| (&reservation.nodes, reservation.start, EndKind::Reservation));
    let mut list = Vec::new();
    for (nodes, at, kind) in planned.chain(reserved) {
        let has_hole = |node: &&NodeId| keeper.idle_since(node).is_some();
        list.extend(nodes.iter().filter(has_hole).map(|node| AnnouncedEnd {
            node: node.clone(),
            at,
            kind,
        }));
    }
    list
}
