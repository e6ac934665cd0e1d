//! A test of whether the scheduler takes nodes in a given order.

use lacuna_forecast::{Nodes, OrderBy};

use super::figures::OrderFigures;
use crate::{PoolStep, PoolTrace};

/// Standard errors from .5 that make an order. Consecutive events are not quite independent, so
/// the number is large.
const SIGNIFICANT: f64 = 4.0;

/// Least number of events for a verdict.
const ENOUGH: u64 = 12;

/// Follows departures of idle nodes.
pub(super) struct OrderTracker {
    by: String,
    /// Place of each node in the order.
    rank: Vec<u32>,
    /// By place: whether the node there is idle.
    idle: Vec<bool>,
    /// For each event that took some idle nodes and left others: the number taken, and their place.
    events: Vec<(f64, f64)>,
}

impl OrderTracker {
    /// A tracker for the nodes of a trace; none without an order to test. For an order to be
    /// learnt the order of names is tested.
    pub(super) fn new(trace: &dyn PoolTrace, order: &OrderBy) -> Option<Self> {
        let by = match order {
            OrderBy::None => return None,
            OrderBy::Learnt | OrderBy::Names => "names".to_owned(),
            OrderBy::List(list) => format!("a list of {} nodes", list.len()),
            OrderBy::Weights(_) => "weights, then names".to_owned(),
        };
        let names: Vec<_> = (0..trace.nodes())
            .map(|node| trace.node_name(node))
            .collect();
        let nodes = Nodes::from_names(names.iter().map(AsRef::as_ref), order);
        let count = nodes.count();
        Some(Self {
            by,
            rank: (0..trace.nodes()).map(|node| nodes.rank(node)).collect(),
            idle: vec![false; count],
            events: Vec::new(),
        })
    }

    /// Takes a step.
    pub(super) fn step(&mut self, step: PoolStep<'_>) {
        if !step.closed.is_empty() {
            self.leave(step.closed);
        }
        for &(node, _) in step.opened {
            self.mark(node, true);
        }
    }

    fn mark(&mut self, node: u32, idle: bool) {
        let rank = self.rank.get(node as usize);
        if let Some(place) = rank.and_then(|&rank| self.idle.get_mut(rank as usize)) {
            *place = idle;
        }
    }

    fn leave(&mut self, leaving: &[u32]) {
        let before: Vec<usize> = (0..self.idle.len())
            .filter(|&rank| self.idle.get(rank) == Some(&true))
            .collect();
        for &node in leaving {
            self.mark(node, false);
        }
        let places: Vec<usize> = before
            .iter()
            .enumerate()
            .filter(|&(_, &rank)| self.idle.get(rank) == Some(&false))
            .map(|(place, _)| place)
            .collect();
        if places.is_empty() || places.len() == before.len() {
            return;
        }
        let (taken, left) = (places.len() as f64, (before.len() - places.len()) as f64);
        let mean = places.iter().sum::<usize>() as f64 / taken;
        self.events
            .push((taken, (mean - (taken - 1.0) / 2.0) / left));
    }

    /// The figures of all steps so far.
    pub(super) fn figures(self) -> OrderFigures {
        let count = self.events.len() as u64;
        let nodes: f64 = self.events.iter().map(|event| event.0).sum();
        let place = (count > 0).then(|| {
            let sum: f64 = self.events.iter().map(|(taken, place)| taken * place).sum();
            sum / nodes
        });
        let by_event = (count > 0).then(|| {
            let sum: f64 = self.events.iter().map(|event| event.1).sum();
            sum / count as f64
        });
        // The standard error of a ratio of sums over independent events (Cochran, "Sampling
        // Techniques", 1977, ch. 6).
        let standard_error = place.filter(|_| count >= ENOUGH).map(|mean| {
            let off = |(taken, place): &(f64, f64)| (taken * (place - mean)).powi(2);
            let squares: f64 = self.events.iter().map(off).sum();
            let spread = count as f64 / (count - 1) as f64;
            // Equal places have no spread, which would suggest certainty.
            ((squares * spread).sqrt() / nodes).max(0.001)
        });
        let z = place
            .zip(standard_error)
            .map(|(mean, error)| (0.5 - mean) / error);
        OrderFigures {
            by: self.by,
            events: count,
            nodes: nodes as u64,
            place,
            standard_error,
            by_event,
            z,
            holds: z.is_some_and(|z| z >= SIGNIFICANT),
            reversed: z.is_some_and(|z| z <= -SIGNIFICANT),
        }
    }
}
