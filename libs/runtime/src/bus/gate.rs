//! The fence of leadership: an instance writes only while its leadership is certain.
//!
//! Later messages are lost, as they are while the server is away. States are repeated after a
//! reconnection only when the leadership is confirmed. An instance that finds another leader ends
//! with exit code 75. So a process that was stopped, or was cut off by the network, publishes
//! nothing older than the next active instance has published.
//!
//! Messages that were handed to the network before that are fenced at their receivers. So are the
//! messages of two leaders, which exist if a person writes the leadership by hand:
//!
//! 1. leases and trainers' records by compare-and-set;
//! 2. commands by epoch and number at the agent;
//! 3. plans by compare-and-set, and by generation at control;
//! 4. ingest by its first snapshot;
//! 5. the pool and the trainers' state have no fence. An old one may be received for a moment,
//!    until the next one of the active instance. Plans made from it are checked by generation,
//!    incarnation and event number like any other.
//!
//! A running command of the scheduler (`sbatch`, `scancel`) cannot be taken back. The next control
//! adopts its pilot (`pilots::keeper`).

use std::sync::Mutex;
use std::time::Duration;

use lacuna_wire::{Message, Subject};

use super::{Bus, BusError};
use crate::clock::Stopwatch;

/// Time between checks.
const LOOK: Duration = Duration::from_millis(5);

/// How long a writer waits after a reconnection until the leadership is confirmed, in seconds.
const PATIENCE_S: f64 = 1.0;

/// The time until which this process may write; without a limit unless one was set.
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
    /// Lets this process write only for this length of time from `since`, until the next call.
    pub(crate) fn write_within(&self, since: Stopwatch, length: Duration) {
        self.0.gate.set(Limit { since, length });
    }

    /// Whether a message may be sent. Just after a reconnection this waits a little for the
    /// leadership to be confirmed. While the server is away no message may be sent: the client
    /// would send it later, perhaps under another leader.
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

    /// Waits until this process may write. Gives false if the connection is lost again.
    pub(crate) async fn writes_again(&self) -> bool {
        while !self.may_write().await {
            if !self.connected() {
                return false;
            }
        }
        true
    }

    /// Like [`Bus::store_after`], but regardless of the gate: for the leadership itself.
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
