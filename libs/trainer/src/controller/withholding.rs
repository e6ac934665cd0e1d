//! The operator's controls: nodes withheld, and given back.
//!
//! A node that is withheld is unusable, for plans as for the controller. One under a lease is
//! released at once, like a node that the main scheduler wants, but no harm is counted for it.
//!
//! - Drained nodes, and those that lists leave out, are withheld whatever else holds.
//! - Without growth, free nodes are withheld. Nodes in use, and those on their way from one trainer
//!   to another, are not.
//! - Under a cap of N, at most N nodes are left: those in use, then free ones, first those that
//!   were left before, then those that can be used at once, by name. Of those in use beyond N go
//!   back: nodes on their way to a trainer, nodes held beside an incarnation, and then, one after
//!   another, those that cost least by the trainers' curves (weight times rate lost, by node given
//!   back; a trainer at its least gives all). A trainer gives the node with the youngest hole,
//!   since holes that have lasted last.
//! - Where N idle nodes stay free, the nodes that may be used are all idle ones but N. So a batch job
//!   that takes one of the N takes another one from a trainer.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use lacuna_model::{NodeId, TrainerId, WithheldBy};
use lacuna_rates::Rates;

use crate::Now;
use crate::controller::nodes::{Node, Nodes};
use crate::controller::out::Out;
use crate::controller::trainers::{Target, Trainer, Trainers};
use crate::controller::{Controller, Note};
use crate::controls::Wanted;

/// The controls in force, and the nodes withheld by them.
#[derive(Debug, Default)]
pub(crate) struct Withholding {
    wanted: Wanted,
    /// Under a limit: nodes that may be used, whether they are or not.
    left: BTreeSet<NodeId>,
    /// The most nodes in use that leave enough idle ones free.
    at_most: Option<u32>,
    /// Whether any node is withheld.
    any: bool,
}

/// How nodes are used, for publication.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Use {
    /// Nodes in use, by a trainer or on their way to one.
    pub used: u32,
    /// Nodes that are withheld: idle ones, those under a lease, and all drained ones.
    pub withheld: BTreeMap<WithheldBy, Vec<NodeId>>,
    /// The most nodes in use that leave enough idle ones free.
    pub at_most: Option<u32>,
    /// Nodes with an agent that are down or drained by the main scheduler.
    pub down: Vec<NodeId>,
}

/// Nodes that are not barred, by their use.
#[derive(Debug, Default)]
struct Sorted {
    /// Under a lease, or about to be.
    held: Vec<NodeId>,
    /// Released for another trainer.
    between: Vec<NodeId>,
    /// Idle and without an owner: whether it was left before, whether it can be used at once.
    free: Vec<(NodeId, bool, bool)>,
}

impl Withholding {
    /// Takes the controls; [`Controller::withhold`] makes them so.
    pub(crate) fn want(&mut self, wanted: Wanted, nodes: &mut Nodes) {
        if wanted.version != self.wanted.version {
            nodes.forget_bars();
        }
        self.wanted = wanted;
    }

    /// The nodes to be withheld, with the reasons; `None` if no control is in force.
    fn choose(
        &mut self,
        nodes: &mut Nodes,
        trainers: &Trainers,
    ) -> Option<BTreeMap<NodeId, WithheldBy>> {
        let wanted = &self.wanted;
        if !wanted.limits_anything() && !self.any {
            return None;
        }
        nodes.look_up_bars(|id| wanted.bars(id));
        let mut withheld = BTreeMap::new();
        let before = std::mem::take(&mut self.left);
        let sorted = sort(nodes, trainers, wanted, &before, &mut withheld);
        let idle = nodes
            .iter()
            .filter(|(_, node)| node.is_idle() && node.barred().is_none());
        let idle = u32::try_from(idle.count()).unwrap_or(u32::MAX);
        let kept = Some(wanted.keep_idle).filter(|kept| *kept > 0);
        self.at_most = kept.map(|kept| idle.saturating_sub(kept));
        if wanted.at_most.is_some() || wanted.no_growth.is_some() || kept.is_some() {
            self.left = limit(sorted, nodes, trainers, wanted, &mut withheld);
        }
        self.any = !withheld.is_empty();
        Some(withheld)
    }
}

