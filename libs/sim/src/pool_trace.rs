//! What a replay walks over: the pool of a machine, step by step. A trace is a `HoleTrace` in
//! memory (hole lists, snapshots, logs with hosts), or a simulated log that is read again for each
//! walk, so memory does not grow with the log. Both tell planned starts: a simulated log those of
//! its simulator, a trace those of a list beside the holes (`schedlog::planned`).

use std::borrow::Cow;

use lacuna_model::Timestamp;

use crate::SimError;

/// The pool of a machine over time, with nodes numbered from 0. It can be walked through as
/// often as wanted, and each walk tells the same. A trace that is read again for each walk
/// keeps its memory flat in its length.
///
/// A node keeps its number in all walks of one trace. Two traces that are alike up to
/// some moment number alike all nodes that have had a hole by then. Beyond that a number says
/// what its kind of trace says ([`HoleTrace`](crate::HoleTrace), [`SimulatedTrace`](crate::SimulatedTrace)); an
/// order of nodes that must hold for more than one trace is one of names
/// ([`node_name`](Self::node_name)).
pub trait PoolTrace: Sync {
    /// Where it starts.
    fn start(&self) -> Timestamp;

    /// Where it ends.
    fn end(&self) -> Timestamp;

    /// All nodes have numbers below this.
    fn nodes(&self) -> u32;

    /// The name of a node, its number if it has none. The natural order of nodes is that of
    /// their names with runs of digits compared as numbers, so that `n9` comes before `n10`.
    fn node_name(&self, node: u32) -> Cow<'_, str>;

    /// Holes that had ended before the start: what a predictor may learn from.
    fn history(&self) -> u64 {
        0
    }

    /// A walk through what happened before its start, for those who learn from it: times are
    /// below zero, and all nodes have numbers below [`known_nodes`](Self::known_nodes). Nothing
    /// if that is not kept.
    ///
    /// # Errors
    /// [`SimError`] if what it is read from cannot be opened.
    fn past(&self) -> Result<Option<Box<dyn PoolSteps + '_>>, SimError> {
        Ok(None)
    }

    /// All nodes, those that only its past knows included, have numbers below this.
    fn known_nodes(&self) -> u32 {
        self.nodes()
    }

    /// Its length in seconds.
    fn length_s(&self) -> f64 {
        self.end().since(self.start()).as_secs_f64()
    }

    /// A walk from its start to its end.
    ///
    /// # Errors
    /// [`SimError`] if what it is read from cannot be opened.
    fn steps(&self) -> Result<Box<dyn PoolSteps + '_>, SimError>;
}

/// A walk through a [`PoolTrace`].
pub trait PoolSteps {
    /// The next step, or nothing at the end. Times do not decrease; the first step is at the
    /// start and opens every hole that is present then.
    ///
    /// # Errors
    /// [`SimError`] if what the trace is read from is damaged. The walk is over then.
    fn next(&mut self) -> Result<Option<PoolStep<'_>>, SimError>;
}

/// Everything that happens to the pool at one time: first nodes leave, then nodes become idle.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PoolStep<'a> {
    /// Seconds since the start of the trace.
    pub at_s: f64,
    /// Nodes that leave.
    pub closed: &'a [u32],
    /// Nodes that become idle, each with the start of its hole (Unix milliseconds).
    pub opened: &'a [(u32, i64)],
    /// Changes of the planned starts of the present holes, those that open at this step
    /// included; ascending by node, each at most once. Empty for a trace without planned
    /// starts.
    pub planned: &'a [PlannedStartUpdate],
}

/// The planned start of a present hole as its scheduler announces it at a step, for a waiting job
/// or a reservation. It follows from requested walltimes and may be withdrawn.
///
/// It holds until the next hint for the node, or until the hole ends. A new hole has none. A
/// planned start that passes is no hint: the job before it may run over its walltime. A [`HoleTrace`]
/// withdraws it after [`PlannedStart::LAPSE`].
///
/// [`HoleTrace`]: crate::HoleTrace
/// [`PlannedStart::LAPSE`]: lacuna_model::PlannedStart::LAPSE
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PlannedStartUpdate {
    /// The node's number.
    pub node: u32,
    /// The planned start, seconds since the start of the trace, later than the step that
    /// tells it; infinite if the plan is withdrawn.
    pub at_s: f64,
}
