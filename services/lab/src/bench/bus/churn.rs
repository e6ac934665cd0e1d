//! Events of a synthetic machine: nodes come and go, and some events take a node in training.

use std::collections::{BTreeSet, VecDeque};

use rand::{Rng as _, RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use lacuna_model::NodeId;

/// The seconds after which a node that was taken from a trainer comes back.
const BACK_S: f64 = 3.0;

/// The nodes that come and go.
pub(crate) struct Churn {
    spare: Vec<(NodeId, bool)>,
    training: Vec<(NodeId, bool)>,
    /// Nodes in training that were taken, with the times of their return.
    taken: VecDeque<(f64, usize)>,
    rng: ChaCha8Rng,
    hit_share: f64,
    next: usize,
}

impl Churn {
    /// At the start all `spare` nodes are busy and all nodes in training are idle. `hit_share` is
    /// the share of events that take a node in training.
    pub(crate) fn new(spare: &[NodeId], training: &[NodeId], hit_share: f64, seed: u64) -> Self {
        Self {
            spare: spare.iter().map(|node| (node.clone(), false)).collect(),
            training: training.iter().map(|node| (node.clone(), true)).collect(),
            taken: VecDeque::new(),
            rng: ChaCha8Rng::seed_from_u64(seed),
            hit_share,
            next: 0,
        }
    }

    /// The next event, at `now_s`: its node, and whether the node is idle from then on.
    pub(crate) fn next(&mut self, now_s: f64) -> Option<(NodeId, bool)> {
        let back = self.taken.front().filter(|(due, _)| *due <= now_s);
        if let Some(&(_, place)) = back {
            self.taken.pop_front();
            return turn(&mut self.training, place);
        }
        if self.rng.random::<f64>() < self.hit_share {
            let place = self.rng.next_u32() as usize % self.training.len().max(1);
            if self.training.get(place).is_some_and(|(_, idle)| *idle) {
                self.taken.push_back((now_s + BACK_S, place));
                return turn(&mut self.training, place);
            }
        }
        self.next += 1;
        let count = self.spare.len().max(1);
        turn(&mut self.spare, (self.next - 1) % count)
    }

    /// The nodes that are idle now, which the pool must contain in the end.
    pub(crate) fn idle(&self) -> BTreeSet<NodeId> {
        let all = self.spare.iter().chain(&self.training);
        all.filter(|(_, idle)| *idle)
            .map(|(node, _)| node.clone())
            .collect()
    }
}

fn turn(list: &mut [(NodeId, bool)], place: usize) -> Option<(NodeId, bool)> {
    let (node, idle) = list.get_mut(place)?;
    *idle = !*idle;
    Some((node.clone(), *idle))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_events_and_each_changes_its_node() {
        let nodes: Vec<NodeId> = (0..20)
            .map(|i| NodeId::new(format!("n{i}")).unwrap())
            .collect();
        let (spare, training) = nodes.split_at(10);
        let play = |seed| {
            let mut churn = Churn::new(spare, training, 0.2, seed);
            let list: Vec<_> = (0..500)
                .filter_map(|i| churn.next(f64::from(i) * 0.01))
                .collect();
            (list, churn.idle())
        };
        let (events, idle) = play(1);
        assert_eq!(play(1).0, events);
        assert_ne!(play(2).0, events);
        assert_eq!(events.len(), 500);
        let mut known: BTreeSet<NodeId> = training.iter().cloned().collect();
        for (node, now_idle) in events {
            let changed = if now_idle {
                known.insert(node)
            } else {
                known.remove(&node)
            };
            assert!(changed);
        }
        assert_eq!(known, idle);
    }
}
