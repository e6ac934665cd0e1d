//! The present holes and their owners, from step to step.

use lacuna_planner::Slot;

use crate::pool_trace::PoolTrace;

const ABSENT: u32 = u32::MAX;

/// The pool: slots, and the place of each node's slot.
#[derive(Debug, Clone)]
pub(crate) struct Pool {
    slots: Vec<Slot>,
    nodes: Vec<u32>,
    places: Vec<u32>,
    /// The rank of each node, or empty if no order is kept.
    ranks: Vec<u32>,
    // Buffers that are used again.
    order: Vec<u64>,
    sorted: Vec<(u32, Slot)>,
}

impl Pool {
    /// An empty pool for nodes numbered below `nodes`, with slots in no particular order.
    pub(crate) fn new(nodes: u32) -> Self {
        Self {
            slots: Vec::new(),
            nodes: Vec::new(),
            places: vec![ABSENT; nodes as usize],
            ranks: Vec::new(),
            order: Vec::new(),
            sorted: Vec::new(),
        }
    }

    /// An empty pool of a trace's nodes. [`sort`](Self::sort) orders them by their names as
    /// text, as the services keep a pool.
    pub(crate) fn by_name(trace: &dyn PoolTrace) -> Self {
        let mut by_name: Vec<u32> = (0..trace.nodes()).collect();
        by_name.sort_by_cached_key(|&node| trace.node_name(node).into_owned());
        let mut ranks = vec![0; by_name.len()];
        for (rank, node) in (0..).zip(by_name) {
            if let Some(place) = ranks.get_mut(node as usize) {
                *place = rank;
            }
        }
        Self {
            ranks,
            ..Self::new(trace.nodes())
        }
    }

    /// Brings the slots into the order of their nodes, if one is kept.
    pub(crate) fn sort(&mut self) {
        if self.ranks.is_empty() {
            return;
        }
        // Rank and place in one number sort fastest.
        let key = |(&node, at): (&u32, u64)| {
            let rank = *self.ranks.get(node as usize)?;
            Some(u64::from(rank) << 32 | at)
        };
        self.order.clear();
        self.order
            .extend(self.nodes.iter().zip(0..).filter_map(key));
        if self.order.is_sorted() {
            return;
        }
        self.order.sort_unstable();
        let places = self.order.iter().map(|key| (key & 0xFFFF_FFFF) as usize);
        let entry = |at: usize| Some((*self.nodes.get(at)?, *self.slots.get(at)?));
        self.sorted.clear();
        self.sorted.extend(places.filter_map(entry));
        self.nodes.clear();
        self.slots.clear();
        for (at, &(node, slot)) in (0..).zip(&self.sorted) {
            self.nodes.push(node);
            self.slots.push(slot);
            if let Some(place) = self.places.get_mut(node as usize) {
                *place = at;
            }
        }
    }

    /// Opens a hole. A node that is in the pool already is left as it is.
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

    /// Ends a hole. Gives the trainer that loses the node, if one had it.
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

    /// Maps every owner by a function, which removes or renumbers it.
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

    /// The slots, each with its owner.
    pub(crate) fn slots(&self) -> &[Slot] {
        &self.slots
    }

    /// The node of each slot.
    pub(crate) fn nodes(&self) -> &[u32] {
        &self.nodes
    }

    /// Number of idle nodes.
    pub(crate) fn len(&self) -> u32 {
        self.slots.len() as u32
    }
}

#[cfg(test)]
mod tests {
    use lacuna_model::{HoleRecord, NodeId, Timestamp};

    use super::*;
    use crate::HoleTrace;

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

    #[test]
    fn slots_are_in_the_order_of_names_as_text() {
        let hole = |name: &str, from| HoleRecord {
            node: NodeId::new(name).unwrap(),
            from: Timestamp::from_unix(from),
            until: Timestamp::from_unix(100),
            censored: false,
        };
        // Numbered by their first holes: n9, n10, a.
        let holes = [hole("n9", 0), hole("n10", 1), hole("a", 2)];
        let trace = HoleTrace::new(&holes, None, Timestamp::from_unix(0), None);
        let mut pool = Pool::by_name(&trace);
        for node in 0..3 {
            pool.open(node, i64::from(node));
        }
        pool.assign(&[Some(0), Some(1), Some(2)]);
        pool.sort();
        assert_eq!(pool.nodes(), [2, 1, 0]);
        let owners: Vec<_> = pool.slots().iter().map(|slot| slot.owner).collect();
        assert_eq!(owners, [Some(2), Some(1), Some(0)]);
        assert_eq!(pool.close(1), Some(1));
        assert_eq!(pool.close(2), Some(2));
        pool.open(2, 7);
        pool.sort();
        assert_eq!(pool.nodes(), [2, 0]);
        assert_eq!(pool.close(0), Some(0));
    }
}
