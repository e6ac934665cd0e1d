//! The emergency stop of a solve, which remembers that it came.

use std::cell::Cell;
use std::time::Duration;

use super::Options;

/// A stopwatch with the moment at which work must stop.
pub(super) struct Clock<'a> {
    options: &'a Options<'a>,
    start: f64,
    stopped: Cell<bool>,
}

impl<'a> Clock<'a> {
    /// Starts the clock of a solve.
    pub(super) fn start(options: &'a Options<'a>) -> Self {
        Self {
            options,
            start: (options.stopwatch)(),
            stopped: Cell::new(false),
        }
    }

    /// Seconds since the start.
    pub(super) fn seconds(&self) -> f64 {
        ((self.options.stopwatch)() - self.start).max(0.0)
    }

    /// The time for further work; nothing if the solve must stop. Callers ask only before work.
    pub(super) fn left(&self) -> Option<Duration> {
        let used = Duration::try_from_secs_f64(self.seconds()).unwrap_or(Duration::MAX);
        let left = self.options.time_limit.checked_sub(used);
        let left = left.filter(|left| !left.is_zero());
        self.stop_if(left.is_none());
        left
    }

    /// Records a stop by another clock, that of the solver.
    pub(super) fn stop_if(&self, stopped: bool) {
        self.stopped.set(self.stopped.get() || stopped);
    }

    /// Whether the clock stopped any work.
    pub(super) fn stopped(&self) -> bool {
        self.stopped.get()
    }
}
