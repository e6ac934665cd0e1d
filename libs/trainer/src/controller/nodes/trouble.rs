//! Why nodes are not used as the others are, for users (`model::Trouble`).
//!
//! A node that a scheduler names and on which no agent has ever spoken may be the one whose agent
//! speaks under another name, as where one of the two is the whole name of a host.

use std::collections::BTreeMap;

use lacuna_model::{NodeId, Trouble, TroubleKind, Troubled};

use super::{Node, Nodes};
use crate::Now;

/// Names that are offered, at most.
const OFFERED: usize = 3;

/// The first label of a host's name, in small letters.
fn short(id: &NodeId) -> String {
    let name = id.as_str();
    let label = name.split_once('.').map_or(name, |(label, _)| label);
    label.to_ascii_lowercase()
}

/// Names, found by their first label.
#[derive(Debug, Default)]
struct Names(BTreeMap<String, Vec<NodeId>>);

impl Names {
    fn of<'a>(ids: impl Iterator<Item = &'a NodeId>) -> Self {
        let mut names = Self::default();
        for id in ids {
            names.0.entry(short(id)).or_default().push(id.clone());
        }
        names
    }

    /// Which of them may mean the node: those with the same first label, or all if they are few.
    fn like(&self, id: &NodeId) -> Vec<NodeId> {
        if let Some(same) = self.0.get(&short(id)) {
            return same.iter().take(OFFERED).cloned().collect();
        }
        let few: Vec<NodeId> = self
            .0
            .values()
            .flatten()
            .take(OFFERED + 1)
            .cloned()
            .collect();
        if few.len() > OFFERED { Vec::new() } else { few }
    }
}

/// The two sides on which a node may have another name: agents that no scheduler has named, and nodes
/// on which no agent has spoken.
#[derive(Debug)]
pub(crate) struct Counterparts {
    agents: Names,
    nodes: Names,
}

impl Counterparts {
    /// The agents that may be that of a node on which none has spoken.
    pub(crate) fn agents_like(&self, id: &NodeId) -> Vec<NodeId> {
        self.agents.like(id)
    }
}

impl Node {
    /// Whether a scheduler has named it and no agent has spoken there, where one is expected.
    fn lacks_agent(&self, now: Now) -> bool {
        let agent = &self.agent;
        self.is_named && !agent.has_spoken() && (agent.is_silent() || agent.is_missing(now))
    }

    /// Whether an agent speaks there and no scheduler has named it.
    fn is_unnamed(&self) -> bool {
        !self.is_named && self.agent.status().is_some() && !self.agent.has_left()
    }

    /// What is wrong with its agent or its lease.
    fn out_of_reach(&self, now: Now) -> Option<TroubleKind> {
        let matters = self.is_idle() || self.lease.owner().is_some();
        if self.is_unnamed() {
            Some(TroubleKind::Unnamed)
        } else if !matters {
            None
        } else if self.withheld.is_some() && !self.lease.is_held() {
            // No pilot comes to a withheld node.
            self.lease.is_overdue().then_some(TroubleKind::Overdue)
        } else if self.lacks_agent(now) {
            Some(TroubleKind::Unheard)
        } else if self.agent.has_left() && self.agent.is_silent() {
            Some(TroubleKind::Left)
        } else if self.agent.is_silent() {
            Some(TroubleKind::Silent)
        } else if self.lease.is_overdue() {
            Some(TroubleKind::Overdue)
        } else {
            None
        }
    }

    /// What keeps it from being used as the others are, given what failures say against it.
    fn trouble_kind(&self, failures: Option<TroubleKind>, now: Now) -> Option<TroubleKind> {
        let quarantined = failures.filter(|kind| *kind == TroubleKind::Quarantined);
        quarantined.or_else(|| self.out_of_reach(now)).or(failures)
    }
}

impl Nodes {
    pub(crate) fn counterparts(&self, now: Now) -> Counterparts {
        let ids = |found: &dyn Fn(&Node) -> bool| {
            let found = self.iter().filter(|(_, node)| found(node));
            Names::of(found.map(|(id, _)| id))
        };
        Counterparts {
            agents: ids(&|node| node.is_unnamed()),
            nodes: ids(&|node| node.lacks_agent(now)),
        }
    }

    /// The nodes with a trouble, by its kind; some of them by name.
    pub(crate) fn troubled(&self, now: Now) -> Vec<Troubled> {
        let mut found: BTreeMap<TroubleKind, Troubled> = BTreeMap::new();
        for (id, node) in self.iter() {
            let failures = node.failures.trouble().map(|trouble| trouble.kind);
            let Some(kind) = node.trouble_kind(failures, now) else {
                continue;
            };
            let of = found.entry(kind).or_insert_with(|| Troubled {
                kind,
                nodes: 0,
                some: Vec::new(),
            });
            of.nodes += 1;
            if of.some.len() < OFFERED {
                of.some.push(id.clone());
            }
        }
        found.into_values().collect()
    }

    /// What keeps a node from being used as the others are.
    pub(crate) fn trouble(&self, id: &NodeId, others: &Counterparts, now: Now) -> Option<Trouble> {
        let node = self.get(id)?;
        let found = node.failures.trouble();
        let failures = found.as_ref().map(|found| found.kind);
        let kind = node.trouble_kind(failures, now)?;
        if failures == Some(kind) {
            return found;
        }
        let perhaps = match kind {
            TroubleKind::Unheard => others.agents.like(id),
            TroubleKind::Unnamed => others.nodes.like(id),
            _ => Vec::new(),
        };
        Some(Trouble {
            kind,
            owners: Vec::new(),
            until: None,
            failed: found.map(|found| found.failed).unwrap_or_default(),
            perhaps,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_one_host_are_alike_by_their_first_label() {
        let node = |name: &str| NodeId::new(name).unwrap();
        let many: Vec<NodeId> = (0..9)
            .map(|n| node(&format!("n{n}.cluster.local")))
            .collect();
        let many = Names::of(many.iter());
        assert_eq!(many.like(&node("N1")), [node("n1.cluster.local")]);
        assert_eq!(many.like(&node("n1.other")), [node("n1.cluster.local")]);
        assert_eq!(many.like(&node("m1")), []);
        let few = [node("node-one")];
        assert_eq!(
            Names::of(few.iter()).like(&node("n1")),
            few,
            "few are worth a question"
        );
    }
}
