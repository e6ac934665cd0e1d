//! A trace: the pool of a machine, step by step, as a replay walks over it.
//!
//! A `HoleTrace` lies in memory (hole lists, snapshots, logs with hosts). A `SimulatedTrace` reads
//! its log again for each walk, so memory does not grow with the log. Both have planned starts:
//! the former those of a list beside the holes, the latter those of its simulator.

use std::borrow::Cow;

use lacuna_model::{KindName, Timestamp, Topology};

use crate::SimError;

/// The pool of a machine over time, with nodes numbered from 0. Every walk gives the same steps.
///
/// A node keeps its number in all walks of one trace. Two traces that are alike up to a moment
/// give the same numbers to all nodes that had a hole by then. Any further meaning of a number
/// depends on the trace ([`HoleTrace`](crate::HoleTrace),
/// [`SimulatedTrace`](crate::SimulatedTrace)). An order of nodes that holds over traces is one of
/// names ([`node_name`](Self::node_name)).
pub trait PoolTrace: Sync {
    /// Start of the trace.
    fn start(&self) -> Timestamp;

    /// End of the trace.
    fn end(&self) -> Timestamp;

    /// Upper bound of node numbers: all are below it.
    fn nodes(&self) -> u32;

    /// The name of a node, or its number if it has no name. The natural order of nodes compares
    /// names with digits as numbers, so that `n9` comes before `n10`.
    fn node_name(&self, node: u32) -> Cow<'_, str>;

    /// Number of holes that ended before the start, from which a predictor may learn.
    fn history(&self) -> u64 {
        0
    }

    /// A walk through the time before the start, for predictors. Its times are below zero, and its
    /// nodes have numbers below [`known_nodes`](Self::known_nodes). None if that time is not kept.
    ///
    /// # Errors
    /// [`SimError`] if what it is read from cannot be opened.
    fn past(&self) -> Result<Option<Box<dyn PoolSteps + '_>>, SimError> {
        Ok(None)
    }

    /// Upper bound of node numbers, with the nodes that occur only before the start.
    fn known_nodes(&self) -> u32 {
        self.nodes()
    }

    /// Where its nodes are, if that is known.
    fn topology(&self) -> Option<&Topology> {
        None
    }

    /// The kinds of its nodes, two at most; empty if they are not known.
    fn kinds(&self) -> &[KindName] {
        &[]
    }

    /// The kind of a node, as an index into [`kinds`](Self::kinds).
    fn kind(&self, _node: u32) -> u8 {
        0
    }

    /// Length of the trace, seconds.
    fn length_s(&self) -> f64 {
        self.end().since(self.start()).as_secs_f64()
    }

    /// A walk from start to end.
    ///
    /// # Errors
    /// [`SimError`] if what it is read from cannot be opened.
    fn steps(&self) -> Result<Box<dyn PoolSteps + '_>, SimError>;
}

/// A walk through a [`PoolTrace`].
pub trait PoolSteps {
    /// The next step, or none at the end. Times do not decrease. The first step is at the start
    /// and opens every hole that is present then.
    ///
    /// # Errors
    /// [`SimError`] if the source of the trace is damaged. The walk ends there.
    fn next(&mut self) -> Result<Option<PoolStep<'_>>, SimError>;
}

/// All changes of the pool at one moment: first nodes leave, then nodes become idle.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PoolStep<'a> {
    /// Seconds since the start of the trace.
    pub at_s: f64,
    /// Nodes that leave.
    pub closed: &'a [u32],
    /// Nodes that become idle, each with the start of its hole (Unix milliseconds).
    pub opened: &'a [(u32, i64)],
    /// Changes of the planned starts of present holes, including holes that open at this step.
    /// Ascending by node, each node at most once; empty for a trace without planned starts.
    pub planned: &'a [PlannedStartUpdate],
}

/// A change of the planned start of a present hole, as the scheduler announces it at a step for a
/// waiting job or a reservation. Planned starts follow from requested walltimes.
///
/// It holds until the next update of the node, or until the hole ends. A new hole has no planned
/// start. A planned start that passes is not withdrawn by that, since the job before it may exceed
/// its walltime. A [`HoleTrace`] withdraws it after [`PlannedStart::LAPSE`].
///
/// [`HoleTrace`]: crate::HoleTrace
/// [`PlannedStart::LAPSE`]: lacuna_model::PlannedStart::LAPSE
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PlannedStartUpdate {
    /// The node's number.
    pub node: u32,
    /// The planned start, seconds since the start of the trace and later than the step;
    /// infinite if the planned start is withdrawn.
    pub at_s: f64,
}
