//! What the hazard looks at.

use super::feature_bins::{NEUTRAL, log_bin, share_bin};

/// How many features there are.
pub(crate) const FEATURES: usize = 16;

/// The features of one hole at one moment, as levels.
pub(crate) type FeatureRow = [u8; FEATURES];

/// A hole as it is seen at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct RawFeatures {
    /// Seconds since it began.
    pub(crate) age_s: f32,
    /// Its place in the order, if there is one.
    pub(crate) place: Option<Place>,
    /// Holes that began with it.
    pub(crate) group: u32,
    /// Of these, those that are still present.
    pub(crate) group_left: u32,
    /// Holes present in its block.
    pub(crate) block: u32,
    /// Holes present on the machine.
    pub(crate) pool: u32,
    /// Nodes taken a minute, of late.
    pub(crate) demand: f32,
    /// Mean size of late leave events, nodes.
    pub(crate) event_size: f32,
    /// Seconds since the last leave event.
    pub(crate) quiet_s: f32,
    /// How often its node was taken, as a multiple of what is usual.
    pub(crate) hazard_ratio: f32,
}

/// A hole's place in the order.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Place {
    /// Holes in front of it.
    pub(crate) front: u32,
    /// Of these, those that have been passed over no more often than a few times: nodes that
    /// nobody ever takes (down, reserved) stand in front of it without being in its way.
    pub(crate) fresh: u32,
    /// Holes in front of the first of those that began with it.
    pub(crate) group_front: u32,
    /// How often a leave event took a node behind it while it was present.
    pub(crate) passed: u32,
    /// Its place among all nodes of the machine, as a share.
    pub(crate) rank: f32,
}

impl RawFeatures {
    /// As levels. Ages and quiet times in units of 8 s, so that the scale reaches three days.
    pub(crate) fn row(&self) -> FeatureRow {
        let count = |x: u32| log_bin(x as f32);
        let share = |x: u32, of: u32| share_bin(x as f32 / of.max(1) as f32);
        let placed = |level: fn(&Place) -> u8| self.place.as_ref().map_or(NEUTRAL, level);
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
