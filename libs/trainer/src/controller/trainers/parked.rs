//! Parked nodes: those that a trainer holds beside its incarnation while a probe measures fewer.

use lacuna_model::{NodeId, TrainerRecord};

/// Nodes that a trainer holds beside those of its incarnation, sorted.
pub(crate) fn parked(record: &TrainerRecord) -> &[NodeId] {
    record.measured.as_deref().map_or(&[], |m| &m.parked)
}

/// Takes a node from the parked ones. Returns whether it was among them.
pub(super) fn drop_parked(record: &mut TrainerRecord, node: &NodeId) -> bool {
    let Some(measured) = record.measured.as_deref_mut() else {
        return false;
    };
    let before = measured.parked.len();
    measured.parked.retain(|other| other != node);
    measured.parked.len() < before
}

/// Nodes that a trainer holds in all, sorted.
pub(crate) fn all_nodes(record: &TrainerRecord) -> Vec<NodeId> {
    let mut all: Vec<NodeId> = record.nodes.iter().chain(parked(record)).cloned().collect();
    all.sort();
    all
}

/// Fewer nodes than the trainer needs are joined by the parked ones, for the whole of the next
/// incarnation.
pub(super) fn or_all(record: &TrainerRecord, mut rest: Vec<NodeId>) -> Vec<NodeId> {
    if rest.len() < record.spec.min_nodes as usize {
        rest.extend(parked(record).iter().cloned());
        rest.sort();
    }
    rest
}
