//! From the domain's names to an ordinal-indexed problem.

use std::collections::HashMap;
use std::sync::Arc;

use lacuna_model::{NodeId, Phase, Pool, ScalingCurve, Span, TrainerRecord};

use crate::choose::Slot;
use crate::{Item, Problem};

/// A problem with the way back to names.
#[derive(Debug, Clone, PartialEq)]
pub struct Translated {
    /// The problem.
    pub problem: Problem,
    /// For each trainer of the problem its place in the list that was given.
    pub trainers: Vec<usize>,
    /// Usable nodes of the pool, in its order.
    pub nodes: Vec<NodeId>,
    /// The place of each of them in the list of holes.
    pub holes: Vec<u32>,
    /// The same nodes as slots: since when they are idle, and which trainer of the problem
    /// holds them.
    pub slots: Vec<Slot>,
}

/// Tables of scaling curves by node count, kept from problem to problem and shared by equal
/// trainers.
#[derive(Debug, Clone, Default)]
pub struct Tables {
    known: Vec<Table>,
}

#[derive(Debug, Clone)]
struct Table {
    curve: ScalingCurve,
    max: u32,
    value: Arc<[f64]>,
    used: bool,
}

impl Tables {
    /// The rates of a curve at 0..=max nodes.
    fn get(&mut self, curve: &ScalingCurve, max: u32) -> Arc<[f64]> {
        let found = self
            .known
            .iter_mut()
            .find(|t| t.max == max && t.curve == *curve);
        if let Some(table) = found {
            table.used = true;
            return table.value.clone();
        }
        let value: Arc<[f64]> = curve.table(max).into();
        self.known.push(Table {
            curve: curve.clone(),
            max,
            value: value.clone(),
            used: true,
        });
        value
    }

    /// Forgets the tables that were not asked for since the last call.
    fn prune(&mut self) {
        self.known
            .retain_mut(|table| std::mem::take(&mut table.used));
    }
}

/// Translates the pool and the active among `trainers` (in order of admission). Nodes that are
/// not in the pool, that are unusable, or that an earlier trainer holds too, count as lost.
pub fn translate(
    pool: &Pool,
    trainers: &[TrainerRecord],
    unusable: &[NodeId],
    horizon: Span,
    tables: &mut Tables,
) -> Translated {
    let unusable: std::collections::HashSet<&NodeId> = unusable.iter().collect();
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
    let items = places
        .iter()
        .filter_map(|&place| trainers.get(place))
        .zip(&held)
        .map(|(record, &current)| item(record, current, tables))
        .collect();
    tables.prune();
    Translated {
        problem: Problem {
            nodes: nodes.len() as u32,
            horizon_s: horizon.as_secs_f64(),
            trainers: items,
            max_change: None,
        },
        trainers: places,
        nodes,
        holes,
        slots,
    }
}

fn item(record: &TrainerRecord, current: u32, tables: &mut Tables) -> Item {
    let spec = &record.spec;
    let value = tables.get(spec.objective_curve(), spec.max_nodes);
    let rate_now = if current >= spec.min_nodes {
        value.get(current as usize).copied().unwrap_or(0.0)
    } else {
        0.0
    };
    Item {
        current,
        min: spec.min_nodes,
        max: spec.max_nodes,
        value,
        rate_now,
        up_s: spec.rescale.up_s,
        down_s: spec.rescale.down_s,
    }
}
