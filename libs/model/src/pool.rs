//! The pool of present holes, each with a forecast of its remaining length.

use serde::{Deserialize, Serialize};

use crate::{Hole, OrderSource, Timestamp};

/// One point of a forecast: the probability that the hole is still open.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ForecastPoint {
    /// Seconds from the forecast's time.
    pub after_s: f64,
    /// Probability in `[0, 1]` that the hole is still open then.
    pub open: f64,
}

/// The distribution of a hole's remaining length, as a survival curve: 1 at zero seconds,
/// linear between points, constant after the last one.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Forecast {
    /// Strictly increasing in time, non-increasing in probability.
    pub points: Vec<ForecastPoint>,
}

impl Forecast {
    /// Probability that the hole is still open after `after_s` seconds.
    #[must_use]
    pub fn open_after(&self, after_s: f64) -> f64 {
        let mut before = ForecastPoint {
            after_s: 0.0,
            open: 1.0,
        };
        for &point in &self.points {
            if after_s <= point.after_s {
                let width = point.after_s - before.after_s;
                if width <= 0.0 {
                    return point.open;
                }
                return before.open
                    + (point.open - before.open) * (after_s - before.after_s) / width;
            }
            before = point;
        }
        before.open
    }

    /// Expected remaining seconds, counted up to `horizon_s` (restricted mean).
    #[must_use]
    pub fn mean_within(&self, horizon_s: f64) -> f64 {
        let mut before = ForecastPoint {
            after_s: 0.0,
            open: 1.0,
        };
        let mut area = 0.0;
        for &point in &self.points {
            let end = point.after_s.min(horizon_s);
            if end > before.after_s {
                area += (end - before.after_s) * (before.open + self.open_after(end)) / 2.0;
            }
            before = point;
            if point.after_s >= horizon_s {
                return area;
            }
        }
        area + (horizon_s - before.after_s).max(0.0) * before.open
    }

    /// The shortest time after which the hole is open with probability at most `open`, if the
    /// forecast reaches that far.
    #[must_use]
    pub fn quantile(&self, open: f64) -> Option<f64> {
        let mut before = ForecastPoint {
            after_s: 0.0,
            open: 1.0,
        };
        for &point in &self.points {
            if point.open <= open {
                let drop = before.open - point.open;
                let share = if drop > 0.0 {
                    (before.open - open) / drop
                } else {
                    1.0
                };
                return Some(before.after_s + (point.after_s - before.after_s) * share);
            }
            before = point;
        }
        None
    }
}

/// A present hole with its forecast.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PooledHole {
    /// The hole.
    pub hole: Hole,
    /// Index into [`Pool::forecasts`]. Holes of the same age share a forecast.
    pub forecast: u32,
}

/// Which holes end together: holes in the order in which the scheduler takes nodes, with the
/// strength of the link between neighbours. A walk along the order that breaks at each link with
/// the probability of not ending together gives one scenario of groups.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Joint {
    /// The source of `order`. With [`OrderSource::Expectation`] there is no evidence of an order of
    /// the scheduler. `order` is then that of release, which shows only which holes end together.
    #[serde(default = "by_scheduler")]
    pub source: OrderSource,
    /// Indices into the list of holes, in the order in which the scheduler takes nodes.
    pub order: Vec<u32>,
    /// For each position in `order` but the last: the probability that this hole and the next one
    /// end in the same event.
    pub link: Vec<f32>,
    /// Median length of the holes that ended recently, in seconds: a limit of looks ahead. Nothing
    /// while too few holes have ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub typical_s: Option<f64>,
    /// Holes whose end the scheduler announces, each at most once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub announced: Vec<Announced>,
}

/// An end that the scheduler announces for a hole, with the reliability of such announcements.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Announced {
    /// Index into the list of holes.
    pub hole: u32,
    /// The announced end, in seconds from the forecast's time.
    pub after_s: f64,
    /// Probability that the hole ends clearly before that.
    pub early: f64,
    /// Probability that it ends at that time.
    pub kept: f64,
    /// Index into [`Pool::forecasts`]: the hole's forecast without the announcement. Its own
    /// forecast includes the announcement.
    pub otherwise: u32,
}

/// The source in pools of before there was a choice.
const fn by_scheduler() -> OrderSource {
    OrderSource::Scheduler
}

/// All present holes at one moment.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Pool {
    /// The moment, in the cluster's time.
    pub as_of: Timestamp,
    /// The last event that is included.
    pub seq: u64,
    /// The holes, sorted by node.
    pub holes: Vec<PooledHole>,
    /// The forecasts that the holes refer to.
    pub forecasts: Vec<Forecast>,
    /// Which of the holes end together, and in which order, if the forecast knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub joint: Option<Joint>,
}

impl Pool {
    /// The forecast of one hole of this pool, if its index is sound.
    #[must_use]
    pub fn forecast(&self, hole: &PooledHole) -> Option<&Forecast> {
        self.forecasts.get(hole.forecast as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_survival_curve_answers() {
        let forecast = Forecast {
            points: vec![
                ForecastPoint {
                    after_s: 100.0,
                    open: 0.5,
                },
                ForecastPoint {
                    after_s: 200.0,
                    open: 0.25,
                },
            ],
        };
        assert_eq!(forecast.open_after(50.0), 0.75);
        assert_eq!(forecast.open_after(1e9), 0.25);
        assert_eq!(forecast.mean_within(100.0), 75.0);
        assert_eq!(forecast.mean_within(300.0), 75.0 + 37.5 + 25.0);
        assert_eq!(forecast.quantile(0.5), Some(100.0));
        assert_eq!(forecast.quantile(0.1), None);
        assert_eq!(Forecast::default().open_after(10.0), 1.0);
    }
}
