//! What would have been, where no pilots are started.

use serde::{Deserialize, Serialize};

use crate::Timestamp;

/// What was observed within one hour of the cluster's time, while no pilots were started. All
/// sums; control keeps one for each hour, under its first moment.
///
/// Of `planned_node_s`, `harvested_node_s` would have trained and `restart_node_s` would have
/// been lost to restarts; the rest are pilots that start.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct ObservedHour {
    /// The hour's first moment.
    pub start: Timestamp,
    /// Seconds of it that were observed.
    pub watched_s: f64,
    /// Node-seconds in the pool.
    pub idle_node_s: f64,
    /// Node-seconds in the pool and in the plan.
    pub planned_node_s: f64,
    /// Those of them in which a pilot would have trained.
    pub harvested_node_s: f64,
    /// Those of them in which training would have stood still because its nodes had changed.
    #[serde(default)]
    pub restart_node_s: f64,
    /// How often trainers would have stood still so.
    #[serde(default)]
    pub restarts: u64,
    /// Holes that opened.
    pub holes: u64,
    /// Pilots that would have been started.
    pub pilots: u64,
    /// Nodes that batch jobs took while they were in the plan.
    pub wanted: u64,
    /// Moments at which that happened.
    pub moments: u64,
    /// Seconds that batch jobs would have waited, all together, as far as can be assumed.
    pub delay_s: f64,
    /// Most nodes in the pool at a time.
    pub most_idle: u32,
    /// Most of them in the plan at a time.
    pub most_planned: u32,
}

impl ObservedHour {
    /// An hour of which nothing has been observed yet.
    #[must_use]
    pub fn new(start: Timestamp) -> Self {
        Self {
            start,
            ..Self::default()
        }
    }
}