/// Sorts nodes, and withholds those that are barred, or not idle under a cap of none.
fn sort(
    nodes: &Nodes,
    trainers: &Trainers,
    wanted: &Wanted,
    before: &BTreeSet<NodeId>,
    withheld: &mut BTreeMap<NodeId, WithheldBy>,
) -> Sorted {
    let targets = trainers.iter().filter_map(Trainer::target);
    let targets: BTreeSet<&NodeId> = targets.flat_map(Target::nodes).collect();
    let mut sorted = Sorted::default();
    for (id, node) in nodes.iter() {
        if let Some(by) = node.barred() {
            withheld.insert(id.clone(), by);
            continue;
        }
        let (is_idle, was_left) = (node.is_idle(), before.contains(id));
        let is_going_back = node.lease().is_going_back();
        if node.lease().is_held() {
            sorted.held.push(id.clone());
        } else if is_idle && targets.contains(id) && (was_left || is_going_back) {
            sorted.between.push(id.clone());
        } else if is_idle {
            sorted.free.push((id.clone(), was_left, node.is_sound()));
        } else if let Some((0, by)) = wanted.at_most {
            withheld.insert(id.clone(), by);
        }
    }
    sorted
}

/// Withholds nodes beyond the cap, those that stay free and, without growth, all free ones. Returns
/// those that are left.
fn limit(
    mut sorted: Sorted,
    nodes: &Nodes,
    trainers: &Trainers,
    wanted: &Wanted,
    withheld: &mut BTreeMap<NodeId, WithheldBy>,
) -> BTreeSet<NodeId> {
    let used = sorted.held.len() + sorted.between.len();
    let is_idle = |id: &&NodeId| nodes.get(id).is_some_and(Node::is_idle);
    let idle_in_use = sorted.held.iter().filter(is_idle).count() + sorted.between.len();
    // Of each bound: how many nodes in use are too many, how many free ones may be used, its name.
    let bound =
        |used: usize, most: usize, by| (used.saturating_sub(most), most.saturating_sub(used), by);
    let cap = wanted
        .at_most
        .map(|(most, by)| bound(used, most as usize, by));
    let kept = wanted.keep_idle as usize;
    let most = (idle_in_use + sorted.free.len()).saturating_sub(kept);
    let reserve = (kept > 0).then(|| bound(idle_in_use, most, WithheldBy::Reserve));
    let bounds = cap.into_iter().chain(reserve);
    let tightest = bounds.min_by_key(|(over, room, _)| (Reverse(*over), *room));
    let (over, room, by) = tightest.unwrap_or((0, usize::MAX, WithheldBy::Cap));
    for id in beyond(over, &sorted, nodes, trainers) {
        withheld.insert(id, by);
    }
    let (room, by) = match wanted.no_growth {
        Some(by) if room > 0 => (0, by),
        _ => (room, by),
    };
    sorted
        .free
        .sort_by_key(|(_, was_left, is_sound)| (!is_sound, !was_left));
    let rest = sorted.free.get(room..).unwrap_or_default();
    // Those without an agent are last, so these stay free.
    let others = rest.len().saturating_sub(kept);
    for (place, (id, _, _)) in rest.iter().enumerate() {
        let by = if place < others {
            by
        } else {
            WithheldBy::Reserve
        };
        withheld.insert(id.clone(), by);
    }
    let used = sorted.held.into_iter().chain(sorted.between);
    let free = sorted.free.into_iter().take(room).map(|(id, _, _)| id);
    let left = used.chain(free);
    left.filter(|id| !withheld.contains_key(id)).collect()
}

