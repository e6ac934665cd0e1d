//! A trace less the idle nodes that stay free (`lacuna limits set --keep-idle`).
//!
//! A node that becomes idle stays free while too few do. Where a batch job takes a free node, and no
//! other one becomes idle, the node of the youngest hole leaves the trainers for it.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use lacuna_model::{KindName, Timestamp, Topology};

use crate::{PlannedStartUpdate, PoolStep, PoolSteps, PoolTrace, SimError};

/// A trace less a number of idle nodes at each moment.
pub struct Kept<'a> {
    trace: &'a dyn PoolTrace,
    nodes: usize,
}

impl<'a> Kept<'a> {
    /// The trace less `nodes` idle nodes.
    #[must_use]
    pub const fn new(trace: &'a dyn PoolTrace, nodes: usize) -> Self {
        Self { trace, nodes }
    }
}

impl PoolTrace for Kept<'_> {
    fn start(&self) -> Timestamp {
        self.trace.start()
    }

    fn end(&self) -> Timestamp {
        self.trace.end()
    }

    fn nodes(&self) -> u32 {
        self.trace.nodes()
    }

    fn node_name(&self, node: u32) -> Cow<'_, str> {
        self.trace.node_name(node)
    }

    fn history(&self) -> u64 {
        self.trace.history()
    }

    fn past(&self) -> Result<Option<Box<dyn PoolSteps + '_>>, SimError> {
        self.trace.past()
    }

    fn known_nodes(&self) -> u32 {
        self.trace.known_nodes()
    }

    fn topology(&self) -> Option<&Topology> {
        self.trace.topology()
    }

    fn kinds(&self) -> &[KindName] {
        self.trace.kinds()
    }

    fn kind(&self, node: u32) -> u8 {
        self.trace.kind(node)
    }

    fn steps(&self) -> Result<Box<dyn PoolSteps + '_>, SimError> {
        let steps = self.trace.steps()?;
        if self.nodes == 0 {
            return Ok(steps);
        }
        Ok(Box::new(KeptSteps {
            steps,
            nodes: self.nodes,
            free: BTreeSet::new(),
            since: BTreeMap::new(),
            by_age: BTreeSet::new(),
            closed: Vec::new(),
            opened: Vec::new(),
            planned: Vec::new(),
        }))
    }
}

/// A walk through a [`Kept`] trace.
struct KeptSteps<'a> {
    steps: Box<dyn PoolSteps + 'a>,
    nodes: usize,
    /// Idle nodes that stay free.
    free: BTreeSet<u32>,
    /// The other idle nodes with the start of each hole, also in the order of the starts.
    since: BTreeMap<u32, i64>,
    by_age: BTreeSet<(i64, u32)>,
    closed: Vec<u32>,
    opened: Vec<(u32, i64)>,
    planned: Vec<PlannedStartUpdate>,
}

impl PoolSteps for KeptSteps<'_> {
    fn next(&mut self) -> Result<Option<PoolStep<'_>>, SimError> {
        self.closed.clear();
        self.opened.clear();
        let Some(step) = self.steps.next()? else {
            return Ok(None);
        };
        for node in step.closed {
            if let Some(since) = self.since.remove(node) {
                self.by_age.remove(&(since, *node));
                self.closed.push(*node);
            } else {
                self.free.remove(node);
            }
        }
        for &(node, since) in step.opened {
            if self.free.len() < self.nodes {
                self.free.insert(node);
            } else {
                self.since.insert(node, since);
                self.by_age.insert((since, node));
                self.opened.push((node, since));
            }
        }
        while self.free.len() < self.nodes
            && let Some((_, node)) = self.by_age.pop_last()
        {
            self.since.remove(&node);
            self.free.insert(node);
            self.closed.push(node);
        }
        self.closed.sort_unstable();
        let known = step.planned.iter().copied();
        self.planned.clear();
        self.planned
            .extend(known.filter(|update| !self.free.contains(&update.node)));
        Ok(Some(PoolStep {
            at_s: step.at_s,
            closed: &self.closed,
            opened: &self.opened,
            planned: &self.planned,
        }))
    }
}
