//! Paths of nodes, row by row: each node with its switches, the leaf first.

use std::collections::{BTreeMap, HashMap};

use lacuna_model::{NodeId, Topology};

use super::error::{Contradiction, Fault, TopologyFileError};

/// The rows so far. Switches of different levels may have one name.
#[derive(Debug, Default)]
pub(super) struct Rows {
    paths: BTreeMap<NodeId, Vec<String>>,
    lines: HashMap<NodeId, u64>,
    /// The switch above each switch of a level, and the line that says so.
    above: HashMap<(usize, String), (String, u64)>,
}

impl Rows {
    /// Adds a node with its switches, the leaf first.
    ///
    /// # Errors
    /// If the node is on another leaf, or a switch is below another one.
    pub(super) fn add(
        &mut self,
        node: NodeId,
        path: Vec<String>,
        line: u64,
    ) -> Result<(), TopologyFileError> {
        for (level, pair) in path.windows(2).enumerate() {
            let [below, above] = pair else { continue };
            let known = self.above.entry((level, below.clone()));
            let (first, at) = known.or_insert_with(|| (above.clone(), line));
            if first != above {
                let fault = Contradiction::TwoAbove {
                    switch: below.clone(),
                    first: first.clone(),
                    line: *at,
                    second: above.clone(),
                };
                return Err(TopologyFileError::new(line, fault));
            }
        }
        if let Some(known) = self.paths.get(&node) {
            if *known == path {
                return Ok(());
            }
            let leaf = |path: &[String]| path.first().cloned().unwrap_or_default();
            let fault = Contradiction::TwoLeaves {
                first: leaf(known),
                line: self.lines.get(&node).copied().unwrap_or_default(),
                second: leaf(&path),
                node,
            };
            return Err(TopologyFileError::new(line, fault));
        }
        self.lines.insert(node.clone(), line);
        self.paths.insert(node, path);
        Ok(())
    }

    /// The topology.
    ///
    /// # Errors
    /// No node.
    pub(super) fn finish(self) -> Result<Topology, TopologyFileError> {
        if self.paths.is_empty() {
            return Err(TopologyFileError::new(1, Fault::NoNodes));
        }
        Topology::new(self.paths)
            .map_err(|error| TopologyFileError::new(1, Fault::Syntax(error.to_string())))
    }
}
