//! Settings of placement by forecasts, and how far ahead a decision looks.

use lacuna_model::ForecastingSettings;
use serde::{Deserialize, Serialize};

use crate::Item;

/// How placement values node sets and changes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// Longest look ahead, H, seconds; see [`Settings::reach`].
    pub horizon_s: f64,
    /// Least gain of a change, as a multiple of its cost.
    pub hysteresis: f64,
    /// Whether a hit trainer may take any nodes without a further switching cost (re-placement).
    pub replace: bool,
    /// Whether nodes that do not pay may stay idle. If not, trainers with room get them, the
    /// largest first.
    pub refuse: bool,
    /// The most trainers that may cross the uplink of a leaf; no limit if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crossing: Option<u32>,
    /// The crossing trainers that the uplink of a leaf carries at full speed; more share it. It
    /// carries all if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uplink: Option<u32>,
    /// Whether nodes are worth no more after a hit than their trainer makes of them. Columns need a
    /// value that is linear in nodes, so they know no such limit.
    #[serde(default, skip_serializing_if = "lacuna_model::is_default")]
    pub limited: bool,
}

impl From<&ForecastingSettings> for Settings {
    fn from(settings: &ForecastingSettings) -> Self {
        Self {
            horizon_s: settings.horizon.as_secs_f64(),
            hysteresis: settings.hysteresis,
            replace: settings.replace,
            refuse: settings.refuse,
            crossing: settings.crossing,
            uplink: settings.uplink,
            limited: false,
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        (&ForecastingSettings::default()).into()
    }
}

/// Look ahead as a multiple of the cost of growing and shrinking again: BFTrainer's T of 120 s for
/// trainers that lose 18 s and 12 s.
const CHANGES: f64 = 4.0;

/// Assumed length of holes while the pool does not report one, seconds.
pub(crate) const UNKNOWN_S: f64 = 600.0;

/// The shortest look ahead, seconds: about the period of the pollers of schedulers.
const SHORTEST_S: f64 = 60.0;

impl Settings {
    /// These settings with the look ahead for the given trainers, each with the stall of its start
    /// in seconds ([`crate::placement::Request::start_s`]). Holes typically last `typical_s`
    /// seconds, and a trainer keeps its nodes for `kept_s` seconds between two changes.
    ///
    /// The look ahead is the longer of two: four times the mean cost of growing and shrinking (a
    /// change that pays has paid by then), and the time between two changes of a trainer (the next
    /// one asks again). So it is long where little happens. The horizon and the typical length of a
    /// hole (the pool is another one later) are its limits, and a minute is its floor.
    ///
    /// A typical length below the mean cost counts as that cost. Over a shorter look no change pays,
    /// and where most holes are short most of the idle time may still lie in long ones.
    ///
    /// Four times the dearest start of a trainer without nodes is a floor above all of these. A
    /// start pays in the holes that last, and only a look at them shows it.
    #[must_use]
    pub fn reach<'a>(
        &self,
        trainers: impl Iterator<Item = (&'a Item, f64)> + Clone,
        typical_s: Option<f64>,
        kept_s: Option<f64>,
    ) -> Self {
        let costs: f64 = trainers
            .clone()
            .map(|(item, _)| item.up_s + item.down_s)
            .sum();
        let cost = costs / trainers.clone().count().max(1) as f64;
        let typical_s = typical_s.map(|typical_s| typical_s.max(cost));
        let pays = (CHANGES * cost).min(typical_s.unwrap_or(UNKNOWN_S));
        let lasts = kept_s.unwrap_or_default();
        let reach = pays.max(lasts.min(typical_s.unwrap_or(f64::INFINITY)));
        let starts = trainers.filter(|(item, _)| item.current == 0);
        let dearest = starts.fold(0.0, |most: f64, (_, start_s)| most.max(start_s));
        Self {
            horizon_s: self
                .horizon_s
                .min(reach.max(SHORTEST_S))
                .max(CHANGES * dearest),
            ..*self
        }
    }
}
