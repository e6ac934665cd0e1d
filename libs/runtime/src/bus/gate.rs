//! A service of which one instance is active writes only while it is sure to be that one.
//!
//! What such a service sends while it is not sure is lost, as it would be while the server is
//! away. So a process that was stopped for a while, or comes back from the other side of a
//! broken network, says nothing that is older than what the next active instance has said.

use std::sync::Mutex;
use std::time::Duration;

use lacuna_wire::{Message, Subject};

use super::{Bus, BusError};
use crate::clock::Stopwatch;

/// Between looks.
const LOOK: Duration = Duration::from_millis(5);

/// So long a writer waits after a reconnection for the lead to be confirmed.
const PATIENCE_S: f64 = 1.0;

/// Until when this process may write; for ever, unless it has been limited.
#[derive(Debug, Default)]
pub(super) struct Gate(Mutex<Option<Limit>>);

#[derive(Debug, Clone, Copy)]
struct Limit {
    since: Stopwatch,
    length: Duration,
}

impl Gate {
    fn set(&self, limit: Limit) {
        *self.0.lock().unwrap_or_else(|e| e.into_inner()) = Some(limit);
    }

    fn get(&self) -> Option<Limit> {
        *self.0.lock().unwrap_or_else(|e| e.into_inner())
    }
}

impl Limit {
    fn open(self) -> bool {
        self.since.seconds() < self.length.as_secs_f64()
    }
}

impl Bus {
    /// From now on this process writes only within this time since then, or until it is said
    /// again.
    pub(crate) fn write_within(&self, since: Stopwatch, length: Duration) {
        self.0.gate.set(Limit { since, length });
    }

    /// Whether a message may go out. Just after a reconnection this waits a little for the lead to
    /// be confirmed. While the server is away nothing may: what waits in the client would go out
    /// when another one leads.
    pub(super) async fn may_write(&self) -> bool {
        let waiting = Stopwatch::start();
        loop {
            match self.0.gate.get() {
                None => return true,
                Some(_) if !self.connected() => return false,
                Some(limit) if limit.open() => return true,
                Some(_) if waiting.seconds() >= PATIENCE_S => return false,
                Some(_) => tokio::time::sleep(LOOK).await,
            }
        }
    }

    /// Waits until this process may write; gives whether it may, or the connection is gone again.
    pub(super) async fn writes_again(&self) -> bool {
        while !self.may_write().await {
            if !self.connected() {
                return false;
            }
        }
        true
    }

    /// As [`Bus::store_after`], whether or not this process may write otherwise: for the lead
    /// itself.
    pub(crate) async fn claim<M: Message>(
        &self,
        subject: &Subject<M>,
        message: &M,
        newest: u64,
    ) -> Result<u64, BusError> {
        let (headers, payload) = self.pack_after(subject.as_str(), message, "", newest)?;
        self.send_bytes(subject.as_str(), headers, payload.into())
            .await?
            .wait()
            .await
    }
}
