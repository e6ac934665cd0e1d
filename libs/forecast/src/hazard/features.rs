//! The features of the hazard.

use super::feature_bins::{NEUTRAL, log_bin, share_bin};

/// The number of features.
pub(crate) const FEATURES: usize = 16;

/// The features of one hole at one moment, as bins.
pub(crate) type FeatureRow = [u8; FEATURES];

/// The features of one hole at one moment, before binning.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct RawFeatures {
    /// The age, seconds.
    pub(crate) age_s: f32,
    /// The place in the order; `None` without an order.
    pub(crate) place: Option<Place>,
    /// The number of holes of its release.
    pub(crate) group: u32,
    /// The number of these that are still present.
    pub(crate) group_left: u32,
    /// The number of holes present in its block.
    pub(crate) block: u32,
    /// The number of holes present on the machine.
    pub(crate) pool: u32,
    /// The recent rate of taken nodes, per minute.
    pub(crate) demand: f32,
    /// The mean size of recent leave events, nodes.
    pub(crate) event_size: f32,
    /// The time since the last leave event, seconds.
    pub(crate) quiet_s: f32,
    /// The hazard ratio of its node: times taken over times expected.
    pub(crate) hazard_ratio: f32,
}

/// The place of a hole in the order.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Place {
    /// The number of holes in front.
    pub(crate) front: u32,
    /// The number of holes in front that were passed over only a few times. Nodes that are never
    /// taken (down, reserved) are in front without delaying the hole.
    pub(crate) fresh: u32,
    /// The number of holes in front of the first hole of its release.
    pub(crate) group_front: u32,
    /// The number of leave events that took a node behind it while it was present.
    pub(crate) passed: u32,
    /// The place among all nodes of the machine, as a share.
    pub(crate) rank: f32,
}

impl RawFeatures {
    /// The features as bins. Ages and quiet times are in units of 8 s, so the scale reaches three
    /// days.
    pub(crate) fn row(&self) -> FeatureRow {
        let count = |x: u32| log_bin(x as f32);
        let share = |x: u32, of: u32| share_bin(x as f32 / of.max(1) as f32);
        let placed = |bin: fn(&Place) -> u8| self.place.as_ref().map_or(NEUTRAL, bin);
        [
            log_bin(self.age_s / 8.0),
            self.place
                .map_or(NEUTRAL, |place| share(place.front, self.pool)),
            placed(|place| log_bin(place.front as f32)),
            placed(|place| log_bin(place.fresh as f32)),
            placed(|place| log_bin(place.group_front as f32)),
            placed(|place| log_bin(place.passed as f32)),
            count(self.group),
            count(self.group_left),
            share(self.group_left, self.group),
            count(self.block),
            count(self.pool),
            log_bin(self.demand * 4.0),
            log_bin(self.event_size),
            log_bin(self.quiet_s / 8.0),
            self.place.map_or(NEUTRAL, |place| share_bin(place.rank)),
            log_bin(self.hazard_ratio * 8.0),
        ]
    }
}