/// Which of the nodes in use go back if there are `over` too many.
fn beyond(mut over: usize, sorted: &Sorted, nodes: &Nodes, trainers: &Trainers) -> Vec<NodeId> {
    let mut back: Vec<NodeId> = Vec::new();
    if over == 0 {
        return back;
    }
    let mut members: BTreeMap<&TrainerId, Vec<NodeId>> = BTreeMap::new();
    let mut beside = Vec::new();
    for id in &sorted.held {
        let owner = nodes.owner(id);
        match owner.and_then(|owner| trainers.get(owner)) {
            Some(trainer) if trains(trainer, id) => {
                members.entry(trainer.id()).or_default().push(id.clone());
            }
            _ => beside.push(id.clone()),
        }
    }
    let first = sorted.between.iter().cloned().chain(beside);
    back.extend(first.take(over));
    over -= back.len();
    let mut stakes: Vec<(&Trainer, Vec<NodeId>)> = trainers
        .admitted()
        .filter_map(|trainer| Some((trainer, nodes.by_age(members.get(trainer.id())?))))
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
        let least = trainer.min_nodes();
        let gives = if nodes.len() > least { 1 } else { nodes.len() };
        back.extend(nodes.drain(..gives));
        over = over.saturating_sub(gives);
    }
    back
}

fn trains(trainer: &Trainer, id: &NodeId) -> bool {
    trainer.is_member(id) && trainer.parked().binary_search(id).is_err()
}

impl Controller {
    /// Brings the withheld nodes up to date, and takes them from the trainers that hold them.
    pub(super) fn withhold(&mut self, now: Now, out: &mut Out) {
        if !self.connected {
            return;
        }
        let Some(withheld) = self.withholding.choose(&mut self.nodes, &self.trainers) else {
            return;
        };
        let (changed, held) = self.nodes.withhold(&withheld);
        self.publication.change_if(changed);
        for (by, nodes) in held {
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
                WithheldBy::Reserve => "too few idle nodes are free",
            };
            self.take(nodes, reason, now.cluster, now, out);
        }
    }

    /// How nodes are used now.
    #[must_use]
    pub fn node_use(&self) -> Use {
        let mut found = Use {
            at_most: self.withholding.at_most,
            ..Use::default()
        };
        for (id, node) in self.nodes.iter() {
            found.used += u32::from(node.lease().is_held());
            if node.is_down() && node.agent().status().is_some() && !node.agent().has_left() {
                found.down.push(id.clone());
            }
            let Some(by) = node.withheld() else { continue };
            let matters = node.is_idle() || node.lease().owner().is_some();
            if matters || by == WithheldBy::Drained {
                found.withheld.entry(by).or_default().push(id.clone());
            }
        }
        // Nodes that no event has named yet are drained all the same.
        let drained = &self.withholding.wanted.drained;
        let unknown = drained.iter().filter(|id| self.nodes.get(id).is_none());
        let mut unknown: Vec<NodeId> = unknown.cloned().collect();
        if !unknown.is_empty() {
            let named = found.withheld.entry(WithheldBy::Drained).or_default();
            named.append(&mut unknown);
            named.sort();
        }
        found
    }
}

/// The cost, by node that is given back and needed, if a trainer with this number of nodes gives
/// the next one back: all of them if it has no more than its least.
fn loss(trainer: &Trainer, nodes: usize, over: usize) -> f64 {
    let spec = &trainer.record().spec;
    let rates = Rates::of(trainer.record());
    let own = rates.objective();
    let curve = own.as_deref().unwrap_or(rates.curve());
    let weight = spec.weight.unwrap_or(1.0);
    let rate = |nodes: usize| curve.at(u32::try_from(nodes).unwrap_or(u32::MAX));
    if nodes > spec.min_nodes as usize {
        weight * (rate(nodes) - rate(nodes - 1))
    } else {
        weight * rate(nodes) / nodes.min(over).max(1) as f64
    }
}
