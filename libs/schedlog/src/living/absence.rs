//! Absent from the answer is not gone.

use std::collections::BTreeMap;

use lacuna_model::NodeId;

/// Counts the answers in a row in which each node has been missing.
#[derive(Debug, Clone)]
pub struct Absence {
    after: u32,
    nodes: BTreeMap<NodeId, u32>,
}

impl Absence {
    /// Nodes are gone when they have been missing in `after` answers in a row.
    #[must_use]
    pub fn new(after: u32) -> Self {
        Self {
            after,
            nodes: BTreeMap::new(),
        }
    }

    /// Nodes that should be there.
    pub fn expect(&mut self, known: impl IntoIterator<Item = NodeId>) {
        for node in known {
            self.nodes.entry(node).or_insert(0);
        }
    }

    /// Takes the nodes of an answer; says which others are gone now, each once, and why, and how
    /// many are missing for the time being.
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
