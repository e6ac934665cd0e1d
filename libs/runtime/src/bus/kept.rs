//! Whether nats-server keeps what is stored.
//!
//! It does not answer a write that it cannot keep, as where its disk is full. While the connection is
//! up, silence is all that a client sees of that.

use std::sync::{Mutex, PoisonError};

use tokio::sync::watch;

use super::{Bus, BusError};
use crate::clock::Stopwatch;
use crate::http::{Health, HealthCheck};

/// The name of the check.
const CHECK: &str = "kept";

/// How long no write may be confirmed, seconds. A restart of the server takes less.
const PATIENCE_S: f64 = 10.0;

/// The health check of stored messages. It holds before the first write.
#[derive(Debug)]
pub(super) struct Kept {
    check: HealthCheck,
    /// Since the first write that was not confirmed, if none was confirmed after it.
    silent: Mutex<Option<Stopwatch>>,
    /// Why no leadership is kept.
    unled: watch::Sender<Option<String>>,
}

impl Kept {
    pub(super) fn new(health: &Health) -> Self {
        let check = health.check(CHECK, None);
        check.ok();
        Self {
            check,
            silent: Mutex::default(),
            unled: watch::Sender::default(),
        }
    }

    /// Judges the outcome of one write.
    pub(super) fn judge<T>(&self, outcome: &Result<T, BusError>) {
        let mut silent = self.silent.lock().unwrap_or_else(PoisonError::into_inner);
        match outcome {
            Ok(_) => {
                *silent = None;
                self.check.ok();
            }
            Err(BusError::Timeout { .. } | BusError::NoRoom { .. }) => {
                let seconds = silent.get_or_insert_with(Stopwatch::start).seconds();
                if seconds >= PATIENCE_S {
                    self.check.fail(format!(
                        "nats-server has confirmed no message for {seconds:.0} s: its disk may be full; \
                         its log and its /healthz say why"
                    ));
                }
            }
            // An answer, or no connection.
            Err(_) => {}
        }
    }
}

impl Bus {
    /// Why nats-server keeps no leadership of this service; nothing while it does, or another instance leads.
    pub(crate) fn unled(&self) -> watch::Receiver<Option<String>> {
        self.0.kept.unled.subscribe()
    }

    /// Another instance leads, so nats-server keeps messages.
    pub(crate) fn set_led(&self) {
        self.0.kept.judge(&Ok(()));
        self.set_unled(None);
    }

    /// Notes why no leadership is kept.
    pub(crate) fn set_unled(&self, why: Option<String>) {
        self.0.kept.unled.send_if_modified(|old| {
            let differs = *old != why;
            *old = why;
            differs
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::virtual_time;

    #[test]
    fn silence_for_long_fails_and_one_confirmation_ends_it() {
        virtual_time::run(1, async {
            let health = Health::default();
            let kept = Kept::new(&health);
            let late = || -> Result<u64, BusError> {
                let subject = "s".to_owned();
                Err(BusError::Timeout { subject })
            };
            let status = || health.report().status;
            kept.judge(&late());
            assert_eq!(status(), "ok");
            tokio::time::sleep(std::time::Duration::from_secs(11)).await;
            kept.judge(&late());
            assert_eq!(status(), "failing");
            kept.judge(&Ok(1));
            assert_eq!(status(), "ok");
            kept.judge(&late());
            assert_eq!(status(), "ok");
        })
        .unwrap();
    }
}
