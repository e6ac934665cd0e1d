//! How long a trainer keeps its nodes.
//!
//! That is a floor of the look ahead of forecasts ([`crate::placement::Settings::reach`]).

use crate::placement::UNKNOWN_S;

use super::book::WINDOW_S;

/// The weight of what is assumed before anything has changed, in changes.
const ASSUMED: f64 = 2.0;

/// How often trainers change, in a fading window.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Pace {
    /// Summed time of running trainers, seconds.
    running_s: f64,
    /// Departures that hit a trainer, and changes of its size.
    changes: f64,
}

impl Pace {
    /// Lets seconds pass in which this many trainers run.
    pub(super) fn pass(&mut self, seconds: f64, running: usize) {
        let kept = (-seconds / WINDOW_S).exp();
        self.running_s = self.running_s * kept + running as f64 * WINDOW_S * (1.0 - kept);
        self.changes *= kept;
    }

    /// Counts the trainers that a moment has hit or changed.
    pub(super) fn count(&mut self, changed: usize) {
        self.changes += changed as f64;
    }

    /// The mean time between two changes of a trainer, seconds.
    pub(super) fn kept_s(&self) -> f64 {
        (self.running_s + ASSUMED * UNKNOWN_S) / (self.changes + ASSUMED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_between_changes_is_found_and_follows_the_machine() {
        let mut pace = Pace::default();
        assert_eq!(pace.kept_s(), UNKNOWN_S);
        // Four trainers run, and two of them change each time.
        let mut hours = |hours: u32, each_s: f64| {
            for _ in 0..(f64::from(hours) * 3600.0 / each_s) as u32 {
                pace.pass(each_s, 4);
                pace.count(2);
            }
            pace.kept_s()
        };
        let busy = hours(100, 60.0);
        assert!((busy - 120.0).abs() < 3.0, "{busy}");
        let calm = hours(100, 1800.0);
        assert!((calm - 3400.0).abs() < 300.0, "{calm}");
    }
}
