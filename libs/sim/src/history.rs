//! The history of a replay, for the report. Its size is bounded for any length of the trace.

use lacuna_model::{StepsAt, TrainerId};

/// The state over an interval: from one event to the next, or over several merged intervals.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// Start of the interval, seconds since the start. It ends at the next point.
    pub at_s: f64,
    /// Nodes in the pool: the mean over time, rounded.
    pub pool: u32,
    /// Nodes that train: the mean over time, rounded.
    pub used: u32,
    /// Samples done by all trainers until the start of the interval.
    pub samples: f64,
    /// Nodes in the pool: the mean over time.
    pub pool_mean: f64,
    /// Nodes in the pool: the fewest and the most.
    pub pool_range: (u32, u32),
    /// Nodes that train: the mean over time.
    pub used_mean: f64,
    /// Nodes that train: the fewest and the most.
    pub used_range: (u32, u32),
    /// What steps teach and wait for: means over the time of nodes that train, the batch over that
    /// of trainers. Nothing without trainers whose steps are known.
    pub steps: Option<StepsAt>,
}

/// One admission of a trainer, until it leaves.
#[derive(Debug, Clone, PartialEq)]
pub struct Life {
    /// Name of the trainer.
    pub name: TrainerId,
    /// Time of admission, seconds since the start.
    pub admitted_s: f64,
    /// Time at which its work was done, if it was, seconds since the start.
    pub ended_s: Option<f64>,
    /// Samples done.
    pub samples: f64,
    /// Departures that hit it.
    pub preemptions: u64,
    /// Its size after each change: seconds since the start, nodes. Of more than [`SIZES`] changes
    /// some are left out.
    pub sizes: Vec<(f64, u32)>,
}

/// Totals of 24 hours.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Day {
    /// Its start, seconds since the start.
    pub from_s: f64,
    /// Its end, seconds since the start.
    pub until_s: f64,
    /// Node-seconds that the pool offered.
    pub offered: f64,
    /// Node-seconds that trained.
    pub used: f64,
    /// Node-seconds of the pool without a trainer.
    pub waiting: f64,
    /// Samples done.
    pub samples: f64,
    /// Samples lost to changes that the planner made.
    pub rescale: f64,
    /// Samples lost to nodes that left.
    pub preempt: f64,
    /// Samples that trainers would have done on nodes which they held after their work was done.
    pub idling: f64,
    /// Samples of the same trainers on as much dedicated node-time, defined as for the whole
    /// replay. The day's efficiency is `samples` over this.
    pub dedicated: f64,
}

/// The state of single nodes in a window of time.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Gantt {
    /// Its start, seconds since the start.
    pub from_s: f64,
    /// Its end, seconds since the start.
    pub until_s: f64,
    /// Nodes with a hole in the window, in order of their numbers.
    pub rows: Vec<GanttRow>,
}

/// The holes of one node.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct GanttRow {
    /// Number of the node.
    pub node: u32,
    /// Name of the node.
    pub name: String,
    /// Its holes, cut where the trainer changes, in order of time. Outside of them the node has a
    /// batch job, or is down.
    pub segments: Vec<GanttSegment>,
}

/// A part of a hole.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GanttSegment {
    /// Its start, seconds since the start.
    pub from_s: f64,
    /// Its end, seconds since the start.
    pub until_s: f64,
    /// The trainer on the node, by its place in the order of admission, from 0 (those beyond
    /// [`LIVES`] are not among [`History::lives`]). None if the node is idle.
    pub trainer: Option<u32>,
}

/// The history of a replay.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct History {
    /// The state over time: one point for each event or, beyond [`POINTS`] events, one for each of
    /// at most [`POINTS`] equal intervals.
    pub points: Vec<Point>,
    /// The first [`LIVES`] trainers, in order of admission.
    pub lives: Vec<Life>,
    /// Number of admissions beyond those.
    pub lives_left_out: u64,
    /// Totals day by day.
    pub days: Vec<Day>,
    /// The window of single nodes, if the settings name one.
    pub gantt: Option<Gantt>,
}

/// Most points of a history.
pub const POINTS: usize = 4000;

/// Most admissions of a history.
pub const LIVES: usize = 2000;

/// Most sizes that are kept of one admission.
pub const SIZES: usize = 512;
