//! A trace of holes in memory, with numbered nodes.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::ops::Range;

use lacuna_model::{HoleRecord, NodeId, PlannedStart, Timestamp};
use lacuna_trace::{EventBatch, Window, event_batches};

use crate::{PlannedStartUpdate, PoolStep, PoolSteps, PoolTrace, SimError};

/// All changes of the pool at one moment, as ranges of the trace's lists.
#[derive(Debug, Clone, PartialEq)]
struct Step {
    /// Seconds since the start of the trace.
    at_s: f64,
    /// Range of `HoleTrace::closed`.
    closed: Range<u32>,
    /// Range of `HoleTrace::opened`.
    opened: Range<u32>,
    /// Range of `HoleTrace::planned`.
    planned: Range<u32>,
}

/// A trace of holes in memory. Nodes are numbered from 0 by their first holes; nodes whose holes
/// open at one moment are numbered by name as text. The numbers hold for one cut of one log. They
/// are not the order in which a scheduler takes nodes.
#[derive(Debug, Clone)]
pub struct HoleTrace {
    start: Timestamp,
    end: Timestamp,
    names: Vec<NodeId>,
    steps: Vec<Step>,
    closed: Vec<u32>,
    opened: Vec<(u32, i64)>,
    planned: Vec<PlannedStartUpdate>,
    /// Number of holes that ended before the start.
    history: u64,
    /// The time before the start, if it is kept.
    past: Option<Box<HoleTrace>>,
}

impl HoleTrace {
    /// Cuts `[start, end]` out of a list of holes, for some nodes or all. `end` may lie after the
    /// last hole; its default is the end of the last hole.
    #[must_use]
    pub fn new(
        records: &[HoleRecord],
        nodes: Option<&HashSet<NodeId>>,
        start: Timestamp,
        end: Option<Timestamp>,
    ) -> Self {
        Self::cut(records, &[], nodes, start, end)
    }

    /// As [`new`](Self::new), with the planned starts that the batch scheduler announced
    /// (which count as [`event_batches`] says), and with the time before the start, for predictors.
    #[must_use]
    pub fn with_planned(
        records: &[HoleRecord],
        planned: &[PlannedStart],
        nodes: Option<&HashSet<NodeId>>,
        start: Timestamp,
        end: Option<Timestamp>,
    ) -> Self {
        Self::cut(records, planned, nodes, start, end).after(records, planned, nodes)
    }

    fn cut(
        records: &[HoleRecord],
        planned: &[PlannedStart],
        nodes: Option<&HashSet<NodeId>>,
        start: Timestamp,
        end: Option<Timestamp>,
    ) -> Self {
        let last = || records.iter().map(|r| r.until).max();
        let end = end.or_else(last).unwrap_or(start).max(start);
        let window = Window {
            start: Some(start),
            end: Some(end),
        };
        let known = |r: &&HoleRecord| nodes.is_none_or(|nodes| nodes.contains(&r.node));
        let history = records
            .iter()
            .filter(|r| r.until <= start)
            .filter(known)
            .count() as u64;
        let mut trace = Self {
            start,
            end,
            names: Vec::new(),
            steps: Vec::new(),
            closed: Vec::new(),
            opened: Vec::new(),
            planned: Vec::new(),
            history,
            past: None,
        };
        trace.fill(event_batches(records, planned, nodes, window));
        trace
    }

    fn after(
        mut self,
        records: &[HoleRecord],
        planned: &[PlannedStart],
        nodes: Option<&HashSet<NodeId>>,
    ) -> Self {
        let window = Window {
            start: None,
            end: Some(self.start),
        };
        let mut past = Self {
            start: self.start,
            end: self.start,
            names: self.names.clone(),
            steps: Vec::new(),
            closed: Vec::new(),
            opened: Vec::new(),
            planned: Vec::new(),
            history: 0,
            past: None,
        };
        let mut before = event_batches(records, planned, nodes, window);
        // Changes at the start itself belong to the walk from the start.
        before.retain(|moment| moment.at < self.start);
        past.fill(before);
        self.past = Some(Box::new(past));
        self
    }

