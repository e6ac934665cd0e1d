//! The watchdog of systemd (`WatchdogSec=` of a unit): a service that is suspended, or whose loop is
//! stuck, gives no more signs of life. systemd ends it and starts it again.

use crate::http::Health;
use crate::task;

/// Signs of life within the time of the unit.
const SIGNS: u32 = 3;

/// Gives signs of life for as long as the service's loop turns, if the unit asks for them.
pub(crate) fn start(health: Health) {
    let Some(limit) = sd_notify::watchdog_enabled() else {
        return;
    };
    task::spawn(async move {
        let mut signs = tokio::time::interval(limit / SIGNS);
        loop {
            signs.tick().await;
            if health.is_stuck() {
                tracing::error!("the loop is stuck: no sign of life for systemd's watchdog");
            } else if let Err(error) = sd_notify::notify(&[sd_notify::NotifyState::Watchdog]) {
                tracing::warn!(%error, "no sign of life for systemd's watchdog");
            }
        }
    });
}
