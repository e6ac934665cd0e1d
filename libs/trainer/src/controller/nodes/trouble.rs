//! Why nodes are not used as the others are, for users (`model::Trouble`).
//!
//! A node that a scheduler names and on which no agent has ever spoken may be the one whose agent
//! speaks under another name, as where one of the two is the whole name of a host.

use lacuna_model::{NodeId, Trouble, TroubleKind};

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

/// Which of these names may mean the node: those with the same first label, or all if they are few.
fn alike(id: &NodeId, others: &[NodeId]) -> Vec<NodeId> {
    let same = others.iter().filter(|other| short(other) == short(id));
    let same: Vec<NodeId> = same.take(OFFERED).cloned().collect();
    if same.is_empty() && others.len() <= OFFERED {
        others.to_vec()
    } else {
        same
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

    fn trouble(&self, now: Now) -> Option<TroubleKind> {
        let matters = self.is_idle() || self.lease.owner().is_some();
        if self.is_unnamed() {
            Some(TroubleKind::Unnamed)
        } else if !matters {
            None
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
}

impl Nodes {
    /// The agents that may be that of a node on which none has spoken.
    pub(crate) fn agents_like(&self, id: &NodeId) -> Vec<NodeId> {
        let unnamed = self.iter().filter(|(_, node)| node.is_unnamed());
        let unnamed: Vec<NodeId> = unnamed.map(|(id, _)| id.clone()).collect();
        alike(id, &unnamed)
    }

    /// What keeps a node from being used as the others are.
    pub(crate) fn trouble(&self, id: &NodeId, now: Now) -> Option<Trouble> {
        let node = self.get(id)?;
        let found = node.failures.trouble();
        if let Some(found) = &found
            && found.kind == TroubleKind::Quarantined
        {
            return Some(found.clone());
        }
        let Some(kind) = node.trouble(now) else {
            return found;
        };
        let perhaps = match kind {
            TroubleKind::Unheard => self.agents_like(id),
            TroubleKind::Unnamed => {
                let missing = self.iter().filter(|(_, node)| node.lacks_agent(now));
                let missing: Vec<NodeId> = missing.map(|(id, _)| id.clone()).collect();
                alike(id, &missing)
            }
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
        assert_eq!(alike(&node("N1"), &many), [node("n1.cluster.local")]);
        assert_eq!(alike(&node("n1.other"), &many), [node("n1.cluster.local")]);
        assert_eq!(alike(&node("m1"), &many), []);
        let few = [node("node-one")];
        assert_eq!(alike(&node("n1"), &few), few, "few are worth a question");
    }
}
