//! What a replay remembers for the report: bounded, however long the trace is.

use lacuna_model::TrainerId;

/// The state over a stretch of time: from one event to the next, or of several merged.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// Its start, seconds since the start. It lasts until the next point.
    pub at_s: f64,
    /// Nodes in the pool: the mean over time, rounded.
    pub pool: u32,
    /// Nodes that train: the mean over time, rounded.
    pub used: u32,
    /// Samples done by all trainers until its start.
    pub samples: f64,
    /// Nodes in the pool: the mean over time.
    pub pool_mean: f64,
    /// Nodes in the pool: the fewest and the most.
    pub pool_range: (u32, u32),
    /// Nodes that train: the mean over time.
    pub used_mean: f64,
    /// Nodes that train: the fewest and the most.
    pub used_range: (u32, u32),
}

/// One trainer's life.
#[derive(Debug, Clone, PartialEq)]
pub struct Life {
    /// Its name.
    pub name: TrainerId,
    /// When it was admitted, seconds since the start.
    pub admitted_s: f64,
    /// When its work was done, if it was.
    pub ended_s: Option<f64>,
    /// Samples done.
    pub samples: f64,
    /// Times that it lost nodes unasked.
    pub preemptions: u64,
    /// Its size from each moment on: seconds since the start, nodes. Of a life with more than
    /// [`SIZES`] changes some are left out.
    pub sizes: Vec<(f64, u32)>,
}

/// What happened in 24 hours.
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
    /// Samples that trainers did not do because their work was done, on nodes they still held.
    pub idling: f64,
    /// Samples that the same trainers would have done on as much dedicated node-time, as for
    /// the whole replay: the day's efficiency is `samples` over this.
    pub dedicated: f64,
}

/// What single nodes did in a window of time.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Gantt {
    /// Its start, seconds since the start.
    pub from_s: f64,
    /// Its end, seconds since the start.
    pub until_s: f64,
    /// The nodes that had a hole in it, in order of their numbers.
    pub rows: Vec<GanttRow>,
}

/// One node.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct GanttRow {
    /// Its number.
    pub node: u32,
    /// Its name.
    pub name: String,
    /// Its holes, cut where the trainer changes, in order of time. What is outside of them is a
    /// batch job (or a node that is down).
    pub segments: Vec<GanttSegment>,
}

/// A part of a hole.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GanttSegment {
    /// Its start, seconds since the start.
    pub from_s: f64,
    /// Its end, seconds since the start.
    pub until_s: f64,
    /// Who trains in it, by its place in the order of admission, from 0 (lives beyond
    /// [`LIVES`] are not among [`History::lives`]). None: the hole lies waste.
    pub trainer: Option<u32>,
}

/// What a replay remembers for the report.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct History {
    /// The state over time: one point for each event or, beyond [`POINTS`], for each of so many
    /// equal lengths of time.
    pub points: Vec<Point>,
    /// The first [`LIVES`] trainers, in order of admission.
    pub lives: Vec<Life>,
    /// How many trainers there were beyond those.
    pub lives_left_out: u64,
    /// Day by day.
    pub days: Vec<Day>,
    /// Node by node, if it was asked for.
    pub gantt: Option<Gantt>,
}

/// At most so many points are kept.
pub const POINTS: usize = 4000;

/// At most so many lives are kept.
pub const LIVES: usize = 2000;

/// At most so many sizes of a life are kept.
pub const SIZES: usize = 512;
