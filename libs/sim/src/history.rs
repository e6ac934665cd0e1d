//! What a replay remembers for the report.

use lacuna_model::TrainerId;

/// The state after one event.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// Seconds since the start.
    pub at_s: f64,
    /// Nodes in the pool.
    pub pool: u32,
    /// Nodes that train.
    pub used: u32,
    /// Samples done by all trainers until then.
    pub samples: f64,
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
    /// Its size from each moment on: seconds since the start, nodes.
    pub sizes: Vec<(f64, u32)>,
}

/// What a replay remembers for the report.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct History {
    /// One point for each event.
    pub points: Vec<Point>,
    /// The trainers, in order of admission.
    pub lives: Vec<Life>,
}
