//! What the operator wants of the use of nodes: nodes withheld, and given back.
//!
//! A node that is withheld is unusable, for plans as for these books; one under a lease is
//! released at once, as one that the main scheduler wants, but nobody counts harm for it.
//!
//! - Drained nodes, and those that lists leave out, are withheld whatever else holds.
//! - Without growth, free nodes are withheld; nodes in use, and those on their way from one
//!   trainer to another, are not.
//! - Under a cap of N, at most N nodes are left: those in use, then free ones, first those that
//!   were left before, then those that can be used at once, by name. Of those in use beyond N go
//!   back: nodes on their way to a trainer, nodes held beside a run, and then, one after another,
//!   what costs least by the trainers' curves (weight times rate lost, by node given back; a
//!   trainer at its least gives all). Of a trainer's nodes goes the one whose hole is youngest,
//!   since holes that have lasted last.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use lacuna_model::{NodeId, TrainerId, WithheldBy};

use crate::Now;
use crate::book::state::{Node, Out, Pending, Trainer};
use crate::book::trial::aside;
use crate::book::{Book, Note};
use crate::controls::Wanted;

/// What is wanted, and what came of it.
#[derive(Debug, Default)]
pub(crate) struct Withholding {
    wanted: Wanted,
    /// Under a limit: nodes that may be used, whether they are or not.
    left: BTreeSet<NodeId>,
    /// Whether any node is withheld.
    any: bool,
}

/// How nodes are used, for whoever shows it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Use {
    /// Nodes in use, by a trainer or on their way to one.
    pub used: u32,
    /// Nodes that are withheld: idle ones, those that somebody still holds, and all drained ones.
    pub withheld: BTreeMap<WithheldBy, Vec<NodeId>>,
}

/// Nodes that are not barred, by what becomes of them.
#[derive(Debug, Default)]
struct Sorted {
    /// Under a lease, or about to be.
    held: Vec<NodeId>,
    /// Released for another trainer.
    between: Vec<NodeId>,
    /// Idle and nobody's: whether it was left before, whether it can be used at once.
    free: Vec<(NodeId, bool, bool)>,
}

impl Node {
    /// Whether somebody has its lease and keeps it, or is about to get it.
    fn is_held(&self) -> bool {
        match &self.pending {
            Some(Pending::Grant(_)) => true,
            Some(Pending::Release) => false,
            None => self.owner.is_some(),
        }
    }

    fn is_going_back(&self) -> bool {
        self.release.is_some() || self.pending == Some(Pending::Release)
    }
}

impl Book {
    /// Takes note of what is wanted; [`Book::withhold`] makes it so.
    pub(crate) fn controls(&mut self, wanted: Wanted) {
        if wanted.version != self.withholding.wanted.version {
            for node in self.nodes.values_mut() {
                node.barred = None;
            }
        }
        self.withholding.wanted = wanted;
    }

    /// Brings what is withheld up to date, and takes withheld nodes from whoever holds them.
    pub(crate) fn withhold(&mut self, now: Now, out: &mut Out) {
        let wanted = std::mem::take(&mut self.withholding.wanted);
        if self.connected && (wanted.limits_anything() || self.withholding.any) {
            let withheld = self.choose_withheld(&wanted);
            self.set_withheld(&withheld, now, out);
        }
        self.withholding.wanted = wanted;
    }

    /// Which nodes are to be withheld, and why.
    fn choose_withheld(&mut self, wanted: &Wanted) -> BTreeMap<NodeId, WithheldBy> {
        let mut withheld = BTreeMap::new();
        let targets: BTreeSet<NodeId> = self
            .trainers
            .values()
            .filter_map(|trainer| trainer.target.as_ref())
            .flat_map(|target| target.nodes.iter().cloned())
            .collect();
        let before = std::mem::take(&mut self.withholding.left);
        let mut sorted = Sorted::default();
        for (id, node) in &mut self.nodes {
            if let Some(by) = *node.barred.get_or_insert_with(|| wanted.bars(id)) {
                withheld.insert(id.clone(), by);
                continue;
            }
            let (idle, was_left) = (node.idle_since.is_some(), before.contains(id));
            if node.is_held() {
                sorted.held.push(id.clone());
            } else if idle && targets.contains(id) && (was_left || node.is_going_back()) {
                sorted.between.push(id.clone());
            } else if idle {
                let others = !node.silent && !node.overdue && !node.quarantined;
                sorted.free.push((id.clone(), was_left, others));
            } else if let Some((0, by)) = wanted.at_most {
                withheld.insert(id.clone(), by);
            }
        }
        if wanted.at_most.is_none() && wanted.no_growth.is_none() {
            return withheld;
        }
        let used = sorted.held.len() + sorted.between.len();
        let most = wanted.at_most.map_or(usize::MAX, |(most, _)| most as usize);
        if let Some((_, by)) = wanted.at_most {
            for id in self.beyond(used.saturating_sub(most), &sorted) {
                withheld.insert(id, by);
            }
        }
        let room = most.saturating_sub(used);
        let (room, by) = match (wanted.no_growth, wanted.at_most) {
            (Some(by), _) if room > 0 => (0, by),
            (_, Some((_, by))) | (Some(by), None) => (room, by),
            (None, None) => (room, WithheldBy::Cap),
        };
        sorted
            .free
            .sort_by_key(|(_, was_left, ready)| (!ready, !was_left));
        for (id, _, _) in sorted.free.iter().skip(room) {
            withheld.insert(id.clone(), by);
        }
        let used = sorted.held.into_iter().chain(sorted.between);
        let free = sorted.free.into_iter().take(room).map(|(id, _, _)| id);
        self.withholding.left = used
            .chain(free)
            .filter(|id| !withheld.contains_key(id))
            .collect();
        withheld
    }

