//! Arrival times of events, for the latency from an event to the commands that it leads to.

use std::collections::VecDeque;

use lacuna_runtime::Stopwatch;

/// How many events are remembered.
const REMEMBERED: usize = 4096;

/// Arrival times of the newest events, by correlation id.
#[derive(Debug, Default)]
pub(crate) struct Arrivals(VecDeque<(String, Stopwatch)>);

impl Arrivals {
    pub(crate) fn note(&mut self, correlation: &str, arrived: Stopwatch) {
        if correlation.is_empty() {
            return;
        }
        if self.0.len() == REMEMBERED {
            self.0.pop_front();
        }
        self.0.push_back((correlation.to_owned(), arrived));
    }

    /// Seconds since the event arrived, if it is remembered.
    pub(crate) fn seconds(&self, correlation: &str) -> Option<f64> {
        // The wanted one is nearly always among the newest.
        let found = self.0.iter().rev().find(|(id, _)| id == correlation);
        found.map(|(_, arrived)| arrived.seconds())
    }
}
