//! Translation of names to ordinals.

use std::collections::{HashMap, HashSet};

use lacuna_model::{NodeId, Phase, Pool, Topology, TrainerRecord};

use crate::problem::{Slot, Switches};

/// Trainers and nodes as ordinals, with the way back to names.
#[derive(Debug, Clone, PartialEq)]
pub struct Translated {
    /// Place of each trainer in the given list.
    pub trainers: Vec<usize>,
    /// Number of usable nodes that each trainer holds.
    pub held: Vec<u32>,
    /// Usable nodes of the pool, in its order.
    pub nodes: Vec<NodeId>,
    /// Place of each usable node in the list of holes.
    pub holes: Vec<u32>,
    /// The usable nodes as slots: the start of their idle time and their trainer.
    pub slots: Vec<Slot>,
    /// Where the usable nodes are.
    pub switches: Switches,
}

/// Translates the pool and the active ones of `trainers` (in order of admission). Nodes outside the
/// pool, unusable nodes, and nodes that an earlier trainer holds too count as lost.
#[must_use]
pub fn translate(
    pool: &Pool,
    trainers: &[TrainerRecord],
    unusable: &[NodeId],
    topology: &Topology,
) -> Translated {
    let unusable: HashSet<&NodeId> = unusable.iter().collect();
    let active = trainers
        .iter()
        .enumerate()
        .filter(|(_, record)| record.phase == Phase::Active);
    let mut owners: HashMap<&NodeId, u32> = HashMap::new();
    let mut places = Vec::new();
    for (ordinal, (place, record)) in active.enumerate() {
        places.push(place);
        for node in &record.nodes {
            owners.entry(node).or_insert(ordinal as u32);
        }
    }
    let mut nodes = Vec::with_capacity(pool.holes.len());
    let mut holes = Vec::with_capacity(pool.holes.len());
    let mut slots = Vec::with_capacity(pool.holes.len());
    let mut held = vec![0_u32; places.len()];
    let pooled = pool.holes.iter().map(|pooled| &pooled.hole);
    for (place, hole) in (0..).zip(pooled) {
        if unusable.contains(&hole.node) {
            continue;
        }
        let owner = owners.get(&hole.node).copied();
        if let Some(count) = owner.and_then(|j| held.get_mut(j as usize)) {
            *count += 1;
        }
        nodes.push(hole.node.clone());
        holes.push(place);
        slots.push(Slot {
            since_ms: hole.since.unix_ms(),
            owner,
        });
    }
    Translated {
        trainers: places,
        held,
        switches: Switches::new(topology, &nodes),
        nodes,
        holes,
        slots,
    }
}
