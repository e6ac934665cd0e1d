//! What the gateway asks of others than the bus: the state of nats-server, and firing alerts.

use std::collections::VecDeque;

use lacuna_runtime::Stopwatch;

use crate::alerts::Firing;
use crate::bus_state::BusState;

/// Clients that were closed within this time are shown.
const RECENT_S: f64 = 600.0;

/// The newest answers; nothing where nothing is asked.
#[derive(Debug, Default)]
pub(crate) struct Watched {
    /// Whether this gateway is connected to nats-server.
    pub(crate) connected: bool,
    /// The state of nats-server, or why it is not known.
    pub(crate) bus: Option<Result<BusState, String>>,
    /// The alerts that fire, or why they are not known.
    pub(crate) alerts: Option<Result<Vec<Firing>, String>>,
    /// Clients that nats-server has closed since its start, at earlier times.
    slow: VecDeque<(Stopwatch, u64)>,
}

impl Watched {
    /// Takes the newest state of nats-server.
    pub(crate) fn take_bus(&mut self, state: Result<BusState, String>) {
        if let Ok(state) = &state {
            // Another server, or the same after its start, counts from 0.
            self.slow
                .retain(|(at, slow)| at.seconds() <= RECENT_S && *slow <= state.slow);
            self.slow.push_back((Stopwatch::start(), state.slow));
        }
        self.bus = Some(state);
    }

    /// Clients that nats-server has closed recently because they did not read.
    pub(crate) fn slow_recently(&self) -> u64 {
        let ends = self.slow.front().zip(self.slow.back());
        ends.map_or(0, |((_, first), (_, last))| last - first)
    }
}
