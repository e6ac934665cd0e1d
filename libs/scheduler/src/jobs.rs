//! The nodes that running jobs hold, from the events of jobs.

use std::collections::{BTreeMap, BTreeSet};

use lacuna_model::NodeId;
use serde::{Deserialize, Serialize};

use crate::node_status::NodeStatus;

/// A running job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunningJob {
    /// Its nodes.
    pub nodes: Vec<NodeId>,
    /// Whether it is one of our own pilots.
    pub ours: bool,
}

/// The running jobs, and the nodes whose jobs have changed.
///
/// Serialised into the state file of the adapters of PBS and LSF.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RunningJobs {
    #[serde(rename = "runs")]
    jobs: BTreeMap<String, RunningJob>,
    #[serde(skip)]
    touched: BTreeSet<NodeId>,
}

impl RunningJobs {
    /// Adds a job that has started, or replaces its nodes.
    pub fn start(&mut self, id: &str, job: RunningJob) {
        self.touched.extend(job.nodes.iter().cloned());
        if let Some(before) = self.jobs.insert(id.to_owned(), job) {
            self.touched.extend(before.nodes);
        }
    }

    /// Removes a job that is over. An unknown job changes nothing.
    pub fn end(&mut self, id: &str) {
        if let Some(job) = self.jobs.remove(id) {
            self.touched.extend(job.nodes);
        }
    }

    /// The job of this id, if it runs.
    #[must_use]
    pub fn job(&self, id: &str) -> Option<&RunningJob> {
        self.jobs.get(id)
    }

    /// Number of running jobs.
    #[must_use]
    pub fn len(&self) -> usize {
        self.jobs.len()
    }

    /// Whether no job runs.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    /// Status of each node that has a running job: a hole if all its jobs are our own pilots, else
    /// taken.
    #[must_use]
    pub fn nodes(&self) -> BTreeMap<&NodeId, NodeStatus> {
        let mut nodes = BTreeMap::new();
        for job in self.jobs.values() {
            for node in &job.nodes {
                let status = nodes.entry(node).or_insert(NodeStatus::Hole);
                if !job.ours {
                    *status = NodeStatus::Taken;
                }
            }
        }
        nodes
    }

    /// Nodes whose jobs have changed since the call before, with their status. A node without jobs
    /// counts as a hole; the caller knows of other obstacles.
    pub fn changes(&mut self) -> Vec<(NodeId, NodeStatus)> {
        let touched = std::mem::take(&mut self.touched);
        if touched.is_empty() {
            return Vec::new();
        }
        let nodes = self.nodes();
        let now = |node: NodeId| {
            let status = nodes.get(&node).cloned().unwrap_or(NodeStatus::Hole);
            (node, status)
        };
        touched.into_iter().map(now).collect()
    }
}
