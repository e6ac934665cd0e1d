//! The harvest that pilots would have had, where none are started.

use serde::{Deserialize, Serialize};

use crate::Timestamp;

/// Observations within one hour of the cluster's time, while no pilots were started. All figures
/// are sums. Control keeps one record for each hour, under the hour's first moment.
///
/// Of `planned_node_s`, `harvested_node_s` would have trained and `restart_node_s` would have
/// been lost to restarts; the rest are pilots that start.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct ObservedHour {
    /// The hour's first moment.
    pub start: Timestamp,
    /// Observed seconds of the hour.
    pub watched_s: f64,
    /// Node-seconds in the pool.
    pub idle_node_s: f64,
    /// Node-seconds in the pool and in the plan.
    pub planned_node_s: f64,
    /// The part of `planned_node_s` in which a pilot would have trained.
    pub harvested_node_s: f64,
    /// The part of `planned_node_s` that restarts after changes of nodes would have stalled.
    #[serde(default)]
    pub restart_node_s: f64,
    /// Number of such restarts of trainers.
    #[serde(default)]
    pub restarts: u64,
    /// Holes that opened.
    pub holes: u64,
    /// Pilots that would have been started.
    pub pilots: u64,
    /// Nodes of the plan that batch jobs took.
    pub wanted: u64,
    /// Moments at which batch jobs took nodes of the plan.
    pub moments: u64,
    /// Sum of the seconds that batch jobs would have waited, as far as it can be estimated.
    pub delay_s: f64,
    /// Most nodes in the pool at one time.
    pub most_idle: u32,
    /// Most nodes of the pool in the plan at one time.
    pub most_planned: u32,
}

impl ObservedHour {
    /// An hour without observations.
    #[must_use]
    pub fn new(start: Timestamp) -> Self {
        Self {
            start,
            ..Self::default()
        }
    }
}
