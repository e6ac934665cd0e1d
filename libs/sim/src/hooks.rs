//! The caller's side of a replay: its stopwatch, its progress, and each decision as it is made.

use lacuna_planner::{Problem, Sizes};

/// How far a replay has come.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Progress {
    /// What runs: the replay itself, or a run that it is measured by.
    pub stage: &'static str,
    /// Seconds of recorded time so far.
    pub done_s: f64,
    /// Seconds of recorded time in all, at most.
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
    /// Wall-clock seconds that it took.
    pub seconds: f64,
    /// Of each trainer of the problem its place in the list of trainers; a list that begins
    /// again at its end goes on counting.
    pub lives: &'a [u32],
    /// What was asked.
    pub problem: &'a Problem,
    /// The answer.
    pub sizes: &'a Sizes,
    /// The nodes of the pool, as the trace numbers them.
    pub nodes: &'a [u32],
    /// Whose each of them is from now on, as places in the problem.
    pub owners: &'a [Option<u32>],
    /// When, seconds since the start of the trace.
    pub at_s: f64,
}

/// What a replay needs from outside.
pub struct Hooks<'a> {
    /// Wall-clock seconds since any fixed moment, to time decisions.
    pub stopwatch: &'a dyn Fn() -> f64,
    /// Called now and then.
    pub progress: &'a mut dyn FnMut(Progress),
    /// Called for each decision of the replay itself, say to save its problem.
    pub save: Option<&'a mut dyn FnMut(&Decision<'_>)>,
}

impl<'a> Hooks<'a> {
    /// Decisions are shown to nobody.
    pub fn new(stopwatch: &'a dyn Fn() -> f64, progress: &'a mut dyn FnMut(Progress)) -> Self {
        Self {
            stopwatch,
            progress,
            save: None,
        }
    }
}
