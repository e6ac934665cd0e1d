//! Quarantine: nodes on which programs keep failing.
//!
//! A program fails as its owner likes, so failures in a row are counted for each owner by itself.
//! Three in a row close the node to that owner for `control.quarantine`, longer each time. The node
//! is in quarantine, unusable for everybody, while it is closed to two owners, with no sound
//! incarnation of another owner between, or to all owners who have trainers. The planner is told of
//! quarantine alone: where a plan gives a trainer a node that is closed to its owner, control takes
//! one that the plan leaves unallocated, or leaves it out.

use std::collections::BTreeSet;

use lacuna_model::{NodeId, Plan, Span, Timestamp, TrainerId};

use crate::Now;
use crate::book::quota::user_of;
use crate::book::state::{Node, Out};
use crate::book::{Book, Note};

/// How the programs of one owner fail on a node.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Blame {
    /// Failures in a row.
    failures: u32,
    /// How often the node was closed to the owner for it.
    times: u32,
    /// Until when it is closed to the owner, if it is (real time).
    until: Option<Timestamp>,
    /// Whether another owner's programs have been sound there since: then it says nothing against
    /// the node.
    refuted: bool,
}

impl Node {
    /// A program of this owner has failed there.
    fn failed(&mut self, owner: String) {
        self.blame.entry(owner).or_default().failures += 1;
        self.healthy = Span::ZERO;
    }

    /// Programs of this owner have made progress there for so long since anybody's last failure.
    pub(crate) fn sound(&mut self, owner: &str, enough: Span) {
        if self.healthy < enough || self.blame.is_empty() {
            return;
        }
        self.blame.remove(owner);
        for other in self.blame.values_mut() {
            other.refuted = true;
        }
    }

    /// Whether this owner's programs have failed there too often, not long ago.
    pub(crate) fn is_closed_to(&self, owner: &str) -> bool {
        let blame = self.blame.get(owner);
        blame.is_some_and(|blame| blame.until.is_some())
    }

    /// Whether it is to be in quarantine, if these owners have trainers.
    fn is_bad(&self, wanting: &BTreeSet<&str>) -> bool {
        let closed = || self.blame.values().filter(|blame| blame.until.is_some());
        closed().filter(|blame| !blame.refuted).count() > 1
            || (closed().next().is_some() && wanting.iter().all(|owner| self.is_closed_to(owner)))
    }
}

impl Book {
    /// A program of this trainer has failed on a node.
    pub(crate) fn failed_on(&mut self, node: &NodeId, id: &TrainerId) {
        if let Some(owner) = self.record(id).map(|record| user_of(record).to_owned()) {
            self.node(node).failed(owner);
        }
    }

    /// Closes those of a trainer's nodes on which its owner's programs have failed too often in a
    /// row, and takes them from it. Returns whether there were any.
    pub(crate) fn quarantine(
        &mut self,
        id: &TrainerId,
        nodes: &[NodeId],
        now: Now,
        out: &mut Out,
    ) -> bool {
        let Some(owner) = self.record(id).map(|record| user_of(record).to_owned()) else {
            return false;
        };
        let (limit, first) = (self.config.node_failures, self.config.control.quarantine);
        let mut taken = Vec::new();
        for id in nodes {
            let Some(blame) = self.node(id).blame.get_mut(&owner) else {
                continue;
            };
            if blame.failures < limit {
                continue;
            }
            let length = Span::from_ms(first.as_ms().saturating_mul(1 << blame.times.min(6)));
            *blame = Blame {
                failures: blame.failures,
                times: blame.times + 1,
                until: Some(now.wall + length),
                refuted: false,
            };
            taken.push(id.clone());
            out.note(Note::Closed {
                node: id.clone(),
                owner: owner.clone(),
                length,
            });
        }
        let any = !taken.is_empty();
        if any {
            self.changed = true;
            self.closed.extend(taken.iter().cloned());
            self.look_at_closed(now, out);
            let reason = "programs of its owner keep failing there";
            self.take(taken, reason, now.cluster, now, out);
        }
        any
    }

    /// Opens nodes whose time is over, and brings up to date which are in quarantine: that depends
    /// on who has trainers.
    pub(crate) fn look_at_closed(&mut self, now: Now, out: &mut Out) {
        if self.closed.is_empty() {
            return;
        }
        let records = self.trainers.values().map(|trainer| &trainer.record);
        let wanting: BTreeSet<&str> = records
            .filter(|record| !record.phase.is_final() && record.spec.submit <= now.cluster)
            .map(user_of)
            .collect();
        self.closed.retain(|id| {
            let Some(node) = self.nodes.get_mut(id) else {
                return false;
            };
            for blame in node.blame.values_mut() {
                if blame.until.is_some_and(|until| until <= now.wall) {
                    blame.until = None;
                    blame.failures = 0;
                    self.changed = true;
                }
            }
            let bad = node.is_bad(&wanting);
            if std::mem::replace(&mut node.quarantined, bad) != bad {
                self.changed = true;
                let node = id.clone();
                out.note(if bad {
                    let cause = "quarantine";
                    Note::Unusable { node, cause }
                } else {
                    Note::Usable { node }
                });
            }
            node.blame.values().any(|blame| blame.until.is_some())
        });
    }

    /// Nodes that a plan gives to nobody, and that could take the place of closed ones.
    pub(crate) fn spare(&self, plan: &Plan, kept: &BTreeSet<NodeId>) -> BTreeSet<NodeId> {
        if self.closed.is_empty() {
            return BTreeSet::new();
        }
        let given = plan.allocations.iter().flat_map(|a| &a.nodes);
        let given: BTreeSet<&NodeId> = given.chain(kept).collect();
        self.nodes
            .iter()
            .filter(|(id, node)| node.idle_since.is_some() && node.usable() && !given.contains(id))
            .map(|(id, _)| id.clone())
            .collect()
    }

    /// Puts spare nodes, its own first, in the place of those that are closed to a trainer's owner.
    pub(crate) fn replace_closed(
        &self,
        id: &TrainerId,
        want: &mut BTreeSet<NodeId>,
        spare: &mut BTreeSet<NodeId>,
    ) {
        let Some(record) = self.record(id).filter(|_| !self.closed.is_empty()) else {
            return;
        };
        let open = |node: &NodeId| {
            let node = self.nodes.get(node);
            node.is_none_or(|node| !node.is_closed_to(user_of(record)))
        };
        let planned = want.len();
        want.retain(open);
        while want.len() < planned {
            let fitting = spare.iter().filter(|node| open(node));
            let best = fitting.min_by_key(|node| record.nodes.binary_search(node).is_err());
            let Some(node) = best.cloned() else {
                return;
            };
            spare.remove(&node);
            want.insert(node);
        }
    }
}
