//! Where agents say that they are, compared with the topology.

use std::collections::{BTreeMap, BTreeSet};

use lacuna_model::{AgentStatus, NodeId, Topology};
use lacuna_scheduler::slurm::topology;

/// Most nodes that a warning names.
const NAMED: usize = 5;

/// The topology, and the leaf that the agent of each node has reported.
#[derive(Debug, Default)]
pub(crate) struct Places {
    topology: Topology,
    leaves: BTreeMap<NodeId, String>,
    /// Reports that agreed with a topology which has changed since: a job keeps the place that it
    /// began with.
    old: BTreeMap<NodeId, String>,
    /// Whether anything has changed since the last comparison.
    is_changed: bool,
    /// Whether contradictions have been warned of.
    has_warned: bool,
}

impl Places {
    /// Takes another topology. Reports that agreed with the last one say nothing about this one.
    pub(crate) fn take(&mut self, topology: Topology) {
        if topology == self.topology {
            return;
        }
        if !self.topology.is_empty() {
            let leaves = self.leaves.iter().map(|(node, leaf)| (node, leaf.as_str()));
            let differ = self.topology.differences(leaves);
            let differ: BTreeSet<NodeId> = differ.into_iter().cloned().collect();
            let reports = std::mem::take(&mut self.leaves);
            let (differ, agreed) = reports
                .into_iter()
                .partition(|(node, _)| differ.contains(node));
            self.leaves = differ;
            self.old.extend::<BTreeMap<_, _>>(agreed);
        }
        self.topology = topology;
        self.is_changed = true;
        self.has_warned = false;
    }

    /// Takes the place that an agent reports, if it reports one.
    pub(crate) fn hear(&mut self, status: &AgentStatus) {
        let place = status.place.as_deref();
        let Some(leaf) = place.and_then(|place| topology::leaf(place, &status.node)) else {
            return;
        };
        if self.old.get(&status.node).is_some_and(|old| old == leaf) {
            return;
        }
        self.old.remove(&status.node);
        if self
            .leaves
            .get(&status.node)
            .is_none_or(|known| known != leaf)
        {
            self.leaves.insert(status.node.clone(), leaf.to_owned());
            self.is_changed = true;
        }
    }

    /// Number of nodes whose agents contradict the topology, if anything has changed since the last
    /// call. The first contradiction is warned of, until there are none.
    pub(crate) fn contradictions(&mut self) -> Option<usize> {
        if !std::mem::take(&mut self.is_changed) {
            return None;
        }
        let leaves = self.leaves.iter().map(|(node, leaf)| (node, leaf.as_str()));
        let found = self.topology.differences(leaves);
        if found.is_empty() {
            self.has_warned = false;
        } else if !std::mem::replace(&mut self.has_warned, true) {
            let text = |node: &&NodeId| {
                let here = self.topology.leaf(node).unwrap_or_default();
                let there = self.leaves.get(node).map_or("", String::as_str);
                format!("{node} on {there}, not {here}")
            };
            let nodes: Vec<String> = found.iter().take(NAMED).map(text).collect();
            tracing::warn!(
                contradictions = found.len(),
                nodes = nodes.join("; "),
                "agents report other leaves than ingest.topology: read it from Slurm again"
            );
        }
        Some(found.len())
    }
}

#[cfg(test)]
mod tests {
    use lacuna_testkit::node;

    use super::*;

    fn status(name: &str, place: Option<&str>) -> AgentStatus {
        AgentStatus {
            place: place.map(str::to_owned),
            ..lacuna_testkit::status(name)
        }
    }

    #[test]
    fn agents_are_compared_with_the_topology_when_either_changes() {
        let mut places = Places::default();
        assert_eq!(places.contradictions(), None);
        places.hear(&status("n1", Some("top.l1.n1")));
        places.hear(&status("n2", Some("top.l1.n2")));
        places.hear(&status("n3", None));
        places.hear(&status("n4", Some("n4")));
        assert_eq!(places.contradictions(), Some(0), "without a topology");
        let leaf = |leaf: &str| vec![leaf.to_owned()];
        let paths = [(node("n1"), leaf("l1")), (node("n2"), leaf("l2"))];
        places.take(Topology::new(paths.into()).unwrap());
        assert_eq!(places.contradictions(), Some(1));
        assert_eq!(places.contradictions(), None);
        // The same again is no news.
        places.hear(&status("n2", Some("top.l1.n2")));
        assert_eq!(places.contradictions(), None);
        places.hear(&status("n2", Some("top.l2.n2")));
        assert_eq!(places.contradictions(), Some(0));
        // Recabled: what agreed says nothing about the new topology, until another job speaks.
        let paths = [(node("n1"), leaf("l2")), (node("n2"), leaf("l3"))];
        places.take(Topology::new(paths.into()).unwrap());
        assert_eq!(places.contradictions(), Some(0));
        places.hear(&status("n1", Some("top.l1.n1")));
        assert_eq!(places.contradictions(), None);
        places.hear(&status("n1", Some("top.l2.n1")));
        places.hear(&status("n2", Some("top.l2.n2")));
        assert_eq!(places.contradictions(), Some(0));
        places.hear(&status("n1", Some("top.l3.n1")));
        assert_eq!(places.contradictions(), Some(1));
    }
}
