//! What the gateway asks of others than the bus: the state of nats-server, and firing alerts.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use lacuna_model::ClusterId;
use lacuna_runtime::Stopwatch;
use lacuna_runtime::config::Gateway;

use crate::alerts::{Firing, firing};
use crate::bus_state::BusState;
use crate::metrics::BusMetrics;
use crate::view::View;

/// Time between two questions.
const EVERY: Duration = Duration::from_secs(15);
/// Clients that were closed within this time are shown.
const LATELY_S: f64 = 600.0;

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
    fn take_bus(&mut self, state: Result<BusState, String>) {
        if let Ok(state) = &state {
            // Another server, or the same after its start, counts from 0.
            self.slow
                .retain(|(at, slow)| at.seconds() <= LATELY_S && *slow <= state.slow);
            self.slow.push_back((Stopwatch::start(), state.slow));
        }
        self.bus = Some(state);
    }

    /// Clients that nats-server has closed lately because they did not read.
    pub(crate) fn slow_lately(&self) -> u64 {
        let ends = self.slow.front().zip(self.slow.back());
        ends.map_or(0, |((_, first), (_, last))| last - first)
    }
}

/// Asks again and again, and never ends.
pub(crate) async fn watch(
    settings: &Gateway,
    cluster: &ClusterId,
    metrics: &BusMetrics,
    view: &Mutex<View>,
) {
    let lock = || view.lock().unwrap_or_else(PoisonError::into_inner);
    let mut before = None;
    loop {
        if let Some(address) = &settings.bus_monitor {
            let state = BusState::read(address).await;
            metrics.show(address, state.as_ref().ok(), before.as_ref());
            if let Ok(state) = &state {
                before = Some(state.clone());
            }
            lock().watched.take_bus(state);
        }
        if let Some(address) = &settings.prometheus {
            let alerts = firing(address, cluster).await;
            lock().watched.alerts = Some(alerts);
        }
        tokio::time::sleep(EVERY).await;
    }
}
