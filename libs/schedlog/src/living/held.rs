//! Which nodes jobs hold, from a log of what happens to jobs.

use std::collections::{BTreeMap, BTreeSet};

use lacuna_model::NodeId;
use serde::{Deserialize, Serialize};

use super::Standing;

/// A job that runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// On which nodes.
    pub nodes: Vec<NodeId>,
    /// Whether it is a pilot of ours.
    pub ours: bool,
}

/// The jobs that run, and the nodes whose jobs have changed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Held {
    runs: BTreeMap<String, Run>,
    #[serde(skip)]
    touched: BTreeSet<NodeId>,
}

impl Held {
    /// A job has started, or has other nodes than before.
    pub fn start(&mut self, id: &str, run: Run) {
        self.touched.extend(run.nodes.iter().cloned());
        if let Some(before) = self.runs.insert(id.to_owned(), run) {
            self.touched.extend(before.nodes);
        }
    }

    /// A job is over; nothing if it was not known to run.
    pub fn end(&mut self, id: &str) {
        if let Some(run) = self.runs.remove(id) {
            self.touched.extend(run.nodes);
        }
    }

    /// A job, if it runs.
    #[must_use]
    pub fn run(&self, id: &str) -> Option<&Run> {
        self.runs.get(id)
    }

    /// How many jobs run.
    #[must_use]
    pub fn len(&self) -> usize {
        self.runs.len()
    }

    /// Whether none runs.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Every node of a job that runs: whether only pilots of ours are there.
    #[must_use]
    pub fn nodes(&self) -> BTreeMap<&NodeId, Standing> {
        let mut nodes = BTreeMap::new();
        for run in self.runs.values() {
            for node in &run.nodes {
                let standing = nodes.entry(node).or_insert(Standing::Hole);
                if !run.ours {
                    *standing = Standing::Taken;
                }
            }
        }
        nodes
    }

    /// The nodes whose jobs have changed since this was last asked, with what they are now; a
    /// node without any job is a hole, if nothing else speaks against it.
    pub fn changes(&mut self) -> Vec<(NodeId, Standing)> {
        let touched = std::mem::take(&mut self.touched);
        if touched.is_empty() {
            return Vec::new();
        }
        let nodes = self.nodes();
        let now = |node: NodeId| {
            let standing = nodes.get(&node).cloned().unwrap_or(Standing::Hole);
            (node, standing)
        };
        touched.into_iter().map(now).collect()
    }
}
