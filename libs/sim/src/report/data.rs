//! What a report shows, as plain data.

use serde::{Deserialize, Serialize};

/// Everything that a report shows. Empty parts are left out of the page.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Report {
    /// Heading.
    pub title: String,
    /// One line under the heading.
    pub subtitle: String,
    /// Headline figures: label and value, the most important first.
    pub figures: Vec<(String, String)>,
    /// What was asked for: label and value.
    pub settings: Vec<(String, String)>,
    /// The pool over time, in order of time.
    pub pool: Vec<PoolPoint>,
    /// Efficiency from the start until each time: seconds since the start, fraction.
    pub efficiency: Vec<(f64, f64)>,
    /// The trainers, in order of admission.
    pub trainers: Vec<TrainerRow>,
    /// Holes by length.
    pub holes: Vec<HoleBin>,
    /// What was lost.
    pub losses: Option<Losses>,
    /// Wall-clock seconds of each decision.
    pub solve_seconds: Vec<f64>,
    /// Remarks at the end of the page, one paragraph each.
    pub notes: Vec<String>,
}

/// The pool from one moment on.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PoolPoint {
    /// Seconds since the start.
    pub at_s: f64,
    /// Nodes in the pool.
    pub pool: u32,
    /// Nodes that train.
    pub used: u32,
}

/// One trainer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrainerRow {
    /// Its name.
    pub name: String,
    /// When it was admitted, seconds since the start.
    pub admitted_s: f64,
    /// When it ended, if it did.
    pub ended_s: Option<f64>,
    /// Samples done.
    pub samples: f64,
    /// Times that it lost nodes unasked.
    pub preemptions: u64,
    /// Its size from each moment on: seconds since the start, nodes.
    pub sizes: Vec<(f64, u32)>,
}

/// Holes of about one length.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HoleBin {
    /// The lengths, in words.
    pub label: String,
    /// How many holes.
    pub count: u64,
    /// Their node-hours.
    pub node_hours: f64,
}

/// What changes cost, in samples.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Losses {
    /// Samples done.
    pub samples: f64,
    /// Lost to changes that the planner made.
    pub rescale: f64,
    /// Lost to nodes that left.
    pub preempt: f64,
}

const MINUTE: f64 = 60.0;
const HOUR: f64 = 3600.0;

/// Upper ends of the bins, seconds.
const BINS: [(f64, &str); 10] = [
    (MINUTE, "under 1 min"),
    (2.0 * MINUTE, "1-2 min"),
    (5.0 * MINUTE, "2-5 min"),
    (10.0 * MINUTE, "5-10 min"),
    (30.0 * MINUTE, "10-30 min"),
    (HOUR, "30-60 min"),
    (2.0 * HOUR, "1-2 h"),
    (4.0 * HOUR, "2-4 h"),
    (12.0 * HOUR, "4-12 h"),
    (f64::INFINITY, "over 12 h"),
];

/// Sorts holes by length, given in seconds.
#[must_use]
pub fn bin_holes(lengths_s: impl IntoIterator<Item = f64>) -> Vec<HoleBin> {
    let mut bins: Vec<HoleBin> = BINS
        .iter()
        .map(|(_, label)| HoleBin {
            label: (*label).to_owned(),
            count: 0,
            node_hours: 0.0,
        })
        .collect();
    for length in lengths_s {
        let at = BINS.partition_point(|(end, _)| *end <= length);
        if let Some(bin) = bins.get_mut(at) {
            bin.count += 1;
            bin.node_hours += length / HOUR;
        }
    }
    bins
}