    fn set_withheld(&mut self, withheld: &BTreeMap<NodeId, WithheldBy>, now: Now, out: &mut Out) {
        let mut back: BTreeMap<WithheldBy, Vec<NodeId>> = BTreeMap::new();
        for (id, node) in &mut self.nodes {
            let by = withheld.get(id).copied();
            let was = std::mem::replace(&mut node.withheld, by);
            self.changed |= was.is_some() != by.is_some();
            if let Some(by) = by
                && node.owner.is_some()
                && node.pending.is_none()
            {
                back.entry(by).or_default().push(id.clone());
            }
        }
        self.withholding.any = !withheld.is_empty();
        for (by, nodes) in back {
            out.note(Note::Withheld {
                nodes: nodes.len() as u32,
                by,
            });
            let reason = match by {
                WithheldBy::Drained => "an operator has drained the node",
                WithheldBy::List => "the operator's lists leave the node out",
                WithheldBy::Paused => "an operator has paused",
                WithheldBy::Window => "a window of time holds in which less is used",
                WithheldBy::Cap => "the cap on nodes is lower",
            };
            self.take(nodes, reason, now.cluster, now, out);
        }
    }

    /// Which of the nodes in use go back if there are so many too many.
    fn beyond(&self, mut over: usize, sorted: &Sorted) -> Vec<NodeId> {
        let mut back: Vec<NodeId> = Vec::new();
        if over == 0 {
            return back;
        }
        let mut runs: BTreeMap<&TrainerId, Vec<NodeId>> = BTreeMap::new();
        let mut beside = Vec::new();
        for id in &sorted.held {
            let owner = self.nodes.get(id).and_then(|node| node.owner.as_ref());
            let trainer = owner.and_then(|owner| self.trainers.get(owner));
            match (owner, trainer) {
                (Some(owner), Some(trainer)) if in_run(trainer, id) => {
                    runs.entry(owner).or_default().push(id.clone());
                }
                _ => beside.push(id.clone()),
            }
        }
        let first = sorted.between.iter().cloned().chain(beside);
        back.extend(first.take(over));
        over -= back.len();
        let mut stakes: Vec<(&Trainer, Vec<NodeId>)> = self
            .active
            .iter()
            .filter_map(|id| Some((self.trainers.get(id)?, self.by_age(runs.get(id)?))))
            .collect();
        while over > 0 {
            let cheapest = stakes
                .iter_mut()
                .filter(|(_, nodes)| !nodes.is_empty())
                .map(|(trainer, nodes)| (loss(trainer, nodes.len(), over), *trainer, nodes))
                // Of equals the one admitted last.
                .rev()
                .min_by(|a, b| a.0.total_cmp(&b.0));
            let Some((_, trainer, nodes)) = cheapest else {
                break;
            };
            let least = trainer.record.spec.min_nodes as usize;
            let gives = if nodes.len() > least { 1 } else { nodes.len() };
            back.extend(nodes.drain(..gives));
            over = over.saturating_sub(gives);
        }
        back
    }

    /// Nodes with the youngest holes first, then by name.
    pub(crate) fn by_age(&self, nodes: &[NodeId]) -> Vec<NodeId> {
        let mut nodes = nodes.to_vec();
        nodes.sort_by_cached_key(|id| {
            let since = self.nodes.get(id).and_then(|node| node.idle_since);
            (Reverse(since), id.clone())
        });
        nodes
    }

    /// How nodes are used now.
    #[must_use]
    pub fn node_use(&self) -> Use {
        let mut found = Use::default();
        for (id, node) in &self.nodes {
            found.used += u32::from(node.is_held());
            let Some(by) = node.withheld else { continue };
            let matters = node.idle_since.is_some() || node.owner.is_some();
            if matters || by == WithheldBy::Drained {
                found.withheld.entry(by).or_default().push(id.clone());
            }
        }
        // Nodes that no event has named yet are drained all the same.
        let drained = &self.withholding.wanted.drained;
        let unknown = drained.iter().filter(|id| !self.nodes.contains_key(*id));
        let mut unknown: Vec<NodeId> = unknown.cloned().collect();
        if !unknown.is_empty() {
            let named = found.withheld.entry(WithheldBy::Drained).or_default();
            named.append(&mut unknown);
            named.sort();
        }
        found
    }
}

fn in_run(trainer: &Trainer, id: &NodeId) -> bool {
    trainer.record.nodes.binary_search(id).is_ok()
        && aside(&trainer.record).binary_search(id).is_err()
}

/// What it costs, by node that is given back and needed, if a trainer with so many nodes gives the
/// next one back: all of them if it has no more than its least.
fn loss(trainer: &Trainer, nodes: usize, over: usize) -> f64 {
    let spec = &trainer.record.spec;
    let curve = spec.objective_curve();
    let weight = spec.weight.unwrap_or(1.0);
    let rate = |nodes: usize| curve.at(u32::try_from(nodes).unwrap_or(u32::MAX));
    if nodes > spec.min_nodes as usize {
        weight * (rate(nodes) - rate(nodes - 1))
    } else {
        weight * rate(nodes) / nodes.min(over).max(1) as f64
    }
}
