//! The present holes and who holds them, kept from step to step.

use lacuna_planner::choose::Slot;

const ABSENT: u32 = u32::MAX;

/// The pool: slots in no particular order, and where each node's slot is.
#[derive(Debug, Clone)]
pub(crate) struct Pool {
    slots: Vec<Slot>,
    nodes: Vec<u32>,
    places: Vec<u32>,
}

impl Pool {
    /// An empty pool for nodes numbered below `nodes`.
    pub(crate) fn new(nodes: u32) -> Self {
        Self {
            slots: Vec::new(),
            nodes: Vec::new(),
            places: vec![ABSENT; nodes as usize],
        }
    }

    /// A hole opens. A node that is in the pool already stays as it is.
    pub(crate) fn open(&mut self, node: u32, since_ms: i64) {
        if let Some(place) = self.places.get_mut(node as usize)
            && *place == ABSENT
        {
            *place = self.slots.len() as u32;
            self.nodes.push(node);
            self.slots.push(Slot {
                since_ms,
                owner: None,
            });
        }
    }

    /// A hole ends. Gives the trainer that loses the node.
    pub(crate) fn close(&mut self, node: u32) -> Option<u32> {
        let place = self.places.get_mut(node as usize)?;
        let at = std::mem::replace(place, ABSENT) as usize;
        if at >= self.slots.len() {
            return None;
        }
        let slot = self.slots.swap_remove(at);
        self.nodes.swap_remove(at);
        if let Some(moved) = self.nodes.get(at)
            && let Some(place) = self.places.get_mut(*moved as usize)
        {
            *place = at as u32;
        }
        slot.owner
    }

    /// Passes every owner through a function: some leave, others are renumbered.
    pub(crate) fn map_owners(&mut self, owner: impl Fn(u32) -> Option<u32>) {
        for slot in &mut self.slots {
            slot.owner = slot.owner.and_then(&owner);
        }
    }

    /// Gives every slot its new owner.
    pub(crate) fn assign(&mut self, owners: &[Option<u32>]) {
        for (slot, owner) in self.slots.iter_mut().zip(owners) {
            slot.owner = *owner;
        }
    }

    /// The slots.
    pub(crate) fn slots(&self) -> &[Slot] {
        &self.slots
    }

    /// The node of each slot.
    pub(crate) fn nodes(&self) -> &[u32] {
        &self.nodes
    }

    /// How many nodes are idle.
    pub(crate) fn len(&self) -> u32 {
        self.slots.len() as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_come_and_go_in_any_order() {
        let mut pool = Pool::new(4);
        for node in 0..4 {
            pool.open(node, i64::from(node));
        }
        pool.assign(&[Some(0), Some(1), Some(2), Some(3)]);
        pool.open(2, 99);
        assert_eq!(pool.close(1), Some(1));
        assert_eq!(pool.close(1), None);
        assert_eq!(pool.close(9), None);
        assert_eq!(pool.close(3), Some(3));
        pool.open(1, 5);
        pool.map_owners(|owner| (owner != 0).then_some(owner + 10));
        assert_eq!(pool.close(0), None);
        assert_eq!(pool.close(2), Some(12));
        assert_eq!(pool.close(1), None);
        assert_eq!(pool.len(), 0);
    }
}
