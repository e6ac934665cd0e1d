//! Where the nodes of a trace are, and what distance did: node-time by tier, and work by size of the
//! pool.

use lacuna_model::NodeId;
use lacuna_planner::{Slot, Switches};

use crate::summary::{Apart, Quarter};
use crate::{PoolTrace, Settings};

/// Where the nodes are, with the figures so far.
pub(super) struct Sites {
    /// By number of a node.
    switches: Switches,
    /// The leaf of each node, from 0 on.
    leaf: Vec<u32>,
    leaves: u32,
    /// Node-seconds of trainers by tier.
    node_s: Vec<f64>,
    /// Seconds, summed over the trainers whose nodes are apart.
    crossing_s: f64,
    /// The most crossing trainers of a leaf.
    most_crossing: u32,
    /// By number of nodes in the pool.
    by_pool: Vec<Held>,
}

/// What happened while the pool had one size.
#[derive(Debug, Clone, Copy, Default)]
struct Held {
    seconds: f64,
    samples: f64,
}

impl Sites {
    /// The sites of a trace's nodes; nothing if all are on one leaf, or none costs a trainer
    /// anything.
    pub(super) fn new(trace: &dyn PoolTrace, settings: &Settings) -> Option<Self> {
        let topology = trace.topology()?;
        let ids = (0..trace.nodes()).map(|node| NodeId::new(trace.node_name(node)).ok());
        let paths = ids.map(|id| topology.path(&id?));
        let switches = Switches::below(topology.levels(), paths);
        let switches = switches.sharing(settings.forecast.joint.uplink);
        if switches.is_flat() {
            return None;
        }
        let mut leaves = std::collections::BTreeMap::new();
        let mut number = |node: u32| {
            let next = leaves.len() as u32;
            *leaves
                .entry(switches.switch(node as usize, 0))
                .or_insert(next)
        };
        let leaf: Vec<u32> = (0..trace.nodes()).map(&mut number).collect();
        Some(Self {
            leaves: leaves.len() as u32,
            node_s: vec![0.0; switches.levels() + 1],
            leaf,
            switches,
            crossing_s: 0.0,
            most_crossing: 0,
            by_pool: Vec::new(),
        })
    }

    /// How far apart the nodes of each trainer are, and how crowded its uplinks.
    pub(super) fn tiers(
        &self,
        nodes: &[u32],
        slots: &[Slot],
        trainers: usize,
    ) -> Vec<(usize, f64)> {
        let owned = nodes.iter().zip(slots);
        let owned = owned.map(|(&node, slot)| (node as usize, slot.owner));
        let tiers = self.switches.tiers(owned.clone(), trainers);
        let crowds = self.switches.crowds(owned, trainers);
        tiers.into_iter().zip(crowds).collect()
    }

    /// Where these nodes are.
    pub(super) fn of(&self, nodes: &[u32]) -> Switches {
        self.switches.only(nodes.iter().map(|&node| node as usize))
    }

    /// Takes in the pool after an event.
    pub(super) fn look(&mut self, nodes: &[u32], slots: &[Slot], tiers: &[usize]) {
        let mut crossing: Vec<(u32, u32)> = Vec::new();
        for (&node, slot) in nodes.iter().zip(slots) {
            if let Some(&leaf) = self.leaf.get(node as usize)
                && let Some(j) = slot.owner
                && tiers.get(j as usize).is_some_and(|&tier| tier > 0)
            {
                crossing.push((leaf, j));
            }
        }
        crossing.sort_unstable();
        crossing.dedup();
        let leaves = crossing.chunk_by(|a, b| a.0 == b.0);
        let most = leaves.map(|leaf| leaf.len() as u32).max();
        self.most_crossing = self.most_crossing.max(most.unwrap_or(0));
    }

    /// Counts `nodes` nodes of a trainer for some seconds.
    pub(super) fn trained(&mut self, tier: usize, nodes: f64, seconds: f64) {
        if let Some(node_s) = self.node_s.get_mut(tier) {
            *node_s += nodes * seconds;
        }
        if tier > 0 {
            self.crossing_s += seconds;
        }
    }

    /// Counts the samples of some seconds with `pool` nodes.
    pub(super) fn passed(&mut self, pool: u32, seconds: f64, samples: f64) {
        let pool = pool as usize;
        if self.by_pool.len() <= pool {
            self.by_pool.resize(pool + 1, Held::default());
        }
        if let Some(held) = self.by_pool.get_mut(pool) {
            held.seconds += seconds;
            held.samples += samples;
        }
    }

    /// The figures.
    pub(super) fn figures(&self) -> Apart {
        let seconds: f64 = self.by_pool.iter().map(|held| held.seconds).sum();
        let mut quarters = [Quarter::default(); 4];
        let mut passed = 0.0;
        for (pool, held) in (0_u32..).zip(&self.by_pool) {
            // A size belongs to the quarter of its middle moment.
            let middle = passed + held.seconds / 2.0;
            passed += held.seconds;
            let at = (4.0 * middle / seconds).clamp(0.0, 3.0) as usize;
            if held.seconds > 0.0
                && let Some(quarter) = quarters.get_mut(at)
            {
                quarter.pool = match quarter.pool {
                    (0, 0) if quarter.hours == 0.0 => (pool, pool),
                    (from, _) => (from, pool),
                };
                quarter.hours += held.seconds / 3600.0;
                quarter.samples += held.samples;
            }
        }
        Apart {
            leaves: self.leaves,
            node_hours: self.node_s.iter().map(|s| s / 3600.0).collect(),
            crossing: if seconds > 0.0 {
                self.crossing_s / seconds
            } else {
                0.0
            },
            most_crossing: self.most_crossing,
            quarters,
        }
    }
}
