//! The caller's side of a replay: its stopwatch, its progress, and each decision as it is made.

use lacuna_planner::{Problem, Sizes};

/// Progress of a replay.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Progress {
    /// Name of the stage: the replay itself, or a reference replay.
    pub stage: &'static str,
    /// Trace time so far, seconds.
    pub done_s: f64,
    /// Trace time in all, seconds, at most.
    pub total_s: f64,
    /// Events so far.
    pub events: u64,
    /// Trainers done so far.
    pub trainers_done: u64,
}

/// One decision of the planner, as it is made.
#[derive(Debug, Clone, Copy)]
pub struct Decision<'a> {
    /// The number of its event, from 0.
    pub event: u64,
    /// Wall-clock time of the decision, seconds.
    pub seconds: f64,
    /// For each trainer of the problem, its place in the list of trainers. An endless list goes
    /// on counting when it begins again.
    pub lives: &'a [u32],
    /// The problem of the decision.
    pub problem: &'a Problem,
    /// The sizes that solve it.
    pub sizes: &'a Sizes,
    /// The nodes of the pool, by the trace's numbers.
    pub nodes: &'a [u32],
    /// The new owner of each node, as a place in the problem.
    pub owners: &'a [Option<u32>],
    /// Time, seconds since the start of the trace.
    pub at_s: f64,
}

/// The caller's functions that a replay calls.
pub struct Hooks<'a> {
    /// Wall-clock seconds since any fixed moment. They time decisions.
    pub stopwatch: &'a dyn Fn() -> f64,
    /// Receives progress, every 64 events.
    pub progress: &'a mut dyn FnMut(Progress),
    /// Receives each decision of the replay itself, for example to save its problem.
    pub save: Option<&'a mut dyn FnMut(&Decision<'_>)>,
}

impl<'a> Hooks<'a> {
    /// Hooks without a receiver of decisions.
    pub fn new(stopwatch: &'a dyn Fn() -> f64, progress: &'a mut dyn FnMut(Progress)) -> Self {
        Self {
            stopwatch,
            progress,
            save: None,
        }
    }
}