    /// Appends steps, and numbers the nodes that have no number yet.
    fn fill(&mut self, moments: Vec<EventBatch>) {
        let trace = self;
        let start = trace.start;
        let known = (0u32..).zip(&trace.names);
        let mut numbers: HashMap<NodeId, u32> =
            known.map(|(number, name)| (name.clone(), number)).collect();
        for moment in moments {
            let (closed, opened) = (trace.closed.len() as u32, trace.opened.len() as u32);
            let first = trace.planned.len();
            for node in moment.closed {
                trace.closed.extend(numbers.get(&node));
            }
            for hole in moment.opened {
                let names = &mut trace.names;
                let number = *numbers.entry(hole.node).or_insert_with_key(|node| {
                    names.push(node.clone());
                    names.len() as u32 - 1
                });
                trace.opened.push((number, hole.since.unix_ms()));
            }
            for (node, planned_at) in moment.planned {
                let after_s = |at: Timestamp| at.since(start).as_secs_f64();
                trace
                    .planned
                    .extend(numbers.get(&node).map(|&node| PlannedStartUpdate {
                        node,
                        at_s: planned_at.map_or(f64::INFINITY, after_s),
                    }));
            }
            if let Some(updates) = trace.planned.get_mut(first..) {
                updates.sort_by_key(|update| update.node);
            }
            trace.steps.push(Step {
                at_s: moment.at.since(start).as_secs_f64(),
                closed: closed..trace.closed.len() as u32,
                opened: opened..trace.opened.len() as u32,
                planned: first as u32..trace.planned.len() as u32,
            });
        }
    }

    /// A machine of dedicated nodes: all are present from the start, and none leaves.
    #[must_use]
    pub fn dedicated(nodes: u32, start: Timestamp, end: Timestamp) -> Self {
        let since = start.unix_ms();
        Self {
            start,
            end,
            names: Vec::new(),
            steps: vec![Step {
                at_s: 0.0,
                closed: 0..0,
                opened: 0..nodes,
                planned: 0..0,
            }],
            closed: Vec::new(),
            opened: (0..nodes).map(|node| (node, since)).collect(),
            planned: Vec::new(),
            history: 0,
            past: None,
        }
    }

    /// Start of the trace.
    #[must_use]
    pub const fn start(&self) -> Timestamp {
        self.start
    }

    /// End of the trace.
    #[must_use]
    pub const fn end(&self) -> Timestamp {
        self.end
    }

    /// Length of the trace, seconds.
    #[must_use]
    pub fn length_s(&self) -> f64 {
        self.end.since(self.start).as_secs_f64()
    }

    /// Number of steps. The first is at the start.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.steps.len()
    }

    /// Whether the trace has no step.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Names of the nodes by number; empty for dedicated nodes.
    #[must_use]
    pub fn names(&self) -> &[NodeId] {
        &self.names
    }
}

impl PoolTrace for HoleTrace {
    fn start(&self) -> Timestamp {
        self.start
    }

    fn end(&self) -> Timestamp {
        self.end
    }

    /// Number of nodes with at least one hole.
    fn nodes(&self) -> u32 {
        let highest = self.opened.iter().map(|&(node, _)| node + 1).max();
        highest.unwrap_or(0)
    }

    fn node_name(&self, node: u32) -> Cow<'_, str> {
        let past = || self.past.as_ref()?.names.get(node as usize);
        let name = self.names.get(node as usize).or_else(past);
        name.map_or_else(
            || Cow::Owned(node.to_string()),
            |name| Cow::Borrowed(name.as_str()),
        )
    }

    fn history(&self) -> u64 {
        self.history
    }

    fn past(&self) -> Result<Option<Box<dyn PoolSteps + '_>>, SimError> {
        self.past.as_ref().map(|past| past.steps()).transpose()
    }

    fn known_nodes(&self) -> u32 {
        let past = self.past.as_ref().map_or(0, |past| past.names.len() as u32);
        self.nodes().max(past)
    }

    fn steps(&self) -> Result<Box<dyn PoolSteps + '_>, SimError> {
        Ok(Box::new(Walk {
            trace: self,
            next: self.steps.iter(),
        }))
    }
}

/// A walk over a trace.
struct Walk<'a> {
    trace: &'a HoleTrace,
    next: std::slice::Iter<'a, Step>,
}

impl PoolSteps for Walk<'_> {
    fn next(&mut self) -> Result<Option<PoolStep<'_>>, SimError> {
        let range = |range: &Range<u32>| range.start as usize..range.end as usize;
        Ok(self.next.next().map(|step| PoolStep {
            at_s: step.at_s,
            closed: self.trace.closed.get(range(&step.closed)).unwrap_or(&[]),
            opened: self.trace.opened.get(range(&step.opened)).unwrap_or(&[]),
            planned: self.trace.planned.get(range(&step.planned)).unwrap_or(&[]),
        }))
    }
}
