//! Nodes that are missing from answers: a node is gone after several answers without it.

use std::collections::BTreeMap;

use lacuna_model::NodeId;

/// Counts, for each node, the answers in a row without it.
#[derive(Debug, Clone)]
pub struct MissingNodes {
    after: u32,
    nodes: BTreeMap<NodeId, u32>,
}

impl MissingNodes {
    /// A node is gone after `after` answers in a row without it.
    #[must_use]
    pub fn new(after: u32) -> Self {
        Self {
            after,
            nodes: BTreeMap::new(),
        }
    }

    /// Expects these nodes in the next answer.
    pub fn expect(&mut self, known: impl IntoIterator<Item = NodeId>) {
        for node in known {
            self.nodes.entry(node).or_insert(0);
        }
    }

    /// Takes the nodes of an answer. Returns the nodes that are gone now, each once, with the
    /// reason, and the number of nodes that are missing but not yet gone.
    pub fn take<'a>(
        &mut self,
        present: impl IntoIterator<Item = &'a NodeId>,
    ) -> (Vec<(NodeId, String)>, usize) {
        for absent in self.nodes.values_mut() {
            *absent = absent.saturating_add(1);
        }
        for node in present {
            self.nodes.insert(node.clone(), 0);
        }
        let (mut gone, mut missing) = (Vec::new(), 0);
        let after = self.after;
        self.nodes.retain(|node, absent| {
            if *absent < after {
                missing += usize::from(*absent > 0);
                return true;
            }
            let reason = format!("missing in {absent} answers of the scheduler in a row");
            gone.push((node.clone(), reason));
            false
        });
        (gone, missing)
    }
}
